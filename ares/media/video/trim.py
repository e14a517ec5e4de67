"""Span of a video cut out by packets, with the frames it depends on, into a file of its own."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.media.video.clock import span_clock
from ares.media.video.orientation import UPRIGHT, stream_orientation
from ares.media.video.probe import find_video_stream
from ares.media.video.remux import NotCopyable, open_video_container

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet

    from ares.episode import MediaRef

# Demuxers seek by decoding time, which differs from presentation time.
_SEEK_BACK_SECONDS = 1.0
# Times closer than this are equal. Frames are found a millisecond early anyway.
_SAME_SECONDS = 1e-4


def trim_video(ref: MediaRef, path: Path) -> MediaRef:
    """Write the packets of a span to an mp4, every frame at its own time, and return the span inside that file.

    The file begins at the last keyframe before the span, so it may hold a few frames more than the span. It is read
    back: unless it has the same number of frames at the same seconds, the span counts as not copyable.

    Raises:
        MediaError: The source does not exist or cannot be read.
        NotCopyable: Its packets cannot be cut out or do not fit an mp4: encode it anew.
    """
    container = open_video_container(ref.uri)
    with container:
        stream: Any = find_video_stream(container)
        if stream.time_base is None:
            raise NotCopyable("the video has no time base", ref.uri)
        if container.format.name == "avi" or stream_orientation(ref.uri, container, stream) != UPRIGHT:
            raise NotCopyable("frames are stored rotated, or without times", ref.uri)
        time_base, stream_start = float(stream.time_base), stream.start_time or 0
        packets = _span_packets(container, ref)
        first_tick = packets[0].pts or 0
        ticks = sorted((packet.pts or 0) - first_tick for packet in packets)
        _write_packets(container, packets, path)
    if not _has_frame_times(path, [tick * time_base for tick in ticks]):
        raise NotCopyable("packets did not keep their times", ref.uri)
    start = ref.start_seconds - (first_tick - stream_start) * time_base
    start = 0.0 if abs(start) < _SAME_SECONDS else start
    stop = start + ref.stop_seconds - ref.start_seconds
    return replace(ref, uri=str(path), start_seconds=start, stop_seconds=stop)


def _span_packets(container: InputContainer, ref: MediaRef) -> list[Packet[Any]]:
    """Packets from the last keyframe shown no later than the span begins, to the last frame of the span."""
    import av

    stream: Any = find_video_stream(container)
    time_base, stream_start = float(stream.time_base), stream.start_time or 0
    clock = span_clock(ref, time_base)
    first_tick, last_tick = (
        math.floor(second / time_base) + stream_start
        for second in (clock.start_second + clock.tolerance_seconds, clock.last_second)
    )
    packets: list[Packet[Any]] = []
    back_seconds = _SEEK_BACK_SECONDS
    try:
        while not packets:
            target = first_tick - round(back_seconds / time_base)
            container.seek(min(stream_start, 0) if target <= stream_start else target, stream=stream)
            packets = _demux_range(container, ref.uri, first_tick, last_tick)
            if target <= stream_start:
                break
            back_seconds *= 4
    except av.FFmpegError as error:
        raise NotCopyable("packets cannot be read", f"{ref.uri}: {error}") from None
    while packets and (packets[-1].pts or 0) > last_tick:
        packets.pop()
    if not packets:
        raise NotCopyable("the span does not follow a keyframe", f"{ref.uri}: {ref.start_seconds} s")
    return packets


def _demux_range(container: InputContainer, uri: str, first_tick: int, last_tick: int) -> list[Packet[Any]]:
    """Packets from the last keyframe shown by `first_tick` on, decoded by `last_tick`; empty without a keyframe."""
    packets: list[Packet[Any]] = []
    for packet in container.demux(find_video_stream(container)):
        if not packet.size:
            continue
        if packet.pts is None or packet.dts is None or packet.is_discard:
            raise NotCopyable("packets have no times of their own", uri)
        if packet.dts > last_tick:
            break
        if packet.is_keyframe and packet.pts <= first_tick:
            packets = [packet]
        # Frames that are shown before the keyframe depend on packets before it.
        elif packets and packet.pts >= (packets[0].pts or 0):
            packets.append(packet)
    return packets


def _write_packets(container: InputContainer, packets: list[Packet[Any]], path: Path) -> None:
    import av

    first_tick = packets[0].pts or 0
    try:
        with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as output:
            source: Any = find_video_stream(container)
            stream: Any = output.add_stream_from_template(source, opaque=True)
            stream.time_base = source.time_base
            for packet in packets:
                packet.stream = stream
                packet.pts, packet.dts = (packet.pts or 0) - first_tick, (packet.dts or 0) - first_tick
                output.mux_one(packet)
    except (ValueError, av.error.InvalidDataError, av.error.NotImplementedError) as error:
        raise NotCopyable("its packets do not fit an mp4", f"{container.name}: {error}") from None


def _has_frame_times(path: Path, expected_seconds: list[float]) -> bool:
    """Whether a file shows as many frames, each at its second."""
    with open_video_container(str(path)) as container:
        stream: Any = container.streams.video[0]
        time_base, stream_start = float(stream.time_base), stream.start_time or 0
        seconds = sorted(
            ((packet.pts or 0) - stream_start) * time_base
            for packet in container.demux(stream)
            if packet.size and not packet.is_discard
        )
    return len(seconds) == len(expected_seconds) and all(
        abs(second - expected) < _SAME_SECONDS
        for second, expected in zip(seconds, expected_seconds, strict=True)
    )
