"""Layers: imports go one way down, rooms are entered by their doors, and one file reads the environment."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from ares.workspace import operations
from scripts.house_numbers import describe_circles, file_graph, room_graph
from tests.house.imports import (
    FOLDERS,
    MODULES,
    ROOMS,
    ROOT,
    SOURCES,
    exports,
    file_name,
    imported_names,
    imports_of,
    module_name,
    needed_modules,
    room_of,
)

# What each package must not know.
NO_PRODUCT = {"tests", "benchmarks"}
ABOVE = {
    "ares": {"ares_ingest", "ares_annotators", "ares_app"} | NO_PRODUCT,
    "ingest": {"ares_annotators", "ares_app"} | NO_PRODUCT,
    "annotators": {"ares_ingest", "ares_app"} | NO_PRODUCT,
    "app": NO_PRODUCT,
}
# Floors inside `ares`, lowest first: a room imports from the floors below its own, and nothing from its own floor.
FLOORS = (
    {"console", "early_stop", "errors", "process_tuning", "statistics"},
    {"deadline", "imports", "names", "settings"},
    {"io", "registry"},
    {"episode", "input"},
    {"annotation", "clock", "formats", "imitation", "signals"},
    {"media"},
    {"checks", "store"},
    {"contract", "jobs", "repair", "rubric", "search"},
    {"curation", "review"},
    {"doctor", "evaluation", "export"},
    {"loader", "reports"},
    {"workspace"},
    {"__main__"},
)
BANNED = {"tensorflow", "lerobot"}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb"}
OTHERS = [path for folder in ("tests", "benchmarks", "scripts") for path in (ROOT / folder).rglob("*.py")]
OUTSIDE = [*SOURCES, *sorted((ROOT / "benchmarks").glob("*.py"))]


def _top_packages(path: Path) -> set[str]:
    return {module.split(".")[0] for module, _ in imports_of(path)}


def _floor(module: str) -> int:
    room = module.split(".")[1]
    return next(number for number, rooms in enumerate(FLOORS) if room in rooms)


def test_a_package_does_not_know_those_above_it() -> None:
    known = {
        file_name(path): _top_packages(path) & ABOVE[path.relative_to(ROOT).parts[0]] for path in SOURCES
    }
    assert not {name: above for name, above in known.items() if above}


def test_no_file_names_a_folder_by_its_plain_name() -> None:
    """`ares_app.cli` is a second copy of `ares_app.cli` in a clone, and nothing elsewhere."""
    named = {
        f"{file_name(path)}: {text}"
        for path in [*SOURCES, *OTHERS]
        for text in _dotted_names(path)
        if (match := re.match(r"(ingest|annotators|app)\.(\w+)", text))
        and any((ROOT / match[1] / f"{match[2]}{suffix}").exists() for suffix in ("", ".py"))
    }
    assert {name for name in named if not name.startswith("ares/imports.py: ")} == set()  # names of 0.1


def _dotted_names(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    yield from (f"{module}.{name}" for module, name in imported_names(tree))
    yield from (str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant))


def test_floors_of_ares_import_downwards() -> None:
    """Lazy imports and those for the type checker count, and so do doors."""
    not_below = [
        f"{name} -> {needed}"
        for name, path in MODULES.items()
        if name.startswith("ares.")
        for needed in needed_modules(path)
        if needed.startswith("ares.") and room_of(needed) != room_of(name) and _floor(needed) >= _floor(name)
    ]
    assert not not_below


def test_the_page_shows_these_floors() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    block = page.partition("```text\n")[2].partition("```")[0]
    assert [set(line.split()) for line in block.splitlines()] == list(FLOORS)


def test_files_import_in_no_circle() -> None:
    """Doors, lazy imports and those for the type checker count."""
    assert not describe_circles(file_graph())


def test_rooms_import_in_no_circle() -> None:
    """Of all four packages; a file directly under a package is a separate room."""
    assert not describe_circles(room_graph())


def test_a_room_is_entered_by_its_door() -> None:
    """From outside `from ares.search import Query`, inside `from ares.search.query import Query`."""
    past_the_door = [
        f"{file_name(path)}: {module} {name}"
        for path in OUTSIDE
        for module, name in imports_of(path)
        if room_of(module) in ROOMS and not _enters_rightly(module_name(path), module, name)
    ]
    assert not past_the_door


def test_what_is_imported_from_a_door_is_listed_there() -> None:
    """A door finds its names when they are used, so a type checker takes any name for one of them."""
    missing = [
        f"{file_name(path)}: {module} {name}"
        for path in [*OUTSIDE, *sorted((ROOT / "tests").rglob("*.py"))]
        for module, name in imports_of(path)
        if module in ROOMS and name and name not in exports(module) and f"{module}.{name}" not in MODULES
    ]
    assert not missing


def _enters_rightly(importer: str, module: str, name: str) -> bool:
    """Whether an import of a room passes its door from outside, and none from inside."""
    room = room_of(module)
    if importer == room or _is_program(module):
        return True
    if room_of(importer) == room:
        return module not in FOLDERS or f"{module}.{name}" in MODULES
    return module == room and f"{module}.{name}" not in MODULES


def _is_program(module: str) -> bool:
    """Whether a module is started by its name: the command line, or a page of the dashboard."""
    return module == "ares_app.cli.main" or "{" in module


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_door_lists_what_its_room_exports(room: str) -> None:
    """Once, under `if TYPE_CHECKING:`; `__all__` is made of that."""
    names = {name: module for name, module in exports(room).items() if module.startswith(f"{room}.")}
    door = import_module(room)
    assert all(getattr(door, name) is not None for name in names)
    assert not names or sorted(names) == sorted(door.__all__)
    assert not [name for name in names if f"{room}.{name}" in MODULES], "a module has the name of an export"


@pytest.mark.parametrize("folder", sorted(FOLDERS - ROOMS))
def test_a_deeper_folder_has_no_door(folder: str) -> None:
    """Its `__init__.py` is a docstring of one line."""
    assert len(MODULES[folder].read_text().splitlines()) == 1


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
        "import ares_app.cli",
        "def f():\n    from ares_app.demo import x",
        "import_module('ares_app.cli.main')",
        "importlib.import_module(f'ares_app.cli.{name}')",
    ],
)
def test_the_reader_of_imports_sees_every_form(source: str) -> None:
    assert "ares_app" in {module.split(".")[0] for module, _ in imported_names(ast.parse(source))}


def test_circles_are_found_with_all_their_members() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"f"}, "f": {"e"}, "g": set[str]()}
    assert describe_circles(graph) == ["3: a b c", "2: e f"]


def test_an_operation_says_where_it_is_defined() -> None:
    """`ares` reaches the packages above it by name only: the docstring is what leads a reader on."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    targets = {name: value.replace(":", ".") for name, value in groups["ares.operations"].items()}
    said = " ".join(str(function.__doc__) for function in vars(operations).values() if callable(function))
    assert [name for name in targets if name != "command" and f"`{targets[name]}`" not in said] == []
