"""Streamlit puts the folder of the entry script first on the path, so its modules must not hide any other."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

import app.dashboard

FOLDER = Path(app.dashboard.__file__).parent
MODULES = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "main"}
PACKAGES = {path.parent.name for path in FOLDER.glob("*/__init__.py")}


@pytest.mark.parametrize("name", sorted(MODULES | PACKAGES))
def test_no_module_has_the_name_of_a_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [path for path in sys.path if Path(path).resolve() != FOLDER])
    assert name not in sys.stdlib_module_names
    assert PathFinder.find_spec(name) is None
