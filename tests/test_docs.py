"""The manual cannot fall behind: commands, options, plug-ins and variables are in it, and what it shows works."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from pkgutil import resolve_name

import pytest

from ares.registry import (
    Registry,
    annotators,
    encoders,
    exporters,
    ingesters,
    operations,
    projections,
    rankers,
    text_encoders,
)
from ares_app.cli.main import COMMANDS, build_parser
from scripts import reference_tables
from tests.conftest import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
# The changelog names what was; every other page what is.
CURRENT_PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]
MANUAL = "\n".join(path.read_text() for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))))
REGISTRIES = (ingesters, annotators, exporters, encoders, projections, rankers)
GROUPS = {f"ares.{group.kind}s" for group in (*REGISTRIES, text_encoders, operations)}
PLUGINS = [(registry.kind, name) for registry in REGISTRIES for name in registry.names()]

_FOLDER, _PACKAGE = "(?:ares|ingest|annotators|app)", "ares(?:_ingest|_annotators|_app)?"
# A key of the metadata that a LeRobot export writes.
NO_PATHS = {"ares/rate_source", "ares/content_hash", "ares/rows_hash", "ares/attr_lighting"}


def _blocks(language: str) -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.M | re.S):
            yield str(page.relative_to(ROOT)), block


def _shown_commands() -> Iterator[tuple[str, list[str]]]:
    for page, block in _blocks("sh"):
        for line in block.replace("\\\n", " ").splitlines():
            parts = shlex.split(line, comments=True)
            arguments = list(takewhile(lambda part: part not in {"|", ">"}, parts))
            while arguments and re.fullmatch(r"[A-Z_]+=.*", arguments[0]):
                arguments.pop(0)
            if arguments and Path(arguments[0]).name == "ares":
                yield page, arguments[1:]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_in_the_manual(command: str) -> None:
    assert re.search(rf"\bares {command}\b", MANUAL)


@pytest.mark.parametrize(("kind", "name"), PLUGINS)
def test_a_plugin_is_in_the_manual(kind: str, name: str) -> None:
    assert f"`{name}`" in MANUAL, f"{kind} {name} is nowhere in README.md or docs/"


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: str(registry.kind))
def test_contributing_names_every_door_for_plugins(registry: Registry) -> None:
    assert f'"ares.{registry.kind}s"' in (ROOT / "CONTRIBUTING.md").read_text()


def test_every_variable_is_in_the_manual() -> None:
    variables = set(re.findall(r'"((?:ARES|OPENAI)_[A-Z_]+)"', (ROOT / "ares" / "settings.py").read_text()))
    settings = (ROOT / "docs" / "settings.md").read_text()
    assert variables
    assert not {name for name in variables if f"`{name}`" not in settings}


@pytest.mark.parametrize(
    ("page", "arguments"),
    [*_shown_commands()],
    ids=lambda part: part if isinstance(part, str) else "_".join(part),
)
def test_a_command_that_is_shown_is_accepted(page: str, arguments: list[str]) -> None:
    command = next((argument for argument in arguments if not argument.startswith("-")), "")
    build_parser(command).parse_args(arguments)


def test_python_and_json_that_are_shown_can_be_read() -> None:
    """In CONTRIBUTING.md and on the page about annotators the blocks are parts of one file."""
    parts = ("CONTRIBUTING.md", "docs/write-an-annotator.md")
    shown = [block for page, block in _blocks("python") if page not in parts]
    assert shown and all(ast.parse(block) for block in shown)
    assert all(json.loads(block) for _, block in _blocks("json"))


def test_the_tables_of_codes_and_columns_are_those_of_the_code() -> None:
    written = {path: path.read_text(encoding="utf-8") for path in reference_tables.pages()}
    assert written == reference_tables.pages(), "run `.venv/bin/python -m scripts.reference_tables --write`"


def test_the_annotators_that_are_shown_are_those_of_the_guest() -> None:
    guest = ROOT / "tests" / "guests" / "segments"
    sources = [path.read_text() for path in (*guest.rglob("*.py"), guest / "pyproject.toml")]
    shown = [
        block
        for language in ("python", "toml")
        for page, block in _blocks(language)
        if page == "docs/write-an-annotator.md"
    ]
    assert len(shown) == 6
    assert not [block for block in shown if not any(block in source for source in sources)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_sections_that_they_name_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text())
    assert not [target for target, _ in links if not (page.parent / target).exists()]
    assert not [(target, name) for target, name in links if name and name not in _anchors(page, target)]


def _anchors(page: Path, target: str) -> set[str]:
    """The names of the sections of a page, as they stand in addresses."""
    titles = re.findall(r"^#+ (.*)$", ((page.parent / target) if target else page).read_text(), flags=re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: str(path.name))
def test_a_page_of_the_manual_is_short(page: Path) -> None:
    assert page.read_text().count("\n") <= 200


@pytest.mark.parametrize("page", CURRENT_PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_path_in_the_code_that_is_named_exists(page: Path) -> None:
    named = re.findall(rf"(?<![\w./~-]){_FOLDER}/[\w./-]*\w", page.read_text())
    assert not {path for path in named if not (ROOT / path).exists()} - NO_PATHS


@pytest.mark.parametrize("page", CURRENT_PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_name_in_the_code_that_is_named_exists(page: Path) -> None:
    """Modules and what they hold, such as `ares.search.Query`; files such as ares.toml and groups of plug-ins pass."""
    named = re.findall(rf"(?<![\w./-]){_PACKAGE}(?:\.[A-Za-z_]\w*)+", page.read_text())
    names = {name for name in named if not name.endswith((".md", ".toml", ".py")) and name not in GROUPS}
    assert not {name for name in names if not _names_something(name)}


def _names_something(dotted: str) -> bool:
    try:
        resolve_name(dotted)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("target", ["demo", "test", "check", "bench", "app", "lock", "clean"])
def test_a_make_target_is_in_the_manual(target: str) -> None:
    assert f"make {target}" in MANUAL + (ROOT / "CONTRIBUTING.md").read_text()
