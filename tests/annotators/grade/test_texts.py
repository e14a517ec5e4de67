"""Texts whose truth is known."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, strategies as st

from ares.rubric import parse_caption
from ares.rubric.control_texts import (
    choose_foreign_captions,
    flip_caption_outcome,
    make_instruction_caption,
    rephrased_text,
    shipped_phrases,
)

DATASET = [
    "close the drawer",
    "open the microwave door",
    "pick up the blue mug",
    "push the green drawer closed",
    "put the spoon in the pot",
    "wipe the table with a cloth",
]


def _heads(text: str) -> set[str]:
    return {noun_phrase.head for noun_phrase in parse_caption(text).noun_phrases}


@given(seed=st.integers(0, 10_000), text=st.sampled_from([*DATASET, "fail to close the drawer"]))
def test_a_caption_of_another_task_shares_no_action_and_no_thing(seed: int, text: str) -> None:
    slots = parse_caption(text)
    known = [parse_caption("put the mug into the drawer")]
    texts = choose_foreign_captions(slots, known, DATASET, 3, Random(seed))
    assert len(set(texts)) == len(texts) >= 2
    for other in texts:
        parsed = parse_caption(other)
        assert not set(parsed.verbs) & {*slots.verbs, *known[0].verbs}
        assert not _heads(other) & (_heads(text) | {"mug", "drawer"})
        assert (parsed.outcome == "failure") == (slots.outcome == "failure")


def test_captions_of_the_same_dataset_come_first_by_turns() -> None:
    caption = parse_caption("open the microwave door")
    texts = choose_foreign_captions(caption, [], ["wipe the table", "put the spoon in the pot"], 4, Random(1))
    assert texts[0] in ("wipe the table", "put the spoon in the pot")
    assert sum(text in shipped_phrases() for text in texts) >= 1


def test_a_dataset_of_one_task_gets_shipped_captions() -> None:
    caption = parse_caption("close the drawer")
    texts = choose_foreign_captions(caption, [], ["close the drawer"], 3, Random(0))
    assert len(texts) >= 2 and set(texts) <= set(shipped_phrases())


def test_shipped_captions_are_different_parsed_and_neither_hedged_nor_long() -> None:
    phrases = shipped_phrases()
    assert len(phrases) == len(set(phrases)) >= 60
    assert all(parse_caption(phrase).noun_phrases and len(phrase.split()) <= 10 for phrase in phrases)


@pytest.mark.parametrize(
    ("caption", "succeeds", "flipped"),
    [
        ("close the drawer", None, "fail to close the drawer"),
        ("fail to close the drawer", None, "close the drawer"),
        # What the source says decides, and not a caption that may be wrong.
        ("close the drawer", False, "close the drawer"),
        ("fail to close the drawer", True, "fail to close the drawer"),
    ],
)
def test_a_flipped_caption_states_the_outcome_that_is_not(
    caption: str, succeeds: bool | None, flipped: str
) -> None:
    assert flip_caption_outcome(parse_caption(caption), succeeds) == flipped


@pytest.mark.parametrize(
    ("succeeds", "text"),
    [(True, "close the drawer"), (None, "close the drawer"), (False, "fail to close the drawer")],
)
def test_an_instruction_is_a_caption_with_the_outcome_of_the_source(succeeds: bool | None, text: str) -> None:
    assert make_instruction_caption("Close the drawer.", succeeds) == text
    assert make_instruction_caption("", succeeds) == ""


@given(seed=st.integers(0, 1_000), is_failure=st.booleans())
def test_a_paraphrase_keeps_action_and_outcome(seed: int, is_failure: bool) -> None:
    caption = parse_caption("fail to close the drawer" if is_failure else "close the drawer")
    text = rephrased_text(caption, Random(seed))
    assert "close the drawer" in text
    assert is_failure == any(word in text for word in ("fail", "not manage", "without success"))
