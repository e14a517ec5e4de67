"""Packet copy: join spans of mp4 files into one mp4 without decoding a frame."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.errors import MediaError
from ares.media.container import open_container
from ares.media.mp4 import clock
from ares.media.probe import video_stream
from ares.media.ref import MediaRef
from ares.media.stamp import check
from ares.media.turn import UPRIGHT, of_stream

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

# Farthest that a frame may stand from its place at a constant rate; a millisecond time base fits.
_JITTER_SECONDS = 1e-3
# How far before the span to seek: demuxers seek by decoding time, which is not the time of showing.
_SEEK_BACK_SECONDS = 1.0


class NotCopyable(MediaError):
    """The span can be decoded but not cut out by packets: encode it anew."""


class Shape(NamedTuple):
    """What must be equal for packets to be decoded by one decoder, one after the other."""

    codec: str
    pixel_format: str
    width: int
    height: int
    extradata: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """The packets of an episode, in decoding order.

    Attributes:
        packets: One per frame; the first is a key frame.
        positions: Index of each packet's frame in the episode, in order of showing.
        delay: Frames that decoding runs ahead of showing (0 without B-frames).
        shape: Codec and size.
        template: The stream that the packets come from.
    """

    packets: tuple[Packet[Any], ...]
    positions: tuple[int, ...]
    delay: int
    shape: Shape
    template: VideoStream
    _container: InputContainer

    @property
    def num_bytes(self) -> int:
        """Compressed size."""
        return sum(packet.size for packet in self.packets)

    def close(self) -> None:
        """Release the source file; the packets must not be used afterwards."""
        self._container.close()


def cut(ref: MediaRef, num_frames: int, rate_hz: float) -> Span:
    """The packets of the first `num_frames` frames of a span of an mp4; the caller closes it.

    A file that plays at another rate than the episode, because the user said that it does, is no hindrance: packets
    get new times anyway.

    Raises:
        MediaError: The file is not there or cannot be read.
        NotCopyable: The span does not start with a key frame, needs frames outside of it, is not at a
            constant `rate_hz`, has swapped colours or is stored turned.
    """
    if ref.channels != "rgb":
        raise NotCopyable("colours are swapped", f"{ref.uri} {ref.key}: {ref.channels}")
    check(ref)
    container = open_video(ref.uri)
    try:
        return _cut(container, ref, num_frames, rate_hz / clock(ref).scale)
    except BaseException:
        container.close()
        raise


def open_video(uri: str) -> InputContainer:
    """Open a file that has a video stream. Raises MediaError."""
    import av

    try:
        container = open_container(uri)
    except FileNotFoundError:
        raise MediaError("the video is not there any more", uri) from None
    except (av.error.FFmpegError, OSError) as error:
        raise MediaError("the video cannot be opened", f"{uri}: {error}") from None
    try:
        _stream(container, uri)
    except BaseException:
        container.close()
        raise
    return container


def _stream(container: InputContainer, uri: str) -> VideoStream:
    stream = video_stream(container)
    if stream is None:
        raise MediaError("the file has no video", uri)
    return stream


def _cut(container: InputContainer, ref: MediaRef, num_frames: int, rate_hz: float) -> Span:
    stream = _stream(container, ref.uri)
    if of_stream(ref.uri, container, stream) != UPRIGHT:
        raise NotCopyable("frames are stored turned", ref.uri)
    # A file may begin late (a camera that started after its clock); its first frame is still the first step.
    begins = float((stream.start_time or 0) * _time_base(stream, ref))
    ref = replace(ref, start_seconds=ref.start_seconds + begins)
    found = _read(container, stream, ref, num_frames, rate_hz)
    first_second = ref.start_seconds - 0.5 / rate_hz
    last_second = first_second + num_frames / rate_hz
    inside = [k for k, (_, second) in enumerate(found) if first_second <= second < last_second]
    if len(inside) != num_frames:
        raise NotCopyable(
            "frames are not at a constant rate",
            f"{ref.uri}: {len(inside)} frames where {num_frames} should be",
        )
    if inside[-1] - inside[0] != num_frames - 1:
        raise NotCopyable("frames depend on others outside of the episode", ref.uri)
    chosen = found[inside[0] : inside[-1] + 1]
    if not chosen[0][0].is_keyframe:
        raise NotCopyable("the episode does not start with a key frame", f"{ref.uri}: {ref.start_seconds} s")
    positions = _positions([second for _, second in chosen], rate_hz, ref.uri)
    packets = tuple(packet for packet, _ in chosen)
    delay = _delay(packets, positions, rate_hz)
    return Span(packets, positions, delay, _shape(stream), stream, container)


def _read(
    container: InputContainer, stream: VideoStream, ref: MediaRef, num_frames: int, rate_hz: float
) -> list[tuple[Packet[Any], float]]:
    """Packets around the span with their second in the file, in decoding order."""
    import av

    time_base = _time_base(stream, ref)
    stop = ref.start_seconds + (num_frames - 0.5) / rate_hz
    found: list[tuple[Packet[Any], float]] = []
    try:
        if ref.start_seconds > _SEEK_BACK_SECONDS:
            container.seek(int((ref.start_seconds - _SEEK_BACK_SECONDS) / time_base), stream=stream)
        for packet in container.demux(stream):
            if packet.dts is None or packet.pts is None:
                continue
            if float(packet.dts * time_base) >= stop:
                break
            found.append((packet, float(packet.pts * time_base)))
    except (av.error.FFmpegError, OSError) as error:
        raise MediaError("the video cannot be read", f"{ref.uri}: {error}") from None
    return found


def _time_base(stream: VideoStream, ref: MediaRef) -> Fraction:
    if stream.time_base is None:
        raise MediaError("the video has no time base", ref.uri)
    return stream.time_base


def _positions(seconds: list[float], rate_hz: float, uri: str) -> tuple[int, ...]:
    """Index of each frame; seconds are in decoding order."""
    first = seconds[0]
    positions = tuple(round((second - first) * rate_hz) for second in seconds)
    worst = max(abs(second - first - k / rate_hz) for second, k in zip(seconds, positions, strict=True))
    if min(positions) < 0:
        raise NotCopyable("frames depend on others outside of the episode", uri)
    if worst > _JITTER_SECONDS or sorted(positions) != list(range(len(positions))):
        raise NotCopyable("frames are not at a constant rate", f"{uri}: off by {worst * 1e3:.1f} ms")
    return positions


def _delay(packets: tuple[Packet[Any], ...], positions: tuple[int, ...], rate_hz: float) -> int:
    # What the encoder declared, so that episodes of one encoder agree even where one of them has no B-frame.
    first = packets[0]
    assert first.pts is not None and first.dts is not None and first.time_base is not None
    declared = round(float((first.pts - first.dts) * first.time_base) * rate_hz)
    return max(declared, *(k - position for k, position in enumerate(positions)))


def _shape(stream: VideoStream) -> Shape:
    context = stream.codec_context
    return Shape(
        codec=context.codec.canonical_name,
        pixel_format=str(context.pix_fmt),
        width=context.width,
        height=context.height,
        extradata=context.extradata or b"",
    )


class Joined:
    """A growing mp4 at a constant rate: frame i is shown at exactly i / rate_hz seconds.

    Args:
        path: File to write; its folder is made.
        rate_hz: Frames per second.
        first: A span of the shape that all others must have; it is not added yet.
    """

    def __init__(self, path: Path, rate_hz: int, first: Span) -> None:
        import av

        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.rate_hz = rate_hz
        self.shape = first.shape
        self.frames = 0
        self.num_bytes = 0
        self._delay = first.delay
        self._container = av.open(str(path), "w", options={"movflags": "faststart"})
        self._stream: Any = self._container.add_stream_from_template(first.template, opaque=True)
        self._stream.time_base = Fraction(1, rate_hz)

    def fits(self, span: Span) -> bool:
        """Whether one decoder can go on from this file to that span."""
        return span.shape == self.shape and span.delay <= self._delay

    def append(self, span: Span) -> int:
        """Copy the packets of a span that fits; returns the index of its first frame."""
        first = self.frames
        for k, (packet, position) in enumerate(zip(span.packets, span.positions, strict=True)):
            packet.stream = self._stream
            packet.time_base = Fraction(1, self.rate_hz)
            packet.pts = first + position
            packet.dts = first + k - self._delay
            packet.duration = 1
            self._container.mux_one(packet)
        self.frames += len(span.packets)
        self.num_bytes += span.num_bytes
        return first

    def close(self) -> None:
        """Finish the file."""
        self._container.close()
