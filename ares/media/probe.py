"""VideoInfo: size, codec, length and rate of a video file, from its container and without decoding it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ares import files
from ares.errors import SourceError
from ares.media.container import open_container
from ares.media.quiet import Spans, quiet_spans
from ares.media.turn import UPRIGHT, Turn, of_stream

if TYPE_CHECKING:
    import numpy as np
    from av.container import InputContainer
    from av.video.stream import VideoStream
    from numpy.typing import NDArray

# Containers round the times of frames to their time base, Matroska to a thousandth of a second.
_ROUNDING_SECONDS = 1.001e-3
# A container that tells of so much more video than there is has been cut.
_CUT_SECONDS = 1.0
_DECODERS = {"libdav1d": "av1", "libaom-av1": "av1", "libvpx": "vp8", "libvpx-vp9": "vp9"}


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """What a video file says of its first video stream that is no cover picture.

    Attributes:
        width: Pixels, as a person sees the video.
        height: Pixels, as a person sees the video.
        codec: "h264", "av1", "vp9", "hevc" and the like.
        pixel_format: "yuv420p" and the like.
        container: The demuxer's names of the container, "mov,mp4,m4a,3gp,3g2,mj2".
        num_frames: Frames that are shown.
        rate_hz: Frames per second; of a file with a varying rate, the mean.
        duration_seconds: num_frames / rate_hz.
        starts_with_keyframe: Whether the first packet can be decoded alone.
        start_seconds: When the first frame is shown by the clock of the file.
        turn: How the stored pictures are turned to stand upright.
        square_pixels: Whether a pixel is as wide as it is high.
        is_cut: Whether the video ends before its container says.
        seconds: (num_frames,) when each frame is shown after the first; None where that is number / rate_hz
            within the rounding of the container.
        quiet: Where packets hold next to nothing, see `ares.media.quiet.quiet_spans`.
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
    turn: Turn = UPRIGHT
    square_pixels: bool = True
    is_cut: bool = False
    seconds: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    quiet: Spans = ()


class _Shown(NamedTuple):
    """When the frames are shown: ticks in rising order, and whether the first packet is a keyframe.

    Then of each packet its bytes, and whether it is a keyframe.
    """

    ticks: NDArray[np.int64]
    starts_with_keyframe: bool
    sizes: list[int]
    keys: list[bool]


