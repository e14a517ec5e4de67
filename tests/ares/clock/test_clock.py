"""Random clocks of known truth: the measured rate, the mended stamps, and the frame that each step is paired with."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.clock import (
    are_timestamps_even,
    camera_seconds,
    compute_camera_rate_hz,
    measure_clock,
    nearest_steps,
    read_stamps,
    settle_measured_clock,
)
from ares.clock.settle import RATES_DISAGREE
from ares.episode import Camera, Episode, MediaRef, Record, Trajectory
from ares.export.base import ExportRate
from ares.export.retime import retime_episode

SEEDS = [random.randrange(2**32) for _ in range(8)]


def random_clock(seed: int) -> tuple[float, NDArray[np.float64]]:
    """A rate, and stamps of it with jitter, dropped steps and a gap."""
    rng = np.random.default_rng(seed)
    rate, count = float(rng.uniform(3, 120)), int(rng.integers(400, 1500))
    numbers = np.flatnonzero(rng.random(count) > rng.uniform(0, 0.2))
    stamps = (numbers + rng.uniform(-0.1, 0.1, len(numbers))) / rate
    if rng.random() < 0.5:
        stamps[len(stamps) // 2 :] += rng.uniform(0.5, 20) + 11 / rate
    return rate, stamps - stamps[0]


def make_record(stamps: NDArray[np.float64], claimed_hz: float, pairing: str) -> Record:
    count = len(stamps)
    ref = MediaRef(
        kind="mp4",
        uri="a.mp4",
        start_seconds=0.0,
        stop_seconds=count / claimed_hz,
        num_frames=count,
        rate_hz=claimed_hz,
    )
    camera = Camera(name="front", role="front", width=8, height=8, codec="h264", media=ref)
    texts: dict[str, Any] = dict.fromkeys(
        ("dataset", "version", "split", "key", "source", "content_hash", "instruction"), ""
    )
    episode = Episode(
        episode_id="0" * 16,
        format="test",
        instructions=(),
        robot="",
        num_steps=count,
        rate_hz=claimed_hz,
        rate_source="source",
        cameras=(camera,),
        frame_pairing=pairing,  # type: ignore[arg-type]
        **texts,
    )
    return Record(episode=episode, trajectory=Trajectory(timestamps=stamps))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rate_is_measured_within_a_thousandth(seed: int) -> None:
    rate, stamps = random_clock(seed)
    measured = measure_clock(stamps)
    assert measured is not None and measured.rate_hz == pytest.approx(rate, rel=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_stamps_win_over_another_claim_and_frames_stay_with_their_steps(seed: int) -> None:
    rate, stamps = random_clock(seed)
    record = settle_measured_clock(make_record(stamps, rate * 1.08, "index"))
    episode = record.episode
    assert (episode.rate_source, record.warnings) == ("measured", (RATES_DISAGREE,))
    assert episode.claimed_rate_hz == rate * 1.08
    assert episode.duration_seconds == pytest.approx(stamps.max() + 1 / episode.rate_hz)
    shown = camera_seconds(episode, episode.cameras[0], stamps.tolist(), lambda: stamps)
    frames = np.floor(np.array(shown) * episode.cameras[0].media.rate_hz)
    # Stamps nearer than a tenth of a period are one step.
    is_apart = np.diff(stamps, append=np.inf) > 0.11 / episode.rate_hz
    assert np.array_equal(frames[is_apart], np.arange(len(stamps))[is_apart])


def test_a_claim_within_a_percent_stays() -> None:
    stamps = np.arange(500) / 19.9
    assert settle_measured_clock(make_record(stamps, 20.0, "stamp")).episode.rate_source == "source"


@pytest.mark.parametrize("seed", SEEDS)
def test_an_even_clock_is_settled_as_one_that_is_measured(seed: int) -> None:
    """Even clocks are recognised without measuring each; the outcome is that of measuring."""
    rng = np.random.default_rng(seed)
    rate, count = float(rng.choice([3.0, 29.97, 30.0, rng.uniform(1, 90)])), int(rng.integers(1, 300))
    stamps = np.arange(count) / rate
    episode = settle_measured_clock(make_record(stamps, rate, "stamp")).episode
    measured = measure_clock(stamps)
    assert episode.measured_rate_hz == (measured.rate_hz if measured else None)
    assert episode.rate_spread == (measured.spread if measured else None)
    assert (episode.clock_shift_seconds, episode.duration_seconds) == (0.0, count / rate)


@pytest.mark.parametrize("seed", SEEDS)
def test_stamps_that_count_as_even_need_no_mending(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rate, noise = float(rng.uniform(3, 4000)), 10.0 ** rng.uniform(-8, -2)
    stamps = np.arange(200) / rate + rng.uniform(-noise, noise, 200)
    read = read_stamps(stamps.astype(np.float32), rate)
    if are_timestamps_even(stamps.astype(np.float32), rate):
        assert read.seconds is not None and read.warnings == ()
        assert np.abs(read.seconds - np.arange(200) / rate).max() <= 1e-3
    assert are_timestamps_even(np.arange(200) / rate, rate) and not are_timestamps_even(
        np.arange(200) / rate * 1e3, rate
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("factor", "unit"), [(1e3, "milliseconds"), (1e6, "microseconds"), (1e9, "nanoseconds")]
)
def test_units_late_starts_and_damaged_stamps(seed: int, factor: float, unit: str) -> None:
    rng = np.random.default_rng(seed)
    rate = float(rng.uniform(5, 60))
    truth = np.arange(200) / rate
    start = 1.7e9 if rng.random() < 0.5 else 0.0
    read = read_stamps((truth + start) * factor, rate)
    assert read.seconds is not None
    assert any(f"timestamp is in {unit}, by the rate of" in warning for warning in read.warnings)
    assert np.abs(read.seconds - truth).max() < 1e-3
    damaged = truth.copy()
    damaged[rng.choice(np.arange(3, 197), 5, replace=False)] = [np.nan, -1.0, 0.0, 1e6, np.inf]
    mended = read_stamps(damaged, rate)
    assert mended.seconds is not None and mended.warnings
    assert np.abs(mended.seconds - truth).max() < 1e-6


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", ["nearest", "hold"])
def test_an_export_selects_by_its_announced_rate(seed: int, mode: str) -> None:
    _, stamps = random_clock(seed)
    record = settle_measured_clock(make_record(np.sort(stamps), 10.0, "stamp"))
    fps = float(np.random.default_rng(seed).uniform(1, 60))
    retimed = retime_episode(record.episode, record.trajectory, ExportRate(fps, mode))  # type: ignore[arg-type]
    times = np.arange(retimed.episode.num_steps) / fps
    assert np.array_equal(
        retimed.steps, nearest_steps(record.trajectory.timestamps, times, hold=mode == "hold")
    )
    distances = np.abs(record.trajectory.timestamps[:, None] - times)
    if mode == "nearest":
        assert retimed.shift_seconds <= distances.min(axis=0).max() + 2e-3
    assert retimed.trajectory.timestamps.tolist() == times.tolist()


def test_a_promised_frame_per_step_counts_only_where_the_numbers_agree() -> None:
    record = make_record(np.arange(50) / 20, 20.0, "index")
    assert settle_measured_clock(record).episode.frame_pairing == "index"
    (camera,) = record.episode.cameras
    short = replace(camera, media=replace(camera.media, num_frames=49))
    record = replace(record, episode=replace(record.episode, cameras=(short,)))
    assert settle_measured_clock(record).episode.frame_pairing == "stamp"


def test_a_rate_of_the_user_stays_whatever_the_stamps_say() -> None:
    record = make_record(np.arange(200) / 18.5, 20.0, "stamp")
    record = replace(record, episode=replace(record.episode, rate_source="user"))
    episode = settle_measured_clock(record).episode
    assert (episode.rate_hz, episode.rate_source) == (20.0, "user")
    assert episode.measured_rate_hz == pytest.approx(18.5)


def test_a_few_uneven_stamps_do_not_contradict_a_claim() -> None:
    """Eight steps whose jitter moves the slope by two percent are no evidence of another rate."""
    stamps = np.add(np.arange(8), [0.0, 0.1, 0.2, 0.0, 0.3, 0.1, 0.35, 0.25]) / 20
    measured = measure_clock(stamps)
    assert measured is not None and abs(measured.rate_hz / 20 - 1) > 0.01
    assert settle_measured_clock(make_record(stamps, 20.0, "stamp")).episode.rate_source == "source"


@pytest.mark.parametrize("kind", ["mp4", "hdf5"])
def test_frames_paired_by_index_follow_the_measured_rate(kind: Any) -> None:
    record = make_record(np.arange(200) / 18.5, 20.0, "index")
    (camera,) = record.episode.cameras
    other = replace(camera, media=replace(camera.media, kind=kind, start_seconds=2.0, stop_seconds=12.0))
    record = replace(record, episode=replace(record.episode, cameras=(other,)))
    media = settle_measured_clock(record).episode.cameras[0].media
    assert media.rate_hz == pytest.approx(18.5)
    # Seconds of a video are those of its file; of other kinds they are numbers divided by the rate.
    factor = 1.0 if kind == "mp4" else 18.5 / 20
    assert (media.start_seconds, media.stop_seconds) == pytest.approx((2.0 / factor, 12.0 / factor))


def test_stamps_missing_at_both_ends_are_a_period_away_from_their_neighbours() -> None:
    truth = np.arange(60) / 20
    damaged = truth.copy()
    damaged[[0, 59]] = np.nan
    mended = read_stamps(damaged, 20.0)
    assert mended.seconds is not None and np.abs(mended.seconds - truth).max() < 1e-9


def test_a_clock_that_was_set_back_goes_on_a_period_later() -> None:
    truth = np.arange(60) / 20
    stored = truth.copy()
    stored[25:] -= 0.9
    read = read_stamps(stored, 20.0)
    assert read.seconds is not None and np.abs(read.seconds - truth).max() < 1e-9
    assert read.warnings == ("timestamps were set back, a median period is used there",)


def test_a_start_other_than_zero_is_said() -> None:
    read = read_stamps(np.arange(60) / 20 + 3.0, 20.0)
    assert read.seconds is not None and read.seconds[0] == 0.0
    assert read.warnings == ("timestamps do not begin at 0, shifted",)


def test_the_shown_rate_of_an_uneven_camera_is_the_mean_over_the_episode() -> None:
    stamps = np.arange(100) / 20
    stamps[50:] += 5.0
    episode = settle_measured_clock(make_record(stamps, 20.0, "index")).episode
    assert compute_camera_rate_hz(episode, episode.cameras[0]) == pytest.approx(100 / (stamps[-1] + 0.05))
    even = settle_measured_clock(make_record(np.arange(100) / 20, 20.0, "index")).episode
    assert compute_camera_rate_hz(even, even.cameras[0]) == 20.0


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_the_standard_error_is_the_spread_of_measured_rates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    clocks = [measure_clock(np.arange(200) / 20 + rng.normal(0, 0.002, 200)) for _ in range(300)]
    rates, errors = np.array([(clock.rate_hz, clock.standard_error) for clock in clocks if clock]).T
    # The standard deviation of 300 numbers is off by 4 %, one standard error; jitter is far below half a period.
    assert errors.mean() == pytest.approx(rates.std() / 20, rel=0.2), seed


def test_stamps_of_which_less_than_half_rise_are_no_clock() -> None:
    stamps = read_stamps(np.array([0.0, 9, 8, 7, 6, 5, 4, 3, 2, 10]), 1.0)
    assert stamps.seconds is None and stamps.warnings == ("timestamps do not rise, the rate is used",)


def test_a_second_has_the_last_step_before_it_or_the_nearest_one() -> None:
    stamps, seconds = np.array([0.0, 0.1, 0.5]), np.array([-1.0, 0.09, 0.1, 0.35, 0.4999, 0.6])
    assert nearest_steps(stamps, seconds, hold=True).tolist() == [0, 0, 1, 1, 2, 2]
    assert nearest_steps(stamps, seconds, hold=False).tolist() == [0, 1, 1, 2, 2, 2]
