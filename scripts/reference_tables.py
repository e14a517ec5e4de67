"""Writes what the manual takes from elsewhere: codes of checks, columns that code declares, and the list of pages.

.venv/bin/python -m scripts.reference_tables --write
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from ares.checks import CODES
from tests.generators.strengths import STRENGTHS

ROOT = Path(__file__).resolve().parent.parent
# What fills a column that a folder of another name declares.
_OWNERS = {
    "annotators": "map",
    "curation": "duplicates",
    "log": "grade",
    "rubric": "caption, grade",
    "sync": "all",
}


# The pages of the reference, by what a reader is about to do; recipes and reasons are folders.
REFERENCE = {
    "Data": ("ingest", "formats", "specs", "check", "codes", "contract"),
    "Annotation": ("annotate", "models", "segments", "attributes", "grade", "review"),
    "Selection": ("search", "columns", "sets", "merge", "rebuild", "remove-and-undo"),
    "Training": ("export", "trim", "train"),
    "Interfaces": ("commands", "python", "notebook", "dashboard", "people", "api"),
    "Plug-ins": ("plug-ins", "write-an-annotator", "architecture"),
    "Running": ("install", "settings", "operations", "when-something-is-wrong", "glossary"),
}


def pages() -> dict[Path, str]:
    """The text of each page, with its last section as the code has it."""
    tables = {"README.md": page_lines, "codes.md": code_lines, "columns.md": column_lines}
    return {ROOT / "docs" / name: _written(ROOT / "docs" / name, lines()) for name, lines in tables.items()}


def _written(page: Path, lines: Iterator[str]) -> str:
    title, *rows = lines
    return page.read_text(encoding="utf-8").partition(title)[0] + "\n".join([title, *rows, ""])


def page_lines() -> Iterator[str]:
    """A link to every page but the reasons, by its title."""
    recipes = (f"recipes/{page.stem}" for page in sorted((ROOT / "docs" / "recipes").glob("*.md")))
    parts: dict[str, Iterable[str]] = {"Tutorial": ("tutorial",), "Recipes": recipes, **REFERENCE}
    yield "## Which pages are there?"
    for part, names in parts.items():
        yield f"\n**{part}**\n"
        for name in names:
            title = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0]
            yield f"- [{title.removeprefix('# ')}]({name}.md)"


def code_lines() -> Iterator[str]:
    """The codes of checks, as Markdown."""
    yield "## Which codes are there?"
    yield "\n| code | severity | what it finds | made to find | what to do |\n|---|---|---|---|---|"
    for name, code in sorted(CODES.items()):
        severity = "**fault**" if code.severity == "fault" else "info"
        yield f"| {name} {code.name} | {severity} | {code.meaning} | {STRENGTHS[name]} | {code.remedy} |"


def column_lines() -> Iterator[str]:
    """The columns that annotators and answers of people fill, as Markdown."""
    yield "## Which columns do annotators and people fill?"
    yield "\n| column | of | type | meaning |\n|---|---|---|---|"
    paths = sorted(path for package in ("annotators", "ares") for path in (ROOT / package).rglob("*.py"))
    yield from dict.fromkeys(row for path in paths for row in _columns_of(path))


def _columns_of(path: Path) -> Iterator[str]:
    """A row for each column of which a file states name, type and meaning."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    owner = _OWNERS.get(path.parent.name, path.parent.name)
    texts = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Column":
            nodes = {key.arg: texts.get(getattr(key.value, "id", ""), key.value) for key in call.keywords}
            stated = {name: str(node.value) for name, node in nodes.items() if isinstance(node, ast.Constant)}
            if {"name", "type", "meaning"} <= stated.keys():
                unit = f", {stated['unit']}" if stated.get("unit") else ""
                yield f"| `{stated['name']}` | {owner} | `{stated['type']}`{unit} | {stated['meaning']} |"


def main() -> int:
    """Write the pages with --write; else return 1 where one is not as it would be written."""
    if "--write" in sys.argv:
        for path, text in pages().items():
            path.write_text(text, encoding="utf-8")
    return int(any(path.read_text(encoding="utf-8") != text for path, text in pages().items()))


if __name__ == "__main__":
    sys.exit(main())
