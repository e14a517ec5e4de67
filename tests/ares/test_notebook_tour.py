"""Fifty things that a notebook user types work, or are answered in one clear line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

TOUR: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "fixtures" / "notebook_tour.yaml").read_text()
)
# A filter's error lists every column; the author would have stopped at 400 characters.
_MAX_CHARACTERS = 500


def _names(word: str, text: str) -> bool:
    """Whether a text has a word, and not only as a part of another one."""
    before = r"(?<!\w)(?<!\d\.)" if word[:1].isdigit() else r"(?<!\w)"
    after = r"(?!\.?\d)" if word[-1:].isdigit() else r"(?!\w)"
    return re.search(before + re.escape(word) + after, text, re.IGNORECASE) is not None


def _resolve(word: str, names: dict[str, Any]) -> str:
    """A word, or the value of an expression such as "=n"."""
    return str(eval(word[1:], names)) if word.startswith("=") and word != "==" else word


def _complaints(error: BaseException, cell: Mapping[str, Any], names: dict[str, Any]) -> list[str]:
    text = str(error)
    complaints = [] if len(text.strip().splitlines()) == 1 else ["not one line"]
    if len(text) > _MAX_CHARACTERS:
        complaints.append(f"too long: {len(text)} characters")
    if type(error).__module__.split(".")[0] in TOUR["foreign"]:
        complaints.append(f"an error of an engine: {type(error)}")
    for alternatives in cell.get("words", ()):
        words = [_resolve(word, names) for word in alternatives]
        if not any(_names(word, text) for word in words):
            complaints.append(f"does not name {' or '.join(words)}")
    return [f"{complaint}: {text}" for complaint in complaints]


def _run_cell(cell: Mapping[str, Any], names: dict[str, Any]) -> None:
    """Run a cell as a user would. Raises AssertionError where it is not what the user expects."""
    try:
        exec(cell["code"], names)
    except Exception as error:
        assert cell["kind"] != "assert", f"{type(error).__name__}: {error}"
        assert not _complaints(error, cell, names)
        exec(cell.get("after", ""), names)
        return
    assert cell["kind"] != "error", "no error"
    for attempt in cell.get("tries", ()):
        exec(attempt, names)
    exec(cell.get("expect", ""), names)


@pytest.mark.slow
def test_fifty_things_that_a_notebook_user_types(
    demo_samples: Path, reference_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("ARES_EMBED_MODEL", f"local-dir:{reference_models / 'reference-clip'}")
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    names: dict[str, Any] = {"SAMPLE": str(demo_samples / "video"), "WORK": tmp_path}
    exec(TOUR["prelude"], names)
    failures = {}
    for cell in TOUR["cells"]:
        if "matplotlib" in cell.get("needs", ()) and find_spec("matplotlib") is None:
            continue
        try:
            _run_cell(cell, names)
        except Exception as error:
            failures[f"{cell['number']} {cell['title']}"] = f"{type(error).__name__}: {error}"
    assert not failures
