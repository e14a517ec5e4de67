"""The ways to bend a good LeRobot folder: helpers that edit it, and the list that the bends enter."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

Outcome = Literal["mended", "told", "refused"]
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"


class NotBendable(Exception):
    """The folder has nothing that this bend concerns."""


@dataclass(frozen=True)
class Bend:
    """A way to bend a folder.

    Attributes:
        name: What is bent, in words.
        outcome: "mended": every value is read as before; "told": something is missing and named; "refused": records
            fail.
        apply: Bends a folder. Raises NotBendable.
    """

    name: str
    outcome: Outcome
    apply: Callable[[Path, random.Random], None]


BENDS: list[Bend] = []


def bend(
    name: str, outcome: Outcome
) -> Callable[[Callable[[Path, random.Random], None]], Callable[[Path, random.Random], None]]:
    """Enter a function that bends a folder in the list."""

    def enter(apply: Callable[[Path, random.Random], None]) -> Callable[[Path, random.Random], None]:
        BENDS.append(Bend(name, outcome, apply))
        return apply

    return enter


def read_info(folder: Path) -> dict[str, Any]:
    try:
        document = json.loads((folder / "meta" / "info.json").read_text())
    except (OSError, ValueError):
        raise NotBendable from None
    if not isinstance(document, dict):  # an earlier bend made it something else
        raise NotBendable
    return document


def edit_info(folder: Path, **changes: Any) -> None:
    document = {**read_info(folder), **changes}
    document = {name: value for name, value in document.items() if value is not None}
    (folder / "meta" / "info.json").write_text(json.dumps(document))


def files_of(folder: Path, suffix: str) -> list[Path]:
    """Data files or videos outside meta that hold something. Raises NotBendable where there is none."""
    paths = sorted(path for path in folder.rglob(f"*{suffix}") if "meta" not in path.parts[-4:])
    paths = [path for path in paths if path.stat().st_size > 500]
    if not paths:
        raise NotBendable
    return paths


def list_tables(folder: Path) -> list[Path]:
    paths = sorted((folder / "meta" / "episodes").rglob("*.parquet"))
    if not paths:
        raise NotBendable
    return paths


def edit_list(folder: Path, edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Edit the entries of the first file that lists episodes. Raises NotBendable where it cannot be read."""
    lines = folder / "meta" / "episodes.jsonl"
    try:
        if lines.is_file():
            rows = [json.loads(line) for line in lines.read_text().splitlines()]
            lines.write_text("".join(json.dumps(row) + "\n" for row in edit(rows)))
            return
        path = list_tables(folder)[0]
        table = pq.ParquetFile(path).read()
        if len(set(table.column_names)) < len(table.column_names):
            raise NotBendable
        pq.write_table(pa.Table.from_pylist(edit(table.to_pylist()), schema=table.schema), path)
    except (OSError, ValueError, pa.ArrowException, IndexError):
        raise NotBendable from None


def require(condition: object) -> None:
    if not condition:
        raise NotBendable


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    try:
        table = pq.ParquetFile(path).read()
        pq.write_table(change(table), path)
    except (pa.ArrowException, OSError, KeyError):
        raise NotBendable from None


def move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)


def is_own_layout(folder: Path) -> bool:
    return "episode_index" in str(read_info(folder).get("data_path"))
