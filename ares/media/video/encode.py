"""Encodes frames to an mp4 that browsers play."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ares.errors import MediaError
from ares.process_tuning import kept_scheduling

if TYPE_CHECKING:
    import numpy as np
    from av.container import OutputContainer
    from av.video.stream import VideoStream
    from numpy.typing import NDArray


VideoCodec = Literal["h264", "av1"]


@dataclass(frozen=True, slots=True)
class VideoEncoding:
    """Encoder settings.

    Attributes:
        encoder: FFmpeg's name of the encoder.
        options: Its options.
        keyframe_every: Frames from one keyframe to the next: reading any frame decodes at most that many.
        even_size: Whether sides are padded to even numbers of at least 16 pixels; AV1 does not need it.
    """

    encoder: str
    options: Mapping[str, str]
    keyframe_every: int = 10
    even_size: bool = True


# One thread and no macroblock tree: with either, x264 now and then writes other bytes (3 of 60 runs).
_ENCODINGS: dict[str, VideoEncoding] = {
    "h264": VideoEncoding("libx264", {"preset": "veryfast", "crf": "21", "sc_threshold": "0", "mbtree": "0"}),
    "av1": VideoEncoding("libsvtav1", {"preset": "10", "crf": "28", "svtav1-params": "lp=1"}),
}
_MIN_SIDE_PIXELS = 16
# Fine enough for the timestamps of any camera, and a 32-bit duration still lasts 70 minutes.
_TICKS_PER_SECOND = 1_000_000


def encode_mp4(
    frames: Iterable[NDArray[np.uint8]],
    path: Path,
    rate_hz: float,
    codec: VideoCodec | VideoEncoding = "h264",
    seconds: Sequence[float] | None = None,
) -> int:
    """Write frames as an mp4 (yuv420p, index at the front) and return how many there were.

    The same frames give the same bytes. Odd sizes are padded by repeating the edge, since H.264 in yuv420p needs
    even ones. The file appears under its name only when it is complete.

    Args:
        frames: (H, W, 3) uint8 RGB, all of one size.
        path: File to write.
        rate_hz: Frames per second.
        codec: "h264" or "av1" with our settings, or other settings.
        seconds: When each frame is shown, rising from 0; number / rate_hz by default.

    Raises MediaError when there is no frame or the sizes differ.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        encoding = codec if isinstance(codec, VideoEncoding) else _ENCODINGS[codec]
        count = _write_video_frames(frames, partial, rate_hz, encoding, seconds)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _write_video_frames(
    frames: Iterable[NDArray[np.uint8]],
    path: Path,
    rate_hz: float,
    encoding: VideoEncoding,
    seconds: Sequence[float] | None,
) -> int:
    import av

    count, shape = 0, None
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        stream = None
        for frame in frames:
            if stream is None:
                shape = frame.shape
                stream = _add_stream(container, frame, rate_hz, encoding, seconds is not None)
            elif frame.shape != shape:
                raise MediaError(
                    "frames of several sizes", f"{path}: {shape} and {frame.shape} at frame {count}"
                )
            video_frame = av.VideoFrame.from_ndarray(_pad_frame(frame, encoding), format="rgb24")
            video_frame.pts = count if seconds is None else round(seconds[count] * _TICKS_PER_SECOND)
            container.mux(stream.encode(video_frame))
            count += 1
        if stream is None:
            raise MediaError("there is no frame to encode", str(path))
        container.mux(stream.encode())
    return count


def _add_stream(
    container: OutputContainer,
    frame: NDArray[np.uint8],
    rate_hz: float,
    encoding: VideoEncoding,
    has_header_times: bool,
) -> VideoStream:
    rate = Fraction(rate_hz).limit_denominator(100_000)
    stream: VideoStream = container.add_stream(  # type: ignore[assignment]
        encoding.encoder, rate=rate, options=dict(encoding.options)
    )
    stream.height, stream.width = _pad_frame(frame, encoding).shape[:2]
    stream.pix_fmt = "yuv420p"
    stream.codec_context.time_base = Fraction(1, _TICKS_PER_SECOND) if has_header_times else 1 / rate
    stream.codec_context.gop_size = encoding.keyframe_every
    stream.codec_context.max_b_frames = 0
    stream.codec_context.thread_count = 1
    with kept_scheduling():
        stream.codec_context.open()
    return stream


def _pad_frame(frame: NDArray[np.uint8], encoding: VideoEncoding) -> NDArray[np.uint8]:
    """The frame with even sides of at least 16 pixels where the encoding needs them."""
    import numpy as np

    if not encoding.even_size:
        return np.ascontiguousarray(frame)
    height, width = (max(side + side % 2, _MIN_SIDE_PIXELS) for side in frame.shape[:2])
    if frame.shape[:2] == (height, width):
        return np.ascontiguousarray(frame)
    return np.pad(frame, ((0, height - frame.shape[0]), (0, width - frame.shape[1]), (0, 0)), mode="edge")
