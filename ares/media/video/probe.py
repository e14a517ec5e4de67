"""What a video file says without decoding: size, codec, length, rate, orientation, still spans."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ares.errors import SourceError
from ares.input import open_video
from ares.io import file_state
from ares.media.video.orientation import UPRIGHT, Orientation, stream_orientation

if TYPE_CHECKING:
    import numpy as np
    from av.container import InputContainer
    from av.video.stream import VideoStream
    from numpy.typing import NDArray


# A frame in which nothing changed takes a few bits per block of 16 x 16 pixels, whatever the codec (measured).
_FRAME_OVERHEAD_BYTES = 128
_BLOCKS_PER_BYTE = 2
_BLOCK_PIXELS = 256
_MIN_SPAN_FRAMES = 10

# Half-open ranges of frame numbers.
FrameSpans = tuple[tuple[int, int], ...]


def find_inactive_spans(sizes: Sequence[int], keys: Sequence[bool], pixels: int) -> FrameSpans:
    """Runs of at least ten frames [start, stop) whose packets between keyframes are almost empty.

    Args:
        sizes: Bytes of each packet, (N,).
        keys: Whether each packet is a keyframe, (N,).
        pixels: Pixels of a frame.
    """
    import numpy as np

    packet_bytes, is_key = np.asarray(sizes), np.asarray(keys, bool)
    if len(packet_bytes) < _MIN_SPAN_FRAMES:
        return ()
    threshold = _FRAME_OVERHEAD_BYTES + pixels / _BLOCK_PIXELS / _BLOCKS_PER_BYTE
    if is_key.all():  # then packets of the same picture have about the same size
        change_bytes = np.abs(np.diff(packet_bytes, prepend=packet_bytes[0]))
    else:
        change_bytes = np.where(is_key, 0, packet_bytes)
    edges = np.concatenate([[-1], np.flatnonzero(change_bytes > threshold), [len(packet_bytes)]])
    return tuple(
        (int(before) + 1, int(stop))
        for before, stop in itertools.pairwise(edges)
        if stop - before - 1 >= _MIN_SPAN_FRAMES
    )


# Containers round the times of frames to their time base, Matroska to a thousandth of a second.
_ROUNDING_SECONDS = 1.001e-3
# A file is truncated when its container declares so much more video than it holds.
_TRUNCATED_SECONDS = 1.0
_DECODERS = {"libdav1d": "av1", "libaom-av1": "av1", "libvpx": "vp8", "libvpx-vp9": "vp9"}


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """Properties of the first video stream of a file that is not a cover picture.

    Attributes:
        width: Displayed width in pixels.
        height: Displayed height in pixels.
        codec: "h264", "av1", "vp9", "hevc" and the like.
        pixel_format: "yuv420p" and the like.
        container: FFmpeg's names of the container, "mov,mp4,m4a,3gp,3g2,mj2".
        num_frames: Frames that are shown.
        rate_hz: Frames per second; for a file with a varying rate, the mean.
        duration_seconds: num_frames / rate_hz.
        starts_with_keyframe: Whether decoding can start at the first packet.
        start_seconds: When the first frame is shown by the clock of the file.
        orientation: Rotation and mirroring to apply for display.
        square_pixels: Whether a pixel is as wide as it is high.
        is_truncated: Whether the video ends before its container says.
        seconds: (num_frames,) when each frame is shown, counted from the first; None where that is number / rate_hz
            within the rounding of the container.
        inactive_spans: Frames [start, stop) in which nothing changes, see `find_inactive_spans`.
        packet_sizes: (num_frames,) bytes of each packet, in the order in which they are decoded.
    """

    width: int
    height: int
    codec: str
    pixel_format: str
    container: str
    num_frames: int
    rate_hz: float
    duration_seconds: float
    starts_with_keyframe: bool
    start_seconds: float = 0.0
    orientation: Orientation = UPRIGHT
    square_pixels: bool = True
    is_truncated: bool = False
    seconds: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    inactive_spans: FrameSpans = ()
    packet_sizes: NDArray[np.int32] | None = field(default=None, repr=False, compare=False)


class _FrameTimes(NamedTuple):
    """Times of the frames and sizes of the packets of a video.

    Attributes:
        ticks: Presentation times in units of the time base, rising, (N,).
        starts_with_keyframe: Whether the first packet is a keyframe.
        sizes: Bytes of each packet.
        keys: Whether each packet is a keyframe.
    """

    ticks: NDArray[np.int64]
    starts_with_keyframe: bool
    sizes: list[int]
    keys: list[bool]


@contextmanager
def open_video_stream(path: str | Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """A video file and its first video stream, closed afterwards.

    Raises SourceError for a file that is missing, empty, truncated, or holds no video.
    """
    import av

    try:
        if file_state(str(path)).size == 0:
            raise SourceError("video file is empty", f"{path}: 0 bytes")
        container = open_video(str(path))
    except FileNotFoundError:
        raise SourceError("video file is missing", str(path)) from None
    except OSError as error:  # of the system; what FFmpeg says of damaged bytes is none
        raise SourceError("video file cannot be read", f"{path}: {describe_ffmpeg_error(error)}") from None
    except (av.FFmpegError, ValueError) as error:
        raise _unreadable_video(path, error) from None
    with container:
        stream = find_video_stream(container)
        if not container.streams:
            raise SourceError("video file is cut or no video", f"{path}: it holds no stream at all")
        if stream is None:
            raise SourceError("file holds no video stream", str(path))
        if stream.codec_context is None:
            raise SourceError("video codec is not known", str(path))
        yield container, stream


def _unreadable_video(path: str | Path, error: Exception) -> SourceError:
    return SourceError("video file is cut or no video", f"{path}: {describe_ffmpeg_error(error)}")


def find_video_stream(container: InputContainer) -> VideoStream | None:
    """The first video stream that is neither a cover picture nor a row of thumbnails."""
    from av.stream import Disposition

    picture = Disposition.attached_pic | Disposition.timed_thumbnails
    return next((stream for stream in container.streams.video if not stream.disposition & picture), None)


HOLDS_DEPTH = "it holds depth, not colour"
# Grey of more than eight bits; as a colour it would lose the rest.
_DEPTH_FORMATS = ("gray9", "gray10", "gray12", "gray14", "gray16", "grayf")


def probe_video(path: str | Path) -> VideoInfo:
    """Properties of a video file; packets are counted where the container does not give their number.

    Raises SourceError for a file that is missing, empty, truncated, or holds no video of colours.
    """
    import av

    with open_video_stream(path) as (container, stream):
        try:
            times = _frame_times(container, stream, file_state(str(path)).size)
        except (av.FFmpegError, OSError) as error:
            raise _unreadable_video(path, error) from None
        if not len(times.ticks):
            raise SourceError("video holds no frame", str(path))
        pixel_format = stream.codec_context.pix_fmt or ""
        if pixel_format.startswith(_DEPTH_FORMATS):
            raise SourceError(HOLDS_DEPTH, f"{path}: its pixels are {pixel_format}")
        return _video_info(path, container, stream, times)


def _video_info(
    path: str | Path, container: InputContainer, stream: VideoStream, times: _FrameTimes
) -> VideoInfo:
    import numpy as np

    context, orientation = stream.codec_context, stream_orientation(path, container, stream)
    width, height = orientation.displayed_size(context.width, context.height)
    time_base = float(stream.time_base or 1)
    rate_hz, seconds = _frame_rate(stream, (times.ticks - times.ticks[0]) * time_base)
    num_frames = len(times.ticks)
    duration = num_frames / rate_hz
    return VideoInfo(
        width=width,
        height=height,
        codec=codec_name(context.name),
        pixel_format=context.pix_fmt or "",
        container=container.format.name,
        num_frames=num_frames,
        rate_hz=rate_hz,
        duration_seconds=duration,
        starts_with_keyframe=times.starts_with_keyframe,
        start_seconds=float((stream.start_time or 0) * time_base),
        orientation=orientation,
        square_pixels=(stream.sample_aspect_ratio or 1) == 1,
        is_truncated=_declared_seconds(container, stream) - duration > _TRUNCATED_SECONDS + 1 / rate_hz,
        seconds=seconds,
        inactive_spans=find_inactive_spans(times.sizes, times.keys, width * height),
        packet_sizes=np.array(times.sizes, np.int32),
    )


def codec_name(name: str) -> str:
    """The codec of a decoder ("libdav1d" decodes "av1")."""
    return _DECODERS.get(name, name)


def _frame_times(container: InputContainer, stream: VideoStream, file_size: int) -> _FrameTimes:
    """The times of the frames, from the index of the container where it is complete and conclusive.

    Raises SourceError when packets lie past the end of the file.
    """
    import numpy as np

    has_full_index = stream.frames and len(stream.index_entries) >= stream.frames
    entries = list(stream.index_entries) if has_full_index else []
    if not entries:
        return _demux_frame_times(container, stream)
    if max(entry.pos + entry.size for entry in entries) > file_size:
        raise SourceError(
            "video file is cut", f"{container.name}: it ends at byte {file_size}, its frames do not"
        )
    # The index holds decoding times. If these are evenly spaced, presentation times are too; else B-frames mix them.
    starts_with_keyframe = entries[0].is_keyframe
    entries = [entry for entry in entries if not entry.is_discard]
    ticks = np.array([entry.timestamp for entry in entries], np.int64)
    steps = np.diff(ticks)
    is_even = not len(steps) or float(np.ptp(steps) * (stream.time_base or 0)) <= _ROUNDING_SECONDS
    if not is_even and stream.codec_context.has_b_frames:
        return _demux_frame_times(container, stream)
    sizes, keys = [entry.size for entry in entries], [entry.is_keyframe for entry in entries]
    return _FrameTimes(ticks, starts_with_keyframe, sizes, keys)


def _demux_frame_times(container: InputContainer, stream: VideoStream) -> _FrameTimes:
    """The times of the frames, from every packet; decoding times replace missing presentation times (AVI)."""
    import numpy as np

    ticks: list[int] = []
    starts_with_keyframe = None
    sizes: list[int] = []
    keys: list[bool] = []
    for packet in container.demux(stream):
        tick = packet.dts if packet.pts is None else packet.pts
        if tick is None or not packet.size:
            continue
        if starts_with_keyframe is None:
            starts_with_keyframe = packet.is_keyframe
        if not packet.is_discard:
            ticks.append(tick)
            sizes.append(packet.size)
            keys.append(packet.is_keyframe)
    return _FrameTimes(np.sort(np.array(ticks, np.int64)), bool(starts_with_keyframe), sizes, keys)


def _frame_rate(
    stream: VideoStream, seconds: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64] | None]:
    """Frames per second, and the seconds themselves where they are not number / rate.

    The rate is the one that the container declares if the times agree with it, else the mean rate of the frames.
    """
    import numpy as np

    declared_rates = [float(rate) for rate in (stream.average_rate, stream.guessed_rate) if rate]
    if len(seconds) < 2 or seconds[-1] <= 0:
        return (declared_rates[0] if declared_rates else 1.0), None
    numbers = np.arange(len(seconds))
    mean_rate = (len(seconds) - 1) / float(seconds[-1])
    for rate in (*declared_rates, float(max(round(mean_rate), 1)), mean_rate):
        if np.abs(seconds - numbers / rate).max() <= _ROUNDING_SECONDS:
            return rate, None
    return mean_rate, seconds


def _declared_seconds(container: InputContainer, stream: VideoStream) -> float:
    """Duration of the video as the container declares it; 0 where it declares none for the video itself."""
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    if len(container.streams) == 1 and container.duration:
        return container.duration / 1e6
    return 0.0


def describe_ffmpeg_error(error: Exception) -> str:
    """FFmpeg's message without its number and the name of the file."""
    return str(getattr(error, "strerror", "") or error)
