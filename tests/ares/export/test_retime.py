"""How exactly a clock must keep a rate: what is even is written step by step, and which measured rates are one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ares.clock import time_tolerance
from ares.episode import Record
from ares.errors import SourceError
from ares.export import ExportReport
from ares.export.base import ExportRate
from ares.export.lerobot.writer import prepare_video
from ares.export.retime import ClockChanges, RetimedEpisode, export_rate_hz, retime_episode
from ares.workspace import Workspace
from tests.ares.export.made_episodes import FRONT, make_record, make_set
from tests.thinning import some_by_day

UNEVEN = "steps are not at a constant rate"


@pytest.mark.parametrize(
    ("rate_hz", "written_hz"),
    [
        (30.0000009, 30.0),
        (29.9999991, 30.0),
        (30.000002, 30.000002),
        (29.999998, 29.999998),
        (0.9999995, 1.0),
        (29.97, 30_000 / 1001),
        (30_000 / 1001 * 1.00019, 30_000 / 1001),
        (30_000 / 1001 * 0.99981, 30_000 / 1001),
        (30_000 / 1001 * 1.00021, 30_000 / 1001 * 1.00021),
        (30_000 / 1001 * 0.99979, 30_000 / 1001 * 0.99979),
        (23.976, 24_000 / 1001),
        (0.4, 0.4),
    ],
)
def test_a_rate_near_a_whole_or_television_rate_is_that_rate(rate_hz: float, written_hz: float) -> None:
    """Within a millionth of a hertz of a whole number, and within 0.02 % of a television rate."""
    assert export_rate_hz(make_record(0, rate_hz=rate_hz).episode) == written_hz


@pytest.mark.parametrize(
    ("rate_hz", "written_hz"), [(19.96, 20.0), (20.04, 20.0), (20.06, 20.1), (0.96, 0.96)]
)
def test_a_measured_rate_is_rounded_to_a_tenth_from_one_hertz_on(rate_hz: float, written_hz: float) -> None:
    episode = make_record(0, rate_hz=rate_hz, rate_source="measured").episode
    assert export_rate_hz(episode) == written_hz
    assert export_rate_hz(replace(episode, rate_source="user")) == rate_hz


def _retimed(record: Record, shift_seconds: float, clock: ExportRate) -> RetimedEpisode:
    """The episode on the clock of an export, with one step that is stamped off its second."""
    stamps = np.arange(record.episode.num_steps) / 20.0
    stamps[50] += shift_seconds
    return retime_episode(record.episode, replace(record.trajectory, timestamps=stamps), clock)


def test_a_step_is_that_of_its_second_within_a_millisecond() -> None:
    """A step that is later than its second by more is held back, and the one before it is written twice."""
    clock, record = ExportRate(20.0, "hold"), make_record(0)
    assert time_tolerance(20.0) == 1e-3
    near = _retimed(record, 0.00099, clock)
    assert near.keeps_steps and near.shift_seconds == pytest.approx(0.00099)
    late = _retimed(record, 0.00101, clock)
    assert late.steps[49:52].tolist() == [49, 49, 51]


def test_packets_are_copied_where_steps_are_at_their_seconds_within_a_millisecond(tmp_path: Path) -> None:
    record = make_record(0)
    for shift_seconds, reason in ((0.00099, ""), (-0.00099, ""), (0.00101, UNEVEN), (-0.00101, UNEVEN)):
        retimed = _retimed(record, shift_seconds, ExportRate())
        prepared = prepare_video(FRONT, retimed, 20.0, tmp_path / "scratch.mp4")
        assert (prepared.is_encoded, prepared.encoding_reason) == (bool(reason), reason)
        prepared.close()


@pytest.mark.parametrize(("after_seconds", "steps"), [(-0.0009, 214), (-0.0011, 213), (0.0, 214)])
def test_the_last_step_counts_where_its_second_is_reached_within_a_millisecond(
    after_seconds: float, steps: int
) -> None:
    """107 steps, the last of them stamped at 5.325 s and a little, are 214 at 40 Hz or one less."""
    record = make_record(0)
    stamps = np.linspace(0, 5.325 + after_seconds, record.episode.num_steps)
    trajectory = replace(record.trajectory, timestamps=stamps)
    assert retime_episode(record.episode, trajectory, ExportRate(40.0)).episode.num_steps == steps


def test_an_episode_whose_clock_jumps_is_refused_before_its_steps_are_made() -> None:
    """At the rate of the export, 107 steps would be two million."""
    record = make_record(0)
    stamps = np.arange(record.episode.num_steps) / 20.0
    stamps[50:] += 1e5
    trajectory = replace(record.trajectory, timestamps=stamps)
    with pytest.raises(SourceError, match="it would have too many steps at the rate of the export"):
        retime_episode(record.episode, trajectory, ExportRate(20.0, "hold"))


def test_what_an_export_changed_in_clocks_is_counted_by_reason() -> None:
    record, clock = make_record(0), ExportRate(10.0, "hold")
    steps = record.episode.num_steps
    changes = ClockChanges(clock)
    slower = [_retimed(record, shift, clock) for shift in (0.0, 0.002)]
    assert slower[0].episode.num_steps < steps
    for retimed in slower:
        changes.add(retimed)
    (change,) = changes.to_json()
    assert isinstance(change, dict) and str(change["reason"]).startswith("steps were selected at 10 Hz")
    assert change["episodes"] == 2 and change["steps_before"] == 2 * steps
    assert change["steps_after"] == sum(retimed.episode.num_steps for retimed in slower)
    assert change["largest_shift_seconds"] == round(max(retimed.shift_seconds for retimed in slower), 6)

    changes = ClockChanges(ExportRate())
    for shift in (0.0, 0.004):
        changes.add(_retimed(record, shift, ExportRate()))
    (change,) = changes.to_json()
    assert isinstance(change, dict) and str(change["reason"]).startswith("uneven stamps")
    assert change == {
        "reason": change["reason"], "episodes": 1, "steps_before": steps, "steps_after": steps,
        "largest_shift_seconds": 0.004,
    }  # fmt: skip


def recorded_at(number: int, rate_hz: float, spread: float = 0.02) -> Record:
    """An episode without cameras whose stamps have a rate that was measured."""
    rng = np.random.default_rng(number)
    record = make_record(number)
    count = record.episode.num_steps
    seconds = (np.arange(count) + rng.uniform(-spread / 2, spread / 2, count)) / rate_hz
    seconds -= seconds[0]
    episode = replace(
        record.episode,
        rate_hz=rate_hz,
        rate_source="measured",
        measured_rate_hz=rate_hz,
        rate_spread=spread,
        frame_pairing="stamp",
        cameras=(),
    )
    return replace(record, episode=episode, trajectory=replace(record.trajectory, timestamps=seconds))


def exported(workspace: Workspace, records: Sequence[Record], folder: Path, format: str) -> ExportReport:
    return workspace.export(make_set(workspace, records), folder, format=format, quiet=True)


@pytest.mark.parametrize("seed", some_by_day(range(4), 4))
@pytest.mark.parametrize("format", ["lerobot", "rlds"])
def test_rates_within_the_spread_are_one_dataset(
    ws: Workspace, tmp_path: Path, seed: int, format: str
) -> None:
    rng = random.Random(seed)
    middle = rng.choice((14.9, 18.5, 29.4, 9.7))
    rates = [middle * (1 + offset) for offset in (-0.006, 0.0, 0.005, rng.uniform(-0.005, 0.005))]
    records = [recorded_at(number, rate) for number, rate in enumerate(rates)]
    report = exported(ws, records, tmp_path / "out", format)
    assert len(report.datasets) == 1
    assert report.episodes == 4
    joined = [change for change in report.changed if "are one rate" in str(change["reason"])]
    assert len(joined) == 1 and joined[0]["episodes"] in (1, 2, 3)


def test_rates_beyond_the_spread_stay_datasets_of_their_own(ws: Workspace, tmp_path: Path) -> None:
    records = [recorded_at(number, rate) for number, rate in enumerate((18.4, 18.6, 21.0))]
    report = exported(ws, records, tmp_path / "out", "lerobot")
    assert sorted(str(dataset["episodes"]) for dataset in report.datasets) == ["1", "2"]


def test_rates_that_were_stated_are_never_joined(ws: Workspace, tmp_path: Path) -> None:
    stated = [
        replace(record, episode=replace(record.episode, rate_source="user"))
        for record in (recorded_at(number, 18.4 + number / 10) for number in range(2))
    ]
    report = exported(ws, stated, tmp_path / "out", "lerobot")
    assert len(report.datasets) == 2
