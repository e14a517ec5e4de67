"""Writes AgiBot World folders for tests, in the layout that the project's loaders read."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np

from ares.episode import Record
from ares.media import encode_mp4
from ares_ingest.agibot import agibot
from ares_ingest.base import Source, SourceOptions

STEPS = 12
WIDTHS = {
    "state/joint/position": (14,),
    "state/joint/current_value": (14,),
    "state/effector/position": (2,),
    "state/end/position": (2, 3),
    "state/end/orientation": (2, 4),
    "state/head/position": (2,),
    "state/waist/position": (2,),
    "action/joint/position": (14,),
    "action/effector/position": (2,),
    "action/head/position": (2,),
    "action/waist/position": (2,),
    "action/robot/velocity": (2,),
}


def arrays(steps: int = STEPS, seed: int = 0) -> dict[str, Any]:
    """Every array of an episode by its key; the stamps are at 30 Hz, in nanoseconds."""
    random = np.random.default_rng(seed)
    values: dict[str, Any] = {
        key: random.normal(size=(steps, *width)).astype(np.float64) for key, width in WIDTHS.items()
    }
    values["timestamp"] = 1_700_000_000_000_000_000 + np.arange(steps, dtype=np.int64) * 33_333_333
    values["action/joint/index"] = np.arange(steps, dtype=np.int64)
    values["state/joint/velocity"] = np.zeros(0)
    return values


@functools.cache
def _video() -> bytes:
    """A video whose frame n has brightness 20 n."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "video.mp4")
        encode_mp4((np.full((32, 32, 3), number * 20, np.uint8) for number in range(STEPS)), path, 30.0)
        return path.read_bytes()


def write_episode(
    root: Path, task: int = 327, episode: int = 648642, changed: Mapping[str, Any] | None = None
) -> Path:
    """One episode; `changed` overrides arrays by key, None removes one. Returns proprio_stats.h5."""
    folder = root / "proprio_stats" / str(task) / str(episode)
    folder.mkdir(parents=True)
    with h5py.File(folder / "proprio_stats.h5", "w") as file:
        for key, values in {**arrays(seed=episode), **(changed or {})}.items():
            if values is not None:
                file[key] = values
    videos = root / "observations" / str(task) / str(episode) / "videos"
    videos.mkdir(parents=True)
    for camera in ("head", "hand_left"):
        (videos / f"{camera}_color.mp4").write_bytes(_video())
    cameras = root / "parameters" / str(task) / str(episode) / "parameters" / "camera"
    cameras.mkdir(parents=True)
    (cameras / "head_intrinsic_params.json").write_text(json.dumps({"intrinsic": {"fx": 600.5, "fy": 601}}))
    (cameras / "head_extrinsic_params_aligned.json").write_text("[]")
    return folder / "proprio_stats.h5"


def write_task(root: Path, task: int, episodes: list[int]) -> Path:
    """The JSON file of a task."""
    path = root / "task_info" / f"task_{task}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    subtask = {"start_frame": 2, "end_frame": 7, "action_text": "Pick up the lemon.", "skill": "Pick"}
    rows = [
        {
            "episode_id": episode,
            "task_name": "Pack fruit",
            "init_scene_text": "Fruit on a table",
            "label_info": {"action_config": [subtask]},
        }
        for episode in episodes
    ]
    path.write_text(json.dumps(rows))
    return path


def write_agibot(root: Path) -> Path:
    """Two tasks with three episodes."""
    for task, episode in ((327, 648642), (327, 648649), (1352, 7)):
        write_episode(root, task, episode)
    write_task(root, 327, [648642, 648649])
    write_task(root, 1352, [7])
    return root


def opened(path: Path, **options: Any) -> Source:
    """The one source of a folder."""
    (source,) = agibot.open(str(path), SourceOptions(**options))
    return source


def read(path: Path, **options: Any) -> list[Record]:
    """The records of a folder."""
    return [item.load() for item in opened(path, **options).items]
