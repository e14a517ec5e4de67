"""Parsed slots of captions, and the comparison of captions by slot."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ares.rubric import parse_caption, parser_hash, slot_matches
from ares.rubric.caption_parser import NounPhrase


def test_a_transfer_has_object_source_and_destination() -> None:
    slots = parse_caption("Pick up the green cube from the red bin and place it in the blue bin.")
    assert slots.verbs == ("pick", "place")
    assert slots.objects == {NounPhrase("cube", frozenset({"green"}))}
    assert slots.sources == {NounPhrase("bin", frozenset({"red"}))}
    assert [(destination.relation, destination.noun_phrase) for destination in slots.destinations] == [
        ("in", NounPhrase("bin", frozenset({"blue"})))
    ]
    assert slots.outcome == "success"


def test_a_failure_is_an_outcome_not_a_verb() -> None:
    slots = parse_caption("fail to turn the red faucet handle open")
    assert (slots.outcome, slots.phrase, slots.verbs) == (
        "failure",
        "turn the red faucet handle open",
        ("open",),
    )
    assert parse_caption("attempt to close the door").outcome == "attempt"
    assert parse_caption("be about to close the door").outcome == "attempt"
    for words in (
        "think about whether to",
        "decide to",
        "wishes to",
        "almost",
        "on the verge of",
        "consider",
    ):
        assert parse_caption(f"{words} close the door").outcome == "attempt", words
    for words in ("stop before you", "the robot stops just before", "either"):
        assert parse_caption(f"{words} close the door").outcome == "attempt", words
    for words in ("the robot does anything but", "do anything except"):
        assert parse_caption(f"{words} close the door").is_negated, words
    assert parse_caption("the robot thinks of closing the door").phrase == "close the door"
    assert parse_caption("wait for the light and close the door").outcome == "success"
    assert parse_caption("the robot gets ready to close the door").phrase == "close the door"


@pytest.mark.parametrize(
    ("text", "paraphrase"),
    [
        ("push the green drawer closed", "close the green drawer"),
        ("put the mug on the shelf", "place the cup on top of the shelf"),
        ("grab the red block and put it into the box", "pick up the red block and place it in the box"),
        ("press the handle down", "Press the handle downwards."),
        ("turn the faucet handle open", "open the faucet handle"),
    ],
)
def test_paraphrases_fit_in_every_slot(text: str, paraphrase: str) -> None:
    for slot in ("verb", "object", "destination", "source", "attributes", "direction", "additions"):
        assert slot_matches(slot, parse_caption(text), parse_caption(paraphrase)), slot
        assert slot_matches(slot, parse_caption(paraphrase), parse_caption(text)), slot


@pytest.mark.parametrize(
    ("slot", "claimed", "observed"),
    [
        ("verb", "open the drawer", "close the drawer"),
        ("verb", "turn the faucet handle open", "turn the faucet handle closed"),
        ("verb", "pick up the cube", "pick up the cube and place it in the bin"),
        ("object", "pick up the bowl", "pick up the mug"),
        ("object", "turn the faucet handle", "turn the door handle"),
        ("destination", "place the cube in the bin", "place the cube on the bin"),
        ("destination", "place the cube in the bin", "place the cube on the shelf"),
        ("attributes", "pick up the red cube", "pick up the blue cube"),
        ("attributes", "put the cube in the red bin", "put the cube in the blue bin"),
        ("source", "take the cube from the bin", "take the cube from the shelf"),
        ("direction", "pull the lever up", "pull the lever down"),
        ("manner", "press the button from the front", "press the button from above"),
        ("additions", "close the drawer and wipe the table", "close the drawer"),
        ("additions", "slide the plate out of the goal", "slide the plate into the goal"),
        ("additions", "slide the plate into the goal", "slide the plate out of the goal"),
        ("verb", "wipe the faucet handle open", "turn the faucet handle open"),
        ("additions", "close the drawer with the mug behind the box", "close the cabinet"),
    ],
)
def test_a_swap_is_found_in_its_slot(slot: str, claimed: str, observed: str) -> None:
    assert not slot_matches(slot, parse_caption(claimed), parse_caption(observed))


def test_the_colour_of_an_owner_is_a_claim_of_its_own() -> None:
    blue = parse_caption("lift the lid of the blue box")
    assert slot_matches("object", parse_caption("lift the lid of the red box"), blue)
    assert not slot_matches("attributes", parse_caption("lift the lid of the red box"), blue)
    assert not slot_matches("attributes", parse_caption("lift the blue lid of the box"), blue)
    assert slot_matches("attributes", parse_caption("raise the lid of a blue box"), blue)


def test_the_parser_hash_is_the_same_in_every_process() -> None:
    import subprocess
    import sys

    code = "from ares.rubric.caption_parser import parser_hash; print(parser_hash())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == parser_hash()


@given(st.text(max_size=200))
def test_any_text_has_slots_and_fits_itself(text: str) -> None:
    slots = parse_caption(text)
    assert parse_caption(text) == slots
    for slot in ("verb", "object", "destination", "source", "attributes", "direction", "manner", "additions"):
        assert slot_matches(slot, slots, slots)


@pytest.mark.parametrize(
    "text",
    [
        "The robot closes the drawer.",
        "a robotic arm is closing the drawer",
        "the robot arm closed the drawer",
        "Closing the drawer",
        "have the robot close the drawer",
        "use the robot arm to close the drawer",
        "manage to close the drawer",
        "the gripper succeeds in closing the drawer",
        "successfully close the drawer",
        "please close the drawer",
        "In this video, the robot is able to close the drawer.",
        "it should close the drawer",
    ],
)
def test_wordings_of_one_claim_have_the_same_slots(text: str) -> None:
    assert parse_caption(text) == parse_caption("close the drawer")


@pytest.mark.parametrize(
    "text",
    [
        "The robot fails to close the drawer",
        "do not manage to close the drawer",
        "the robot doesn't manage to close the drawer",
        "try to close the drawer, but fail",
        "the arm tries to close the drawer but it fails",
        "attempt to close the drawer without success",
        "the robot cannot close the drawer",
        "the robot is unable to close the drawer",
        "failing to close the drawer",
    ],
)
def test_wordings_of_a_failure(text: str) -> None:
    assert parse_caption(text) == parse_caption("fail to close the drawer")


@pytest.mark.parametrize(
    "text",
    [
        "do not close the drawer",
        "the robot does not close the drawer",
        "the robot doesn\u2019t close the drawer",
        "never close the drawer",
        "avoid closing the drawer",
        "refuse to close the drawer",
    ],
)
def test_what_is_not_done_is_no_claim_that_it_is(text: str) -> None:
    slots = parse_caption(text)
    assert slots.is_negated and slots.verbs == ("close",)
    assert not slot_matches("verb", slots, parse_caption("close the drawer"))


@pytest.mark.parametrize(
    ("text", "actor"),
    [("the person closes the drawer", "person"), ("the left arm closes the drawer", "left")],
)
def test_who_acts_is_a_claim(text: str, actor: str) -> None:
    slots = parse_caption(text)
    assert (slots.actor, slots.phrase) == (actor, "close the drawer")


@pytest.mark.parametrize(
    ("claimed", "observed"),
    [
        ("push", "push the puck"),
        ("pick up the puck", "pick up the puck and place it at the goal"),
        ("pick up the puck and place it", "pick up the puck and place it at the goal"),
        ("pick up the spoon and the fork", "pick up the spoon, the fork and the knife"),
    ],
)
def test_what_is_left_out_makes_a_caption_incomplete(claimed: str, observed: str) -> None:
    assert not slot_matches("complete", parse_caption(claimed), parse_caption(observed))
    assert slot_matches("complete", parse_caption(observed), parse_caption(claimed))


@pytest.mark.parametrize(
    "text",
    ["close the drawer. close the drawer", "close the drawer and close it", "close the drawer, but drop it"],
)
def test_what_is_said_besides_is_an_addition(text: str) -> None:
    assert not slot_matches("additions", parse_caption(text), parse_caption("close the drawer"))


@pytest.mark.parametrize(
    "text", ["maybe close the drawer", "close the drawer (or not)", "try to close the drawer"]
)
def test_who_hedges_states_no_outcome(text: str) -> None:
    slots = parse_caption(text)
    assert (slots.outcome, slots.phrase) == ("attempt", "close the drawer")


def test_a_list_names_several_objects() -> None:
    slots = parse_caption("pick up the spoon, the fork and the knife")
    assert {noun_phrase.head for noun_phrase in slots.objects} == {"spoon", "fork", "knife"}
    assert slots.verbs == ("pick",)
    (cube,) = parse_caption("pick up the red and blue cube").objects
    assert cube == NounPhrase("cube", frozenset({"red", "blue"}))


def test_verbs_of_later_clauses_are_read_in_any_form() -> None:
    slots = parse_caption("The robot picks up the mug and places it on the shelf, then closes the door")
    assert slots.verbs == ("pick", "place", "close")
