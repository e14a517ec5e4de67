"""Layers: imports go one way down, packages are entered by their exports, and one file reads the environment."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

from tests.house.imports import (
    MODULES,
    ROOT,
    SOURCES,
    SUBPACKAGES,
    exports,
    file_name,
    imported_names,
    imports_of,
    module_name,
    needed_modules,
)

# What each package must not know.
NO_PRODUCT = {"tests", "benchmarks"}
ABOVE = {
    "ares": {"ingest", "annotators", "app"} | NO_PRODUCT,
    "ingest": {"annotators", "app"} | NO_PRODUCT,
    "annotators": {"ingest", "app"} | NO_PRODUCT,
    "app": NO_PRODUCT,
}
# Floors inside `ares`, lowest first: a module may import from its own floor and those below.
FLOORS = (
    {
        "lazy_exports",
        "errors",
        "extras",
        "shadowing",
        "messages",
        "process_tuning",
        "deadline",
        "slots_pickling",
    },
    {"settings", "config_file", "registry", "arguments"},
    {"episode", "annotation"},
    {"statistics"},
    {"io", "input", "formats", "clock"},
    {"media"},
    {"store"},
    {"jobs", "rubric"},
    {"search"},
    {"curation", "kinematics", "quality", "review", "valuation"},
    {"export", "torch", "doctor", "status", "summary"},
    {"workspace"},
    {"__main__"},
)
BANNED = {"tensorflow", "lerobot"}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb"}
OUTSIDE = [*SOURCES, *sorted((ROOT / "benchmarks").glob("*.py"))]


def _top_packages(path: Path) -> set[str]:
    return {module.split(".")[0] for module, _ in imports_of(path)}


def _floor(module: str) -> int:
    room = module.split(".")[1]
    return next(number for number, rooms in enumerate(FLOORS) if room in rooms)


def _package_of(path: Path) -> str:
    name = module_name(path)
    return name if path.name == "__init__.py" else name.rpartition(".")[0]


def _is_inside(path: Path, package: str) -> bool:
    return f"{_package_of(path)}.".startswith(f"{package}.")


def test_a_package_does_not_know_those_above_it() -> None:
    known = {
        file_name(path): _top_packages(path) & ABOVE[path.relative_to(ROOT).parts[0]] for path in SOURCES
    }
    assert not {name: above for name, above in known.items() if above}


def test_floors_of_ares_import_downwards() -> None:
    upward = [
        f"{name} -> {needed}"
        for name, path in MODULES.items()
        if name.startswith("ares.")
        for needed in needed_modules(path)
        if needed.startswith("ares.") and _floor(needed) > _floor(name)
    ]
    assert not upward


def test_modules_import_in_no_circle() -> None:
    """Lazy imports and those for the type checker count; a package's `__init__.py` only passes names on."""
    needs = {
        name: {needed for needed in needed_modules(path) if needed != name} - SUBPACKAGES
        for name, path in MODULES.items()
        if name not in SUBPACKAGES
    }
    while leaves := {name for name, needed in needs.items() if not needed & needs.keys()}:
        needs = {name: needed for name, needed in needs.items() if name not in leaves}
    assert not {name: sorted(needed & needs.keys()) for name, needed in needs.items()}


def test_a_package_is_entered_by_what_it_exports() -> None:
    """From outside, `from ares.search import Query` and never `from ares.search.query import Query`."""
    past_the_door = [
        f"{file_name(path)}: {module} {name}"
        for path in OUTSIDE
        for module, name in imports_of(path)
        for package in SUBPACKAGES
        if not _is_inside(path, package)
        and (module.startswith(f"{package}.") or (module == package and f"{package}.{name}" in MODULES))
        and f"{module}.{name}" not in SUBPACKAGES
        and module not in SUBPACKAGES - {package}
        and not _is_program(module)
    ]
    assert not past_the_door


def _is_program(module: str) -> bool:
    """Whether a module is started by its name: the command line, or a command of it (`app.cli.{name}`)."""
    return module == "app.cli.main" or "{" in module


@pytest.mark.parametrize("package", sorted(SUBPACKAGES))
def test_a_package_lists_what_it_exports(package: str) -> None:
    names = list(exports(package).items())
    module = import_module(package)
    ours = {name for name, source in names if source.startswith(f"{package}.")}
    assert sorted(module.__all__) == sorted(ours)
    assert not [name for name in ours if f"{package}.{name}" in MODULES], "a module has the name of an export"
    assert all(getattr(module, name) is not None for name in ours)


def test_no_module_needs_tensorflow_or_lerobot() -> None:
    assert not [file_name(path) for path in SOURCES if _top_packages(path) & BANNED]


def test_only_the_dashboard_imports_streamlit() -> None:
    rooms = (ROOT / "app" / "dashboard", ROOT / "app" / "server")
    elsewhere = [path for path in SOURCES if not any(path.is_relative_to(room) for room in rooms)]
    assert not [file_name(path) for path in elsewhere if "streamlit" in _top_packages(path)]


def test_only_settings_reads_the_environment() -> None:
    readers = [file_name(path) for path in SOURCES if _names(path) & ENVIRONMENT]
    assert readers == ["ares/settings.py"]


def _names(path: Path) -> set[str]:
    """Attributes and names from-imported, as far as they can reach the environment."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    return {name for _, name in imports_of(path)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


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
    assert "app" in {module.split(".")[0] for module, _ in imported_names(ast.parse(source))}
