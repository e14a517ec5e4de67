#!/usr/bin/env python3
"""Prints the tree of the four packages, one sentence per module; `--write` puts it into docs/architecture.md."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
START, STOP = "<!-- tree: scripts/tree.py --write -->", "<!-- /tree -->"


def main() -> None:
    """Print the tree, or replace it in the page."""
    block = "\n".join([START, "```", *_lines(), "```", STOP])
    if sys.argv[1:] == ["--write"]:
        page = ROOT / "docs" / "architecture.md"
        before, _, rest = page.read_text().partition(START)
        page.write_text(before + block + rest.partition(STOP)[2])
    else:
        print(block)


def _lines() -> Iterator[str]:
    for package in ("ares", "ingest", "annotators", "app"):
        yield from _folder(ROOT / package, 0)


def _folder(folder: Path, depth: int) -> Iterator[str]:
    opening = folder / "__init__.py"
    yield _line(f"{'  ' * depth}{folder.name}/", _sentence(opening) if opening.exists() else "")
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            yield _line(f"{'  ' * (depth + 1)}{path.name}", _sentence(path))
    for inner in sorted(path for path in folder.iterdir() if path.is_dir() and any(path.rglob("*.py"))):
        yield from _folder(inner, depth + 1)


def _line(name: str, sentence: str) -> str:
    return f"{name:<28}{sentence}".rstrip()


def _sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(docstring.split("\n\n")[0].split())


if __name__ == "__main__":
    main()
