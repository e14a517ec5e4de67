"""Slots of typed captions: which values are one value whatever words they come in."""

from __future__ import annotations

import pytest

from ares.rubric import SlotName, is_same_value


@pytest.mark.parametrize(
    ("slot", "first", "second"),
    [
        ("to", "in the blue bin", "blue bin"),
        ("to", "into the box", "inside the box"),
        ("to", "To the cup", "next to the cup"),
        ("from", "from the tray", "in the tray"),
        ("hand", "left arm", "the left gripper"),
        ("attributes", "red, small", "Small, red"),
        ("object", "The drawer", "a drawer"),
    ],
)
def test_one_value_in_other_words(slot: SlotName, first: str, second: str) -> None:
    assert is_same_value(slot, first, second) and is_same_value(slot, second, first)


@pytest.mark.parametrize(
    ("slot", "first", "second"),
    [
        ("to", "in the box", "on the box"),
        ("to", "under the box", "in the box"),
        ("to", "behind the cup", "the cup"),
        ("to", "in the blue bin", "in the red bin"),
        ("from", "under the tray", "in the tray"),
        ("hand", "left arm", "right arm"),
        ("hand", "hand", "arm"),
        ("attributes", "red", "red, small"),
        ("object", "in the box", "box"),
    ],
)
def test_two_values_that_differ(slot: SlotName, first: str, second: str) -> None:
    assert not is_same_value(slot, first, second) and not is_same_value(slot, second, first)
