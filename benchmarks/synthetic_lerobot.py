"""Writes synthetic LeRobot datasets of any number of episodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STEPS_PER_FILE = 30_000
_WIDTH = 7
_TASKS = ("open the drawer", "close the drawer", "push the mug", "pick up the block")
_SIGNALS = ("observation.state", "action")
_INDICES = ("frame_index", "episode_index", "index", "task_index")
# Two arms of six joints and a gripper each.
TWO_ARMS = tuple(
    f"{side}_{part}"
    for side in ("left", "right")
    for part in (*(f"joint_{number}" for number in range(6)), "gripper")
)


def write_lerobot_dataset(
    dest: Path,
    episodes: int,
    steps: int = 30,
    rate_hz: int = 10,
    names: Sequence[str] = (),
    *,
    labelled: bool = False,
) -> Path:
    """Write a LeRobot v3.0 dataset without videos, a row group for each episode, as LeRobot writes them.

    Args:
        dest: Folder of the dataset; it is made.
        episodes: Number of episodes.
        steps: Steps of each episode.
        rate_hz: Steps per second.
        names: Joints that move smoothly, and whose state follows two steps later with noise; noise of 7 dimensions
            without names where none are given.
        labelled: Whether each episode has ten subtasks, and an answer about each frame.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    (dest / "meta").mkdir(parents=True)
    (dest / "meta" / "info.json").write_text(json.dumps(_dataset_info(episodes, steps, rate_hz, names)))
    tasks = {"task_index": list(range(len(_TASKS))), "task": list(_TASKS)}
    pq.write_table(pa.table(tasks), dest / "meta" / "tasks.parquet")
    rng, per_file = np.random.default_rng(0), _STEPS_PER_FILE // steps
    for file, first in enumerate(range(0, episodes, per_file)):
        numbers = np.arange(first, min(first + per_file, episodes))
        draw = _smooth_signals if names else _noise_signals
        signals = draw(len(numbers), steps, len(names) or _WIDTH, rng)
        rows = _data_rows(numbers, steps, rate_hz, signals)
        rows = _with_labels(rows, steps, rate_hz) if labelled else rows
        for name, table in (("data", rows), ("meta/episodes", _episode_rows(numbers, steps, file))):
            path = dest / name / "chunk-000" / f"file-{file:03d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, path, row_group_size=steps if name == "data" else None)
    return dest


def _dataset_info(episodes: int, steps: int, rate_hz: int, names: Sequence[str]) -> dict[str, Any]:
    def feature(dtype: str, width: int, names: Sequence[str] = ()) -> dict[str, Any]:
        return {"dtype": dtype, "shape": [width], "names": list(names) or None}

    features = {name: feature("float32", len(names) or _WIDTH, names) for name in _SIGNALS}
    features |= {"timestamp": feature("float32", 1)}
    features |= {name: feature("int64", 1) for name in _INDICES}
    return {
        "codebase_version": "v3.0",
        "robot_type": "made up",
        "total_episodes": episodes,
        "total_frames": episodes * steps,
        "total_tasks": len(_TASKS),
        "chunks_size": 1000,
        "fps": rate_hz,
        "splits": {"train": f"0:{episodes}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "features": features,
    }


def _noise_signals(
    count: int, steps: int, width: int, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """State and action of some episodes, each (N * T, D)."""
    import numpy as np

    state, action = (rng.standard_normal((count * steps, width), np.float32) for _ in _SIGNALS)
    return state, action


def _smooth_signals(
    count: int, steps: int, width: int, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """State and action of some episodes, each (N * T, D): the state is two steps late."""
    import numpy as np

    window = np.hanning(22)[1:-1]
    noise = rng.normal(0, 0.5, (count, steps + 2 * len(window), width))
    spectrum = np.fft.rfft(noise, axis=1) * np.fft.rfft(window, noise.shape[1])[None, :, None]
    smooth = np.fft.irfft(spectrum, noise.shape[1], axis=1)[:, len(window) :]
    action, state = smooth[:, 2 : steps + 2], smooth[:, :steps] + rng.normal(0, 1e-3, (count, steps, width))
    return state.reshape(-1, width).astype(np.float32), action.reshape(-1, width).astype(np.float32)


def _data_rows(
    numbers: NDArray[np.int64],
    steps: int,
    rate_hz: int,
    signals: tuple[NDArray[np.float32], NDArray[np.float32]],
) -> Any:
    import numpy as np
    import pyarrow as pa

    frames = np.tile(np.arange(steps), len(numbers))
    lists = [pa.FixedSizeListArray.from_arrays(part.ravel(), part.shape[1]) for part in signals]
    return pa.table(
        {
            **dict(zip(_SIGNALS, lists, strict=True)),
            "timestamp": (frames / rate_hz).astype(np.float32),
            "frame_index": frames,
            "episode_index": np.repeat(numbers, steps),
            "index": np.arange(len(frames)) + int(numbers[0]) * steps,
            "task_index": np.repeat(numbers % len(_TASKS), steps),
        }
    )


SUBTASKS_PER_EPISODE = 10


def _with_labels(rows: Any, steps: int, rate_hz: int) -> Any:
    """The rows with the language columns of LeRobot."""
    import numpy as np
    import pyarrow as pa

    stamps = np.linspace(0, (steps - 1) / rate_hz, SUBTASKS_PER_EPISODE).astype(np.float32)
    fixed: dict[str, Any] = {"role": "assistant", "camera": None, "tool_calls": None}
    told = [
        {**fixed, "content": f"do part {number}", "style": "subtask", "timestamp": stamp}
        for number, stamp in enumerate(stamps.tolist())
    ]
    answers = [{**fixed, "content": f"it is at {frame}", "style": "vqa"} for frame in range(steps)]
    texts = [(name, pa.string()) for name in ("role", "content", "style", "camera")]
    event = pa.struct([*texts, ("tool_calls", pa.list_(pa.string()))])
    columns = {
        "language_persistent": (pa.array(told, pa.struct([*event, ("timestamp", pa.float32())])), len(told)),
        "language_events": (pa.array(answers, event), 1),
    }
    for name, (kinds, width) in columns.items():
        taken = kinds.take(pa.array(np.resize(np.arange(len(kinds)), len(rows) * width)))
        offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * width)
        rows = rows.append_column(name, pa.ListArray.from_arrays(offsets, taken))
    return rows


def _episode_rows(numbers: NDArray[np.int64], steps: int, file: int) -> Any:
    import numpy as np
    import pyarrow as pa

    nothing = np.zeros(len(numbers), np.int64)
    return pa.table(
        {
            "episode_index": numbers,
            "tasks": [[_TASKS[number % len(_TASKS)]] for number in numbers.tolist()],
            "length": np.full(len(numbers), steps),
            "data/chunk_index": nothing,
            "data/file_index": np.full(len(numbers), file),
            "dataset_from_index": numbers * steps,
            "dataset_to_index": (numbers + 1) * steps,
            "meta/episodes/chunk_index": nothing,
            "meta/episodes/file_index": np.full(len(numbers), file),
        }
    )
