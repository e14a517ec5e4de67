"""LeRobot metadata of any content gives episodes, warnings and errors of ARES, never another exception."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from ares.errors import AresError
from ingest.base import SourceOptions
from ingest.lerobot import lerobot

CAMERA = "observation.images.front"


def write_rows(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    steps = np.arange(3)
    state = pa.array([[1.0, 2.0]] * 3)
    table = {"observation.state": state, "episode_index": np.full(3, number), "task_index": steps * 0}
    pq.write_table(pa.table({**table, "timestamp": steps / 10}), path)


def read(folder: Path) -> None:
    try:
        for source in lerobot.open(str(folder), SourceOptions()):
            for item in source.items:
                try:
                    item.load()
                except AresError as error:
                    assert error.reason
    except AresError as error:
        assert error.reason


numbers = st.none() | st.integers(-(2**62), 2**62) | st.floats()
SPAN = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")
columns = (
    "episode_index",
    "length",
    "data/chunk_index",
    "data/file_index",
    *(f"videos/{CAMERA}/{name}" for name in SPAN),
)


@settings(max_examples=50, deadline=None)
@given(row=st.dictionaries(st.sampled_from(columns), numbers, min_size=1))
def test_metadata_in_parquet(
    demo_samples: Path, tmp_path_factory: pytest.TempPathFactory, row: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("fuzz") / "made"
    write_rows(folder / "data" / "chunk-000" / "file-000.parquet", 0)
    video = folder / "videos" / CAMERA / "chunk-000" / "file-000.mp4"
    video.parent.mkdir(parents=True)
    video.symlink_to(demo_samples / "video" / "videos" / "basketball_000_front.mp4")
    (folder / "meta" / "episodes").mkdir(parents=True)
    document = {"codebase_version": "v3.0", "fps": 20, "features": {CAMERA: {"dtype": "video"}}}
    (folder / "meta" / "info.json").write_text(json.dumps(document))
    usual = {**dict.fromkeys(columns, 0), f"videos/{CAMERA}/to_timestamp": 0.15, "length": 3}
    table = pa.table({name: [value] for name, value in {**usual, **row}.items()})
    pq.write_table(table, folder / "meta" / "episodes" / "file-000.parquet")
    read(folder)


def test_half_a_surrogate_pair_is_no_text(tmp_path: Path) -> None:
    """No store accepts it: it is reported as a broken line and does not fail the write of the batch."""
    write_rows(tmp_path / "data" / "chunk-000" / "episode_000000.parquet", 0)
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "info.json").write_text(json.dumps({"codebase_version": "v2.1", "fps": 10}))
    (tmp_path / "meta" / "episodes.jsonl").write_text('{"episode_index": 0, "tasks": ["\\ud800"]}')
    (source,) = lerobot.open(str(tmp_path), SourceOptions())
    with pytest.raises(AresError, match="not JSON"):
        next(source.items).load()
