"""Recordings of random clocks whose truth is known: drift, jitter, dropped steps, cameras of another rate.

What a clock is worth that is damaged or contradicts a claim is in tests/ares/clock.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.clock import settle_measured_clock
from ares.episode import Record
from ares.media import frames_at
from tests.ingest.image_folders.conftest import image_bytes, write_table
from tests.ingesting import open_sources

SEEDS = range(3)
START = 1_700_000_000.0


class Recording(NamedTuple):
    """What was recorded: seconds of the steps and images on one clock, and the rate of the steps."""

    rate_hz: float
    steps: NDArray[np.float64]
    images: NDArray[np.float64]


def random_recording(seed: int) -> Recording:
    """Steps with drift, jitter and dropped ones; images of another rate that begin earlier or later."""
    rng = np.random.default_rng(seed)
    rate = float(rng.uniform(5, 50))
    numbers = np.flatnonzero(rng.random(150) > rng.uniform(0, 0.15))
    even = (numbers - numbers[0]) / rate
    drift = 1 + rng.uniform(-0.005, 0.005)
    wander = 0.02 / rate * np.sin(even * rng.uniform(0.1, 1))
    steps = even * drift + wander + rng.uniform(0, 0.1, len(numbers)) / rate
    camera_rate = rate * float(rng.choice([0.31, 0.5, 0.97, 1.4]))
    offset = float(rng.uniform(-0.5, 0.5))
    images = steps[0] + offset + np.arange(int((steps[-1] - offset) * camera_rate)) / camera_rate
    return Recording(rate / drift, steps, images + rng.uniform(0, 0.05, len(images)) / camera_rate)


def write_csv(root: Path, recording: Recording) -> None:
    folder = root / "episode_0"
    (folder / "front").mkdir(parents=True)
    values = np.random.default_rng(0).normal(size=len(recording.steps)).tolist()
    stamps = (START + recording.steps).tolist()
    write_table(folder / "data.csv", {"timestamp": stamps, "joint_0": values, "action_0": values})
    for number, second in enumerate(recording.images):
        name = f"{round((START + second) * 1e9)}.png"
        (folder / "front" / name).write_bytes(image_bytes(number % 250))


def write_npz(root: Path, recording: Recording) -> None:
    root.mkdir(parents=True)
    values = np.random.default_rng(0).normal(size=(len(recording.steps), 2)).astype("float32")
    np.savez(root / "episode_0.npz", state=values, action=values, timestamps=START + recording.steps)


WRITERS = {"csv": write_csv, "npz": write_npz}


def read(root: Path) -> Record:
    (source,) = open_sources([str(root)])
    (item,) = source.items
    return settle_measured_clock(item.load())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", WRITERS)
def test_steps_are_at_their_stamps_and_their_rate_is_that_of_the_clock(
    kind: str, seed: int, tmp_path: Path
) -> None:
    recording = random_recording(seed)
    WRITERS[kind](tmp_path / "data", recording)
    record = read(tmp_path / "data")
    assert record.has_stamps and record.episode.rate_source == "measured"
    assert record.episode.rate_hz == pytest.approx(recording.rate_hz, rel=2e-3), seed
    truth = recording.steps - recording.steps[0]
    assert np.abs(record.trajectory.timestamps - truth).max() < 1e-6, seed


@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_has_the_image_that_was_there_whatever_the_rate_of_the_camera(
    seed: int, tmp_path: Path
) -> None:
    recording = random_recording(seed)
    write_csv(tmp_path / "data", recording)
    record = read(tmp_path / "data")
    (camera,) = record.episode.cameras
    assert record.episode.frame_pairing == "stamp"
    shown = frames_at(camera.media, record.trajectory.timestamps.tolist())[:, 0, 0, 0]
    numbers = np.maximum(np.searchsorted(recording.images, recording.steps, side="right") - 1, 0)
    # An image that begins within the rounding of times may be shown.
    is_sure = np.abs(recording.images[:, None] - recording.steps).min(axis=0) > 1.1e-3
    assert is_sure.any() and np.array_equal(shown[is_sure], (numbers % 250)[is_sure]), seed
