"""A LeRobot folder is read by its tables and videos where its metadata is missing or lies."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.lerobot import lerobot
from ingest.lerobot.rows import count_numbers_per_row


def test_a_folder_without_metadata_is_read_by_its_tables_and_videos(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(tmp_path / "made")
    good = [item.load() for item in folders.opened(folder).items]
    shutil.rmtree(folder / "meta")
    for record, expected in zip(folders.opened(folder).items, good, strict=True):
        read = record.load()
        assert read.episode.content_hash == expected.episode.content_hash
        assert [camera.media.uri for camera in read.episode.cameras] == [
            camera.media.uri for camera in expected.episode.cameras
        ]


def test_files_are_not_said_to_contradict_metadata_that_is_not_there(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(tmp_path / "made")
    for number, path in enumerate(sorted((folder / "data" / "chunk-000").iterdir())):
        path.rename(folder / "data" / f"part_{number}.parquet")
    contradiction = "the metadata names another data file"
    assert any(contradiction in warning for warning in folders.first(folder).warnings)
    shutil.rmtree(folder / "meta")
    for item in folders.opened(folder).items:
        record = item.load()
        assert record.trajectory.state is not None
        assert not any(contradiction in warning for warning in record.warnings)


def test_tables_that_number_no_episodes_are_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"timestamp": [0.0, 0.1]}), tmp_path / "data" / "rows.parquet")
    assert not lerobot.recognises(str(tmp_path))
    (tmp_path / "data" / "rows.parquet").write_bytes(b"PAR1 cut")
    assert not lerobot.recognises(str(tmp_path))


@pytest.mark.parametrize("shape", [[10**12], [-914, -(10**18)], [0], [10**30, 2]])
def test_a_shape_that_info_claims_takes_no_memory(shape: list[int]) -> None:
    width = count_numbers_per_row(pa.list_(pa.float32()), {"shape": shape})
    assert 1 <= width <= 65_536
    assert count_numbers_per_row(pa.list_(pa.float32(), 7), {"shape": shape}) == 7
