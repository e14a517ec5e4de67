"""The packets of a video topic of an MCAP recording in an mp4, each at its stamp; nothing is decoded."""

from __future__ import annotations

import io
from bisect import bisect_right
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.errors import SourceError
from ares.media.mcap import find, units
from ares.media.mcap_image import is_keyframe
from ares.media.packets import NotCopyable

if TYPE_CHECKING:
    from ares.media.ref import MediaRef

_TICKS_PER_SECOND = 1_000_000
# FFmpeg's demuxers of bare streams, which know their parameter sets.
_BARE = {"h264": "h264", "hevc": "hevc"}


def copy_packets(ref: MediaRef, path: Path) -> list[float]:
    """Write the access units of a span, from the keyframe before it on.

    Returns:
        When each of them is shown, in seconds of the episode: those before the span are below 0.

    Raises:
        MediaError: The recording cannot be read.
        NotCopyable: They are no video, or of a codec or in an order that an mp4 cannot take: encode them.
    """
    images, first = find(ref)
    stop = first + ref.num_frames
    if images.codec not in _BARE or images.order != sorted(images.order):
        raise NotCopyable("images are no video in the order of its packets", f"{ref.uri} {ref.key}")
    key = images.keys[bisect_right(images.keys, first) - 1]
    seconds = [float(second) for second in images.seconds[key:stop]]
    ticks = [round((second - seconds[0]) * _TICKS_PER_SECOND) for second in seconds]
    if any(tick >= after for tick, after in pairwise(ticks)):
        raise NotCopyable("stamps repeat", f"{ref.uri} {ref.key}")
    _write(images.codec, units(ref, images, range(key, stop)), ticks, path)
    return [second - ref.start_seconds for second in seconds]


def _write(codec: str, data: list[bytes], ticks: list[int], path: Path) -> None:
    import av

    try:
        with (
            av.open(io.BytesIO(data[0]), format=_BARE[codec]) as bare,
            av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as made,
        ):
            stream: Any = made.add_stream_from_template(bare.streams.video[0], opaque=True)
            stream.time_base = Fraction(1, _TICKS_PER_SECOND)
            for unit, tick in zip(data, ticks, strict=True):
                packet: Any = av.Packet(unit)
                packet.stream, packet.time_base = stream, Fraction(1, _TICKS_PER_SECOND)
                packet.pts = packet.dts = tick
                packet.is_keyframe = is_keyframe(codec, unit)
                made.mux_one(packet)
    except (ValueError, SourceError, av.error.InvalidDataError, av.error.NotImplementedError) as error:
        raise NotCopyable("its packets do not fit an mp4", str(error)) from None
