"""Decodes the videos of one episode once, and keeps of them only what the checks need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ares.checks.record import (
    QualityFinding,
)
from ares.checks.video.camera_lag import picture_motion, state_motion
from ares.checks.video.features import (
    SMALL_HEIGHT,
    SMALL_WIDTH,
    CameraFeatureBuilder,
    CameraFeatures,
    check_picture_quality,
    compute_cell_brightness,
)
from ares.checks.video.frame_changes import check_frame_timing
from ares.clock import nearest_steps
from ares.errors import MediaError, SourceError
from ares.media import (
    SpanClock,
    all_frames,
    describe_ffmpeg_error,
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

    from ares.episode import Camera, Episode, MediaRef, Trajectory


# A robot moves at a step where its speed is this share of its fastest tenth.
_MOVING_SHARE = 0.15
_RATE_TOLERANCE = 0.01
# Lags are measured over so many steps from the start, five minutes at 30 Hz: an hour says no more of them.
_LAG_STEPS = 9000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CameraSummary:
    """One camera of an episode.

    Attributes:
        camera: Its name.
        findings: What its frames alone say.
        appearance: (6, 8, 3) float32 RGB, median over the frames; None without frames.
        detail: Median of the detail of its frames.
        light: Median of the logarithm of its light, in stops.
        motion: (T, 16) motion of the picture, one row per step of the first 9,000; None without frames.
        num_frames: Frames that were decoded.
    """

    camera: str
    findings: tuple[QualityFinding, ...]
    appearance: NDArray[np.float32] | None
    detail: float
    light: NDArray[np.float32] | None
    motion: NDArray[np.float32] | None
    num_frames: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VideoSummary:
    """The videos of one episode.

    Attributes:
        episode_id: Id of the episode.
        rate_hz: Steps per second.
        moving_seconds: Seconds in which the robot moves; 0 without signals.
        state: (T, D) motion of the robot, one row per step of the first 9,000; None without signals.
        cameras: Its cameras.
    """

    episode_id: str
    rate_hz: float
    moving_seconds: float
    state: NDArray[np.float32] | None
    cameras: tuple[CameraSummary, ...]


def summarise_video(
    episode: Episode, trajectory: Trajectory, features: Sequence[CameraFeatures]
) -> VideoSummary:
    """Check the frames of an episode, and keep what its dataset is to judge."""
    import numpy as np

    state = trajectory.state.values.astype(np.float64) if trajectory.state is not None else None
    if state is not None and not (np.isfinite(state).all() and state.size):
        state = None
    speed = None if state is None or len(state) < 2 else _relative_speed(state)
    return VideoSummary(
        episode_id=episode.episode_id,
        rate_hz=episode.rate_hz,
        moving_seconds=0.0 if speed is None else float((speed > 0).sum()) / episode.rate_hz,
        state=None if state is None else state_motion(state[:_LAG_STEPS], episode.rate_hz),
        cameras=tuple(
            _summarise_camera(episode, trajectory.timestamps, camera, speed) for camera in features
        ),
    )


def _relative_speed(state: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T - 1,) speed over its median while the robot moves, 0 where it rests."""
    import numpy as np

    span = np.ptp(state, axis=0)
    if not span.any():
        return np.zeros(len(state) - 1)
    speed = np.abs(np.diff(state, axis=0)) @ (1 / np.where(span > 1e-3 * span.max(), span, np.inf))
    moving = speed >= max(_MOVING_SHARE * float(np.quantile(speed, 0.9)), 1e-9)
    return np.where(moving, speed / np.median(speed[moving]), 0.0) if moving.any() else speed * 0


def _summarise_camera(
    episode: Episode,
    stamps: NDArray[np.float64],
    features: CameraFeatures,
    speed: NDArray[np.float64] | None,
) -> CameraSummary:
    import numpy as np

    has_frames = features.num_frames >= 2
    at_frames = None if speed is None or not has_frames else _speed_at(episode, stamps, features, speed)
    light = np.log2(compute_cell_brightness(features)) if has_frames else None
    return CameraSummary(
        camera=features.camera,
        findings=(*check_picture_quality(features), *check_frame_timing(features, at_frames)),
        appearance=np.median(features.colours, axis=0).astype(np.float32) if has_frames else None,
        detail=float(np.median(features.detail)) if has_frames else 0.0,
        light=np.median(light, axis=0).astype(np.float32) if light is not None else None,
        motion=_picture_motion_at_steps(episode, stamps, features) if has_frames else None,
        num_frames=features.num_frames,
    )


def _speed_at(
    episode: Episode, stamps: NDArray[np.float64], features: CameraFeatures, speed: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(T - 1,) speed of the robot between each two frames."""
    import numpy as np

    steps = _steps_of(episode, stamps, features)
    return speed[np.minimum(steps[:-1], len(speed) - 1)]


def _steps_of(episode: Episode, stamps: NDArray[np.float64], features: CameraFeatures) -> NDArray[np.int64]:
    """(T,) the step that each frame belongs to."""
    import numpy as np

    if episode.frame_pairing == "index":
        numbers = np.round(features.seconds * features.rate_hz).astype(np.int64)
        return np.clip(numbers, 0, max(len(stamps) - 1, 0))
    return nearest_steps(stamps, features.seconds, hold=False)


def _picture_motion_at_steps(
    episode: Episode, stamps: NDArray[np.float64], features: CameraFeatures
) -> NDArray[np.float32]:
    """Motion of the picture on the clock of the steps; frames that are missing are those before them."""
    import numpy as np

    num_steps = min(len(stamps), _LAG_STEPS)
    if features.num_frames == len(stamps) and abs(features.rate_hz / episode.rate_hz - 1) < _RATE_TOLERANCE:
        return picture_motion(features.thumbs[:num_steps], episode.rate_hz)
    steps = _steps_of(episode, stamps, features)
    covered = min(num_steps, int(steps[-1]) + 1)
    numbers = np.searchsorted(steps, np.arange(covered), side="right") - 1
    return picture_motion(features.thumbs[np.maximum(numbers, 0)], episode.rate_hz)


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
    import cv2

    try:
        for number, frame in enumerate(all_frames(media)):
            small = cv2.resize(frame, (SMALL_WIDTH, SMALL_HEIGHT), interpolation=cv2.INTER_AREA)
            luma = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)
            builder.add(number / media.rate_hz, luma, small)  # type: ignore[arg-type]
    except MediaError as error:
        builder.failure = str(error)


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
