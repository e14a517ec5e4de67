"""Decodes frames of a video file, forward or by a seek, from files that stay open."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ares.errors import MediaError, SourceError
from ares.io import file_state
from ares.media.video.orientation import frame_orientation
from ares.media.video.packets import span_clock, tick_seconds
from ares.media.video.probe import describe_ffmpeg_error, open_video_stream

if TYPE_CHECKING:
    import numpy as np
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream
    from numpy.typing import NDArray

    from ares.episode import MediaRef
    from ares.io import FileState

# Without an index of keyframes: decode up to this far ahead, seek beyond it.
_MAX_DECODE_AHEAD_SECONDS = 2.0
# How far to step back when a seek ends at a keyframe that is too late.
_SEEK_BACK_SECONDS = 0.5


def read_video_frames(
    ref: MediaRef, seconds: Sequence[float], videos: OpenVideos | None = None
) -> Iterator[NDArray[np.uint8]]:
    """Yield the frame shown at each second of the episode, seconds in rising order; (H, W, 3) uint8 RGB.

    A second that shows the same frame as the one before yields the same array. Raises MediaError.
    """
    with _open_source(ref, videos) as cursor:
        clock = span_clock(ref, tick_seconds(cursor.stream))
        # Callers decode in parallel; several threads per decoder take a third longer (measured), even for one caller.
        if cursor.current is None:  # its decoder has not begun
            cursor.stream.codec_context.thread_count = 1
        decoded_frame, pixels = None, None
        for second in seconds:
            file_second = clock.file_second(second)
            frame = cursor.frame_at(file_second + clock.tolerance_seconds)
            if frame is None or cursor.ends_before(frame, file_second, clock.scale / ref.rate_hz):
                raise MediaError("video has no frame there", f"{ref.uri} at {file_second:.3f} s")
            if pixels is None or frame is not decoded_frame:
                decoded_frame, pixels = frame, _to_pixels(frame)
            yield pixels


def read_all_video_frames(ref: MediaRef) -> Iterator[NDArray[np.uint8]]:
    """Yield every frame of the span in order; (H, W, 3) uint8 RGB. Raises MediaError."""
    with _open_source(ref) as cursor:
        clock = span_clock(ref, tick_seconds(cursor.stream))
        half_step = 0.5 * clock.scale / ref.rate_hz
        if cursor.frame_at(clock.start_second + clock.tolerance_seconds) is None:
            raise MediaError("video has no frame there", f"{ref.uri} at {clock.start_second:.3f} s")
        frame, remaining = cursor.current, max(ref.num_frames, 1)
        while frame is not None and remaining and cursor.frame_second(frame) < clock.last_second + half_step:
            yield _to_pixels(frame)
            frame, remaining = cursor.step(), remaining - 1


@contextmanager
def _open_source(ref: MediaRef, videos: OpenVideos | None = None) -> Iterator[_VideoCursor]:
    import av

    try:
        if videos is not None:
            with videos.open(ref.uri) as cursor:
                yield cursor
        else:
            with open_video_stream(ref.uri) as opened:
                yield _VideoCursor(*opened)
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None
    except (av.FFmpegError, OSError) as error:
        raise MediaError("video cannot be decoded", f"{ref.uri}: {describe_ffmpeg_error(error)}") from None


def _to_pixels(frame: VideoFrame) -> NDArray[np.uint8]:
    pixels: NDArray[np.uint8] = frame.to_ndarray(format="rgb24", threads=1)  # type: ignore[assignment]
    return frame_orientation(frame).apply(pixels)


class _VideoCursor:
    """Position in a video that moves forward by decoding, or by a seek where a keyframe is nearer to the target."""

    def __init__(self, container: InputContainer, stream: VideoStream) -> None:
        self._container, self.stream = container, stream
        self._time_base = float(stream.time_base or 1)
        self._first_second = (stream.start_time or 0) * self._time_base
        # Of thousands of episodes in a file; one frame is read without them.
        self._keyframe_seconds: list[float] | None = None
        # AVI stores no presentation times, and those that FFmpeg derives are wrong with B-frames: one frame a tick.
        self._numbers_frames = container.format.name == "avi"
        self._frames: Iterator[VideoFrame] = iter(())
        self.current: VideoFrame | None = None
        self._next: VideoFrame | None = None

    def frame_second(self, frame: VideoFrame) -> float:
        """Second of the file at which a frame starts."""
        return (frame.pts or 0) * self._time_base - self._first_second

    def frame_at(self, second: float) -> VideoFrame | None:
        """The last frame that starts no later than a second of the file, else the first; None without frames."""
        if self._should_seek(second):
            self._seek(second)
        if self.current is None or self.frame_second(self.current) > second:
            self._seek(float("-inf"))
        while self._next is not None and self.frame_second(self._next) <= second:
            self.step()
        return self.current

    def step(self) -> VideoFrame | None:
        """Move to the next frame; None after the last."""
        self.current, self._next = self._next, next(self._frames, None)
        return self.current

    def ends_before(self, frame: VideoFrame, second: float, step_seconds: float) -> bool:
        """Whether the video ended with this frame, and the frame is no longer shown at a second of the file."""
        shown_seconds = max(2 * step_seconds, (frame.duration or 0) * self._time_base)
        return self._next is None and self.frame_second(frame) + shown_seconds < second

    def _should_seek(self, second: float) -> bool:
        """Whether seeking is faster than decoding on."""
        if self.current is None or self.frame_second(self.current) > second:
            return True
        current_second = self.frame_second(self._next or self.current)
        if self._keyframe_seconds is None:  # decoding times, which are no later than presentation times
            self._keyframe_seconds = [
                entry.timestamp * self._time_base - self._first_second
                for entry in self.stream.index_entries
                if entry.is_keyframe
            ]
        if not self._keyframe_seconds:
            return second - current_second > _MAX_DECODE_AHEAD_SECONDS
        number = bisect_right(self._keyframe_seconds, second) - 1
        return number >= 0 and self._keyframe_seconds[number] > current_second

    def _seek(self, second: float) -> None:
        """Restart at a keyframe shown no later than a second of the file, or at the first packet."""
        back_seconds = 0.0
        while True:
            packet, packets = self._packets_from(second - back_seconds)
            at_start = second - back_seconds <= 0.0
            if packet is None or at_start or self._is_keyframe_before(packet, second):
                break
            back_seconds = max(2 * back_seconds, _SEEK_BACK_SECONDS)
        self._frames = _decode_packets(packet, packets)
        if self._numbers_frames and packet is not None:
            self._frames = _number_frames(self._frames, packet.dts or 0)
        self.step()
        self.step()

    def _packets_from(
        self, second: float
    ) -> tuple[Packet[VideoStream] | None, Iterator[Packet[VideoStream]]]:
        """The first packet after a seek to a second of the file, and the packets that follow."""
        if second <= 0.0:
            ticks = min(self.stream.start_time or 0, 0)
        else:
            ticks = round((second + self._first_second) / self._time_base)
        self._container.seek(ticks, stream=self.stream)
        packets = self._container.demux(self.stream)
        return next(packets, None), packets

    def _is_keyframe_before(self, packet: Packet[VideoStream], second: float) -> bool:
        if not packet.is_keyframe or packet.pts is None:
            return False
        return packet.pts * self._time_base - self._first_second <= second


def _decode_packets(
    packet: Packet[VideoStream] | None, packets: Iterator[Packet[VideoStream]]
) -> Iterator[VideoFrame]:
    while packet is not None:
        yield from packet.decode()
        packet = next(packets, None)


def _number_frames(frames: Iterator[VideoFrame], first_number: int) -> Iterator[VideoFrame]:
    for number, frame in enumerate(frames, start=first_number):
        frame.pts = number
        yield frame


class OpenVideos:
    """Videos that stay open with their decoders from read to read; of more than `most` the longest unused is closed.

    A read has its video alone, also where threads read. After an error its video is closed. A forked process opens its
    own, because it shares positions in open files with its parent.

    Args:
        most: Videos that stay open while nobody reads them.
    """

    def __init__(self, most: int = 16) -> None:
        self._most, self._process, self._lock = most, os.getpid(), threading.Lock()
        self._idle: dict[tuple[str, FileState], tuple[ExitStack, _VideoCursor]] = {}

    def __reduce__(self) -> tuple[type[OpenVideos], tuple[int]]:
        """A copy in another process opens it again."""
        return OpenVideos, (self._most,)

    @contextmanager
    def open(self, path: str) -> Iterator[_VideoCursor]:
        """A video for one reader. Raises SourceError and OSError when it cannot be opened."""
        process = os.getpid()
        if process != self._process:
            self._idle, self._process, self._lock = {}, process, threading.Lock()
        key = path, file_state(path)
        with self._lock:
            idle = self._idle.pop(key, None)
        stack, cursor = idle or _open_cursor(path)
        try:
            yield cursor
        except GeneratorExit:  # the reader ends before the video does
            self._put_back(key, stack, cursor, process)
            raise
        except BaseException:
            stack.close()
            raise
        self._put_back(key, stack, cursor, process)

    def _put_back(
        self, key: tuple[str, FileState], stack: ExitStack, cursor: _VideoCursor, process: int
    ) -> None:
        if process != os.getpid():
            stack.close()
            return
        with self._lock:
            unused = [self._idle.pop(key)] if key in self._idle else []  # two threads have read one video
            self._idle[key] = stack, cursor
            unused += [self._idle.pop(oldest) for oldest in list(self._idle)[: -self._most]]
        for old, _ in unused:
            old.close()


def _open_cursor(path: str) -> tuple[ExitStack, _VideoCursor]:
    stack = ExitStack()
    return stack, _VideoCursor(*stack.enter_context(open_video_stream(path)))
