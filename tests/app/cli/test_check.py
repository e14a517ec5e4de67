"""`ares check`: what it prints and returns for clean data, for faults, and where nothing can be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ares
from ares.checks import QualityFinding
from ares.media import encode_mp4
from ares.reports.finding_counts import FindingCounter
from tests.app.cli.conftest import Refused
from tests.app.cli.motion_dataset import RATE_HZ, random_motions, write_motions
from tests.generators.scenes import filmed_dataset, random_scene
from tests.workspaces import CommandResult

Run = Callable[..., CommandResult]


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    """Four episodes."""
    return write_motions(tmp_path / "clean", random_motions(1))


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """Four episodes; the third has a NaN in its second dimension."""
    motions = random_motions(2)
    motions[2][60, 1] = np.nan
    return write_motions(tmp_path / "faulty", motions)


def test_clean_data_are_clean_and_python_gives_the_same_report(clean: Path, run_ares: Run) -> None:
    done = run_ares("check", clean)
    assert done.status == 0 and "4 episodes checked: no faults" in done.out
    report = ares.check(clean)
    (dataset,) = report.datasets
    assert (report.num_episodes, report.is_clean) == (4, True)
    assert dataset.lag_seconds == pytest.approx(3 / RATE_HZ, abs=1 / RATE_HZ)
    assert ares.check(clean, limit=1).num_episodes == 1


def test_a_not_finite_value_is_named_with_its_second(faulty: Path, run_ares: Run) -> None:
    done = run_ares("check", faulty, "--json")
    (dataset,) = done.json["datasets"]
    (count,) = dataset["findings"]
    assert (done.status, count["code"], count["episodes"]) == (1, "A001", 1)
    assert count["dimensions"] == {"elbow": 1}
    assert {round(worst["seconds"], 2) for worst in count["worst"]} == {2.0, 2.1}


def test_nothing_to_read_is_refused(
    tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    assert refused("check", tmp_path).startswith("ares check: ")
    monkeypatch.chdir(tmp_path)
    assert "no SOURCE is given: name a folder or a file, or with -w a workspace" in refused("check")


def test_a_file_that_cannot_be_read_is_counted_with_its_reason(
    clean: Path, tmp_path: Path, run_ares: Run
) -> None:
    reason = "a download that did not end: download it again"
    fix = ("fix", clean, tmp_path / "copy", "--dry-run")
    assert run_ares(*fix).status == 0
    cut = clean / "episode_000009.parquet.part"
    cut.write_bytes(b"PAR1 and no more")
    done = run_ares("check", clean)
    assert done.status == 1
    assert f"not read: 1 file of data\nunreadable: {cut}: {reason}\n" in done.out
    assert done.out.rstrip().endswith("4 episodes checked, 1 file not read: no faults")
    report = run_ares("check", clean, "--json").json
    assert not report["clean"]
    assert report["unread"] == [{"path": str(cut), "use": "unreadable", "detail": reason}]
    fixed = run_ares(*fix)
    assert fixed.status == 1 and reason in fixed.out, "a corrected copy says so, too"


def test_a_picture_of_no_episode_is_named_and_is_no_failure(clean: Path, run_ares: Run) -> None:
    (clean / "setup.png").write_bytes(b"\x89PNG")
    done = run_ares("check", clean)
    assert done.status == 0 and "a picture that no episode names" in done.out


def test_a_video_that_could_not_be_checked_is_a_failure(clean: Path) -> None:
    report = ares.check(clean, video=True)
    (dataset,) = report.datasets
    assert report.is_clean and dataset.video is not None
    failed = replace(dataset, video=replace(dataset.video, num_failed=1))
    assert not replace(report, datasets=(failed,)).is_clean


def test_without_a_source_those_of_the_workspace_are_checked_with_what_they_were_read_with(
    tmp_path: Path, clean: Path, faulty: Path, run_ares: Run, refused: Refused
) -> None:
    own = ("-w", tmp_path / "w")
    assert run_ares("ingest", clean, "--rate", "15", "--dataset", "arm", *own).status == 0
    assert run_ares("ingest", faulty, *own).status == 0
    faulty.rename(tmp_path / "moved")
    done = run_ares("check", "--json", *own)
    (dataset,) = done.json["datasets"]
    assert (dataset["path"], dataset["dataset"], dataset["episodes"]) == (str(clean), "arm", 4)
    assert f"not checked, as they are not where they were: faulty ({faulty})" in done.err
    assert f"checking the sources of the workspace: {clean}" in done.err
    clean.rename(tmp_path / "moved-too")
    done = run_ares("check", *own)
    assert done.status == 2 and "no sources that can be checked" in done.err


def test_a_code_of_two_datasets_is_one_kind_and_one_episode_is_singular(
    tmp_path: Path, run_ares: Run
) -> None:
    for name, seed in (("first", 2), ("second", 3)):
        motions = random_motions(seed)[:1]
        motions[0][60, 1] = np.nan
        write_motions(tmp_path / "both" / name, motions)
    done = run_ares("check", tmp_path / "both", "-q")
    assert done.status == 1
    assert "2 episodes checked: 1 kind of fault\n" in done.out and "): 1 episode; " in done.out
    assert "1 episodes" not in done.out and "kinds" not in done.out


def test_what_is_of_the_files_of_a_dataset_is_of_no_episode() -> None:
    counter = FindingCounter()
    total = QualityFinding(
        code="A062", signal="dataset", dimension="index max", seconds=0.0, size=3.0, confidence=1.0
    )
    counter.add("", "meta/stats.json", [total])
    assert [(count.code, count.num_episodes) for count in counter.counts()] == [("A062", 0)]
    counter.add("episode", "meta/episodes/0.parquet", [total])
    assert [(count.code, count.num_episodes) for count in counter.counts()] == [("A062", 1)]


def test_videos_are_decoded_where_they_lie_if_that_is_asked_for(
    tmp_path: Path, run_ares: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A black span and a damaged file are named, also where long recordings are decoded a few at a time."""
    rng = np.random.default_rng(18)
    (tmp_path / "videos").mkdir()
    for number, film in enumerate(filmed_dataset(random_scene(rng), rng, 4)):
        frames = film.cameras["camera_0"].copy()
        if number == 2:
            frames[30:38] = 0
        encode_mp4(frames, tmp_path / "videos" / f"video_{number}.mp4", film.rate_hz)
    cut = tmp_path / "videos" / "video_3.mp4"
    cut.write_bytes(cut.read_bytes()[:2000])
    monkeypatch.setattr("ares_ingest.check.video._MOST_FRAMES", 150)
    (dataset,) = run_ares("check", tmp_path / "videos", "--video", "--json").json["datasets"]
    assert dataset["video"]["episodes"] == 3
    (black,) = [count for count in dataset["findings"] if count["code"] == "A033"]
    (worst,) = black["worst"]
    assert worst["episode"].endswith("video_2.mp4")
    assert worst["seconds"] == pytest.approx(30 / 15, abs=0.1)
    assert "video_3.mp4" in dataset["first_failure"]
    (dataset,) = run_ares("check", tmp_path / "videos", "--json").json["datasets"]
    assert "A033" not in {count["code"] for count in dataset["findings"]}
