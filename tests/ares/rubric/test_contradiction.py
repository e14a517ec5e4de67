"""What code knows to contradict an observed action, and what it leaves to a model of texts."""

from __future__ import annotations

import pytest

from ares.rubric import contradicts, parse_caption


@pytest.mark.parametrize(
    ("slot", "claimed", "observed"),
    [
        ("verb", "pull the mug under the coffee machine", "push the mug under the coffee machine"),
        ("verb", "open the safe door", "push the safe door shut"),
        ("direction", "press the handle up", "press the handle down"),
        ("additions", "dunk the ball out of the hoop", "dunk the ball into the hoop"),
        ("complete", "push the cube", "push the cube and place it on the shelf"),
        ("complete", "pick up the blue cube", "pick up the blue cube and place it on the shelf"),
    ],
)
def test_what_cannot_be_true_of_the_action_is_contradicted(slot: str, claimed: str, observed: str) -> None:
    assert contradicts(slot, parse_caption(claimed), parse_caption(observed))


@pytest.mark.parametrize(
    ("slot", "claimed", "observed"),
    [
        ("verb", "shove the mug under the coffee machine", "push the mug under the coffee machine"),
        ("verb", "slide the window open", "open the window"),
        ("direction", "press the handle", "press the handle down"),
        ("additions", "throw the ball through the hoop", "dunk the ball into the hoop"),
        ("complete", "slip the ring over the peg", "pick up the ring and put it onto the peg"),
        ("complete", "put the blue cube on the shelf", "pick up the blue cube and put it on the shelf"),
        ("complete", "pick up the lid", "pick up the blue cube and place it on the shelf"),
    ],
)
def test_other_words_are_left_to_a_model(slot: str, claimed: str, observed: str) -> None:
    assert not contradicts(slot, parse_caption(claimed), parse_caption(observed))
