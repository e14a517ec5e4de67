"""Decodes the cameras of an episode once, each file in one pass, and collects the features of their frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ares.checks.video.features import (
    SMALL_HEIGHT,
    SMALL_WIDTH,
    CameraFeatureBuilder,
    CameraFeatures,
)
from ares.errors import MediaError, SourceError
from ares.media import (
    SpanClock,
    all_frames,
    describe_ffmpeg_error,
    frames_or_errors,
    open_video_stream,
    span_clock,
    tick_seconds,
)

if TYPE_CHECKING:
    import numpy as np
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.plane import VideoPlane
    from av.video.stream import VideoStream
    from numpy.typing import NDArray

    from ares.episode import Camera, MediaRef


# Frames between two spans of a file are decoded up to so many seconds, and skipped by a seek beyond.
_LONGEST_GAP_SECONDS = 2.0
# Pixel formats with a plane of bytes for each of brightness and colours.
_PLANAR = {"yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p"}
# FFmpeg's number of the range 0 to 255; the other is 16 to 235.
_FULL_RANGE = 2
# ITU-R BT.601, brightness and colour differences to RGB.
_FULL_MATRIX = ((1, 0, 1.402, -179.456), (1, -0.344, -0.714, 135.459), (1, 1.772, 0, -226.816))
_LIMITED_MATRIX = ((1.164, 0, 1.596, -222.912), (1.164, -0.392, -0.813, 135.616), (1.164, 2.017, 0, -276.8))


class DecodedFrame(NamedTuple):
    """A frame as the features need it.

    Attributes:
        second: Second of the file at which it is shown.
        luma: (H, W) uint8 brightness at full size; None for a packet that could not be decoded.
        small: (48, 64, 3) uint8 RGB; None with it.
        is_key: Whether it is a keyframe.
    """

    second: float
    luma: NDArray[np.uint8] | None
    small: NDArray[np.uint8] | None
    is_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """A camera of an episode in a file, and what is collected of it."""

    media: MediaRef
    clock: SpanClock
    builder: CameraFeatureBuilder
    holds_file: bool

    @property
    def start(self) -> float:
        return self.clock.start_second - self.clock.tolerance_seconds

    @property
    def stop(self) -> float:
        return self.clock.last_second + 0.5 * self.clock.scale / self.media.rate_hz

    def add(self, frame: DecodedFrame) -> None:
        """Add a frame that lies in the span, and count one that follows it."""
        if frame.second < self.start:
            return
        second = (frame.second - self.clock.start_second) / self.clock.scale
        if frame.second >= self.stop:
            self.builder.surplus_frames += self.holds_file
        elif frame.luma is None or frame.small is None:
            self.builder.damaged.append(second)
        else:
            self.builder.add(second, frame.luma, frame.small, frame.is_key)


def camera_features(cameras: Sequence[Camera]) -> list[CameraFeatures]:
    """The features of cameras, in their order; spans of one file are decoded in one pass.

    A file that cannot be read, or only in part, gives the features of what could be, and says why.
    """
    builders = [
        CameraFeatureBuilder(
            camera=camera.name, rate_hz=camera.media.rate_hz, expected_frames=camera.media.num_frames
        )
        for camera in cameras
    ]
    spans = [(camera.media, builder) for camera, builder in zip(cameras, builders, strict=True)]
    files = [span for span in spans if span[0].kind == "mp4"]
    for uri, group in groupby(sorted(files, key=_file_order), key=lambda span: span[0].uri):
        _read_file(uri, list(group))
    for media, builder in spans:
        if media.kind != "mp4":
            _read_images(media, builder)
    return [builder.build() for builder in builders]


def _file_order(span: tuple[MediaRef, CameraFeatureBuilder]) -> tuple[str, float]:
    return span[0].uri, span[0].start_seconds


def _read_images(media: MediaRef, builder: CameraFeatureBuilder) -> None:
    """Add the frames; from the first broken image on each is decoded alone, and those that are broken are noted."""
    number = -1
    try:
        for number, frame in enumerate(all_frames(media)):
            _add_image(number / media.rate_hz, frame, builder)
    except MediaError as error:
        try:
            for later, frame_or_error in enumerate(frames_or_errors(media, number + 1), start=number + 1):
                _add_image(later / media.rate_hz, frame_or_error, builder)
        except MediaError:
            builder.failure = str(error)


def _add_image(second: float, frame: NDArray[np.uint8] | MediaError, builder: CameraFeatureBuilder) -> None:
    import cv2

    if isinstance(frame, MediaError):
        builder.damaged.append(second)
        return
    small = cv2.resize(frame, (SMALL_WIDTH, SMALL_HEIGHT), interpolation=cv2.INTER_AREA)
    builder.add(second, cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY), small)  # type: ignore[arg-type]


def _read_file(uri: str, spans: Sequence[tuple[MediaRef, CameraFeatureBuilder]]) -> None:
    import av

    try:
        with open_video_stream(uri) as (container, stream):
            _read_spans(container, stream, spans)
    except SourceError as error:
        _record_failure(spans, str(error))
    except (av.FFmpegError, OSError) as error:
        _record_failure(spans, f"{uri}: {describe_ffmpeg_error(error)}")


def _record_failure(spans: Sequence[tuple[MediaRef, CameraFeatureBuilder]], reason: str) -> None:
    for _, builder in spans:
        builder.failure = reason


def _read_spans(
    container: InputContainer, stream: VideoStream, spans: Sequence[tuple[MediaRef, CameraFeatureBuilder]]
) -> None:
    """Decode the spans, which are sorted by their start; a gap of seconds between two is skipped."""
    tick = tick_seconds(stream)
    holds_file = len(spans) == 1 and spans[0][0].start_seconds <= 0
    waiting = [
        _Span(media=media, clock=span_clock(media, tick), builder=builder, holds_file=holds_file)
        for media, builder in spans
    ]
    while waiting:
        group = [waiting.pop(0)]
        while waiting and waiting[0].start < group[-1].stop + _LONGEST_GAP_SECONDS:
            group.append(waiting.pop(0))
        _read_group(container, stream, group)


def _read_group(container: InputContainer, stream: VideoStream, group: Sequence[_Span]) -> None:
    last = max(span.stop for span in group)
    for frame in _frames_from(container, stream, group[0].start):
        if frame.second >= last and not group[0].holds_file:
            return
        for span in group:
            span.add(frame)


def _frames_from(container: InputContainer, stream: VideoStream, start: float) -> Iterator[DecodedFrame]:
    """Every frame from the keyframe before a second of the file on."""
    import av

    time_base = float(stream.time_base or 1)
    first = (stream.start_time or 0) * time_base
    stream.codec_context.thread_count = 1
    if start > 0:
        container.seek(round((start + first) / time_base), stream=stream)
    for packet in container.demux(stream):
        second = (packet.pts or 0) * time_base - first
        try:
            frames = packet.decode()
        except av.error.InvalidDataError:
            yield DecodedFrame(second, None, None)
            continue
        for frame in frames:
            shown = (frame.pts or 0) * time_base - first
            yield DecodedFrame(shown, None, None) if frame.is_corrupt else _decoded_frame(shown, frame)


def _decoded_frame(second: float, frame: VideoFrame) -> DecodedFrame:
    """Scales the planes one by one: ten times faster than a conversion of the whole picture."""
    import cv2
    import numpy as np

    size = (SMALL_WIDTH, SMALL_HEIGHT)
    if frame.format.name not in _PLANAR:
        pixels = frame.to_ndarray(format="rgb24", threads=1)
        luma = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
        scaled = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
        return DecodedFrame(second, luma, scaled, bool(frame.key_frame))  # type: ignore[arg-type]
    planes = [_plane_pixels(plane) for plane in frame.planes]
    scaled = cv2.merge([cv2.resize(plane, size, interpolation=cv2.INTER_AREA) for plane in planes])
    is_full = frame.color_range == _FULL_RANGE or frame.format.name.startswith("yuvj")
    matrix = np.array(_FULL_MATRIX if is_full else _LIMITED_MATRIX, np.float32)
    return DecodedFrame(second, planes[0], cv2.transform(scaled, matrix), bool(frame.key_frame))  # type: ignore[arg-type]


def _plane_pixels(plane: VideoPlane) -> NDArray[np.uint8]:
    """A plane of bytes, without a copy."""
    import numpy as np

    rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)  # type: ignore[call-overload]
    return rows[: plane.height, : plane.width]  # type: ignore[no-any-return]
