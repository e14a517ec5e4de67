"""Frames of a video file or a span of one: those wanted by seeking, or all of them in one pass."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ares.errors import MediaError, SourceError
from ares.media.probe import opened, words
from ares.media.turn import of_frame

if TYPE_CHECKING:
    import numpy as np
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream
    from numpy.typing import NDArray

    from ares.media.ref import MediaRef

# Containers round the times of frames to their time base, Matroska to a thousandth of a second.
_ROUNDING_SECONDS = 1e-3
# Without an index of keyframes: decode on up to here, seek beyond; and how far to step back from a late keyframe.
_FAR_SECONDS = 2.0
_BACK_SECONDS = 0.5


class Clock(NamedTuple):
    """How the seconds of an episode lie in its file.

    Attributes:
        start: Second of the file at which the span starts.
        last: No frame of the span starts later, in seconds of the file.
        scale: Seconds of the file per second of the episode; 1 unless the user gave another rate.
        slack: How much later than asked a frame may start.
    """

    start: float
    last: float
    scale: float
    slack: float

    def in_file(self, second: float) -> float:
        """The second of the file that shows a second of the episode, inside the span."""
        return min(max(self.start + second * self.scale, self.start), self.last)


def clock(ref: MediaRef) -> Clock:
    """The clock of a reference."""
    span, steps = ref.stop_seconds - ref.start_seconds, max(ref.num_frames, 1) / ref.rate_hz
    same = span <= 0 or abs(span - steps) < 1.0 / ref.rate_hz
    scale = 1.0 if same else span / steps
    half = 0.5 * scale / ref.rate_hz
    slack = min(half, _ROUNDING_SECONDS)
    last = ref.start_seconds + steps * scale - half
    # At a varying rate the frame after the span may begin earlier than half a mean step before its end.
    last = min(last, ref.stop_seconds - 2 * slack) if span > 0 else last
    return Clock(ref.start_seconds, last, scale, slack)


def frames(ref: MediaRef, seconds: Sequence[float]) -> Iterator[NDArray[np.uint8]]:
    """The frame shown at each second of the episode, which must come in rising order; (H, W, 3) uint8 RGB.

    A second that shows the same frame as the one before gives the very same array. Raises MediaError.
    """
    at = clock(ref)
    with _video(ref) as (container, stream):
        # Calls run beside each other; more threads in each take longer even for one alone (measured: a third).
        stream.codec_context.thread_count = 1
        reel = _Reel(container, stream)
        shown, picture = None, None
        for second in seconds:
            frame = reel.frame_at(at.in_file(second) + at.slack)
            if frame is None or reel.ends_before(frame, at.in_file(second), at.scale / ref.rate_hz):
                raise MediaError("video has no frame there", f"{ref.uri} at {at.in_file(second):.3f} s")
            if picture is None or frame is not shown:
                shown, picture = frame, _rgb(frame)
            yield picture


def all_frames(ref: MediaRef) -> Iterator[NDArray[np.uint8]]:
    """Every frame of the span in order; (H, W, 3) uint8 RGB. Raises MediaError."""
    at = clock(ref)
    half = 0.5 * at.scale / ref.rate_hz
    with _video(ref) as (container, stream):
        reel = _Reel(container, stream)
        if reel.frame_at(at.start + at.slack) is None:
            raise MediaError("video has no frame there", f"{ref.uri} at {at.start:.3f} s")
        frame, left = reel.current, max(ref.num_frames, 1)
        while frame is not None and left and reel.second(frame) < at.last + half:
            yield _rgb(frame)
            frame, left = reel.step(), left - 1


@contextmanager
def _video(ref: MediaRef) -> Iterator[tuple[InputContainer, VideoStream]]:
    import av

    try:
        with opened(ref.uri) as found:
            yield found
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None
    except (av.FFmpegError, OSError) as error:
        raise MediaError("video cannot be decoded", f"{ref.uri}: {words(error)}") from None


def _rgb(frame: VideoFrame) -> NDArray[np.uint8]:
    picture: NDArray[np.uint8] = frame.to_ndarray(format="rgb24")  # type: ignore[assignment]
    return of_frame(frame).upright(picture)


class _Reel:
    """A video that is wound forward: by decoding, or by a seek where a keyframe nearer to the goal allows it."""

    def __init__(self, container: InputContainer, stream: VideoStream) -> None:
        self._container, self._stream = container, stream
        self._base = float(stream.time_base or 1)
        self._zero = (stream.start_time or 0) * self._base
        # Times of decoding, which are no later than those of showing.
        self._keys = [
            entry.timestamp * self._base - self._zero for entry in stream.index_entries if entry.is_keyframe
        ]
        # AVI knows no times of showing, and what FFmpeg makes up is wrong with B-frames: one frame a tick.
        self._counts = container.format.name == "avi"
        self._frames: Iterator[VideoFrame] = iter(())
        self.current: VideoFrame | None = None
        self._next: VideoFrame | None = None

    def second(self, frame: VideoFrame) -> float:
        """Second of the file at which a frame starts."""
        return (frame.pts or 0) * self._base - self._zero

    def frame_at(self, second: float) -> VideoFrame | None:
        """The last frame that starts no later than a second of the file, or the first of all; None if there is none."""
        if self._far(second):
            self._seek(second)
        if self.current is None or self.second(self.current) > second:
            self._seek(float("-inf"))
        while self._next is not None and self.second(self._next) <= second:
            self.step()
        return self.current

    def step(self) -> VideoFrame | None:
        """The frame that follows, or None after the last."""
        self.current, self._next = self._next, next(self._frames, None)
        return self.current

    def ends_before(self, frame: VideoFrame, second: float, step: float) -> bool:
        """Whether the video ended with a frame that is no longer shown at a second of the file."""
        shown = max(2 * step, (frame.duration or 0) * self._base)
        return self._next is None and self.second(frame) + shown < second

    def _far(self, second: float) -> bool:
        """Whether a seek is the shorter way."""
        if self.current is None:
            return True
        here = self.second(self._next or self.current)
        if not self._keys:
            return second - here > _FAR_SECONDS
        number = bisect_right(self._keys, second) - 1
        return number >= 0 and self._keys[number] > here

    def _seek(self, second: float) -> None:
        """Begin anew at a keyframe that is shown no later than a second of the file, or at the first packet."""
        back = 0.0
        while True:
            goal = second - back
            first = goal <= 0.0
            ticks = self._stream.start_time or 0 if first else round((goal + self._zero) / self._base)
            self._container.seek(min(ticks, 0) if first else ticks, stream=self._stream)
            packets = self._container.demux(self._stream)
            packet = next(packets, None)
            if packet is None or first or self._shows(packet, second):
                break
            back = max(2 * back, _BACK_SECONDS)
        self._frames = _decoded(packet, packets)
        if self._counts and packet is not None:
            self._frames = _counted(self._frames, packet.dts or 0)
        self.step()
        self.step()

    def _shows(self, packet: Packet[VideoStream], second: float) -> bool:
        return (
            packet.is_keyframe and packet.pts is not None and packet.pts * self._base - self._zero <= second
        )


def _decoded(
    packet: Packet[VideoStream] | None, packets: Iterator[Packet[VideoStream]]
) -> Iterator[VideoFrame]:
    while packet is not None:
        yield from packet.decode()
        packet = next(packets, None)


def _counted(found: Iterator[VideoFrame], first: int) -> Iterator[VideoFrame]:
    for number, frame in enumerate(found, start=first):
        frame.pts = number
        yield frame
