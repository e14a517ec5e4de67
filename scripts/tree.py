#!/usr/bin/env python3
"""Prints every file of the four packages with its sentence, one a line: `scripts/tree.py [FOLDER ...]`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("ares", "ingest", "annotators", "app")


def main() -> None:
    """Print the files of the folders that are named, or of all packages."""
    for folder in sys.argv[1:] or PACKAGES:
        for path in _files_below(ROOT / folder):
            print(f"{_shown_path(path):<44} {_opening_sentence(path)}".rstrip())


def _files_below(folder: Path) -> Iterator[Path]:
    """The door of a folder, its other files, then its folders."""
    yield from sorted(folder.glob("*.py"), key=lambda path: (path.name != "__init__.py", path.name))
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        yield from _files_below(inner)


def _shown_path(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return f"{relative.parent}/" if relative.name == "__init__.py" else str(relative)


def _opening_sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split())


if __name__ == "__main__":
    main()
