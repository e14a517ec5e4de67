"""Captions in any words pass the check of their order; the same words heaped up or reversed do not."""

from __future__ import annotations

import random

import pytest

from annotators.grade.clip_judge import read_candidate_phrases
from annotators.grade.observation import is_out_of_order
from app.demo.run import GRADE_OPTIONS
from ares.rubric import parse_caption

PHRASES = read_candidate_phrases(str(GRADE_OPTIONS["candidates"]))
OBSERVED = [parse_caption(phrase) for phrase in PHRASES]


@pytest.mark.parametrize(
    "text",
    [
        "push the green drawer closed",
        "shut the green drawer",
        "the robot arm nudges the drawer shut",
        "it turns the lock of the safe door to unlock it",
        "grasps the plug and pulls it out of the socket",
        "picks up a mug and sets it down beside the coffee machine",
        "the green wrench is lifted and its loop is hung on the red peg",
        "with the arm passing round the wall of bricks, press the red button",
        "get hold of the plug and stick it into the socket",
        "use the red hammer to knock the nail into the block",
        "give the blue dial a twist",
    ],
)
def test_a_sentence_is_in_order(text: str) -> None:
    assert not is_out_of_order(parse_caption(text), OBSERVED)


def test_most_heaps_of_the_words_of_two_phrases_are_not() -> None:
    dice = random.Random(11)
    heaps = []
    for _ in range(200):
        words = " ".join(dice.sample(PHRASES, 2)).split()
        heaps.append(" ".join(dice.sample(words, len(words))))
    caught = sum(is_out_of_order(parse_caption(heap), OBSERVED) for heap in heaps)
    assert caught >= 180
    assert is_out_of_order(parse_caption("closed drawer green the push"), OBSERVED)


@pytest.mark.parametrize(
    "text",
    [
        "the red faucet handle",
        "door safe the close",
        "red the close drawer the",
        "above from down button red the press and wall brick the over reach",
    ],
)
def test_a_name_and_an_article_without_a_thing_are_no_sentence(text: str) -> None:
    assert is_out_of_order(parse_caption(text), OBSERVED)
