"""Trim: the packets of a span of a video, and of the frames that they depend on, in a file of their own."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.media.mp4 import clock
from ares.media.packets import NotCopyable, open_video
from ares.media.probe import video_stream
from ares.media.turn import UPRIGHT, of_stream

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet

    from ares.media.ref import MediaRef

# Demuxers seek by the time of decoding, which is not the time of showing.
_BACK_SECONDS = 1.0
# A span that begins this near to the first frame begins with it; frames are found a millisecond early anyway.
_SAME_SECONDS = 1e-4


def trim(ref: MediaRef, path: Path) -> MediaRef:
    """Write the packets of a span to an mp4, every frame at its own time, and say where the span is in it.

    The file begins at the last keyframe before the span, so it may hold a few frames more than the span does.
    What is written is read back: the same frames are at the same seconds, or it counts as not copyable.

    Raises:
        MediaError: The source is not there or cannot be read.
        NotCopyable: Its packets cannot be cut out or do not fit an mp4: encode it anew.
    """
    container = open_video(ref.uri)
    with container:
        stream: Any = video_stream(container)
        if stream.time_base is None:
            raise NotCopyable("the video has no time base", ref.uri)
        if container.format.name == "avi" or of_stream(ref.uri, container, stream) != UPRIGHT:
            raise NotCopyable("frames are stored turned, or without times", ref.uri)
        base, zero = float(stream.time_base), stream.start_time or 0
        packets = _packets(container, ref)
        first = packets[0].pts or 0
        times = sorted((packet.pts or 0) - first for packet in packets)
        _write(container, packets, path)
    if not _same(path, [time * base for time in times]):
        raise NotCopyable("packets did not keep their times", ref.uri)
    start = ref.start_seconds - (first - zero) * base
    start = 0.0 if abs(start) < _SAME_SECONDS else start
    stop = start + ref.stop_seconds - ref.start_seconds
    return replace(ref, uri=str(path), start_seconds=start, stop_seconds=stop)


def _packets(container: InputContainer, ref: MediaRef) -> list[Packet[Any]]:
    """From the last keyframe that is shown no later than the span begins, to the last frame of the span."""
    import av

    stream: Any = video_stream(container)
    base, at, zero = float(stream.time_base), clock(ref), stream.start_time or 0
    begin, end = (math.floor(second / base) + zero for second in (at.start + at.slack, at.last))
    kept: list[Packet[Any]] = []
    back = _BACK_SECONDS
    try:
        while not kept:
            goal = begin - round(back / base)
            container.seek(min(zero, 0) if goal <= zero else goal, stream=stream)
            kept = _between(container, ref.uri, begin, end)
            if goal <= zero:
                break
            back *= 4
    except av.FFmpegError as error:
        raise NotCopyable("packets cannot be read", f"{ref.uri}: {error}") from None
    while kept and (kept[-1].pts or 0) > end:
        kept.pop()
    if not kept:
        raise NotCopyable("the span does not follow a keyframe", f"{ref.uri}: {ref.start_seconds} s")
    return kept


def _between(container: InputContainer, uri: str, begin: int, end: int) -> list[Packet[Any]]:
    kept: list[Packet[Any]] = []
    for packet in container.demux(video_stream(container)):
        if not packet.size:
            continue
        if packet.pts is None or packet.dts is None or packet.is_discard:
            raise NotCopyable("packets have no times of their own", uri)
        if packet.dts > end:
            break
        if packet.is_keyframe and packet.pts <= begin:
            kept = [packet]
        # Frames that are shown before the keyframe need others that stand before it.
        elif kept and packet.pts >= (kept[0].pts or 0):
            kept.append(packet)
    return kept


def _write(container: InputContainer, packets: list[Packet[Any]], path: Path) -> None:
    import av

    first = packets[0].pts or 0
    try:
        with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as made:
            source: Any = video_stream(container)
            stream: Any = made.add_stream_from_template(source, opaque=True)
            stream.time_base = source.time_base
            for packet in packets:
                packet.stream = stream
                packet.pts, packet.dts = (packet.pts or 0) - first, (packet.dts or 0) - first
                made.mux_one(packet)
    except (ValueError, av.error.InvalidDataError, av.error.NotImplementedError) as error:
        raise NotCopyable("its packets do not fit an mp4", f"{container.name}: {error}") from None


def _same(path: Path, seconds: list[float]) -> bool:
    """Whether a file shows as many frames, each at its second."""
    with open_video(str(path)) as made:
        stream: Any = made.streams.video[0]
        base, zero = float(stream.time_base), stream.start_time or 0
        found = sorted(
            ((packet.pts or 0) - zero) * base
            for packet in made.demux(stream)
            if packet.size and not packet.is_discard
        )
    return len(found) == len(seconds) and all(
        abs(one - other) < _SAME_SECONDS for one, other in zip(found, seconds, strict=True)
    )
