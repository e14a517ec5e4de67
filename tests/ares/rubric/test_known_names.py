"""A near miss is known to differ from what is true: two names of one thing make none."""

from __future__ import annotations

from random import Random

import pytest

from ares.rubric import KnownText, make_near_miss
from ares.rubric.control_texts import choose_foreign_text, is_other_task
from ares.rubric.slots import SlotName, SlotValues, may_be_the_same


def _text(**slots: str) -> KnownText:
    own: SlotValues = {"action": "place", "outcome": "completed", **_named(slots)}
    return KnownText(" ".join(own.values()), own)


def _named(slots: dict[str, str]) -> SlotValues:
    return {("from" if name == "start" else name): value for name, value in slots.items()}  # type: ignore[misc]


def _wrong_values(own: KnownText, others: list[KnownText], slot: SlotName) -> set[str]:
    """All values that near misses of a slot get."""
    drawn = [make_near_miss(slot, [own], others, Random(seed)) for seed in range(40)]
    return {miss.slots[slot] for miss in drawn if miss}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("the cup", "mug"),
        ("in the cabinet", "on the cupboard"),
        ("red spanner", "wrench"),
        ("mug", "blue mug"),
    ],
)
def test_words_of_general_use_for_one_thing_are_known(first: str, second: str) -> None:
    assert may_be_the_same(first, second)
    assert not may_be_the_same(first, "whiteboard")


def test_a_word_that_fits_many_things_is_no_near_miss_and_gets_one_that_is_far() -> None:
    others = [_text(object="thing"), _text(object="wug")]
    assert _wrong_values(_text(object="fep"), others, "object") == {"wug"}
    far = _wrong_values(_text(object="the container"), others, "object")
    assert far and not far & {"wug", "thing"}


def test_an_action_in_other_words_is_no_near_miss() -> None:
    own = KnownText("toss the wug", {"action": "other: toss", "object": "wug"})
    others = [_text(action="throw"), _text(action="other: fling"), _text(action="wipe")]
    assert _wrong_values(own, others, "action") == {"wipe"}


def test_a_caption_about_the_same_thing_by_another_name_is_not_foreign() -> None:
    own, same = _text(object="mug"), _text(object="cup", to="in the sink")
    drawn = [choose_foreign_text([own], [same], Random(seed)) for seed in range(20)]
    assert all("cup" not in text.slots.get("object", "") for text in drawn)


@pytest.mark.parametrize(
    ("other", "known", "is_other"),
    [
        ({"object": "whiteboard"}, {}, True),
        ({"object": "thing"}, {}, False),  # it may be the mug
        ({"action": "wipe"}, {}, False),
        ({"object": "mug"}, {}, False),
        ({"object": "mug", "action": "wipe"}, {}, True),
        ({"object": "whiteboard"}, {"object": "thing"}, False),
        ({"object": "whiteboard", "action": "wipe"}, {"object": "thing"}, True),
        ({"object": "whiteboard"}, {"to": "on the table"}, True),
        ({"object": "whiteboard"}, {"object": "spoon", "to": "on the whiteboard"}, False),
        ({"object": "whiteboard"}, {"object": "spoon", "to": "on the table"}, True),
    ],
)
def test_another_task_has_a_definite_other_thing_or_a_motion_that_cannot_be_this_one(
    other: dict[str, str], known: dict[str, str], is_other: bool
) -> None:
    statements = [_text(object="mug"), *([_text(**known)] if known else [])]
    for order in (statements, statements[::-1]):
        assert is_other_task(_text(**other), order) == is_other
