"""Conversion between the seconds of an episode and the seconds of the video file that holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ares.clock import rounding_seconds

if TYPE_CHECKING:
    from av.video.stream import VideoStream

    from ares.episode import MediaRef


class SpanClock(NamedTuple):
    """Linear map from seconds of an episode to seconds of its file.

    Attributes:
        start_second: Second of the file at which the span starts.
        last_second: No frame of the span starts later, in seconds of the file.
        scale: Seconds of the file per second of the episode; 1 unless the user set another rate.
        tolerance_seconds: How much later than requested a frame may start.
    """

    start_second: float
    last_second: float
    scale: float
    tolerance_seconds: float

    def file_second(self, second: float) -> float:
        """The second of the file that shows a second of the episode, clamped to the span."""
        return min(max(self.start_second + second * self.scale, self.start_second), self.last_second)


def tick_seconds(stream: VideoStream) -> float:
    """The time base of a stream in seconds, to which its frames are rounded; 0 where it is not known."""
    return float(stream.time_base or 0)


def span_clock(ref: MediaRef, tick_seconds: float) -> SpanClock:
    """The clock of the span of a file that a reference names.

    Args:
        ref: The reference.
        tick_seconds: Time base of its video stream, to which the times of frames are rounded.
    """
    span_seconds = ref.stop_seconds - ref.start_seconds
    episode_seconds = max(ref.num_frames, 1) / ref.rate_hz
    has_file_rate = span_seconds <= 0 or abs(span_seconds - episode_seconds) < 1.0 / ref.rate_hz
    scale = 1.0 if has_file_rate else span_seconds / episode_seconds
    half_step = 0.5 * scale / ref.rate_hz
    tolerance = rounding_seconds(ref.rate_hz / scale, tick_seconds)
    last_second = ref.start_seconds + episode_seconds * scale - half_step
    if span_seconds > 0:
        # At a varying rate the frame after the span may begin earlier than half a mean step before its end.
        last_second = min(last_second, ref.stop_seconds - 2 * tolerance)
    return SpanClock(ref.start_seconds, last_second, scale, tolerance)
