"""Files are accounted for by the different locations in the list of episodes, not by every entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.lerobot.episode_list import survey_episode_list
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


def _locations(folder: Path, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        dict(place)
        for place in survey_episode_list(read_info(_dataset(folder, entries)), [CAMERA], 10).locations
    ]


def test_entries_of_the_same_files_are_one(tmp_path: Path) -> None:
    entries = [_entry(index, index // 4, index // 3) for index in range(12)]
    locations = _locations(tmp_path / "d", entries)
    names = [name for name in entries[0] if name.endswith("_index") and name != "episode_index"]
    assert {tuple(place[name] for name in names) for place in locations} == {
        tuple(entry[name] for name in names) for entry in entries
    }
    assert (len(locations), set(locations[0])) == (6, set(names))


@pytest.mark.parametrize("index", [3.0, None, -1.0, 2.5, float("nan")])
def test_a_repeated_or_unnumbered_entry_names_no_file(tmp_path: Path, index: float | None) -> None:
    entries = [*(_entry(float(number), 0, 0) for number in range(5)), _entry(index, 1, 1)]
    assert [place["data/file_index"] for place in _locations(tmp_path / "d", entries)] == [0]


def test_an_entry_without_a_video_names_only_its_data(tmp_path: Path) -> None:
    entry = _entry(1.0, 1, 0) | {f"videos/{CAMERA}/file_index": None}
    locations = _locations(tmp_path / "d", [_entry(0.0, 0, 0), entry])
    assert {place.get(f"videos/{CAMERA}/file_index") for place in locations} == {0, None}


@pytest.mark.parametrize("files", [[0, 1, 0, 1, 2, 0], list(range(1_200))])
def test_files_that_alternate_or_are_many_are_each_listed_once(tmp_path: Path, files: list[int]) -> None:
    locations = _locations(
        tmp_path / "d", [_entry(float(number), file, 0) for number, file in enumerate(files)]
    )
    assert sorted(place["data/file_index"] for place in locations) == sorted(set(files))
