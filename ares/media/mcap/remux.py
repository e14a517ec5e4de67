"""Video topic of an MCAP recording written to an mp4 by packets, each at its timestamp, without decoding."""

from __future__ import annotations

import io
from bisect import bisect_right
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.errors import SourceError
from ares.media.mcap.frames import find_topic_images, read_access_units
from ares.media.mcap.messages import is_keyframe
from ares.media.video import NotCopyable

if TYPE_CHECKING:
    from ares.episode import MediaRef

_TICKS_PER_SECOND = 1_000_000
# FFmpeg's demuxers of elementary streams, which parse their parameter sets.
_RAW_STREAM_FORMATS = {"h264": "h264", "hevc": "hevc"}


def copy_topic_packets(ref: MediaRef, path: Path) -> list[float]:
    """Write the access units of a span, starting at the keyframe before it.

    Returns:
        When each of them is shown, in seconds of the episode: below 0 before the span.

    Raises:
        MediaError: The recording cannot be read.
        NotCopyable: They are not a video, or of a codec or in an order that an mp4 cannot hold: encode them.
    """
    images, first = find_topic_images(ref)
    stop = first + ref.num_frames
    if images.codec not in _RAW_STREAM_FORMATS or images.order != sorted(images.order):
        raise NotCopyable("images are not a video in the order of its packets", f"{ref.uri} {ref.key}")
    keyframe = images.keyframes[bisect_right(images.keyframes, first) - 1]
    seconds = [float(second) for second in images.seconds[keyframe:stop]]
    ticks = [round((second - seconds[0]) * _TICKS_PER_SECOND) for second in seconds]
    if any(tick >= next_tick for tick, next_tick in pairwise(ticks)):
        raise NotCopyable("timestamps repeat", f"{ref.uri} {ref.key}")
    _write_packets(images.codec, read_access_units(ref, images, range(keyframe, stop)), ticks, path)
    return [second - ref.start_seconds for second in seconds]


def _write_packets(codec: str, access_units: list[bytes], ticks: list[int], path: Path) -> None:
    import av

    try:
        with (
            av.open(io.BytesIO(access_units[0]), format=_RAW_STREAM_FORMATS[codec]) as raw_stream,
            av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as output,
        ):
            stream: Any = output.add_stream_from_template(raw_stream.streams.video[0], opaque=True)
            stream.time_base = Fraction(1, _TICKS_PER_SECOND)
            for access_unit, tick in zip(access_units, ticks, strict=True):
                packet: Any = av.Packet(access_unit)
                packet.stream, packet.time_base = stream, Fraction(1, _TICKS_PER_SECOND)
                packet.pts = packet.dts = tick
                packet.is_keyframe = is_keyframe(codec, access_unit)
                output.mux_one(packet)
    except (ValueError, SourceError, av.error.InvalidDataError, av.error.NotImplementedError) as error:
        raise NotCopyable("its packets do not fit an mp4", str(error)) from None
