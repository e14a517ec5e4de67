"""Slots of typed captions: which values are one value whatever words they come in."""

from __future__ import annotations

from itertools import product

import pytest

from ares.rubric import SlotName, is_same_value


@pytest.mark.parametrize(
    ("slot", "first", "second"),
    [
        ("to", "in the blue bin", "blue bin"),
        ("to", "into the box", "inside the box"),
        ("to", "To the cup", "next to the cup"),
        ("from", "from the tray", "in the tray"),
        ("to", "in front of the box", "in the front of the box"),
        ("from", "out of the drawer", "in the drawer"),
        ("from", "off the table", "on the table"),
        ("hand", "left arm", "the left gripper"),
        ("hand", "the robot's left arm", "left hand"),
        ("hand", "the robot\u2019s left arm", "left hand"),
        ("hand", "both hands", "both arms"),
        ("hand", "the robots' left grippers", "left grippers"),
        ("hand", "left-hand", "left hand"),
        ("object", "the person\u2019s cup", "the person's cup"),
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
        ("hand", "hands", "arms"),
        ("hand", "both hands", "left hand"),
        ("attributes", "red", "red, small"),
        ("object", "in the box", "box"),
    ],
)
def test_two_values_that_differ(slot: SlotName, first: str, second: str) -> None:
    assert not is_same_value(slot, first, second) and not is_same_value(slot, second, first)


_WAYS_TO = ("in", "into", "inside", "on", "onto", "on top of", "to", "at", "")
_WAYS_FROM = ("out of", "off", "off of", "from", "from inside", "from on")
_OPPOSITES = (
    *product(_WAYS_TO, _WAYS_FROM),
    ("up", "down"),
    ("above", "below"),
    ("over", "under"),
    ("left of", "right of"),
    ("inside", "outside"),
)


@pytest.mark.parametrize("place", ["the drawer", "the red box"])
@pytest.mark.parametrize(("way", "opposite"), _OPPOSITES)
def test_nothing_goes_to_a_place_that_it_leaves(way: str, opposite: str, place: str) -> None:
    first, second = f"{way} {place}", f"{opposite} {place}"
    assert not is_same_value("to", first, second) and not is_same_value("to", second, first)
