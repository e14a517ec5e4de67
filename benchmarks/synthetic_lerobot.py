"""Writes synthetic LeRobot datasets of any number of episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_EPISODES_PER_FILE = 1_000
_STEPS = 30
_FPS = 10
_WIDTH = 7
_TASKS = ("open the drawer", "close the drawer", "push the mug", "pick up the block")


def write_lerobot_dataset(dest: Path, episodes: int) -> Path:
    """Write a LeRobot v3.0 dataset without videos: 30 steps per episode, a row group each, as LeRobot writes them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    (dest / "meta").mkdir(parents=True)
    (dest / "meta" / "info.json").write_text(json.dumps(_lerobot_info(episodes)))
    tasks = {"task_index": list(range(len(_TASKS))), "task": list(_TASKS)}
    pq.write_table(pa.table(tasks), dest / "meta" / "tasks.parquet")
    rng = np.random.default_rng(0)
    for file, first in enumerate(range(0, episodes, _EPISODES_PER_FILE)):
        numbers = np.arange(first, min(first + _EPISODES_PER_FILE, episodes))
        data_path, episodes_path = (
            dest / name / "chunk-000" / f"file-{file:03d}.parquet" for name in ("data", "meta/episodes")
        )
        for path in (data_path, episodes_path):
            path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(_lerobot_rows(numbers, rng), data_path, row_group_size=_STEPS)
        pq.write_table(_lerobot_episodes(numbers, file), episodes_path)
    return dest


def _lerobot_info(episodes: int) -> dict[str, Any]:
    def feature(dtype: str, width: int) -> dict[str, Any]:
        return {"dtype": dtype, "shape": [width], "names": None}

    features = {name: feature("float32", _WIDTH) for name in ("observation.state", "action")}
    features |= {"timestamp": feature("float32", 1)}
    features |= {
        name: feature("int64", 1) for name in ("frame_index", "episode_index", "index", "task_index")
    }
    return {
        "codebase_version": "v3.0",
        "robot_type": "made up",
        "total_episodes": episodes,
        "total_frames": episodes * _STEPS,
        "total_tasks": len(_TASKS),
        "chunks_size": 1000,
        "fps": _FPS,
        "splits": {"train": f"0:{episodes}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "features": features,
    }


def _lerobot_rows(numbers: Any, rng: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    rows = len(numbers) * _STEPS
    frames = np.tile(np.arange(_STEPS), len(numbers))
    signals = {
        name: pa.FixedSizeListArray.from_arrays(rng.standard_normal(rows * _WIDTH, np.float32), _WIDTH)
        for name in ("observation.state", "action")
    }
    return pa.table(
        {
            **signals,
            "timestamp": (frames / _FPS).astype(np.float32),
            "frame_index": frames,
            "episode_index": np.repeat(numbers, _STEPS),
            "index": np.arange(rows) + int(numbers[0]) * _STEPS,
            "task_index": np.repeat(numbers % len(_TASKS), _STEPS),
        }
    )


def _lerobot_episodes(numbers: Any, file: int) -> Any:
    import numpy as np
    import pyarrow as pa

    return pa.table(
        {
            "episode_index": numbers,
            "tasks": [[_TASKS[number % len(_TASKS)]] for number in numbers.tolist()],
            "length": np.full(len(numbers), _STEPS),
            "data/chunk_index": np.zeros(len(numbers), np.int64),
            "data/file_index": np.full(len(numbers), file),
            "dataset_from_index": numbers * _STEPS,
            "dataset_to_index": (numbers + 1) * _STEPS,
            "meta/episodes/chunk_index": np.zeros(len(numbers), np.int64),
            "meta/episodes/file_index": np.full(len(numbers), file),
        }
    )
