"""LeRobot datasets of random smooth motions, without videos, for the tests of `ares check`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

STEPS, RATE_HZ = 240, 30.0
NAMES = ("shoulder", "elbow", "wrist")


def write_motions(folder: Path, episodes: list[NDArray[np.float64]]) -> Path:
    """A LeRobot v2.1 dataset without videos, whose state follows the action by three steps."""
    (folder / "meta").mkdir(parents=True)
    (folder / "data" / "chunk-000").mkdir(parents=True)
    vector = {"dtype": "float32", "shape": [len(NAMES)], "names": list(NAMES)}
    info = {
        "codebase_version": "v2.1",
        "total_episodes": len(episodes),
        "chunks_size": 1000,
        "fps": RATE_HZ,
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "features": {"observation.state": vector, "action": vector},
    }
    lines = [{"episode_index": n, "tasks": ["wave"], "length": STEPS} for n in range(len(episodes))]
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    (folder / "meta" / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "meta" / "tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": "wave"}) + "\n")
    for number, action in enumerate(episodes):
        state = action[np.clip(np.arange(STEPS) - 3, 0, None)]
        columns = {
            "observation.state": pa.array(state.tolist(), pa.list_(pa.float32())),
            "action": pa.array(action.tolist(), pa.list_(pa.float32())),
            "timestamp": np.arange(STEPS) / RATE_HZ,
            "frame_index": np.arange(STEPS),
            "episode_index": np.full(STEPS, number),
            "task_index": np.zeros(STEPS, dtype=int),
        }
        pq.write_table(pa.table(columns), folder / "data" / "chunk-000" / f"episode_{number:06d}.parquet")
    return folder


def random_motions(number: int) -> list[NDArray[np.float64]]:
    """Smooth motions that never repeat: white noise, smoothed twice over a third of a second."""
    rng = np.random.default_rng(number)
    window = np.ones(10) / 10
    noise = rng.normal(0, 3, (4, len(NAMES), STEPS + 18))
    smooth = [[np.convolve(np.convolve(n, window, "valid"), window, "valid") for n in e] for e in noise]
    return [np.array(episode).T + rng.normal(0, 0.0005, (STEPS, len(NAMES))) for episode in smooth]
