"""The hash of a rubric, and errors of invalid rubric files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ares.errors import RequestError
from ares.rubric import Rubric, read_rubric
from ares_annotators.grade import load_rubric


@pytest.fixture()
def document() -> dict[str, Any]:
    dumped: dict[str, Any] = load_rubric("caption").model_dump(mode="json")
    return dumped


def _write(path: Path, document: object) -> Path:
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def test_the_hash_is_the_same_for_another_order_of_keys(document: dict[str, Any], tmp_path: Path) -> None:
    backwards = dict(reversed(list(document.items())))
    assert read_rubric(_write(tmp_path / "r.yaml", backwards)).hash == Rubric.model_validate(document).hash


def test_notes_are_not_hashed(document: dict[str, Any]) -> None:
    assert Rubric.model_validate({**document, "notes": "other"}).hash == load_rubric("caption").hash


@pytest.mark.parametrize(
    "path",
    [
        ("version",),
        ("criteria", 0, "text"),
        ("criteria", 0, "category"),
        ("criteria", 1, "applies_when"),
        ("criteria", 0, "hard"),
        ("criteria", 0, "claim"),
        ("criteria", 0, "passes"),
    ],
)
def test_every_change_of_meaning_changes_the_hash(document: dict[str, Any], path: tuple[Any, ...]) -> None:
    other = {
        "version": "9.9.9",
        "text": "Something else must hold.",
        "category": "optional",
        "applies_when": "always",
        "hard": [],
        "claim": True,
        "passes": "another example",
    }[path[-1]]
    inner: Any = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = other
    assert Rubric.model_validate(document).hash != load_rubric("caption").hash


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"criteria": []}, "criteria"),
        ({"version": "one"}, "version"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_wrong_field_is_named(
    document: dict[str, Any], tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    path = _write(tmp_path / "mine.yaml", {**document, **change})
    with pytest.raises(RequestError, match="rubric is not valid") as error:
        load_rubric(str(path))
    assert field in error.value.detail
    assert "mine.yaml" in error.value.detail


def test_an_unknown_check_and_twins_are_named(document: dict[str, Any], tmp_path: Path) -> None:
    first = document["criteria"][0]
    duplicates = {**document, "criteria": [first, first]}
    with pytest.raises(RequestError, match="VERB"):
        read_rubric(_write(tmp_path / "a.yaml", duplicates))
    unknown = {**document, "criteria": [{**first, "hard": ["smell"]}]}
    with pytest.raises(RequestError, match=r"'smell'; there are: form"):
        read_rubric(_write(tmp_path / "b.yaml", unknown))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"applies_when": "stated", "slot": None}, "VERB applies when its slot is stated, but has no slot"),
        ({"hard": [], "slot": None, "claim": False}, "VERB has nothing that decides it"),
    ],
)
def test_a_criterion_that_nothing_could_decide_is_refused(
    document: dict[str, Any], tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    claimed = {**document["criteria"][0], "claim": True, **change}
    with pytest.raises(RequestError, match=problem):
        read_rubric(_write(tmp_path / "mine.yaml", {**document, "criteria": [claimed]}))


@pytest.mark.parametrize("name", ["SCORE", "TRUST", "STALE", "MAKER", "SPLIT"])
def test_a_criterion_whose_column_exists_is_refused(
    document: dict[str, Any], tmp_path: Path, name: str
) -> None:
    path = _write(tmp_path / "mine.yaml", {**document, "criteria": [{**document["criteria"][0], "id": name}]})
    with pytest.raises(RequestError, match=f"criterion {name} would have the column grade_{name.lower()}"):
        read_rubric(path)


def test_what_is_no_yaml_and_what_is_not_there(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("criteria: [")
    with pytest.raises(RequestError, match="rubric cannot be read"):
        load_rubric(str(bad))
    with pytest.raises(RequestError, match="rubric cannot be read"):
        load_rubric(str(tmp_path / "gone.yaml"))
    with pytest.raises(RequestError, match=r"no rubric 'captain': did you mean 'caption'"):
        load_rubric("captain")
