"""`ares check`: what it prints and returns for clean data, for faults, and where nothing can be read."""

from __future__ import annotations

import json
from dataclasses import replace
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


_CUT, _REASON = "episode_000009.parquet.part", "a download that did not end: download it again"


def test_a_file_that_cannot_be_read_is_counted_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_motions(tmp_path / "clean", random_motions(1))
    (folder / _CUT).write_bytes(b"PAR1 and no more")
    assert main(["check", str(folder)]) == 1
    text = capsys.readouterr().out
    assert f"not read: 1 file of data\nunreadable: {folder / _CUT}: {_REASON}\n" in text
    assert text.rstrip().endswith("4 episodes checked, 1 file not read: no faults")
    main(["check", str(folder), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert not report["clean"]
    assert report["unread"] == [{"path": str(folder / _CUT), "use": "unreadable", "detail": _REASON}]


def test_a_corrected_copy_says_what_it_could_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_motions(tmp_path / "clean", random_motions(1))
    assert main(["check", str(folder), "--fix", str(tmp_path / "copy"), "--dry-run"]) == 0
    (folder / _CUT).write_bytes(b"PAR1 and no more")
    capsys.readouterr()
    assert main(["check", str(folder), "--fix", str(tmp_path / "copy"), "--dry-run"]) == 1
    assert _REASON in capsys.readouterr().out


def test_a_picture_of_no_episode_is_named_and_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_motions(tmp_path / "clean", random_motions(1))
    (folder / "setup.png").write_bytes(b"\x89PNG")
    assert main(["check", str(folder)]) == 0
    assert "a picture that no episode names" in capsys.readouterr().out


def test_a_video_that_could_not_be_checked_is_a_failure(tmp_path: Path) -> None:
    report = ares.check(write_motions(tmp_path / "clean", random_motions(3)), video=True)
    (dataset,) = report.datasets
    assert report.is_clean and dataset.video is not None
    failed = replace(dataset, video=replace(dataset.video, num_failed=1))
    assert not replace(report, datasets=(failed,)).is_clean


def test_without_a_source_those_of_the_workspace_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what they were read with, and what is not where it was is named."""
    kept = write_motions(tmp_path / "kept", random_motions(1))
    gone = write_motions(tmp_path / "gone", random_motions(2))
    workspace = ["-w", str(tmp_path / "w")]
    assert main(["ingest", str(kept), "--rate", "15", "--dataset", "arm", "-q", *workspace]) == 0
    assert main(["ingest", str(gone), "-q", *workspace]) == 0
    capsys.readouterr()
    gone.rename(tmp_path / "moved")
    assert main(["check", "--json", *workspace]) == 0
    printed = capsys.readouterr()
    (dataset,) = json.loads(printed.out)["datasets"]
    assert (dataset["path"], dataset["dataset"], dataset["episodes"]) == (str(kept), "arm", 4)
    assert f"not checked, as they are not where they were: gone ({gone})" in printed.err
    assert f"checking the sources of the workspace: {kept}" in printed.err
    kept.rename(tmp_path / "moved-too")
    assert main(["check", *workspace]) == 2
    assert "no sources that can be checked" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == 2
    assert "no SOURCE is given: name a folder or a file, or with -w a workspace" in capsys.readouterr().err


def test_an_option_that_lacks_another_is_refused_before_a_workspace_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--dry-run", "-w", str(tmp_path / "missing")]) == 2
    assert "--dry-run lists the changes of --fix: give --fix DEST too" in capsys.readouterr().err
