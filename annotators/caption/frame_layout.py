"""How a few evenly spread frames become the images of a request: tiles of one image, or each frame alone."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.base import Subject
from ares.clock import compute_camera_rate_hz
from ares.episode import Camera, Episode
from ares.errors import RequestError

if TYPE_CHECKING:
    pass


_MAX_FRAMES = 64
_TILES = 3
# A boundary that is a frame's own second up to rounding belongs to that frame.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class FrameLayout:
    """How frames are arranged for a model.

    Attributes:
        name: "tiles", "collage" or "frames:N".
        count: Frames taken, first and last included.
    """

    name: str
    count: int

    def legend(self, seconds: Sequence[float]) -> str:
        """A description of the images, for a prompt."""
        times = ", ".join(f"{second:.2f} s" for second in seconds)
        if self.name == "collage":
            return f"One image of {len(seconds)} tiles, left to right in order of time, at {times}."
        return f"{len(seconds)} images in order of time, at {times}."


def parse_frame_layout(text: str) -> FrameLayout:
    """Read "tiles", "collage" or "frames:N". Raises RequestError for anything else."""
    if text in ("tiles", "collage"):
        return FrameLayout(text, _TILES)
    match = re.fullmatch(r"frames:(\d+)", text)
    if match and 1 <= int(match[1]) <= _MAX_FRAMES:
        return FrameLayout(text, int(match[1]))
    raise RequestError(
        f"no layout {text!r}", f"there are: tiles, collage, frames:N with N from 1 to {_MAX_FRAMES}"
    )


def choose_camera(episode: Episode, name: str) -> Camera | None:
    """The camera of that name, or the best one; None when the episode has no such camera."""
    return next((camera for camera in episode.good_cameras if not name or camera.name == name), None)


def compute_even_seconds(
    camera: Camera, count: int, *, last_frames: int | None = None, subject: Subject | None = None
) -> list[float]:
    """Seconds of `count` frames, evenly spread, ends included.

    Args:
        camera: The camera.
        count: Most frames; fewer where there are not as many.
        last_frames: Only so many frames at the end.
        subject: Only frames in its span; None for all of the camera.
    """
    rate_hz = compute_camera_rate_hz(subject.episode, camera) if subject else camera.media.rate_hz
    first, last = frame_range(camera, subject, rate_hz)
    if last_frames:
        first = max(first, last + 1 - last_frames)
    return spread_seconds(first, last, count, rate_hz)


def spread_seconds(first: int, last: int, count: int, rate_hz: float) -> list[float]:
    """Seconds of at most `count` of the frames from the first to the last, evenly spread, ends included."""
    step = (last - first) / max(count - 1, 1)
    indices = sorted({round(first + step * position) for position in range(count)})
    return [frame_second(index, rate_hz) for index in indices]


def frame_range(camera: Camera, subject: Subject | None, rate: float) -> tuple[int, int]:
    """The first and the last frame of a camera that lie in the span of a subject; one frame where none does."""
    last = max(camera.media.num_frames, 1) - 1
    if subject is None or subject.is_whole_episode:
        return 0, last
    start = min(math.ceil(subject.start_seconds * rate - _ROUNDING), last)
    stop = min(math.ceil(subject.stop_seconds * rate - _ROUNDING) - 1, last)
    return start, max(start, stop)


def frame_second(index: int, rate_hz: float) -> float:
    """The second in the middle of a frame's display time, so that rounding cannot give the frame next to it."""
    return round((index + 0.5) / rate_hz, 6) if index else 0.0
