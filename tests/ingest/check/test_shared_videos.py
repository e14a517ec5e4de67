"""A check of videos tells frames that no episode has, first frames of the episode before, and the span of black."""

from __future__ import annotations

from pathlib import Path

import pytest

import ares
from ares.checks import QualityFinding
from ingest.check.video import SharedVideos, VideoTask, run_video_tasks
from tests.generators.shared_videos import make_shared_video
from tests.ingesting import open_sources
from tests.thinning import some_by_day


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


@pytest.mark.parametrize("seed", some_by_day(range(8), kept=(0,)))
def test_frames_that_no_episode_has_are_told(seed: int, tmp_path: Path) -> None:
    made = make_shared_video(tmp_path / "d", seed, "unused")
    ((_, finding),) = findings_of(made.path, "A045")
    assert finding.size == pytest.approx(made.num_unused, abs=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_by_day(range(10, 18)))
def test_first_frames_of_the_episode_before_are_told(seed: int, tmp_path: Path) -> None:
    made = make_shared_video(tmp_path / "d", seed, "late")
    assert [key for key, _ in findings_of(made.path, "A046")] == [*map(str, made.late)]


@pytest.mark.slow
@pytest.mark.parametrize("code", ["A033", "A045", "A046"])
@pytest.mark.parametrize("seed", some_by_day([20, 21]))
def test_a_clean_shared_video_has_no_such_finding(seed: int, code: str, tmp_path: Path) -> None:
    assert not findings_of(make_shared_video(tmp_path / "d", seed).path, code)


@pytest.mark.parametrize("seed", some_by_day(range(30, 36), kept=(30,)))
def test_a_black_span_has_its_length_and_its_place(seed: int, tmp_path: Path) -> None:
    made = make_shared_video(tmp_path / "d", seed, "black")
    assert made.black is not None
    ((key, finding),) = findings_of(made.path, "A033")
    number, second, seconds = made.black
    assert key == str(number)
    assert finding.seconds == pytest.approx(second, abs=0.11)
    assert finding.size == pytest.approx(seconds, abs=0.11)


@pytest.mark.slow
def test_a_check_of_videos_counts_both_with_their_episodes(tmp_path: Path) -> None:
    made = make_shared_video(tmp_path / "d", 2, "unused")
    (dataset,) = ares.check(made.path, video=True).datasets
    (count,) = [count for count in dataset.counts if count.code == "A045"]
    assert count.severity == "information" and count.worst[0].key
