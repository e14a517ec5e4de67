"""`import ares` is quick, and the package offers the classes that users need."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import ares

ROOT = Path(__file__).resolve().parents[2]

_HEAVY = ("numpy", "pyarrow", "lance", "lancedb", "torch", "av", "pymongo", "duckdb")


def test_importing_the_package_imports_no_heavy_library() -> None:
    code = f"import sys, ares\nares.Query, ares.Workspace\nprint([name for name in {_HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_exported_name_exists() -> None:
    for name in dir(ares):
        assert getattr(ares, name) is not None
    assert not hasattr(ares, "NoSuchClass")


def test_the_version_is_that_of_the_package_and_of_the_changelog() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert ares.__version__ == declared
    assert f"\n## [{declared}]\n" in (ROOT / "CHANGELOG.md").read_text()
