"""Measured rates that differ by no more than their spread are one dataset of an export, and the report says so."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ares.episode import Record
from ares.export import ExportReport
from ares.workspace import Workspace
from tests.ares.export.made_episodes import make_record, make_set
from tests.thinning import some_by_day


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
