"""A file that the disk has cut is never part of a table: Lance commits it, and the commit is undone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from ares.store.lance.table import TableWriter
from ares.store.lance_tables import compact

_VALUES = np.random.default_rng(0).normal(size=(60, 300)).tolist()
_ROWS = pa.table({"id": [f"e{n:02d}" for n in range(60)], "v": pa.array(_VALUES, pa.list_(pa.float32()))})
_CHANGED = _ROWS.slice(0, 10).set_column(1, "v", _ROWS["v"].slice(20, 10))
_ACTIONS: dict[str, Callable[[TableWriter], object]] = {
    "add": lambda table: table.add(_ROWS.slice(50)),
    "update": lambda table: table.update("id", _CHANGED),
    "upsert": lambda table: table.upsert("id", pa.concat_tables([_CHANGED, _ROWS.slice(50)])),
    "delete": lambda table: table.delete("id LIKE '%5'"),
    "compact": lambda table: compact(table.newest()),
}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableWriter:
    path = str(tmp_path / "episodes.lance")
    for start in range(0, 50, 10):
        lance.write_dataset(_ROWS.slice(start, 10), path, mode="append" if start else "create")
    monkeypatch.setattr("ares.store.lance_tables._MAX_SMALL_FRAGMENTS", 2)
    return TableWriter("episodes", lambda: lance.dataset(path))


@pytest.mark.parametrize("action", _ACTIONS)
def test_a_cut_file_is_undone_and_the_next_write_succeeds(
    table: TableWriter, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _content(table)
    folder = Path(table.newest().uri)
    with monkeypatch.context() as patch:
        _cut_new_files(patch, folder)
        with pytest.raises(OSError, match=r"the disk failed while .* it is cut"):
            _ACTIONS[action](table)
    assert _content(table).equals(before)
    _ACTIONS[action](table)
    assert _content(table).equals(before) == (action == "compact")


def _content(table: TableWriter) -> pa.Table:
    return table.newest().to_table().sort_by("id")


def _cut_new_files(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the first look at the newest version come after half of each new file was lost."""
    known = set(folder.rglob("*"))
    checkout: Any = lance.LanceDataset.checkout_version

    def cut_and_check_out(self: lance.LanceDataset, version: int) -> lance.LanceDataset:
        for path in set(folder.rglob("*")) - known:
            known.add(path)
            if path.is_file() and path.parent.name in ("data", "_deletions"):
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        dataset: lance.LanceDataset = checkout(self, version)
        return dataset

    patch.setattr(lance.LanceDataset, "checkout_version", cut_and_check_out)
