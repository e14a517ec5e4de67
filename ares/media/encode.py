"""Encode frames to an mp4 that browsers play and that can be entered at any second."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ares.errors import MediaError

if TYPE_CHECKING:
    import numpy as np
    from av.container import OutputContainer
    from av.video.stream import VideoStream
    from numpy.typing import NDArray

VideoCodec = Literal["h264", "av1"]


@dataclass(frozen=True, slots=True)
class Encoding:
    """How frames become packets.

    Attributes:
        encoder: FFmpeg's name of the encoder.
        options: Its options.
        keyframe_every: Frames from one keyframe to the next: any frame costs that many decodings at most.
        even: Whether sides are padded to even numbers of at least 16 pixels; AV1 can do without.
    """

    encoder: str
    options: Mapping[str, str]
    keyframe_every: int = 10
    even: bool = True


# One thread and no macroblock tree: with either, x264 gives other bytes now and then (3 of 60 runs).
_ENCODINGS: dict[str, Encoding] = {
    "h264": Encoding("libx264", {"preset": "veryfast", "crf": "21", "sc_threshold": "0", "mbtree": "0"}),
    "av1": Encoding("libsvtav1", {"preset": "10", "crf": "28", "svtav1-params": "lp=1"}),
}
_SMALLEST = 16
# Fine enough for the stamps of any camera, and a 32-bit duration still holds 70 minutes.
_TICKS_PER_SECOND = 1_000_000


def encode_mp4(
    frames: Iterable[NDArray[np.uint8]],
    path: Path,
    rate_hz: float,
    codec: VideoCodec | Encoding = "h264",
    seconds: Sequence[float] | None = None,
) -> int:
    """Write frames as an mp4 (yuv420p, index at the front) and return how many there were.

    The same frames give the same bytes. Odd sizes are padded by a repeated edge, since H.264 has none in yuv420p.
    The file appears under its name only when it is whole.

    Args:
        frames: (H, W, 3) uint8 RGB, all of one size.
        path: File to write.
        rate_hz: Frames per second.
        codec: "h264" or "av1" with our settings, or others.
        seconds: When each frame is shown, rising from 0; number / rate_hz when left out.

    Raises MediaError when there is no frame or the sizes differ.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        encoding = codec if isinstance(codec, Encoding) else _ENCODINGS[codec]
        count = _write(frames, partial, rate_hz, encoding, seconds)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _write(
    frames: Iterable[NDArray[np.uint8]],
    path: Path,
    rate_hz: float,
    encoding: Encoding,
    seconds: Sequence[float] | None,
) -> int:
    import av

    count, size = 0, None
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        stream = None
        for frame in frames:
            if stream is None:
                size, stream = frame.shape, _stream(container, frame, rate_hz, encoding, seconds is not None)
            elif frame.shape != size:
                raise MediaError(
                    "frames of several sizes", f"{path}: {size} and {frame.shape} at frame {count}"
                )
            picture = av.VideoFrame.from_ndarray(_padded(frame, encoding), format="rgb24")
            picture.pts = count if seconds is None else round(seconds[count] * _TICKS_PER_SECOND)
            container.mux(stream.encode(picture))
            count += 1
        if stream is None:
            raise MediaError("there is no frame to encode", str(path))
        container.mux(stream.encode())
    return count


def _stream(
    container: OutputContainer, frame: NDArray[np.uint8], rate_hz: float, encoding: Encoding, uneven: bool
) -> VideoStream:
    rate = Fraction(rate_hz).limit_denominator(100_000)
    stream: VideoStream = container.add_stream(  # type: ignore[assignment]
        encoding.encoder, rate=rate, options=dict(encoding.options)
    )
    stream.height, stream.width = _padded(frame, encoding).shape[:2]
    stream.pix_fmt = "yuv420p"
    stream.codec_context.time_base = Fraction(1, _TICKS_PER_SECOND) if uneven else 1 / rate
    stream.codec_context.gop_size = encoding.keyframe_every
    stream.codec_context.max_b_frames = 0
    stream.codec_context.thread_count = 1
    return stream


def _padded(frame: NDArray[np.uint8], encoding: Encoding) -> NDArray[np.uint8]:
    """The frame with even sides of at least 16 pixels where that is asked for."""
    import numpy as np

    if not encoding.even:
        return np.ascontiguousarray(frame)
    height, width = (max(side + side % 2, _SMALLEST) for side in frame.shape[:2])
    if frame.shape[:2] == (height, width):
        return np.ascontiguousarray(frame)
    return np.pad(frame, ((0, height - frame.shape[0]), (0, width - frame.shape[1]), (0, 0)), mode="edge")
