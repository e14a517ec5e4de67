"""Whatever the packages import is declared in pyproject.toml, for the core or in an extra."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from ares.imports import PACKAGES
from tests.house.imports import ROOT, SOURCES, file_name, imports_of

# Libraries of the user's choice: what needs them says how to install them.
OPTIONAL = {"pandas", "polars"}


def _canonical(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower().replace("_", "-")


def _imported_libraries(path: Path) -> set[str]:
    tops = {module.split(".")[0] for module, _ in imports_of(path) if module.isidentifier() or "." in module}
    return {top for top in tops if top.isidentifier()} - {*PACKAGES, *OPTIONAL, *sys.stdlib_module_names}


def test_what_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: parts for name, parts in project["optional-dependencies"].items() if name != "dev"}
    declared = {_canonical(part) for parts in (project["dependencies"], *extras.values()) for part in parts}
    distributions = packages_distributions()
    undeclared = {
        file_name(path): missing
        for path in SOURCES
        if (
            missing := {
                library
                for library in _imported_libraries(path)
                if library in distributions
                and not {_canonical(name) for name in distributions[library]} & declared
            }
        )
    }
    assert not undeclared
