"""A temporary database sorts and joins streams, passes on their errors, and leaves no files behind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ares.errors import RequestError
from ares.store import TempDatabase
from ares.store.lance.row_index import EpisodeIdArray

_SCHEMA = pa.schema([("id", pa.string())])


def _batches(rows: int, size: int = 50_000) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, size):
        numbers = range(start, min(start + size, rows))
        yield pa.record_batch(
            [pa.array([f"{7919 * number % rows:012d}" * 4 for number in numbers])], schema=_SCHEMA
        )


def test_streams_are_sorted_and_joined_while_others_are_asked() -> None:
    with TempDatabase() as database:
        database.insert("few", _SCHEMA, _batches(10))
        database.insert("few", _SCHEMA, _batches(20), "id NOT IN (SELECT id FROM few)")
        assert database.create_table_as("sorted", "SELECT id FROM few") == 20
        batches = database.stream("SELECT id FROM sorted ORDER BY id", 5)
        first = next(batches)
        assert database.query("SELECT count(*) AS n FROM few")["n"].to_pylist() == [20]
        ids = first["id"].to_pylist() + [row_id for batch in batches for row_id in batch["id"].to_pylist()]
        assert ids == sorted(ids) and len(set(ids)) == 20
        database.drop_tables("few", "never created")
        assert database.has_table("sorted") and not database.has_table("few")


@pytest.mark.slow
def test_more_than_fits_goes_to_disk_and_is_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("ares.store.temp_db._MEMORY", "40MB")
    rows = 600_000
    with TempDatabase() as database:
        database.insert("ids", _SCHEMA, _batches(rows))
        before, seen, spilled = "", 0, 0
        for batch in database.stream("SELECT DISTINCT id FROM ids ORDER BY id"):
            ids = batch["id"].to_pylist()
            assert before < ids[0] and ids == sorted(ids)
            before, seen = ids[-1], seen + len(ids)
            spilled = max(spilled, sum(path.stat().st_size for path in tmp_path.rglob("*.tmp")))
    assert seen == rows and spilled > 2**20
    assert list(tmp_path.iterdir()) == []


def test_what_a_stream_raises_is_raised_as_it_is() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from _batches(3)
        raise RequestError("the list of ids cannot be read", "ids.txt")

    with (
        TempDatabase() as database,
        pytest.raises(RequestError, match=r"the list of ids cannot be read: ids\.txt"),
    ):
        database.insert("ids", _SCHEMA, broken())


def test_ids_are_held_as_arrow_and_are_a_collection() -> None:
    ids = EpisodeIdArray(pa.chunked_array([["a", "b"], ["c"]]))
    assert (len(ids), list(ids)) == (3, ["a", "b", "c"])
    assert "c" in ids and "d" not in ids
    assert pa.array(ids, pa.string()).to_pylist() == ["a", "b", "c"]
