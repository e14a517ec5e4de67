"""VideoInfo: size, codec, length and rate of a video file, from its container and without decoding it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import SourceError

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

_DECODERS = {"libdav1d": "av1", "libaom-av1": "av1", "libvpx": "vp8", "libvpx-vp9": "vp9"}


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """What a video file says of its first video stream.

    Attributes:
        width: Pixels.
        height: Pixels.
        codec: "h264", "av1", "vp9", "hevc" and the like.
        pixel_format: "yuv420p" and the like.
        container: The demuxer's names of the container, "mov,mp4,m4a,3gp,3g2,mj2".
        num_frames: Frames that are shown.
        rate_hz: Frames per second; of a file with a varying rate, the mean.
        duration_seconds: num_frames / rate_hz.
        starts_with_keyframe: Whether the first packet can be decoded alone.
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


@contextmanager
def opened(path: str | Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """A video file and its first video stream, closed afterwards.

    Raises SourceError for a file that is missing, empty, cut, or holds no video.
    """
    import av

    file = Path(path)
    if not file.is_file():
        raise SourceError("video file is missing", str(path))
    if file.stat().st_size == 0:
        raise SourceError("video file is empty", f"{path}: 0 bytes")
    try:
        container = av.open(str(path))
    except (av.FFmpegError, ValueError) as error:
        raise SourceError("video file is cut or no video", f"{path}: {words(error)}") from None
    with container:
        if not container.streams.video:
            raise SourceError("file holds no video stream", str(path))
        stream = container.streams.video[0]
        if stream.codec_context is None:
            raise SourceError("video codec is not known", str(path))
        yield container, stream


def probe(path: str | Path) -> VideoInfo:
    """Look at a video file; its packets are counted where the container does not say how many there are.

    Raises SourceError for a file that is missing, empty, cut, or holds no video.
    """
    import av

    with opened(path) as (container, stream):
        context = stream.codec_context
        try:
            packets = _packets(container, stream, Path(path).stat().st_size)
        except av.FFmpegError as error:
            raise SourceError("video file is cut or no video", f"{path}: {words(error)}") from None
        num_frames, span, starts = packets
        if not num_frames:
            raise SourceError("video holds no frame", str(path))
        rate_hz = _rate(stream, num_frames, span)
        return VideoInfo(
            width=context.width,
            height=context.height,
            codec=codec_name(context.name),
            pixel_format=context.pix_fmt or "",
            container=container.format.name,
            num_frames=num_frames,
            rate_hz=rate_hz,
            duration_seconds=num_frames / rate_hz,
            starts_with_keyframe=starts,
        )


def codec_name(name: str) -> str:
    """The codec of a decoder ("libdav1d" decodes "av1")."""
    return _DECODERS.get(name, name)


def _packets(container: InputContainer, stream: VideoStream, size: int) -> tuple[int, float, bool]:
    """Frames shown, seconds from the first to the last, and whether the first is a keyframe.

    Raises SourceError when packets lie past the end of the file.
    """
    entries = (
        list(stream.index_entries) if stream.frames and len(stream.index_entries) >= stream.frames else []
    )
    if entries:
        if max(entry.pos + entry.size for entry in entries) > size:
            raise SourceError(
                "video file is cut", f"{container.name}: it ends at byte {size}, its frames do not"
            )
        shown = [entry for entry in entries if not entry.is_discard]
        times = [entry.timestamp for entry in shown]
        starts = entries[0].is_keyframe
    else:
        packets = [packet for packet in container.demux(stream) if packet.pts is not None and packet.size]
        times = [packet.pts for packet in packets if packet.pts is not None and not packet.is_discard]
        starts = bool(packets) and packets[0].is_keyframe
    span = float((max(times) - min(times)) * (stream.time_base or 0)) if times else 0.0
    return len(times), span, starts


def _rate(stream: VideoStream, num_frames: int, span: float) -> float:
    """Frames per second as the container says, else as the times of the frames say, else (one frame) one."""
    told = stream.average_rate or stream.guessed_rate
    if told:
        return float(told)
    return (num_frames - 1) / span if span > 0 else 1.0


def words(error: Exception) -> str:
    """What FFmpeg says, without its number and the file's name."""
    return str(getattr(error, "strerror", "") or error)
