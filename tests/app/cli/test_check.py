"""`ares check`: what it prints and returns for clean data, for faults, and where nothing can be read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ares
from app.cli.main import main
from tests.app.cli.motion_dataset import RATE_HZ, random_motions, write_motions


def test_clean_data_are_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_motions(tmp_path / "clean", random_motions(1))
    assert main(["check", str(folder)]) == 0
    text = capsys.readouterr().out
    assert "4 episodes" in text
    assert "4 episodes checked: no faults" in text


def test_a_not_finite_value_is_named_with_its_second(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    motions = random_motions(2)
    motions[2][60, 1] = np.nan
    folder = write_motions(tmp_path / "faulty", motions)
    assert main(["check", str(folder), "--json"]) == 1
    (dataset,) = json.loads(capsys.readouterr().out)["datasets"]
    (count,) = [count for count in dataset["findings"] if count["code"] == "A001"]
    assert count["episodes"] == 1
    assert count["dimensions"] == {"elbow": 1}
    assert {round(worst["seconds"], 2) for worst in count["worst"]} == {2.0, 2.1}


def test_python_gives_the_same_report(tmp_path: Path) -> None:
    report = ares.check(write_motions(tmp_path / "clean", random_motions(3)))
    assert report.num_episodes == 4
    assert report.is_clean
    (dataset,) = report.datasets
    assert dataset.lag_seconds == pytest.approx(3 / RATE_HZ, abs=1 / RATE_HZ)
    assert ares.check(dataset.path, limit=1).num_episodes == 1


def test_nothing_to_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    assert main(["check", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("ares check: ")
