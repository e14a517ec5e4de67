"""The pool: episodes of three tasks, of which some are at fault in a way that is written here and was not tuned."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.curation.policy import Demonstration
from benchmarks.curation.simulation import FRAMES_PER_SECOND
from tests.generators.lerobot_folders import LeRobotFolder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Texts of the tasks, as the reference models know them.
INSTRUCTIONS = {
    "drawer-open": "pull the green drawer open by its handle",
    "pick-place": "pick up the red puck and place it at the goal",
    "door-open": "open the safe door by pulling its handle",
}
FAILED, LATE, TURNED, OTHER_TEXT, GRIPPER = (
    "failure",
    "late",
    "turned",
    "other instruction",
    "gripper inverted",
)
FAULTS = (FAILED, LATE, TURNED, OTHER_TEXT, GRIPPER)
CLEAN = "clean"
_LATE_STEPS = 8
_NAMES = ["x", "y", "z", "gripper"]
_CAMERA = "observation.images.front"
SIZES = (30, 8)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolEpisode:
    """An episode of the pool.

    Attributes:
        number: Its number in the dataset.
        task: Its true task.
        fault: What is wrong with it, of `FAULTS`, or `CLEAN`.
        success: As recorded.
        recorded: What a policy learns from it.
        video: The mp4, or None.
    """

    number: int
    task: str
    fault: str
    success: bool
    recorded: Demonstration
    video: Path | None


def plant_faults(
    folder: Path, seed: int, sizes: tuple[int, int] = SIZES, tasks: Mapping[str, str] = INSTRUCTIONS
) -> list[PoolEpisode]:
    """The pool of what `simulation.py demonstrate` wrote, in an order that says nothing.

    Args:
        folder: What it wrote: for each task experts for the clean ones and four faults, then failures.
        seed: Of the draws.
        sizes: Episodes of each task that are clean, and that have each fault.
        tasks: The text of each task.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    clean, faulty = sizes
    kinds = [CLEAN] * clean + [kind for kind in FAULTS[1:] for _ in range(faulty)] + [FAILED] * faulty
    planned = [(task, number, kind) for task in tasks for number, kind in enumerate(kinds)]
    episodes = []
    for number, place in enumerate(rng.permutation(len(planned)).tolist()):
        task, of_task, kind = planned[place]
        path = folder / f"{task}_{of_task:03d}.npz"
        arrays = np.load(path)
        others = [text for text in tasks.values() if text != tasks[task]]
        text = str(rng.choice(others)) if kind == OTHER_TEXT and others else tasks[task]
        recorded = Demonstration(
            instruction=text,
            observation=arrays["observation"],
            action=_record_wrongly(arrays["action"], kind, rng),
        )
        video = path.with_suffix(".mp4")
        episodes.append(
            PoolEpisode(
                number=number,
                task=task,
                fault=kind,
                success=bool(arrays["success"]),
                recorded=recorded,
                video=video if video.exists() else None,
            )
        )
    return episodes


def _record_wrongly(action: NDArray[np.float32], fault: str, rng: np.random.Generator) -> NDArray[np.float32]:
    """The actions (T, 4) as a recorder with the fault writes them."""
    import numpy as np

    if fault == LATE:
        return np.asarray(action[np.maximum(np.arange(len(action)) - _LATE_STEPS, 0)])
    signs = np.ones(4, np.float32)
    if fault == TURNED:
        signs[rng.integers(3)] = -1
    elif fault == GRIPPER:
        signs[3] = -1
    return action * signs


def write_pool(episodes: Sequence[PoolEpisode], folder: Path) -> None:
    """Write the pool as LeRobot v3.0; nothing in it says which episodes are at fault."""
    import numpy as np

    texts = sorted({episode.recorded.instruction for episode in episodes})
    observations = [episode.recorded.observation for episode in episodes]
    lengths = [len(part) for part in observations]
    columns = {
        "observation.state": np.concatenate([part[:, :4] for part in observations]),
        "observation.environment_state": np.concatenate(observations),
        "action": np.concatenate([episode.recorded.action for episode in episodes]),
        "task_index": np.repeat([texts.index(part.recorded.instruction) for part in episodes], lengths),
    }
    rate = FRAMES_PER_SECOND
    dataset = LeRobotFolder(columns=columns, lengths=lengths, version="v3.0", rate_hz=rate, tasks=texts)
    for name in ("observation.state", "action"):
        dataset.info["features"][name]["names"] = _NAMES
    for row, episode in zip(dataset.listed, episodes, strict=True):
        row["success"] = episode.success
    if all(episode.video for episode in episodes):
        _add_videos(dataset, episodes, folder)
    dataset.write(folder)


def _add_videos(dataset: LeRobotFolder, episodes: Sequence[PoolEpisode], folder: Path) -> None:
    """A file for each episode."""
    place = f"videos/{_CAMERA}/chunk-000"
    (folder / place).mkdir(parents=True)
    dataset.info["video_path"] = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
    dataset.info["features"][_CAMERA] = {
        "dtype": "video",
        "shape": [96, 96, 3],
        "names": ["height", "width", "channels"],
        "info": {"video.fps": FRAMES_PER_SECOND, "video.codec": "h264", "video.pix_fmt": "yuv420p"},
    }
    for row, episode in zip(dataset.listed, episodes, strict=True):
        if episode.video is not None:
            shutil.copyfile(episode.video, folder / place / f"file-{episode.number:03d}.mp4")
        row |= {f"videos/{_CAMERA}/chunk_index": 0, f"videos/{_CAMERA}/file_index": episode.number}
        row |= {f"videos/{_CAMERA}/from_timestamp": 0.0}
        row |= {f"videos/{_CAMERA}/to_timestamp": row["length"] / FRAMES_PER_SECOND}


def read_demonstrations(folder: Path) -> list[Demonstration]:
    """What a trainer reads of a LeRobot v3.0 dataset: the rows of each episode, and its text."""
    import numpy as np
    import pyarrow.parquet as pq

    names = ["observation.environment_state", "action"]
    rows = pq.read_table(folder / "data", columns=["episode_index", "task_index", *names]).sort_by(
        [("episode_index", "ascending")]
    )
    tasks = pq.read_table(folder / "meta" / "tasks.parquet").to_pylist()
    texts = {row["task_index"]: next(text for text in row.values() if isinstance(text, str)) for row in tasks}
    signals = [np.array(rows[name].to_pylist(), np.float32) for name in names]
    _, starts = np.unique(rows["episode_index"].to_numpy(), return_index=True)
    edges = [*starts.tolist(), len(rows)]
    return [
        Demonstration(
            instruction=texts[rows["task_index"][start].as_py()],
            observation=signals[0][start:stop],
            action=signals[1][start:stop],
        )
        for start, stop in pairwise(edges)
    ]
