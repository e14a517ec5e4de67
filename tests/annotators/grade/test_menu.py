"""Menus of action phrases, the same for all episodes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from annotators.grade.menu import load_menu, menu_names
from ares.errors import RequestError
from ares.rubric import parse_caption


def test_shipped_menus_hold_different_phrases_that_can_be_compared() -> None:
    assert menu_names() == ["metaworld", "tabletop"]
    sizes = {name: len(load_menu(name).all_phrases()) for name in menu_names()}
    assert sizes["metaworld"] == 50 and 1_000 < sizes["tabletop"] < 5_000
    for name in menu_names():
        phrases = load_menu(name).all_phrases()
        assert len(set(phrases)) == len(phrases)
        assert all(parse_caption(phrase).events for phrase in phrases)


def test_the_general_menu_has_no_phrase_twice_in_other_words() -> None:
    """Two phrases with the same claims would share the belief that is due to one of them."""
    phrases = load_menu("tabletop").all_phrases()
    claims = {parse_caption(phrase).events for phrase in phrases}
    assert len(claims) > 0.95 * len(phrases)


def test_a_menu_of_the_user_fills_its_patterns(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    document = {
        "id": "lab",
        "version": "2",
        "slots": {"thing": ["vial", "rack"], "way": ["left", "right"]},
        "patterns": ["move the {thing} {way}", "shake the {thing}"],
        "phrases": ["do nothing"],
    }
    file.write_text(yaml.safe_dump(document))
    menu = load_menu(str(file))
    assert menu.all_phrases() == [
        "do nothing",
        "move the rack left",
        "move the rack right",
        "move the vial left",
        "move the vial right",
        "shake the rack",
        "shake the vial",
    ]
    document["phrases"] = ["do nothing", "wait"]
    file.write_text(yaml.safe_dump(document))
    assert load_menu(str(file)).hash != menu.hash


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id: a\nversion: '1'\nphrases: [a, b]", "menu has too few or too many phrases: .*: 2; give 4 to"),
        ("id: a\nversion: '1'\npatterns: ['push the {thing}']", "menu cannot be read: .*'thing'"),
        ("id: a\nversion: '1'\nwords: [a]", "menu is not valid: .*: words: Extra inputs"),
        ("[", "menu cannot be read"),
    ],
)
def test_a_wrong_menu_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(RequestError, match=message) as error:
        load_menu(str(file))
    assert "\n" not in str(error.value)


def test_an_unknown_menu_names_those_that_are_there() -> None:
    with pytest.raises(RequestError, match=r"no menu 'tabeltop'.*did you mean 'tabletop'"):
        load_menu("tabeltop")
