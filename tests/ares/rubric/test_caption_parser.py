"""What is read of a sentence without a model: its wording taken off, its action and its outcome.

Sentences with what they are read as are recorded: tests/ares/rubric/test_recorded_readings.py.
"""

from __future__ import annotations

from hypothesis import given, strategies as st

from ares.rubric import (
    is_short_value,
    normalize_caption,
    read_action_and_outcome,
    shipped_verbs,
)


def test_the_verbs_are_those_of_the_lab() -> None:
    verbs = {"pipette": "move liquid", "spin down": "centrifuge a tube", "take": "hold a thing"}
    actions = {"spin the tube down": "spin down", "take the tube": "take", "close the lid": "other: close"}
    assert {text: read_action_and_outcome(text, verbs)["action"] for text in actions} == actions


_VERB_FORMS = (
    "push pushes pushing pushed, carry carries carrying carried, drag drags dragging dragged, "
    "close closes closing closed"
)
_SUBJECTS = (
    "the robot",
    "the left arm",
    "the woman",
    "an operator",
    "he",
    "the woman who is wearing a red coat",
)
_WAYS = ("", "carefully", "slowly", "very gently", "slowly, carefully", "gently but very firmly")
_CLAIMS = {"": "success", "never fails to": "success", "does not fail to": "success", "tries to": "attempt"}
_CLAIMS |= {"fails to": "failure", "never forgets to": "success", "does not manage to": "failure"}
_CLAIMS |= {"doesn't": "failure", "never": "failure"}


@given(st.data())
def test_who_acts_and_how_it_is_put_do_not_change_what_is_done(data: st.DataObject) -> None:
    """The same action in many wordings: subjects, adverbs, negations, fronts."""
    base, *forms = data.draw(st.sampled_from([forms.split() for forms in _VERB_FORMS.split(", ")]))
    way, claim = data.draw(st.sampled_from(_WAYS)), data.draw(st.sampled_from([*_CLAIMS]))
    subjects = _SUBJECTS[:-1] if claim or way else _SUBJECTS
    verb = (
        base
        if claim
        else data.draw(st.sampled_from([forms[0], f"is {forms[1]}", f"has {forms[2]}", forms[2]]))
    )
    front = data.draw(st.sampled_from(["", "in this clip, "]))
    words = [data.draw(st.sampled_from(subjects)), claim, way, verb, "the bowl"]
    if verb.startswith(("is ", "has ")):
        words[1:4] = [verb.split()[0], way, verb.split()[1]]
    text = front + " ".join(filter(None, words))
    read = read_action_and_outcome(text, shipped_verbs())
    assert read["action"] == read_action_and_outcome(f"{base} the bowl", shipped_verbs())["action"], text
    assert normalize_caption(text).outcome == _CLAIMS[claim], text


@given(st.text(max_size=200))
def test_of_any_text_an_action_and_an_outcome_are_read_or_nothing(text: str) -> None:
    slots = read_action_and_outcome(text, shipped_verbs())
    assert set(slots) <= {"action", "outcome"} and all(is_short_value(value) for value in slots.values())
