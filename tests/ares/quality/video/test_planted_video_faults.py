"""Video checks: faults planted into generated films are found in their camera, and clean films pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ares.quality import check_code
from ares.quality.video import VideoSummary, check_videos, learn_videos
from ares.quality.video.audit import (
    VIDEO_PLANTERS,
    FilmedEpisode,
    faulty_summary,
    filmed_dataset,
    filmed_summary,
    plant_video_fault,
    random_scene,
)

# Of the development part; the audit in benchmarks/RESULTS.md has many.
_SEED = 30
_FOUND_CODES = ("A030", "A031", "A032", "A033", "A039", "A040")


@pytest.fixture(scope="module")
def films() -> list[FilmedEpisode]:
    rng = np.random.default_rng(_SEED)
    return filmed_dataset(random_scene(rng), rng, 3)


@pytest.fixture(scope="module")
def clean(films: list[FilmedEpisode], tmp_path_factory: pytest.TempPathFactory) -> list[VideoSummary]:
    return [filmed_summary(film, tmp_path_factory.mktemp("clean")) for film in films]


@pytest.mark.parametrize("code", _FOUND_CODES)
def test_a_planted_fault_is_found_in_its_camera_at_its_second(
    code: str, films: list[FilmedEpisode], clean: list[VideoSummary], tmp_path: Path
) -> None:
    rng = np.random.default_rng(_SEED)
    fault = plant_video_fault(code, films[-1], "camera_0", check_code(code).strength, rng)
    assert fault is not None
    faulty = faulty_summary(films[-1], clean[-1], fault, tmp_path)
    findings = check_videos(faulty, learn_videos([*clean[:-1], faulty])).findings
    matching = [finding for finding in findings if finding.code == code]
    assert [finding.dimension for finding in matching] == [fault.camera]
    assert abs(matching[0].seconds - fault.seconds) <= 1.0


def test_clean_films_have_none_of_these_findings(clean: list[VideoSummary]) -> None:
    typical = learn_videos(clean)
    codes = {finding.code for summary in clean for finding in check_videos(summary, typical).findings}
    assert not codes.intersection(_FOUND_CODES)


def test_every_video_code_has_a_fault_that_can_be_planted(films: list[FilmedEpisode]) -> None:
    rng = np.random.default_rng(_SEED)
    for code in VIDEO_PLANTERS:
        fault = plant_video_fault(code, films[-1], "camera_0", check_code(code).strength, rng)
        if fault is not None and not fault.damaged_bytes:
            frames = fault.episode.cameras[fault.camera]
            assert not np.array_equal(frames, films[-1].cameras[fault.camera]), code
