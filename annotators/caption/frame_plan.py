"""Which frames of a segment a captioner gets, and how they become images."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from ares.clock import compute_camera_rate_hz
from ares.episode import Camera, Episode, Role
from ares_annotators.base import CameraSeconds, Subject, merge_frame_requests
from ares_annotators.prompting import read_prompt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A boundary that is a frame's second up to rounding belongs to that frame.
_ROUNDING = 1e-6


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


# Single images while they are few; contact sheets always; the first, middle and last frame of the best camera.
CaptionLayout = Literal["auto", "sheets", "tiles"]
MAX_FRAMES = 60
# Every part of a segment that is so long has a frame.
_SECONDS = 2.0
_LEAST_FRAMES = 3
# More single images than this become contact sheets of two by two; `sheets` has three by three.
_MOST_IMAGES, _AUTO_SIDE, _SHEET_SIDE = 16, 2, 3
# Above each tile of a contact sheet is its time, in a band of this share of its height.
_BAND_SHARE, _LEAST_BAND = 12, 16
# Frames of what comes before a part of an episode, and as many of what comes after it, within so many seconds.
_CONTEXT_FRAMES, _CONTEXT_SECONDS = 3, 3.0

Item = TypeVar("Item")
ReadFrames = Callable[[str, Sequence[float]], "NDArray[np.uint8]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraView:
    """Frames of one camera.

    Attributes:
        name: Name of the camera in its episode.
        role: Its viewpoint, which a model is told; the name is a text of the source and never part of a prompt.
        height: Pixels.
        width: Pixels.
        seconds: Seconds of the frames, in order.
    """

    name: str
    role: Role
    height: int
    width: int
    seconds: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSheet:
    """One sheet of frames around a segment, so that a model can tell where the segment begins and ends.

    Attributes:
        view: The camera, with the seconds of all frames.
        before: Seconds before the segment: the upper row; none at the start of the episode.
        after: Seconds after it: the lower row; none at its end.
    """

    view: CameraView
    before: Sequence[float]
    after: Sequence[float]

    @property
    def _rows(self) -> list[tuple[str, Sequence[float]]]:
        return [
            (label, seconds) for label, seconds in (("before", self.before), ("after", self.after)) if seconds
        ]

    @property
    def image_size(self) -> tuple[int, int]:
        """(height, width) in pixels of the sheet."""
        height = self.view.height + _band_height(self.view.height)
        return len(self._rows) * height, max(len(self.before), len(self.after)) * self.view.width

    def arrange(self, read: ReadFrames) -> NDArray[np.uint8]:
        """The sheet; above each frame is its time, with the word "before" or "after".

        Args:
            read: Returns the (N, H, W, 3) uint8 frames of a camera at N seconds.
        """
        import numpy as np

        columns = max(len(self.before), len(self.after))
        rows = []
        for label, seconds in self._rows:
            frames = read(self.view.name, seconds)
            tiles = [
                _write_label(frame, f"{label} {second:.2f} s")
                for frame, second in zip(frames, seconds, strict=True)
            ]
            tiles += [np.zeros_like(tiles[0])] * (columns - len(tiles))
            rows.append(np.concatenate(tiles, axis=1))
        return np.concatenate(rows, axis=0)

    def legend(self) -> str:
        """What a model is told of the sheet."""
        rows = [
            f"{label}: {', '.join(f'{second:.2f} s' for second in seconds)}" for label, seconds in self._rows
        ]
        return read_prompt("ares_annotators.caption", "context").strip().replace("{rows}", "; ".join(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class FramePlan:
    """The frames of one segment, and as which images a model gets them.

    Attributes:
        name: The layout.
        views: The cameras, the best first; none where the episode lacks the one asked for.
        columns: Tiles in a row of an image; 1 where each frame is an image.
        rows: Rows of tiles in an image.
        context: Frames of what comes before and after, the last image; None where nothing is shown of it.
        is_numbered: Whether a model is to cite frames: they have numbers from 1, in the order of `shown_seconds`.
    """

    name: CaptionLayout
    views: Sequence[CameraView]
    columns: int = 1
    rows: int = 1
    context: ContextSheet | None = None
    is_numbered: bool = False

    @property
    def camera(self) -> str:
        """The camera of all frames, or "" for several."""
        return self.views[0].name if len(self.views) == 1 else ""

    @property
    def by_camera(self) -> CameraSeconds:
        """Seconds of the frames, by camera; those around the segment included."""
        seconds = {view.name: view.seconds for view in self.views}
        if self.context is None:
            return seconds
        return merge_frame_requests([seconds, {self.context.view.name: self.context.view.seconds}])

    @property
    def seconds(self) -> list[float]:
        """Seconds of the frames of all cameras, in order, each once; those around the segment included."""
        return sorted({second for seconds in self.by_camera.values() for second in seconds})

    @property
    def shown_seconds(self) -> list[float]:
        """Seconds of the frames in the order in which they are shown: camera after camera, without the context."""
        return [second for view in self.views for second in view.seconds]

    @property
    def has_times(self) -> bool:
        """Whether each frame has its time written above it."""
        return self.columns > 1

    def arrange(self, read: ReadFrames) -> list[NDArray[np.uint8]]:
        """The images to send, camera after camera in order of time.

        Args:
            read: Returns the (N, H, W, 3) uint8 frames of a camera at N seconds.
        """
        images: list[NDArray[np.uint8]] = []
        number = 0
        for view in self.views:
            frames = list(read(view.name, view.seconds))
            if self.has_times:
                frames = [
                    _write_label(
                        frame, f"#{number + offset} {second:.2f} s" if self.is_numbered else f"{second:.2f} s"
                    )
                    for offset, (frame, second) in enumerate(zip(frames, view.seconds, strict=True), 1)
                ]
            number += len(frames)
            images += [self._join(part) for part in self._parts(frames)]
        return [*images, self.context.arrange(read)] if self.context else images

    def image_sizes(self) -> list[tuple[int, int]]:
        """(height, width) in pixels of the images that `arrange` makes."""
        sizes = [
            (
                math.ceil(len(part) / self.columns) * (view.height + self._height_of_times(view.height)),
                min(len(part), self.columns) * view.width,
            )
            for view in self.views
            for part in self._parts(view.seconds)
        ]
        return [*sizes, self.context.image_size] if self.context else sizes

    def legend(self) -> str:
        """A description of the images with the times of all frames, for a prompt."""
        views = self._describe_views()
        return f"{views}\n{self.context.legend()}" if self.context else views

    def _describe_views(self) -> str:
        if self.name == "tiles":
            times = ", ".join(f"{second:.2f} s" for second in self.views[0].seconds)
            return f"{len(self.views[0].seconds)} images in order of time, at {times}."
        noun = "contact sheet" if self.columns > 1 else "image"
        lines, first, shown = [], 1, 0
        for number, view in enumerate(self.views, 1):
            count = len(list(self._parts(view.seconds)))
            which = f"{first} to {first + count - 1}" if count > 1 else f"{first}"
            times = ", ".join(f"{second:.2f} s" for second in view.seconds)
            plural = f"{noun}s" if count > 1 else noun
            frames = f", frames {shown + 1} to {shown + len(view.seconds)}" if self.is_numbered else ""
            lines.append(f"{plural.capitalize()} {which}: camera {number} ({view.role}){frames}, at {times}.")
            first, shown = first + count, shown + len(view.seconds)
        order = f"{first - 1} {noun}{'s' if first > 2 else ''}, of each camera in order of time"
        label = "number and time" if self.is_numbered else "time"
        tiles = f", row by row, with its {label} above each frame" if self.columns > 1 else ""
        return "\n".join([f"{order}{tiles}.", *lines])

    def _height_of_times(self, height: int) -> int:
        return _band_height(height) if self.has_times else 0

    def _parts(self, items: Sequence[Item]) -> Iterator[Sequence[Item]]:
        tiles = self.columns * self.rows
        return (items[start : start + tiles] for start in range(0, len(items), tiles))

    def _join(self, frames: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
        """Frames of one size as one image, row by row; what is left of the last row is black."""
        import numpy as np

        tiles = list(frames)
        if len(tiles) == 1:
            return tiles[0]
        columns = min(len(tiles), self.columns)
        tiles += [np.zeros_like(tiles[0])] * (-len(tiles) % columns)
        rows = [
            np.concatenate(tiles[start : start + columns], axis=1) for start in range(0, len(tiles), columns)
        ]
        return np.concatenate(rows, axis=0)


def _band_height(frame_height: int) -> int:
    """Pixels of the band above a frame of so many."""
    return max(_LEAST_BAND, frame_height // _BAND_SHARE)


def _write_label(frame: NDArray[np.uint8], label: str) -> NDArray[np.uint8]:
    """A frame (H, W, 3) under a black band with a label."""
    import cv2
    import numpy as np

    height = _band_height(frame.shape[0])
    band = np.zeros((height, frame.shape[1], 3), np.uint8)
    scale, origin = height / 28, (height // 4, round(height * 0.75))
    thickness = max(1, height // 20)
    cv2.putText(band, label, origin, cv2.FONT_HERSHEY_SIMPLEX, scale, (255,) * 3, thickness, cv2.LINE_AA)
    return np.concatenate([band, frame], axis=0)


def plan_frames(subject: Subject, layout: CaptionLayout, camera: str) -> FramePlan:
    """The frames of a segment.

    Args:
        subject: The segment.
        layout: How they are chosen and arranged.
        camera: Name of the camera; "" for the best one as tiles, and for all good ones in the other layouts.
    """
    best = choose_camera(subject.episode, camera)
    if layout == "tiles":
        seconds = compute_even_seconds(best, _LEAST_FRAMES, subject=subject) if best else []
        return FramePlan(name=layout, views=[_make_view(best, seconds)] if best else [])
    cameras = list(subject.episode.good_cameras) if not camera else [best] if best else []
    most = max(_LEAST_FRAMES, MAX_FRAMES // max(1, len(cameras)))
    views = [
        _make_view(item, compute_even_seconds(item, _count_frames(item, subject, most), subject=subject))
        for item in cameras[: MAX_FRAMES // _LEAST_FRAMES]
    ]
    images = sum(len(view.seconds) for view in views)
    side = _SHEET_SIDE if layout == "sheets" else _AUTO_SIDE if images > _MOST_IMAGES else 1
    return FramePlan(name=layout, views=views, columns=side, rows=side)


def add_context(plan: FramePlan, subject: Subject, camera: str) -> FramePlan:
    """A plan with one more image: what comes right before and after the segment, of the best camera.

    Args:
        plan: The plan of the segment.
        subject: The segment; of a whole episode there is nothing around it.
        camera: As for `plan_frames`.
    """
    selected = choose_camera(subject.episode, camera)
    if selected is None or subject.is_whole_episode:
        return plan
    rate_hz = compute_camera_rate_hz(subject.episode, selected)
    first, last = frame_range(selected, subject, rate_hz)
    reach, end = max(1, round(_CONTEXT_SECONDS * rate_hz)), max(selected.media.num_frames, 1) - 1
    before = spread_seconds(max(0, first - reach), first - 1, _CONTEXT_FRAMES, rate_hz) if first else []
    after = spread_seconds(last + 1, min(end, last + reach), _CONTEXT_FRAMES, rate_hz) if last < end else []
    if not before and not after:
        return plan
    view = _make_view(selected, [*before, *after])
    return replace(plan, context=ContextSheet(view=view, before=before, after=after))


def plan_test_frames(layout: CaptionLayout, height: int, width: int) -> FramePlan:
    """Frames of a segment of some seconds, for a test call without an episode."""
    seconds = [float(second) for second in range(_LEAST_FRAMES)]
    view = CameraView(name="", role="front", height=height, width=width, seconds=seconds)
    side = _SHEET_SIDE if layout == "sheets" else 1
    return FramePlan(name=layout, views=[view], columns=side, rows=side)


def _make_view(camera: Camera, seconds: Sequence[float]) -> CameraView:
    return CameraView(
        name=camera.name, role=camera.role, height=camera.height, width=camera.width, seconds=seconds
    )


def _count_frames(camera: Camera, subject: Subject, most: int) -> int:
    """Frames of a camera such that every two seconds of the span have one, as far as `most` allows it."""
    rate_hz = compute_camera_rate_hz(subject.episode, camera)
    first, last = frame_range(camera, subject, rate_hz)
    # Rounding to whole frames moves two neighbours apart by one frame at most.
    step = max(1, math.floor(_SECONDS * rate_hz) - 1)
    return min(most, max(_LEAST_FRAMES, math.ceil((last - first) / step) + 1))
