"""What the word tables make of a sentence: its wording taken off, and its slots in its own words."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from ares.rubric import (
    COMPLETED,
    NOT_COMPLETED,
    SLOTS,
    count_actions,
    is_short_value,
    normalize_caption,
    parser_hash,
    read_slots_by_tables,
    shipped_verbs,
)


def _slots(text: str, verbs: Mapping[str, str] | None = None) -> dict[str, str]:
    """The slots without the outcome."""
    slots = read_slots_by_tables(text, shipped_verbs() if verbs is None else verbs)
    return {str(name): value for name, value in slots.items() if name != "outcome"}


def _outcome(text: str) -> str:
    return read_slots_by_tables(text, shipped_verbs()).get("outcome", "")


@pytest.mark.parametrize(
    ("text", "slots"),
    [  # many more are recorded: tests/ares/rubric/test_recorded_readings.py
        (
            "Pick up the green cube from the red bin and place it in the blue bin.",
            {
                "action": "place",
                "object": "cube",
                "attributes": "green",
                "from": "from the red bin",
                "to": "in the blue bin",
            },
        ),
        ("push the green drawer closed", {"action": "close", "object": "drawer", "attributes": "green"}),
        ("wipe the faucet handle open", {"action": "wipe", "object": "faucet handle"}),
        ("take the lid of the blue box", {"action": "pick up", "object": "lid of the blue box"}),
        ("raise the lid", {"action": "lift", "object": "lid"}),
        ("remove the peg", {"action": "remove", "object": "peg"}),
        ("grab the towel", {"action": "grasp", "object": "towel"}),
        ("turn the light on", {"action": "turn on", "object": "light"}),
        ("open the left drawer", {"action": "open", "object": "left drawer"}),
        ("move the camera to the left", {"action": "move", "object": "camera", "manner": "to the left"}),
        ("the left arm slowly closes it", {"action": "close", "manner": "slowly", "hand": "left"}),
        (
            "pick up the spoon, the fork and the knife",
            {"action": "pick up", "object": "spoon, the fork and the knife"},
        ),
    ],
)
def test_a_sentence_has_its_slots_in_its_own_words(text: str, slots: dict[str, str]) -> None:
    assert _slots(text) == slots


def test_what_is_lifted_is_not_picked_up_and_no_thing_is_another() -> None:
    """The guide has both verbs, and a false text must not say a thing that is there by another word."""
    assert _slots("lift the mug") != _slots("pick up the mug")
    assert _slots("wipe the towel")["object"] != _slots("wipe the rag")["object"]


def test_the_verbs_are_those_of_the_lab() -> None:
    verbs = {"pipette": "move liquid", "spin down": "centrifuge a tube", "take": "hold a thing"}
    assert _slots("spin the tube down", verbs) == {"action": "spin down", "object": "tube"}
    assert _slots("take the tube", verbs)["action"] == "take"
    assert _slots("close the lid", verbs)["action"] == "other: close"


# Verbs with their "-s", "-ing" and "-ed"; no table has the second half.
_VERB_FORMS = (
    "push pushes pushing pushed, carry carries carrying carried, drag drags dragging dragged, "
    "close closes closing closed, "
    "polish polishes polishing polished, tidy tidies tidying tidied, juggle juggles juggling juggled, "
    "chop chops chopping chopped, rinse rinses rinsing rinsed, weave weaves weaving weaved, "
    "relax relaxes relaxing relaxed, "
    "decorate decorates decorating decorated, scrape scrapes scraping scraped, toast toasts toasting toasted, "
    "cross crosses crossing crossed, measure measures measuring measured, knead kneads kneading kneaded"
)
_SUBJECTS = {
    "the robot": "",
    "the left arm": "left",
    "the woman": "person",
    "an operator": "person",
    "he": "person",
}
_MODIFIERS = (
    *(
        "",
        "in the kitchen",
        "with two hands",
        "who is wearing a red coat",
        "next to the tall shelf",
        "that holds a cup",
    ),
    *("at the window of the room", "standing behind the table", "from the lab"),
)
_WAYS = (
    "",
    "carefully",
    "slowly",
    "very gently",
    "carefully and slowly",
    "slowly, carefully",
    "gently but very firmly",
)
_CLAIMS = {"": "success", "never fails to": "success", "does not fail to": "success", "tries to": "attempt"}
_CLAIMS |= {"fails to": "failure", "never forgets to": "success", "does not manage to": "failure"}


@given(st.data())
def test_who_acts_and_how_it_is_put_do_not_change_what_is_done(data: st.DataObject) -> None:
    """The same action in many wordings: subjects with more said of them, adverbs, negations, unknown verbs, fronts."""
    base, *forms = data.draw(st.sampled_from([forms.split() for forms in _VERB_FORMS.split(", ")]))
    subject, way = data.draw(st.sampled_from([*_SUBJECTS])), data.draw(st.sampled_from(_WAYS))
    claim = data.draw(st.sampled_from([*_CLAIMS]))
    verb = (
        base
        if claim
        else data.draw(st.sampled_from([forms[0], f"is {forms[1]}", f"has {forms[2]}", forms[2]]))
    )
    front = data.draw(st.sampled_from(["", "in this clip, ", "from the box, "]))
    words = [subject, data.draw(st.sampled_from(_MODIFIERS)), claim, way, verb, "the bowl"]
    if verb.startswith(("is ", "has ")):
        words[2:5] = [verb.split()[0], way, verb.split()[1]]
    text = front + " ".join(filter(None, words))
    slots = _slots(f"{base} the bowl")
    expected = {"action": slots["action"] or f"other: {base}", "object": "bowl"}
    expected |= {"from": "from the box"} if front.startswith("from") else {}
    expected |= {"hand": _SUBJECTS[subject]} if _SUBJECTS[subject] else {}
    expected |= (
        {"manner": " ".join(way.replace(",", "").replace(" and", "").replace(" but", "").split())}
        if way
        else {}
    )
    assert _slots(text) == expected, text
    assert (normalize_caption(text).outcome, count_actions(text)) == (_CLAIMS[claim], 1), text


def test_how_each_of_two_actions_is_done_does_not_join_them() -> None:
    text = "with the left hand, slowly pick up the cup and then very carefully place it in the sink"
    assert count_actions(text) == 2
    assert _slots(text) == {
        "action": "place",
        "object": "cup",
        "to": "in the sink",
        "hand": "the left hand",
        "manner": "slowly very carefully",
    }


@pytest.mark.parametrize(("text", "count"), [("push", 1), ("", 0), ("lift it, then wipe it and go", 3)])
def test_actions_are_counted(text: str, count: int) -> None:
    assert count_actions(text) == count


def test_a_failure_is_an_outcome_not_a_verb() -> None:
    assert _slots("fail to turn the red faucet handle open")["action"] == "open"
    assert _outcome("fail to turn the red faucet handle open") == NOT_COMPLETED
    for words in (
        "attempt to",
        "be about to",
        "think about whether to",
        "decide to",
        "wishes to",
        "almost",
        "on the verge of",
        "consider",
        "stop before you",
        "the robot stops just before",
        "either",
    ):
        assert normalize_caption(f"{words} close the door").outcome == "attempt", words
        assert _outcome(f"{words} close the door") == "", words
    for words in ("the robot does anything but", "do anything except"):
        assert normalize_caption(f"{words} close the door").is_negated, words
    for words in ("the robot thinks of closing", "the robot gets ready to close"):
        assert normalize_caption(f"{words} the door").phrase == "close the door"
    assert _outcome("wait for the light and close the door") == COMPLETED


@pytest.mark.slow
def test_the_parser_hash_is_the_same_in_every_process() -> None:
    code = "from ares.rubric.caption_parser import parser_hash; print(parser_hash())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == parser_hash()


@given(st.text(max_size=200))
def test_any_text_has_short_slots(text: str) -> None:
    slots = read_slots_by_tables(text, shipped_verbs())
    assert read_slots_by_tables(text, shipped_verbs()) == slots
    assert set(slots) <= set(SLOTS) and all(is_short_value(value) for value in slots.values())


@pytest.mark.parametrize(
    "text",
    [
        "the robot arm closed the drawer",
        "Closing the drawer",
        "have the robot close the drawer",
        "use the robot arm to close the drawer",
        "manage to close the drawer",
        "the gripper succeeds in closing the drawer",
        "please close the drawer",
        "In this video, the robot is able to close the drawer.",
        "it should close the drawer",
    ],
)
def test_wordings_of_one_claim_have_the_same_slots(text: str) -> None:
    assert normalize_caption(text) == normalize_caption("close the drawer")


@pytest.mark.parametrize(
    "text",
    [
        "The robot fails to close the drawer",
        "the robot doesn't manage to close the drawer",
        "try to close the drawer, but fail",
        "the arm tries to close the drawer but it fails",
        "attempt to close the drawer without success",
        "the robot cannot close the drawer",
        "failing to close the drawer",
    ],
)
def test_wordings_of_a_failure(text: str) -> None:
    assert normalize_caption(text) == normalize_caption("fail to close the drawer")


@pytest.mark.parametrize(
    "text",
    [
        "the robot does not close the drawer",
        "the robot doesn\u2019t close the drawer",
        "never close the drawer",
        "avoid closing the drawer",
        "refuse to close the drawer",
    ],
)
def test_what_is_not_done_is_no_claim_that_it_is(text: str) -> None:
    assert normalize_caption(text).is_negated and _slots(text)["action"] == "close"
    assert _outcome(text) == NOT_COMPLETED


@pytest.mark.parametrize(
    "text", ["maybe close the drawer", "close the drawer (or not)", "try to close the drawer"]
)
def test_who_hedges_states_no_outcome(text: str) -> None:
    form = normalize_caption(text)
    assert (form.outcome, form.phrase) == ("attempt", "close the drawer")