@contextmanager
def opened(path: str | Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """A video file and its first video stream, closed afterwards.

    Raises SourceError for a file that is missing, empty, cut, or holds no video.
    """
    import av

    try:
        if files.state(str(path)).size == 0:
            raise SourceError("video file is empty", f"{path}: 0 bytes")
        container = open_container(str(path))
    except (FileNotFoundError, IsADirectoryError):
        raise SourceError("video file is missing", str(path)) from None
    except (av.FFmpegError, OSError, ValueError) as error:
        raise SourceError("video file is cut or no video", f"{path}: {words(error)}") from None
    with container:
        stream = video_stream(container)
        if not container.streams:
            raise SourceError("video file is cut or no video", f"{path}: it holds no stream at all")
        if stream is None:
            raise SourceError("file holds no video stream", str(path))
        if stream.codec_context is None:
            raise SourceError("video codec is not known", str(path))
        yield container, stream


def video_stream(container: InputContainer) -> VideoStream | None:
    """The first video stream that is neither a cover picture nor a row of thumbnails."""
    from av.stream import Disposition

    still = Disposition.attached_pic | Disposition.timed_thumbnails
    return next((stream for stream in container.streams.video if not stream.disposition & still), None)


def probe(path: str | Path) -> VideoInfo:
    """Look at a video file; its packets are counted where the container does not say how many there are.

    Raises SourceError for a file that is missing, empty, cut, or holds no video.
    """
    import av

    with opened(path) as (container, stream):
        try:
            shown = _shown(container, stream, files.state(str(path)).size)
        except (av.FFmpegError, OSError) as error:
            raise SourceError("video file is cut or no video", f"{path}: {words(error)}") from None
        if not len(shown.ticks):
            raise SourceError("video holds no frame", str(path))
        return _info(path, container, stream, shown)


def _info(path: str | Path, container: InputContainer, stream: VideoStream, shown: _Shown) -> VideoInfo:
    context, turn = stream.codec_context, of_stream(path, container, stream)
    width, height = turn.size(context.width, context.height)
    base = float(stream.time_base or 1)
    rate_hz, seconds = _clock(stream, (shown.ticks - shown.ticks[0]) * base)
    num_frames = len(shown.ticks)
    return VideoInfo(
        width=width,
        height=height,
        codec=codec_name(context.name),
        pixel_format=context.pix_fmt or "",
        container=container.format.name,
        num_frames=num_frames,
        rate_hz=rate_hz,
        duration_seconds=num_frames / rate_hz,
        starts_with_keyframe=shown.starts_with_keyframe,
        start_seconds=float((stream.start_time or 0) * base),
        turn=turn,
        square_pixels=(stream.sample_aspect_ratio or 1) == 1,
        is_cut=_told_seconds(container, stream) - num_frames / rate_hz > _CUT_SECONDS + 1 / rate_hz,
        seconds=seconds,
        quiet=quiet_spans(shown.sizes, shown.keys, width * height),
    )


def codec_name(name: str) -> str:
    """The codec of a decoder ("libdav1d" decodes "av1")."""
    return _DECODERS.get(name, name)


def _shown(container: InputContainer, stream: VideoStream, size: int) -> _Shown:
    """When the frames are shown, from the index where there is one and it tells.

    Raises SourceError when packets lie past the end of the file.
    """
    import numpy as np

    whole = stream.frames and len(stream.index_entries) >= stream.frames
    entries = list(stream.index_entries) if whole else []
    if not entries:
        return _demuxed(container, stream)
    if max(entry.pos + entry.size for entry in entries) > size:
        raise SourceError("video file is cut", f"{container.name}: it ends at byte {size}, its frames do not")
    # The index has the times of decoding. Evenly spaced, those of showing are too; else B-frames mix them.
    ticks = np.array([entry.timestamp for entry in entries if not entry.is_discard], np.int64)
    steps = np.diff(ticks)
    even = not len(steps) or float(np.ptp(steps) * (stream.time_base or 0)) <= _ROUNDING_SECONDS
    if not even and stream.codec_context.has_b_frames:
        return _demuxed(container, stream)
    told = [(entry.size, entry.is_keyframe) for entry in entries if not entry.is_discard]
    return _Shown(ticks, entries[0].is_keyframe, [size for size, _ in told], [key for _, key in told])


def _demuxed(container: InputContainer, stream: VideoStream) -> _Shown:
    """When the frames are shown, from every packet. Without times (AVI), those of decoding stand for them."""
    import numpy as np

    ticks, starts = [], None
    sizes: list[int] = []
    keys: list[bool] = []
    for packet in container.demux(stream):
        tick = packet.dts if packet.pts is None else packet.pts
        if tick is None or not packet.size:
            continue
        starts = packet.is_keyframe if starts is None else starts
        if not packet.is_discard:
            ticks.append(tick)
            sizes.append(packet.size)
            keys.append(packet.is_keyframe)
    return _Shown(np.sort(np.array(ticks, np.int64)), bool(starts), sizes, keys)


def _clock(stream: VideoStream, seconds: NDArray[np.float64]) -> tuple[float, NDArray[np.float64] | None]:
    """Frames per second, and the seconds themselves where they are not number / rate.

    The rate is what the container says if the times bear it out, else what they say: the mean of the steps.
    """
    import numpy as np

    told = [float(rate) for rate in (stream.average_rate, stream.guessed_rate) if rate]
    if len(seconds) < 2 or seconds[-1] <= 0:
        return (told[0] if told else 1.0), None
    numbers = np.arange(len(seconds))
    mean = (len(seconds) - 1) / float(seconds[-1])
    for rate in (*told, float(max(round(mean), 1)), mean):
        if np.abs(seconds - numbers / rate).max() <= _ROUNDING_SECONDS:
            return rate, None
    return mean, seconds


def _told_seconds(container: InputContainer, stream: VideoStream) -> float:
    """How long the container says that the video is; 0 where it does not say so of the video alone."""
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    alone = len(container.streams) == 1 and container.duration
    return container.duration / 1e6 if alone and container.duration else 0.0


def words(error: Exception) -> str:
    """What FFmpeg says, without its number and the file's name."""
    return str(getattr(error, "strerror", "") or error)
