"""Times `ares check` on generated episodes: signals of random robots in a LeRobot v3.0 dataset without videos.

.venv/bin/python -m benchmarks.check_speed --episodes 10000
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

_EPISODES_PER_FILE = 500
_STEPS, _RATE_HZ, _WIDTH = 160, 20.0, 14


def main() -> None:
    """Print the seconds of the library call, by the wall and by the processors."""
    import ares

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=10_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = write_signals(Path(folder) / "generated", args.episodes)
        start, used = time.monotonic(), _processor_seconds()
        report = ares.check(str(path))
        wall, cpu = time.monotonic() - start, _processor_seconds() - used
        print(
            f"{report.num_episodes} episodes: {wall:.1f} s, processors {cpu:.1f} s, clean {report.is_clean}"
        )


def _processor_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in usage)


def write_signals(dest: Path, episodes: int) -> Path:
    """Write a dataset of two arms of six joints and a gripper each: smooth motions, followed 0.1 s later with noise."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"{side}_{part}" for side in ("left", "right") for part in (*_joint_names(), "gripper")]
    vector = {"dtype": "float32", "shape": [_WIDTH], "names": names}
    scalars = {name: {"dtype": "int64", "shape": [1], "names": None} for name in _INDICES}
    stamp = {"dtype": "float32", "shape": [1], "names": None}
    features = {"observation.state": vector, "action": vector, "timestamp": stamp, **scalars}
    (dest / "meta").mkdir(parents=True)
    (dest / "meta" / "info.json").write_text(json.dumps(_info(episodes, features)))
    pq.write_table(pa.table({"task_index": [0], "task": ["move"]}), dest / "meta" / "tasks.parquet")
    rng = np.random.default_rng(0)
    for file, first in enumerate(range(0, episodes, _EPISODES_PER_FILE)):
        numbers = np.arange(first, min(first + _EPISODES_PER_FILE, episodes))
        for name, table in (("data", _rows(numbers, rng)), ("meta/episodes", _index(numbers, file))):
            path = dest / name / "chunk-000" / f"file-{file:03d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, path, row_group_size=_STEPS if name == "data" else None)
    return dest


_INDICES = ("frame_index", "episode_index", "index", "task_index")


def _joint_names() -> list[str]:
    return [f"joint_{number}" for number in range(_WIDTH // 2 - 1)]


def _info(episodes: int, features: dict[str, object]) -> dict[str, object]:
    return {
        "codebase_version": "v3.0",
        "robot_type": "generated",
        "total_episodes": episodes,
        "total_frames": episodes * _STEPS,
        "total_tasks": 1,
        "chunks_size": 1000,
        "fps": _RATE_HZ,
        "splits": {"train": f"0:{episodes}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "features": features,
    }


def _rows(numbers: Any, rng: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    count, window = len(numbers), np.hanning(22)[1:-1]
    noise = rng.normal(0, 0.5, (count, _STEPS + 2 * len(window), _WIDTH))
    spectrum = np.fft.rfft(noise, axis=1) * np.fft.rfft(window, noise.shape[1])[None, :, None]
    smooth = np.fft.irfft(spectrum, noise.shape[1], axis=1)[:, len(window) :]
    action, state = smooth[:, 2 : _STEPS + 2], smooth[:, :_STEPS]
    state = state + rng.normal(0, 1e-3, state.shape)
    frames = np.tile(np.arange(_STEPS), count)
    signals = {"observation.state": state, "action": action}
    columns = {
        name: pa.FixedSizeListArray.from_arrays(values.astype(np.float32).ravel(), _WIDTH)
        for name, values in signals.items()
    }
    return pa.table(
        {
            **columns,
            "timestamp": (frames / _RATE_HZ).astype(np.float32),
            "frame_index": frames,
            "episode_index": np.repeat(numbers, _STEPS),
            "index": np.arange(count * _STEPS) + int(numbers[0]) * _STEPS,
            "task_index": np.zeros(count * _STEPS, np.int64),
        }
    )


def _index(numbers: Any, file: int) -> Any:
    import numpy as np
    import pyarrow as pa

    return pa.table(
        {
            "episode_index": numbers,
            "tasks": [["move"]] * len(numbers),
            "length": np.full(len(numbers), _STEPS),
            "data/chunk_index": np.zeros(len(numbers), np.int64),
            "data/file_index": np.full(len(numbers), file),
            "dataset_from_index": numbers * _STEPS,
            "dataset_to_index": (numbers + 1) * _STEPS,
            "meta/episodes/chunk_index": np.zeros(len(numbers), np.int64),
            "meta/episodes/file_index": np.full(len(numbers), file),
        }
    )


if __name__ == "__main__":
    main()
