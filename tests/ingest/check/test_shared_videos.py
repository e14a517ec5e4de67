"""A check of videos tells frames that no episode has, first frames of the episode before, and the span of black."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

import ares
from ares.checks import QualityFinding
from ares_ingest.check.shared_videos import SharedVideos
from ares_ingest.check.video import VideoTask, run_video_tasks
from tests.generators.lerobot_folders import LeRobotFolder
from tests.ingesting import open_sources

CAMERA, RATE_HZ, LENGTHS = "observation.images.front", 10, (28, 33, 30, 36)
HEIGHT, WIDTH = 48, 64


def film(seed: int, length: int) -> NDArray[np.uint8]:
    """(T, 48, 64, 3) of a block that moves smoothly over a table; each take begins and ends somewhere else."""
    rng = np.random.default_rng(seed)
    table = rng.integers(60, 200, (6, 8, 3)).repeat(8, axis=0).repeat(8, axis=1)
    frames, colour = np.repeat(table[None], length, axis=0), rng.integers(0, 255, 3)
    steps = np.arange(length) / RATE_HZ
    x = WIDTH * (0.5 + 0.35 * np.sin(rng.uniform(1, 2.5) * steps + rng.uniform(0, 6)))
    y = HEIGHT * (0.5 + 0.35 * np.cos(rng.uniform(1, 2.5) * steps + rng.uniform(0, 6)))
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    for number, frame in enumerate(frames):
        frame[(np.abs(rows - y[number]) < 8) & (np.abs(columns - x[number]) < 8)] = colour
    return np.clip(frames + rng.normal(0, 1, frames.shape), 0, 255).astype(np.uint8)


def make_takes(seed: int) -> list[NDArray[np.uint8]]:
    return [film(10 * seed + number, length) for number, length in enumerate(LENGTHS)]


def write_folder(folder: Path, parts: list[NDArray[np.uint8]], taken: tuple[int, ...] = (0, 1, 2, 3)) -> Path:
    """A LeRobot v3.0 folder whose episodes share the video of all parts, of which those that are taken are theirs."""
    video = folder / "videos" / CAMERA / "chunk-000" / "file-000.mp4"
    video.parent.mkdir(parents=True)
    with av.open(str(video), "w") as container:
        stream: Any = container.add_stream("libx264", rate=RATE_HZ)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.options = {"g": "10", "crf": "18", "bf": "0", "threads": "1"}
        for frame in np.concatenate(parts):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    values = np.sin(np.arange(3) + np.arange(sum(LENGTHS))[:, None] / RATE_HZ).astype(np.float32)
    picture = {"dtype": "video", "shape": [HEIGHT, WIDTH, 3], "names": None}
    paths = {"video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"}
    made = LeRobotFolder(
        columns={"observation.state": values, "action": values},
        lengths=[*LENGTHS],
        version="v3.0",
        rate_hz=RATE_HZ,
        tasks=["push the block"],
        info={"features": {CAMERA: picture}, **paths},
    )
    for row, part in zip(made.listed, taken, strict=True):
        start = sum(map(len, parts[:part])) / RATE_HZ
        span = {"chunk_index": 0, "file_index": 0, "from_timestamp": start}
        span["to_timestamp"] = start + row["length"] / RATE_HZ
        row |= {f"videos/{CAMERA}/{name}": value for name, value in span.items()}
    return made.write(folder)


def findings_of(path: Path, code: str) -> list[tuple[str, QualityFinding]]:
    """Key of the episode, and finding, of one code."""
    (source,) = open_sources([str(path)])
    tasks = [VideoTask(load=item.load, location=item.location) for item in source.items]
    files, found = SharedVideos(), list[tuple[str, QualityFinding]]()
    for result in run_video_tasks(tasks):
        assert not isinstance(result, Exception) and result.summary is not None
        own = (finding for camera in result.summary.cameras for finding in camera.findings)
        found += [(result.key, finding) for finding in (*own, *files.add(result))]
    found += [(result.key, finding) for result, finding in files.find_unused_frames()]
    return [(key, finding) for key, finding in found if finding.code == code]


@pytest.mark.parametrize("after", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_frames_that_no_episode_has_are_told(after: int, tmp_path: Path) -> None:
    takes = make_takes(after)
    takes.insert(after + 1, film(99, 12))
    taken = tuple(number + (number > after) for number in range(4))
    ((_, finding),) = findings_of(write_folder(tmp_path / "d", takes, taken), "A045")
    assert finding.size == pytest.approx(12, abs=1)


@pytest.mark.slow
@pytest.mark.parametrize("late", [(1,), (1, 3), (1, 2, 3)])
def test_first_frames_of_the_episode_before_are_told(late: tuple[int, ...], tmp_path: Path) -> None:
    takes = make_takes(len(late))
    for number in late:
        takes[number][0] = takes[number - 1][-1]
    assert [key for key, _ in findings_of(write_folder(tmp_path / "d", takes), "A046")] == [*map(str, late)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20, 21])
def test_a_clean_shared_video_has_no_such_finding(seed: int, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "d", make_takes(seed))
    assert not [code for code in ("A033", "A045", "A046") if findings_of(folder, code)]


@pytest.mark.parametrize(
    ("number", "start", "frames"), [(2, 9, 12), pytest.param(0, 3, 7, marks=pytest.mark.slow)]
)
def test_a_black_span_has_its_length_and_its_place(
    number: int, start: int, frames: int, tmp_path: Path
) -> None:
    takes = make_takes(number)
    takes[number][start : start + frames] = 2
    ((key, finding),) = findings_of(write_folder(tmp_path / "d", takes), "A033")
    assert key == str(number)
    assert finding.seconds == pytest.approx(start / RATE_HZ, abs=0.11)
    assert finding.size == pytest.approx(frames / RATE_HZ, abs=0.11)


@pytest.mark.slow
def test_a_check_of_videos_counts_both_with_their_episodes(tmp_path: Path) -> None:
    (dataset,) = ares.check(write_folder(tmp_path / "d", [*make_takes(2), film(99, 12)]), video=True).datasets
    (count,) = [count for count in dataset.counts if count.code == "A045"]
    assert count.severity == "information" and count.worst[0].key
