"""Video checks: faults planted into generated films are found in their camera, and clean films pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ares.checks import VideoSummary, check_videos, learn_typical_video
from ares.checks.video.features import CameraFeatureBuilder
from ares.checks.video.frame_changes import check_frame_timing, frame_changes
from tests.generators.scenes import (
    VIDEO_PLANTERS,
    FilmedEpisode,
    filmed_dataset,
    plant_video_fault,
    random_scene,
)
from tests.generators.strengths import STRENGTHS
from tests.generators.video_scoring import faulty_summary, filmed_summary
from tests.thinning import some_by_day

# Of the development part, with two cameras each; the audit in benchmarks/RESULTS.md has many scenes.
_SEED = 18
_CODES = sorted(VIDEO_PLANTERS)


@cache
def _films(seed: int) -> list[FilmedEpisode]:
    rng = np.random.default_rng(seed)
    return filmed_dataset(random_scene(rng), rng, 4)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[VideoSummary]]:
    """The summaries of the clean films of a seed."""
    return cache(
        lambda seed: [filmed_summary(film, tmp_path_factory.mktemp("clean")) for film in _films(seed)]
    )


@pytest.mark.parametrize("code", some_by_day(_CODES, 2))
def test_a_planted_fault_is_found_in_its_camera(
    code: str, clean: Callable[[int], list[VideoSummary]], tmp_path: Path
) -> None:
    of_seed, rng = clean(_SEED), np.random.default_rng(_SEED)
    fault = plant_video_fault(code, _films(_SEED)[-1], "camera_0", STRENGTHS[code].size, rng)
    assert fault is not None
    faulty = faulty_summary(_films(_SEED)[-1], of_seed[-1], fault, tmp_path)
    findings = check_videos(faulty, learn_typical_video([*of_seed[:-1], faulty])).findings
    matching = {finding.dimension: finding for finding in findings if finding.code == code}
    assert set(matching) == ({"camera_0", "camera_1"} if code == "A038" else {fault.camera})
    if code in ("A030", "A031", "A032", "A033", "A034", "A035", "A039", "A040"):
        assert abs(matching[fault.camera].seconds - fault.seconds) <= 1.0


@pytest.mark.parametrize("seed", [_SEED, pytest.param(8, marks=pytest.mark.slow)])
def test_clean_films_have_no_findings(seed: int, clean: Callable[[int], list[VideoSummary]]) -> None:
    typical = learn_typical_video(clean(seed))
    assert [finding for summary in clean(seed) for finding in check_videos(summary, typical).findings] == []


def test_a_line_of_the_scene_is_no_border_of_blocks() -> None:
    frame = np.full((120, 160), 90, np.uint8)
    frame[:, 40:64:8] = 250
    measures = [features_of(frame), features_of(np.full((120, 160), 90, np.uint8))]
    assert measures[0] == pytest.approx(measures[1], abs=0.2)


def features_of(luma: np.ndarray) -> float:
    """How much borders of blocks are seen in a frame."""
    builder = CameraFeatureBuilder(camera="front", rate_hz=10.0, expected_frames=1)
    builder.add(0.0, luma, np.zeros((48, 64, 3), np.uint8))
    return float(builder.build().blocks[0])


def test_a_gap_of_the_stamps_is_named_with_its_second() -> None:
    builder = CameraFeatureBuilder(camera="front", rate_hz=10.0, expected_frames=40)
    for number in range(40):
        second = number / 10 + (0.6 if number >= 20 else 0.0)
        builder.add(second, np.zeros((60, 80), np.uint8), np.zeros((48, 64, 3), np.uint8))
    (finding,) = check_frame_timing(builder.build(), None)
    assert (finding.code, finding.seconds) == ("A036", 1.9)
    assert finding.size == pytest.approx(0.6)


@pytest.mark.nightly
def test_a_long_recording_is_compared_in_parts() -> None:
    rng = np.random.default_rng(4)
    builder = CameraFeatureBuilder(camera="front", rate_hz=30.0, expected_frames=9000)
    base = rng.integers(0, 255, (48, 64, 3)).astype(np.uint8)
    for number in range(9000):
        small = base if 4090 <= number < 4130 else np.roll(base, number, axis=1)
        builder.add(number / 30, np.zeros((60, 80), np.uint8), small)
    changes = frame_changes(builder.build())
    assert len(changes.energy) == 8999
    assert np.flatnonzero(changes.is_same).tolist() == list(range(4090, 4129))
