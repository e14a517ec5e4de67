"""Writes small LeRobot datasets with the irregularities of real ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ares.episode import Record
from ares.errors import SourceError
from ares_ingest.base import Source, SourceOptions
from ares_ingest.lerobot import lerobot

STEPS = 6
CAMERA = "observation.images.front"
DATA = "data/chunk-000/episode_{:06d}.parquet"
VIDEO = "videos/chunk-000/{}/episode_{:06d}.mp4"


class LeRobotFolders:
    """Writes v2.1 datasets of short episodes with one camera, and changes them."""

    def write_video(self, path: Path, frames: int = STEPS, rate: int = 10, codec: str = "libx264") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(path), "w") as container:
            stream: Any = container.add_stream(codec, rate=rate)
            stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
            if codec == "libx265":
                stream.options = {"x265-params": "log-level=none"}
            for number in range(frames):
                picture = np.full((48, 64, 3), 20 + 8 * (number % 25), np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            container.mux(stream.encode())
        return path

    def columns(self, number: int, steps: int = STEPS) -> dict[str, Any]:
        rows = np.arange(steps)
        return {
            "observation.state": pa.array([[float(k), number + 0.5] for k in rows], pa.list_(pa.float32())),
            "action": pa.array([[float(k)] for k in rows], pa.list_(pa.float32())),
            "timestamp": (rows / 10).astype(np.float32),
            "frame_index": rows,
            "episode_index": np.full(steps, number),
            "index": rows,
            "task_index": np.zeros(steps, np.int64),
        }

    def feature(self, dtype: str = "float32", width: int = 1, names: object = None) -> dict[str, Any]:
        return {"dtype": dtype, "shape": [width], "names": names}

    def camera_feature(self, codec: str = "h264", size: Sequence[int] = (48, 64, 3)) -> dict[str, Any]:
        return {"dtype": "video", "shape": list(size), "names": None, "info": {"video.codec": codec}}

    def make(self, folder: Path, episodes: int = 2, video: bool = True, **changes: Any) -> Path:
        """A v2.1 dataset of short episodes with one camera; `changes` go into info.json."""
        (folder / "meta").mkdir(parents=True)
        (folder / "data" / "chunk-000").mkdir(parents=True)
        for number in range(episodes):
            pq.write_table(pa.table(self.columns(number)), folder / DATA.format(number))
            if video:
                self.write_video(folder / VIDEO.format(CAMERA, number))
        features = {"observation.state": self.feature(width=2), "action": self.feature()}
        if video:
            features[CAMERA] = self.camera_feature()
        info = {
            "codebase_version": "v2.1",
            "fps": 10,
            "total_episodes": episodes,
            "total_frames": episodes * STEPS,
            "total_tasks": 1,
            "features": features,
            **changes,
        }
        self.write(folder, "info.json", info)
        self.write(
            folder,
            "episodes.jsonl",
            *({"episode_index": number, "tasks": ["do it"], "length": STEPS} for number in range(episodes)),
        )
        self.write(folder, "tasks.jsonl", {"task_index": 0, "task": "do it"})
        return folder

    def write(self, folder: Path, name: str, *lines: Any) -> None:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (folder / "meta" / name).write_text("\n".join(texts) + "\n")

    def rewrite(self, folder: Path, number: int = 0, without: Sequence[str] = (), **changed: Any) -> None:
        """Write the data file of an episode with other columns; "__" in a name stands for "."."""
        unchanged = {name: values for name, values in self.columns(number).items() if name not in without}
        replaced = {name.replace("__", "."): values for name, values in changed.items()}
        pq.write_table(pa.table({**unchanged, **replaced}), folder / DATA.format(number))

    def opened(self, folder: Path) -> Source:
        (source,) = lerobot.open(str(folder), SourceOptions())
        return source

    def first(self, folder: Path) -> Record:
        return next(self.opened(folder).items).load()

    def outcomes(self, folder: Path) -> list[str]:
        texts = []
        for item in self.opened(folder).items:
            try:
                texts.append("; ".join(item.load().warnings) or "good")
            except SourceError as error:
                texts.append(error.reason)
        return texts


@pytest.fixture
def folders() -> LeRobotFolders:
    return LeRobotFolders()
