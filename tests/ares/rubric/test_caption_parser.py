"""What is read of a sentence without a model: its wording taken off, its action and its outcome.

Sentences with what they are read as are recorded: tests/ares/rubric/test_recorded_readings.py.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from ares.rubric import (
    is_short_value,
    normalize_caption,
    parser_hash,
    read_action_and_outcome,
    shipped_verbs,
)


def test_the_verbs_are_those_of_the_lab() -> None:
    verbs = {"pipette": "move liquid", "spin down": "centrifuge a tube", "take": "hold a thing"}
    actions = {"spin the tube down": "spin down", "take the tube": "take", "close the lid": "other: close"}
    assert {text: read_action_and_outcome(text, verbs)["action"] for text in actions} == actions


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
    form, plain = normalize_caption(text), normalize_caption(f"{base} the bowl")
    assert read_action_and_outcome(text, shipped_verbs())["action"] == _action_of(plain.phrase), text
    assert (form.outcome, form.actor) == (_CLAIMS[claim], _SUBJECTS[subject]), text


def _action_of(phrase: str) -> str:
    return read_action_and_outcome(phrase, shipped_verbs())["action"]


@pytest.mark.slow
def test_the_parser_hash_is_the_same_in_every_process() -> None:
    code = "from ares.rubric.caption_parser import parser_hash; print(parser_hash())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == parser_hash()


@given(st.text(max_size=200))
def test_of_any_text_an_action_and_an_outcome_are_read_or_nothing(text: str) -> None:
    slots = read_action_and_outcome(text, shipped_verbs())
    assert set(slots) <= {"action", "outcome"} and all(is_short_value(value) for value in slots.values())
