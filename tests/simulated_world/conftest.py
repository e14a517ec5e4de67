"""Episodes of the drawn world as videos, and a judge behind a loopback server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from ares.episode import Camera, Episode, MediaRef
from tests.annotators.conftest import caption_of, model_server, options, quick_retries, settings, work_for, ws
from tests.simulated_world.drawing import SIZE
from tests.simulated_world.world import RATE_HZ, WorldEpisode

__all__ = ["caption_of", "model_server", "options", "quick_retries", "settings", "work_for", "ws"]


def write_video(path: Path, frames: NDArray[np.uint8]) -> None:
    """(T, 128, 128, 3) RGB frames as H.264, with the full resolution of colours."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=int(RATE_HZ), options={"crf": "8"})
        stream.width, stream.height, stream.pix_fmt = SIZE, SIZE, "yuv444p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


@pytest.fixture
def as_episode(tmp_path: Path) -> Callable[[WorldEpisode], Episode]:
    """Writes the video of an episode, and makes the episode without an ingester."""

    def make(made: WorldEpisode) -> Episode:
        path, steps = tmp_path / f"{made.seed}.mp4", len(made.frames)
        write_video(path, made.frames)
        media = MediaRef(
            kind="mp4",
            uri=str(path),
            start_seconds=0.0,
            stop_seconds=steps / RATE_HZ,
            num_frames=steps,
            rate_hz=RATE_HZ,
        )
        return Episode(
            episode_id=f"{made.seed:016x}",
            format="video",
            dataset="drawn",
            version="",
            split="",
            key=str(made.seed),
            source="",
            content_hash=str(made.seed),
            instruction=made.instruction,
            instructions=(made.instruction,),
            robot="drawn",
            num_steps=steps,
            rate_hz=RATE_HZ,
            rate_source="source",
            cameras=(Camera(name="side", role="front", width=SIZE, height=SIZE, codec="h264", media=media),),
            success=made.log.succeeded,
        )

    return make
