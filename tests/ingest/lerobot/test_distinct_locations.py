"""Files are accounted for by the different locations in the list of episodes, not by every entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.lerobot.episode_list import drop_repeated_locations, read_episode_list
from ingest.lerobot.metadata import read_info

CAMERA = "observation.images.top"


def _dataset(folder: Path, entries: list[dict[str, Any]]) -> Path:
    path = folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    path.parent.mkdir(parents=True)
    (folder / "meta" / "info.json").write_text('{"codebase_version": "v3.0", "fps": 10, "features": {}}')
    pq.write_table(pa.Table.from_pylist(entries), path)
    return folder


def _entry(index: float | None, file: int, video: int) -> dict[str, Any]:
    return {
        "episode_index": index,
        "length": 5,
        "data/chunk_index": 0,
        "data/file_index": file,
        f"videos/{CAMERA}/chunk_index": 0,
        f"videos/{CAMERA}/file_index": video,
        f"videos/{CAMERA}/from_timestamp": 0.5 * (index or 0),
    }


def test_entries_of_the_same_files_are_one(tmp_path: Path) -> None:
    info = read_info(_dataset(tmp_path / "d", [_entry(index, index // 4, index // 3) for index in range(12)]))
    rows = drop_repeated_locations(info, [CAMERA])
    assert rows is not None
    names = list(rows[0])
    listed = [row for _, row in read_episode_list(info) if isinstance(row, dict)]
    assert {tuple(row[name] for name in names) for row in rows} == {
        tuple(row[name] for name in names) for row in listed
    }
    assert (len(listed), len(rows)) == (12, 6) and "length" not in names


@pytest.mark.parametrize("index", [3.0, None, -1.0, 2.5, float("nan")])
def test_a_repeated_or_unnumbered_entry_is_read_one_by_one(tmp_path: Path, index: float | None) -> None:
    entries = [*(_entry(float(number), 0, 0) for number in range(5)), _entry(index, 1, 1)]
    assert drop_repeated_locations(read_info(_dataset(tmp_path / "d", entries)), [CAMERA]) is None


def test_a_damaged_list_is_read_one_by_one(tmp_path: Path) -> None:
    folder = _dataset(tmp_path / "d", [_entry(0.0, 0, 0)])
    (folder / "meta" / "episodes" / "chunk-000" / "file-001.parquet").write_bytes(b"PAR1 cut")
    assert drop_repeated_locations(read_info(folder), [CAMERA]) is None


@pytest.mark.parametrize("files", [[0, 1, 0, 1, 2, 0], list(range(1_200))])
def test_files_that_alternate_or_are_many_are_each_listed_once(tmp_path: Path, files: list[int]) -> None:
    entries = [_entry(float(number), file, 0) for number, file in enumerate(files)]
    rows = drop_repeated_locations(read_info(_dataset(tmp_path / "d", entries)), [CAMERA])
    assert rows is not None
    assert sorted(row["data/file_index"] for row in rows) == sorted(set(files))
