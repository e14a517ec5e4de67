"""Small videos of tests, written by PyAV itself, references to them, and their frames from end to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from ares.episode import MediaRef
from ares.formats.tf_example import make_tf_example_class
from ares.media import probe_video
from tests.generators.tfrecords import write_tfrecords

A_QUARTER_TO_THE_RIGHT = (0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)  # a display matrix


def picture(number: int) -> NDArray[np.uint8]:
    """A picture of 64x48 that differs from those of neighbouring numbers in every pixel."""
    ramp = np.arange(64, dtype=np.uint8)[None, :, None] * 3
    shades = np.array([number * 7 % 256, number * 13 % 256, 255 - number * 5 % 256], np.uint8)
    return np.broadcast_to(ramp // 2 + shades // 2, (48, 64, 3)).copy()


def write_video(
    path: Path,
    pictures: Sequence[NDArray[np.uint8]],
    milliseconds: Sequence[int] | None = None,
    *,
    rate: int = 20,
    codec: str = "libx264",
    matrix: Sequence[int] | None = None,
    sound: bool = False,
    container: dict[str, str] | None = None,
    **options: Any,
) -> Path:
    """A video with a frame at each millisecond, or at a rate, with sound before it if asked."""
    pixels = options.pop("pix_fmt", "yuv420p")
    tick = Fraction(1, 1000 if milliseconds else rate)
    texts = {name: str(value) for name, value in options.items()}
    with av.open(str(path), "w", options=container or {}) as out:
        audio: Any = out.add_stream("aac", rate=16000) if sound else None
        stream: Any = out.add_stream(codec, rate=Fraction(rate), options=texts)
        stream.height, stream.width, stream.pix_fmt = *pictures[0].shape[:2], pixels
        if milliseconds:
            stream.codec_context.time_base = stream.time_base = tick
        if matrix:
            stream.set_display_matrix(list(matrix))
        if audio:
            out.mux(audio.encode(_silence()))
        for time, image in zip(milliseconds or range(len(pictures)), pictures, strict=True):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = time, tick
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
        out.mux(audio.encode() if audio else [])
    return path


def make_video(path: Path, frames: int = 40, rate: int = 20, codec: str = "libx264", **options: Any) -> Path:
    """A video of numbered pictures."""
    return write_video(path, [picture(number) for number in range(frames)], rate=rate, codec=codec, **options)


def write_sound(path: Path) -> Path:
    """A file with sound and no pictures."""
    with av.open(str(path), "w") as out:
        audio: Any = out.add_stream("aac", rate=16000)
        out.mux(audio.encode(_silence()))
        out.mux(audio.encode())
    return path


def _silence() -> av.AudioFrame:
    silence = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.int16), "s16", "mono")
    silence.sample_rate = 16000
    return silence


def video_ref(path: Path) -> MediaRef:
    """A reference to all of a video file."""
    info = probe_video(path)
    return span_ref(path, info.num_frames, info.rate_hz, stop_seconds=info.duration_seconds)


def span_ref(path: Path, frames: int, rate_hz: float, start: float = 0.0, **fields: Any) -> MediaRef:
    """A reference to a number of frames of a file, at a rate, from a second on; keywords replace its fields."""
    ref = MediaRef(
        kind="mp4",
        uri=str(path),
        start_seconds=start,
        stop_seconds=start + frames / rate_hz,
        num_frames=frames,
        rate_hz=rate_hz,
    )
    return replace(ref, **fields)


def write_record(path: Path, images: Sequence[bytes], rate_hz: float, **fields: Any) -> MediaRef:
    """A TFRecord of one episode with encoded images, and the reference to them."""
    example = make_tf_example_class()()
    example.features.feature["steps/image"].bytes_list.value.extend(images)
    (place,) = write_tfrecords(path, [example.SerializeToString()])
    fields |= {"kind": "tfrecord", "key": "steps/image", "byte_offset": place.offset, "byte_size": place.size}
    return span_ref(path, len(images), rate_hz, **fields)


def decode(path: Path) -> tuple[list[float], list[NDArray[np.uint8]]]:
    """Seconds (from the first frame on) and pictures of a video, decoded from end to end."""
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
        first = float(frames[0].time or 0)
        pictures: Any = [frame.to_ndarray(format="rgb24") for frame in frames]
        return [float(frame.time or 0) - first for frame in frames], pictures
