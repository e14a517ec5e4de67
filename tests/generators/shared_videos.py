"""LeRobot v3.0 folders whose episodes share one video: clean, with frames of a discarded take, or a frame late."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from tests.generators.lerobot_folders import LeRobotFolder

CAMERA = "observation.images.front"
SIDES = (48, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedVideo:
    """A folder, and what is wrong with its video.

    Attributes:
        path: The folder.
        num_unused: Frames that no episode has.
        late: Episodes whose first frame is the last one of the episode before.
        black: Episode, second and seconds in which the camera is black; None for none.
    """

    path: Path
    num_unused: int = 0
    late: tuple[int, ...] = ()
    black: tuple[int, float, float] | None = None


def make_shared_video(folder: Path, seed: int, fault: str = "") -> SharedVideo:
    """Draw a folder.

    Args:
        folder: Where it is made.
        seed: Of everything that is drawn.
        fault: "unused" for frames of a take at the end or between two episodes, "late" for first frames that are the
            last of the episode before, "black" for a span without a picture, "" for none.
    """
    rng = np.random.default_rng(seed)
    rate, count = int(rng.choice([10, 15, 30])), int(rng.integers(4, 7))
    lengths = [int(rng.uniform(2.5, 4) * rate) for _ in range(count)]
    takes = [_film(rng, length, rate) for length in lengths]
    late: tuple[int, ...] = ()
    black = None
    if fault == "late":
        late = tuple(number for number in range(1, count) if rng.random() < 0.8) or (1,)
        for number in late:
            takes[number][0] = takes[number - 1][-1]
    if fault == "black":
        number, frames = int(rng.integers(count)), int(rng.uniform(0.5, 2) * rate)
        start = int(rng.integers(2, lengths[number] - frames - 1))
        takes[number][start : start + frames] = rng.integers(0, 4)
        black = (number, start / rate, frames / rate)
    unused = int(rng.uniform(0.5, 1.5) * rate) if fault == "unused" else 0
    after = int(rng.choice([count - 1, int(rng.integers(count))]))
    starts, frames_of_file = [], list[NDArray[np.uint8]]()
    for number, take in enumerate(takes):
        starts.append(len(frames_of_file))
        frames_of_file += [*take]
        if unused and number == after:
            frames_of_file += [*_film(rng, unused, rate)]
    _write(folder, rate, lengths, starts, frames_of_file, rng)
    return SharedVideo(path=folder, num_unused=unused, late=late, black=black)


def _film(rng: np.random.Generator, length: int, rate: int) -> NDArray[np.uint8]:
    """(T, 48, 64, 3) of a block that moves smoothly over a table; each take begins and ends somewhere else."""
    height, width = SIDES
    table = rng.integers(60, 200, (6, 8, 3)).repeat(8, axis=0).repeat(8, axis=1)
    frames = np.repeat(table[None].astype(np.float64), length, axis=0)
    steps = np.arange(length) / rate
    x = width * (0.5 + 0.35 * np.sin(rng.uniform(1, 2.5) * steps + rng.uniform(0, 6)))
    y = height * (0.5 + 0.35 * np.cos(rng.uniform(1, 2.5) * steps + rng.uniform(0, 6)))
    rows, columns = np.mgrid[:height, :width]
    colour = rng.integers(0, 255, 3)
    for number in range(length):
        inside = (np.abs(rows - y[number]) < 8) & (np.abs(columns - x[number]) < 8)
        frames[number][inside] = colour
    return np.clip(frames + rng.normal(0, 1, frames.shape), 0, 255).astype(np.uint8)


def _write(
    folder: Path,
    rate: int,
    lengths: list[int],
    starts: list[int],
    frames: list[NDArray[np.uint8]],
    rng: np.random.Generator,
) -> None:
    video = folder / "videos" / CAMERA / "chunk-000"
    video.mkdir(parents=True)
    _encode(video / "file-000.mp4", frames, rate)
    values = np.concatenate([_course(rng, length, rate) for length in lengths])
    signal = {"dtype": "float32", "shape": [3], "names": ["j1", "j2", "j3"]}
    picture = {"dtype": "video", "shape": [*SIDES, 3], "names": None}
    made = LeRobotFolder(
        columns={"observation.state": values, "action": values},
        lengths=lengths,
        version="v3.0",
        rate_hz=rate,
        tasks=["push the block"],
        info={
            "features": {"observation.state": signal, "action": signal, CAMERA: picture},
            "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        },
    )
    for row, start in zip(made.listed, starts, strict=True):
        row |= {f"videos/{CAMERA}/chunk_index": 0, f"videos/{CAMERA}/file_index": 0}
        row |= {f"videos/{CAMERA}/from_timestamp": start / rate}
        row |= {f"videos/{CAMERA}/to_timestamp": (start + row["length"]) / rate}
    made.write(folder)


def _course(rng: np.random.Generator, length: int, rate: int) -> NDArray[np.float32]:
    steps = np.arange(length)[:, None] / rate
    return np.sin(steps * rng.uniform(1, 2, 3) + rng.uniform(0, 6, 3)).astype(np.float32)


def _encode(path: Path, frames: list[NDArray[np.uint8]], rate: int) -> None:
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=rate)
        stream.width, stream.height, stream.pix_fmt = SIDES[1], SIDES[0], "yuv420p"
        stream.options = {"g": "10", "crf": "18", "bf": "0", "threads": "1"}
        for frame in frames:
            container.mux(
                stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24"))
            )
        container.mux(stream.encode())
