"""Parsed slots of captions, and the comparison of captions by slot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.rubric import is_stated, parse_caption, parser_hash, slot_matches
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
        ("additions", "close the drawer with the mug behind the box", "close the cabinet"),
    ],
)
def test_a_swap_is_found_in_its_slot(slot: str, claimed: str, observed: str) -> None:
    assert not slot_matches(slot, parse_caption(claimed), parse_caption(observed))


def test_what_is_not_said_is_not_claimed() -> None:
    slots = parse_caption("close the drawer")
    assert is_stated("object", slots)
    assert not any(
        is_stated(slot, slots) for slot in ("destination", "source", "attributes", "direction", "manner")
    )


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
