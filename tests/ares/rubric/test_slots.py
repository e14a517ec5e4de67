"""The slots of typed captions: the guide of verbs of a lab, and which values are one value in other words."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from ares.errors import RequestError
from ares.rubric import (
    SlotName,
    is_same_value,
    is_short_value,
    join_attributes,
    read_verbs,
    shipped_verbs,
    slots_from_json,
    slots_to_json,
)


def test_a_lab_has_verbs_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "verbs.yaml"
    file.write_text("Pipette: move liquid by a pipette\nauf heben: etwas hochnehmen\n", "utf-8")
    assert read_verbs(str(file)) == {"pipette": "move liquid by a pipette", "auf heben": "etwas hochnehmen"}
    assert read_verbs("") == shipped_verbs() and len(shipped_verbs()) > 30


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- open",
        "open: 3",
        "open: ''",
        "Other: something else",
        "not visible: nothing is seen",
        "a b c d: too long",
        "open!: a mark",
        'open: "two\\nlines"',
        f"open: {'x' * 201}",
        "\n".join(f"verb{chr(97 + number // 26)}{chr(97 + number % 26)}: x" for number in range(81)),
        "open: [",
    ],
)
def test_what_is_no_guide_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "verbs.yaml"
    file.write_text(text)
    with pytest.raises(RequestError) as error:
        read_verbs(str(file))
    assert "verb" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("slot", "first", "second", "is_same"),
    [
        ("object", "The  Red-hot mug.", "red-hot mug", True),
        ("object", "The drawer", "a drawer", True),
        ("object", "the person\u2019s cup", "the person's cup", True),
        ("to", "in the blue bin", "blue bin", True),
        ("to", "To the cup", "next to the cup", True),
        ("to", "抽屉", "抽屉", True),
        ("to", "in front of the box", "in the front of the box", True),
        ("from", "from the tray", "in the tray", True),
        ("from", "off the table", "on the table", True),
        ("hand", "the robot\u2019s left arm", "left hand", True),
        ("hand", "both hands", "both arms", True),
        ("hand", "the robots' left grippers", "left grippers", True),
        ("hand", "left-hand", "left hand", True),
        ("object", "the red mug", "Red mug.", True),
        ("attributes", "red, small", "small,  Red", True),
        ("manner", "slowly", "Slowly", True),
        ("to", "on the box", "on top of the box", True),
        ("to", "next to the sink", "by the sink", True),
        ("to", "under the sink", "beneath the sink", True),
        ("from", "from inside the box", "out of the box", True),
        ("hand", "left arm", "the robot's left gripper", True),
        ("hand", "the arm", "a gripper", False),
        ("to", "in the box", "on the box", False),
        ("to", "under", "beneath", False),
        ("count", "two", "2", False),
        ("attributes", "red", "red, small", False),
        ("object", "mug", "cup", False),
        ("object", "small, red", "red, small", False),
        ("object", "in the box", "box", False),
        ("to", "under the box", "in the box", False),
        ("to", "behind the cup", "the cup", False),
        ("to", "in the blue bin", "in the red bin", False),
        ("from", "under the tray", "in the tray", False),
        ("hand", "hand", "arm", False),
        ("hand", "hands", "arms", False),
        ("hand", "both hands", "left hand", False),
    ],
)
def test_one_value_in_other_words(slot: SlotName, first: str, second: str, is_same: bool) -> None:
    assert is_same_value(slot, first, second) is is_same_value(slot, second, first) is is_same


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


@pytest.mark.parametrize(("way", "opposite"), _OPPOSITES)
def test_nothing_goes_to_a_place_that_it_leaves(way: str, opposite: str) -> None:
    first, second = f"{way} the red box", f"{opposite} the red box"
    assert not is_same_value("to", first, second) and not is_same_value("to", second, first)


def test_slots_keep_their_order_and_what_is_stated() -> None:
    stored = slots_to_json({"outcome": "completed", "action": "open"})
    assert list(stored) == ["action", "outcome"]
    assert slots_from_json({**stored, "to": "", "colour": "red"}) == stored
    assert slots_from_json({}) is None and slots_from_json("open") is None
    assert join_attributes([" Red", "small", "red", ""]) == "red, small"


@pytest.mark.parametrize(
    ("value", "is_short"),
    [
        ("in the tray", True),
        ("", False),
        ("a " * 13, False),
        ("x" * 31, False),
        ("a\nb", False),
        ("a\u202eb", False),
    ],
)
def test_short_values(value: str, is_short: bool) -> None:
    assert is_short_value(value) is is_short
