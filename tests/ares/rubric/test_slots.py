"""The slots of typed captions: the guide of verbs of a lab, and which values are equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares.errors import RequestError
from ares.rubric import (
    SlotName,
    is_same_value,
    is_short_value,
    join_attributes,
    parse_known_text,
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
        ("object", "mug", "cup", False),
        ("attributes", "red, small", "Small, red", True),
        ("attributes", "red", "red, small", False),
        ("object", "small, red", "red, small", False),
        ("to", "抽屉", "抽屉", True),
    ],
)
def test_equal_values(slot: SlotName, first: str, second: str, is_same: bool) -> None:
    assert is_same_value(slot, first, second) is is_same


def test_a_hand_is_no_manner() -> None:
    slots = parse_known_text("push the drawer forward with the left hand").slots
    assert slots["manner"] == "forward" and slots["hand"].endswith("left hand")


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
