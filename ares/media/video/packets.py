"""Spans of video files as seconds of the file, and joined into one mp4 without decoding a frame."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.clock import time_tolerance
from ares.console import count_of
from ares.episode import MediaRef
from ares.errors import MediaError
from ares.input import open_video
from ares.media.fingerprint import verify_source
from ares.media.video.orientation import UPRIGHT, stream_orientation
from ares.media.video.probe import find_video_stream

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream


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
    tolerance = time_tolerance(ref.rate_hz / scale, tick_seconds)
    last_second = ref.start_seconds + episode_seconds * scale - half_step
    if span_seconds > 0:
        # At a varying rate the frame after the span may begin earlier than half a mean step before its end.
        last_second = min(last_second, ref.stop_seconds - 2 * tolerance)
    return SpanClock(ref.start_seconds, last_second, scale, tolerance)


# Largest deviation of a frame from its time at a constant rate; the rounding of a millisecond time base fits.
_JITTER_SECONDS = 1e-3
# How far before the span to seek: demuxers seek by decoding time, which differs from presentation time.
_SEEK_BACK_SECONDS = 1.0
# How far behind the span frames are read that are shown later and that it depends on.
_READ_ON_SECONDS = 0.5


class NotCopyable(MediaError):
    """The span can be decoded but not cut out by packets: encode it again."""


class StreamFormat(NamedTuple):
    """What must be equal for packets of several sources to be decoded by one decoder, one after the other."""

    codec: str
    pixel_format: str
    width: int
    height: int
    extradata: bytes


@dataclass(frozen=True, slots=True, eq=False)
class PacketSpan:
    """The packets of an episode, in decoding order.

    Attributes:
        packets: One per frame; the first is a keyframe.
        positions: Number of each packet's frame, in presentation order; 0 is the first of all packets.
        decoding_delay: Frames by which decoding precedes presentation (0 without B-frames).
        format: Codec and size.
        template: The stream that the packets come from.
        lead: Frames before the first of the episode, which it depends on; a reader must skip them.
        num_frames: Frames of the episode; frames behind them are there only because others depend on them.
    """

    packets: tuple[Packet[Any], ...]
    positions: tuple[int, ...]
    decoding_delay: int
    format: StreamFormat
    template: VideoStream
    _container: InputContainer
    lead: int = 0
    num_frames: int = 0

    @property
    def num_bytes(self) -> int:
        """Compressed size."""
        return sum(packet.size for packet in self.packets)

    def close(self) -> None:
        """Close the source file; the packets must not be used afterwards."""
        self._container.close()


def cut_packets(
    ref: MediaRef, num_frames: int, rate_hz: float, *, with_neighbours: bool = False
) -> PacketSpan:
    """The packets of the first `num_frames` frames of a span of an mp4; the caller closes the result.

    The file may play at another rate than the episode if the user set one: packets get new times anyway.

    Args:
        ref: The span.
        num_frames: Frames of it.
        rate_hz: Frames per second.
        with_neighbours: Whether frames outside that the span depends on come along, from the keyframe before it.

    Raises:
        MediaError: The file does not exist or cannot be read.
        NotCopyable: The span does not start with a keyframe or needs frames outside of it (and they may not come
            along), is not at a constant `rate_hz`, has swapped colours, turned pictures, another size or a
            rotation.
    """
    if not ref.is_as_stored:
        is_fitted = ref.pixel_order == "rgb"
        reason = "the plan has another size" if is_fitted else "colours are swapped or pictures are turned"
        raise NotCopyable(reason, f"{ref.uri} {ref.key}: {ref.pixel_order}")
    verify_source(ref)
    container = open_video_container(ref.uri)
    try:
        clock = span_clock(ref, tick_seconds(_require_stream(container, ref.uri)))
        return _select_packets(container, ref, num_frames, rate_hz / clock.scale, with_neighbours)
    except BaseException:
        container.close()
        raise


def open_video_container(uri: str) -> InputContainer:
    """Open a file that has a video stream. Raises MediaError."""
    import av

    try:
        container = open_video(uri)
    except FileNotFoundError:
        raise MediaError("the video is not there any more", uri) from None
    except (av.error.FFmpegError, OSError) as error:
        raise MediaError("the video cannot be opened", f"{uri}: {error}") from None
    try:
        _require_stream(container, uri)
    except BaseException:
        container.close()
        raise
    return container


def _require_stream(container: InputContainer, uri: str) -> VideoStream:
    stream = find_video_stream(container)
    if stream is None:
        raise MediaError("the file has no video", uri)
    return stream


def _select_packets(
    container: InputContainer, ref: MediaRef, num_frames: int, rate_hz: float, with_neighbours: bool
) -> PacketSpan:
    stream = _require_stream(container, ref.uri)
    if stream_orientation(ref.uri, container, stream) != UPRIGHT:
        raise NotCopyable("frames are stored rotated", ref.uri)
    # A file may begin late (a camera that started after its clock); its first frame is still the first step.
    first_second = float((stream.start_time or 0) * _time_base(stream, ref))
    ref = replace(ref, start_seconds=ref.start_seconds + first_second)
    read = _read_packets(container, stream, ref, num_frames, rate_hz)
    timed_packets = _packets_in_span(read, ref, num_frames, rate_hz, with_neighbours)
    positions = _frame_positions([second for _, second in timed_packets], rate_hz, ref.uri)
    packets = tuple(packet for packet, _ in timed_packets)
    delay = _decoding_delay(packets, positions, rate_hz)
    lead = round((ref.start_seconds - timed_packets[0][1]) * rate_hz)
    return PacketSpan(
        packets, positions, delay, _stream_format(stream), stream, container, max(lead, 0), num_frames
    )


# A packet and the second of the file at which its frame is shown.
_TimedPacket = tuple["Packet[Any]", float]


def _packets_in_span(
    timed_packets: list[_TimedPacket],
    ref: MediaRef,
    num_frames: int,
    rate_hz: float,
    with_neighbours: bool,
) -> list[_TimedPacket]:
    """The packets whose frames are shown in the span. Raises NotCopyable when they cannot stand alone."""
    first_second = ref.start_seconds - 0.5 / rate_hz
    last_second = first_second + num_frames / rate_hz
    inside = [k for k, (_, second) in enumerate(timed_packets) if first_second <= second < last_second]
    if len(inside) != num_frames:
        raise NotCopyable(
            "frames are not at a constant rate",
            f"{ref.uri}: {count_of(len(inside), 'frame')} where {num_frames} should be",
        )
    if with_neighbours:
        return _add_neighbours(timed_packets, inside, ref, rate_hz)
    if inside[-1] - inside[0] != num_frames - 1:
        raise NotCopyable("frames depend on others outside of the episode", ref.uri)
    if not timed_packets[inside[0]][0].is_keyframe:
        raise NotCopyable("the episode does not start with a key frame", f"{ref.uri}: {ref.start_seconds} s")
    return timed_packets[inside[0] : inside[-1] + 1]


def _add_neighbours(
    timed_packets: list[_TimedPacket], inside: list[int], ref: MediaRef, rate_hz: float
) -> list[_TimedPacket]:
    """The packets of a span from the keyframe before it, to the first place where no shown frame is missing."""
    first_second = min(timed_packets[k][1] for k in inside)
    keys = (
        k
        for k in range(inside[0], -1, -1)
        if timed_packets[k][0].is_keyframe and timed_packets[k][1] <= first_second
    )
    first = next(keys, None)
    if first is None:
        raise NotCopyable("no key frame lies before the span", f"{ref.uri}: {ref.start_seconds} s")
    last_second = max(second for _, second in timed_packets[first : inside[-1] + 1])
    for stop in range(inside[-1] + 1, len(timed_packets) + 1):
        last_second = max(last_second, timed_packets[stop - 1][1])
        if stop - first == round((last_second - timed_packets[first][1]) * rate_hz) + 1:
            return timed_packets[first:stop]
    raise NotCopyable("frames depend on others outside of the episode", ref.uri)


def _read_packets(
    container: InputContainer, stream: VideoStream, ref: MediaRef, num_frames: int, rate_hz: float
) -> list[tuple[Packet[Any], float]]:
    """Packets around the span with their second in the file, in decoding order; they end a little behind it."""
    import av

    time_base = _time_base(stream, ref)
    stop = ref.start_seconds + (num_frames - 0.5) / rate_hz
    timed_packets: list[tuple[Packet[Any], float]] = []
    try:
        if ref.start_seconds > _SEEK_BACK_SECONDS:
            container.seek(int((ref.start_seconds - _SEEK_BACK_SECONDS) / time_base), stream=stream)
        for packet in container.demux(stream):
            if packet.dts is None or packet.pts is None:
                continue
            if float(packet.dts * time_base) >= stop + _READ_ON_SECONDS:
                break
            timed_packets.append((packet, float(packet.pts * time_base)))
    except (av.error.FFmpegError, OSError) as error:
        raise MediaError("the video cannot be read", f"{ref.uri}: {error}") from None
    return timed_packets


def _time_base(stream: VideoStream, ref: MediaRef) -> Fraction:
    if stream.time_base is None:
        raise MediaError("the video has no time base", ref.uri)
    return stream.time_base


def _frame_positions(seconds: list[float], rate_hz: float, uri: str) -> tuple[int, ...]:
    """Number of each frame in the episode; seconds are in decoding order."""
    first_second = seconds[0]
    positions = tuple(round((second - first_second) * rate_hz) for second in seconds)
    jitter = max(
        abs(second - first_second - k / rate_hz) for second, k in zip(seconds, positions, strict=True)
    )
    if min(positions) < 0:
        raise NotCopyable("frames depend on others outside of the episode", uri)
    if jitter > _JITTER_SECONDS or sorted(positions) != list(range(len(positions))):
        raise NotCopyable("frames are not at a constant rate", f"{uri}: off by {jitter * 1e3:.1f} ms")
    return positions


def _decoding_delay(packets: tuple[Packet[Any], ...], positions: tuple[int, ...], rate_hz: float) -> int:
    # The delay that the encoder declared, so that all its episodes agree, even those without any B-frame.
    first = packets[0]
    assert first.pts is not None and first.dts is not None and first.time_base is not None
    declared = round(float((first.pts - first.dts) * first.time_base) * rate_hz)
    return max(declared, *(k - position for k, position in enumerate(positions)))


def _stream_format(stream: VideoStream) -> StreamFormat:
    context = stream.codec_context
    return StreamFormat(
        codec=context.codec.canonical_name,
        pixel_format=str(context.pix_fmt),
        width=context.width,
        height=context.height,
        extradata=context.extradata or b"",
    )


class PacketJoiner:
    """A growing mp4 at a constant rate: frame i is shown at exactly i / rate_hz seconds.

    Args:
        path: File to write; its folder is created.
        rate_hz: Frames per second.
        first_span: A span of the format that all others must have; it is not added yet.
    """

    def __init__(self, path: Path, rate_hz: float, first_span: PacketSpan) -> None:
        import av

        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.rate_hz = rate_hz
        self.format = first_span.format
        self.num_frames = 0
        self.num_bytes = 0
        self._decoding_delay = first_span.decoding_delay
        self._container = av.open(str(path), "w", options={"movflags": "faststart"})
        self._stream: Any = self._container.add_stream_from_template(first_span.template, opaque=True)
        # As precise as `encode_mp4`: 29.97 Hz is 30000 / 1001.
        self._time_base = 1 / Fraction(rate_hz).limit_denominator(100_000)
        self._stream.time_base = self._time_base

    def fits(self, span: PacketSpan) -> bool:
        """Whether one decoder can decode this file and then the span."""
        return span.format == self.format and span.decoding_delay <= self._decoding_delay

    def append(self, span: PacketSpan) -> int:
        """Copy the packets of a span that fits; returns the number of its first frame."""
        first_frame = self.num_frames
        for k, (packet, position) in enumerate(zip(span.packets, span.positions, strict=True)):
            packet.stream = self._stream
            packet.time_base = self._time_base
            packet.pts = first_frame + position
            packet.dts = first_frame + k - self._decoding_delay
            packet.duration = 1
            self._container.mux_one(packet)
        self.num_frames += len(span.packets)
        self.num_bytes += span.num_bytes
        return first_frame

    def close(self) -> None:
        """Finish the file."""
        self._container.close()


def write_span(ref: MediaRef, path: Path, *, with_neighbours: bool = False) -> int:
    """Write the packets of a span to a separate mp4, at the rate of its episode.

    Args:
        ref: The span.
        path: The file, whose name ends with ".mp4".
        with_neighbours: Whether frames outside that the span depends on come along.

    Returns:
        How many frames come before those of the span.

    Raises:
        MediaError: The source does not exist or cannot be read.
        NotCopyable: Its packets cannot be cut out or do not fit an mp4: encode it.
    """
    import av

    span = cut_packets(ref, ref.num_frames, ref.rate_hz, with_neighbours=with_neighbours)
    try:
        joiner = PacketJoiner(path, ref.rate_hz, span)
        joiner.append(span)
        joiner.close()
    except (ValueError, av.error.InvalidDataError, av.error.NotImplementedError) as error:
        raise NotCopyable("its packets do not fit an mp4", f"{ref.uri}: {error}") from None
    finally:
        span.close()
    return span.lead
