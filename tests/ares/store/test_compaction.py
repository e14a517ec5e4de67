"""Tables that are written in many small pieces stay few files, and a reader of an old version is not disturbed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ares.episode import Record
from ares.store import lance_tables as compaction
from ares.store.lance_tables import Tables

Make = Callable[..., Record]
_NUM_EPISODES = 14


def _files(tables: Tables, name: str) -> list[Path]:
    return [path for path in Path(tables.uri, f"{name}.lance", "data").rglob("*") if path.is_file()]


def test_many_small_writes_stay_few_fragments_and_few_versions(
    tables: Tables, make_record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "KEEP_VERSIONS", timedelta(0))
    for number in range(_NUM_EPISODES):
        tables.episodes.add([make_record(number)])
        tables.optimize()
        for name in ("episodes", "trajectories"):
            dataset = tables.connection.open_dataset(name)
            assert dataset is not None
            assert len(dataset.get_fragments()) <= 9
            assert len(dataset.versions()) <= 2
            assert len(_files(tables, name)) <= 9
    assert tables.episodes.count() == tables.trajectories.count() == _NUM_EPISODES
    # Words are found whether their rows are indexed by now or not.
    for number in range(_NUM_EPISODES):
        matches = tables.episodes.search_instruction(f"drawer {number}", 1)
        assert tables.episodes.get([matches[0][0]])[0].instruction == f"open drawer {number}"


def test_small_rows_are_merged_into_large_fragments(tmp_path: Path) -> None:
    """A full fragment has 64 MB, not a number of rows."""
    import lance

    for number in range(12):
        rows = pa.table({"number": np.arange(300) + 300 * number})
        dataset = lance.write_dataset(rows, tmp_path / "rows.lance", mode="append" if number else "create")
    compaction.compact(dataset)
    assert [fragment.count_rows() for fragment in dataset.get_fragments()] == [12 * 300]


def test_a_reader_of_an_old_version_can_finish(
    tables: Tables, make_record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version is old, but was the newest until a moment ago; it goes once a newer one is old too."""
    for number in range(12):
        tables.episodes.add([make_record(number)])
    written = datetime.now()

    def age(version: Any, now: datetime) -> timedelta:
        """What was written until here is two hours old."""
        return timedelta(hours=2 if version["timestamp"].replace(tzinfo=None) <= written else 0)

    monkeypatch.setattr(compaction, "_version_age", age)
    batches, old = tables.episodes.scan(["episode_id"]), tables.connection.open_dataset("trajectories")
    assert old is not None
    tables.optimize()
    assert len(tables.connection.open_dataset("trajectories").get_fragments()) == 1  # type: ignore[union-attr]
    assert sum(batch.num_rows for batch in batches) == 12
    assert old.to_table().num_rows == 12

    monkeypatch.setattr(compaction, "_version_age", lambda version, now: timedelta(hours=2))
    tables.optimize()
    assert len(tables.connection.open_dataset("trajectories").versions()) == 1  # type: ignore[union-attr]


def test_a_full_fragment_is_never_written_again(
    tables: Tables, make_record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every small job on a large workspace would copy all signals."""
    monkeypatch.setattr(compaction, "_FRAGMENT_ROWS_RANGE", (20, 20))
    tables.episodes.add([make_record(number) for number in range(20)])
    (full,) = _files(tables, "trajectories")
    for number in range(20, 32):
        tables.episodes.add([make_record(number)])
        tables.optimize()
    dataset = tables.connection.open_dataset("trajectories")
    assert dataset is not None
    assert Path(dataset.get_fragments()[0].data_files()[0].path).name == full.name
    assert tables.trajectories.count() == 32


def test_deleted_rows_go_when_they_are_many(tables: Tables, make_record: Make) -> None:
    tables.episodes.add([make_record(number) for number in range(20)])
    ids = sorted(tables.episodes.ids())
    tables.trajectories.delete_unknown(set(ids[:10]).intersection)
    tables.optimize()
    (fragment,) = tables.connection.open_dataset("trajectories").get_fragments()  # type: ignore[union-attr]
    assert (fragment.physical_rows, fragment.num_deletions) == (10, 0)
