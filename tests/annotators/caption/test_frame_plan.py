"""Frames by duration: what a captioner gets of short and long episodes, of one camera and of several."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.episode import Camera, Episode
from ares.media import all_frames
from ares_annotators.base import Frames, Subject, make_episode_subject
from ares_annotators.caption import compute_even_seconds, plan_frames
from ares_annotators.caption.frame_plan import MAX_FRAMES, CaptionLayout, FramePlan, plan_test_frames
from tests.annotators.samples import make_camera, make_episode

Segment = Callable[..., Subject]
_LAYOUTS = ("auto", "sheets")


@pytest.fixture
def segment() -> Segment:
    """A segment of an episode of so many seconds with so many cameras, all of it where no span is given."""

    def make(
        seconds: float, cameras: int, span: tuple[float, float] | None = None, rate: float = 20.0
    ) -> Subject:
        camera = make_camera("front", seconds, rate)
        episode = make_episode("drawn", [replace(camera, name=f"view_{n}") for n in range(cameras)])
        start, stop = span or (0.0, seconds)
        return replace(make_episode_subject(episode), kind="segment", start_seconds=start, stop_seconds=stop)

    return make


@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.parametrize("cameras", [1, 2, 5])
@pytest.mark.parametrize(
    ("seconds", "span"), [(1, None), (10, None), (40, (7.3, 18.9)), (10_800, (9_000.0, 9_009.5))]
)
def test_every_two_seconds_of_a_span_have_a_frame_of_every_camera(
    segment: Segment, layout: CaptionLayout, cameras: int, seconds: float, span: tuple[float, float] | None
) -> None:
    subject = segment(seconds, cameras, span)
    plan = plan_frames(subject, layout, "")
    assert len(plan.by_camera) == cameras
    for times in plan.by_camera.values():
        ends = [subject.start_seconds, *times, subject.stop_seconds]
        assert max(np.diff(ends)) <= 2.0
        assert subject.start_seconds <= times[0] and times[-1] < subject.stop_seconds
        assert len(times) >= 3
    assert sum(map(len, plan.by_camera.values())) <= MAX_FRAMES


@pytest.mark.parametrize("rate", [0.2, 1.0, 29.97])
def test_a_slow_camera_gives_all_that_it_has(segment: Segment, rate: float) -> None:
    (times,) = plan_frames(segment(20, 1, rate=rate), "auto", "").by_camera.values()
    assert max(np.diff(times)) <= max(2.0, 1.5 / rate)
    assert len(times) == len(set(times))


@pytest.mark.parametrize(("cameras", "each"), [(1, 60), (2, 30), (5, 12), (30, 3)])
def test_hours_give_sixty_frames_evenly_over_cameras(segment: Segment, cameras: int, each: int) -> None:
    plan = plan_frames(segment(3 * 3600, cameras), "auto", "")
    assert {len(times) for times in plan.by_camera.values()} == {each}
    times = next(iter(plan.by_camera.values()))
    assert times[0] == 0 and times[-1] > 3 * 3600 - 1
    assert np.ptp(np.diff(times)) < 0.2


def test_a_short_episode_gives_each_frame_once(segment: Segment) -> None:
    assert compute_even_seconds(segment(0.05, 1).episode.cameras[0], 3) == [0.0]
    assert len(compute_even_seconds(segment(0.1, 1).episode.cameras[0], 8)) == 2


def test_tiles_are_first_middle_and_last_frame_of_the_front_camera(episodes: dict[str, Episode]) -> None:
    episode = episodes["drawer-close_000"]
    seconds = plan_frames(make_episode_subject(episode), "tiles", "").by_camera
    assert list(seconds) == ["front"]
    frames = Frames(episode, [seconds])
    frames.decode()
    all_images = list(all_frames(episode.camera("front").media))
    shown = frames.at("front", seconds["front"])
    for image, index in zip(shown, (0, round((len(all_images) - 1) / 2), len(all_images) - 1), strict=True):
        assert np.array_equal(image, all_images[index])


def test_few_frames_are_images_and_many_are_sheets_with_times(segment: Segment) -> None:
    few, many = plan_frames(segment(10, 2), "auto", ""), plan_frames(segment(60, 2), "auto", "")
    assert not few.has_times and len(few.image_sizes()) == len(few.seconds) * 2
    assert many.has_times and len(many.image_sizes()) <= 16
    assert len(plan_frames(segment(3 * 3600, 1), "sheets", "").image_sizes()) == 7


@pytest.mark.parametrize("layout", ["auto", "sheets", "tiles"])
@pytest.mark.parametrize("seconds", [0.1, 3, 60])
def test_images_are_of_the_size_that_is_quoted(
    segment: Segment, layout: CaptionLayout, seconds: float
) -> None:
    plan = plan_frames(segment(seconds, 2), layout, "")
    images = plan.arrange(_numbered_frames)
    assert [image.shape[:2] for image in images] == plan.image_sizes()
    assert {image.dtype for image in images} == {np.dtype(np.uint8)}


def _numbered_frames(camera: str, seconds: object) -> NDArray[np.uint8]:
    """Frames of one grey each."""
    count = len(list(seconds))  # type: ignore[call-overload]
    shades = np.arange(1, count + 1, dtype=np.uint8)[:, None, None, None]
    return np.broadcast_to(shades, (count, 192, 192, 3)).copy()


def test_a_sheet_shows_frames_row_by_row_under_their_times(segment: Segment) -> None:
    plan = plan_frames(segment(12, 1), "sheets", "")
    (sheet,) = plan.arrange(_numbered_frames)
    assert sheet.shape == (3 * (192 + 16), 3 * 192, 3)
    centres = [[int(sheet[row * 208 + 112, column * 192 + 96, 0]) for column in range(3)] for row in range(3)]
    assert [shade for row in centres for shade in row] == [1, 2, 3, 4, 5, 6, 7, 8, 0]
    bands = [sheet[:16, column * 192 : (column + 1) * 192] for column in range(3)]
    assert all(band.max() > 200 for band in bands), "no time is written"
    assert not np.array_equal(bands[0], bands[1])


@pytest.mark.parametrize("seconds", [1, 10, 60])
@pytest.mark.parametrize("layout", _LAYOUTS)
def test_the_legend_has_the_time_of_every_frame_and_no_name_of_the_source(
    segment: Segment, layout: CaptionLayout, seconds: float
) -> None:
    plan = plan_frames(segment(seconds, 2), layout, "")
    legend = plan.legend()
    assert re.findall(r"(\d+\.\d\d) s", legend) == [
        f"{second:.2f}" for times in plan.by_camera.values() for second in times
    ]
    assert legend.startswith(f"{len(plan.image_sizes())} ")
    assert "camera 2 (front)" in legend and "view_" not in legend


def test_a_camera_that_is_named_is_the_only_one(segment: Segment) -> None:
    plan = plan_frames(segment(10, 3), "auto", "view_1")
    assert plan.camera == "view_1" and list(plan.by_camera) == ["view_1"]
    assert plan_frames(segment(10, 3), "auto", "").camera == ""
    assert plan_frames(segment(10, 3), "auto", "roof").views == []


def test_flagged_cameras_are_left_out(segment: Segment) -> None:
    subject = segment(10, 3)
    cameras: tuple[Camera, ...] = subject.episode.cameras
    black = replace(subject.episode, cameras=(replace(cameras[0], flags=("black",)), *cameras[1:]))
    assert list(plan_frames(replace(subject, episode=black), "auto", "").by_camera) == ["view_1", "view_2"]
    assert list(plan_frames(replace(subject, episode=black), "tiles", "").by_camera) == ["view_1"]


@pytest.mark.parametrize("layout", ["auto", "sheets", "tiles"])
def test_a_test_call_has_images_of_the_layout(layout: CaptionLayout) -> None:
    plan: FramePlan = plan_test_frames(layout, 192, 192)
    assert [image.shape[:2] for image in plan.arrange(_numbered_frames)] == plan.image_sizes()
    assert plan.legend()
