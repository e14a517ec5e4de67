"""Layers: imports go one way down, some libraries stay in one room, and one file reads the environment."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("ares", "ingest", "annotators", "app")

# What each package must not know.
ABOVE = {
    "ares": {"ingest", "annotators", "app"},
    "ingest": {"annotators", "app"},
    "annotators": {"ingest", "app"},
    "app": set[str](),
}
BANNED = {"tensorflow", "lerobot"}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb"}
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _imported(tree: ast.AST) -> Iterator[str]:
    """Every imported module, wherever the import stands: a lazy import is no way round."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module)
        elif isinstance(node, ast.Call) and "import" in ast.unparse(node.func) and node.args:
            yield (
                ast.unparse(node.args[0]).lstrip("f").strip("'\"")
            )  # import_module("app.x"), __import__("x")


def _tops(path: Path) -> set[str]:
    return {name.split(".")[0] for name in _imported(ast.parse(path.read_text()))}


def _names(path: Path) -> set[str]:
    """Attributes and names from-imported, as far as they can reach the environment."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    return imported | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def test_a_package_does_not_know_those_above_it() -> None:
    known = {_name(path): _tops(path) & ABOVE[path.relative_to(ROOT).parts[0]] for path in SOURCES}
    assert not {name: above for name, above in known.items() if above}


def test_no_module_needs_tensorflow_or_lerobot() -> None:
    assert not [_name(path) for path in SOURCES if _tops(path) & BANNED]


def test_only_the_dashboard_imports_streamlit() -> None:
    elsewhere = [path for path in SOURCES if not path.is_relative_to(ROOT / "app" / "dashboard")]
    assert not [_name(path) for path in elsewhere if "streamlit" in _tops(path)]


def test_only_settings_reads_the_environment() -> None:
    readers = [_name(path) for path in SOURCES if _names(path) & ENVIRONMENT]
    assert readers == ["ares/settings.py"]


@pytest.mark.parametrize(
    "source",
    [
        "import app.cli",
        "def f():\n    from app.demo import x",
        "import_module('app.cli.main')",
        "importlib.import_module(f'app.cli.{name}')",
    ],
)
def test_the_reader_of_imports_sees_every_form(source: str) -> None:
    assert "app" in {name.split(".")[0] for name in _imported(ast.parse(source))}
