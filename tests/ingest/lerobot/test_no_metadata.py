"""A LeRobot folder without `meta` is read by its tables and videos."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.lerobot.source import recognises


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


def test_tables_that_number_no_episodes_are_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"timestamp": [0.0, 0.1]}), tmp_path / "data" / "rows.parquet")
    assert not recognises(str(tmp_path))
    (tmp_path / "data" / "rows.parquet").write_bytes(b"PAR1 cut")
    assert not recognises(str(tmp_path))
