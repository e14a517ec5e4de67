"""Small videos with a number in every frame, in many formats, written by PyAV itself."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.episode import MediaRef
from ares.media import probe_video

MakeVideo = Callable[..., Path]


def picture(number: int, height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    """A picture that differs from those of neighbouring numbers in every pixel."""
    ramp = np.arange(width, dtype=np.uint8)[None, :, None] * 3
    shades = np.array([number * 7 % 256, number * 13 % 256, 255 - number * 5 % 256], np.uint8)
    return np.broadcast_to(ramp // 2 + shades // 2, (height, width, 3)).copy()


@pytest.fixture(scope="session")
def make_video() -> MakeVideo:
    """Write `frames` numbered pictures with an encoder and its options."""

    def make(path: Path, frames: int = 40, rate: int = 20, codec: str = "libx264", **options: Any) -> Path:
        import av

        pixel_format = options.pop("pix_fmt", "yuv420p")
        texts = {name: str(value) for name, value in options.items()}
        with av.open(str(path), "w") as container:
            stream: Any = container.add_stream(codec, rate=Fraction(rate), options=texts)
            stream.width, stream.height, stream.pix_fmt = 64, 48, pixel_format
            for number in range(frames):
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture(number), format="rgb24")))
            container.mux(stream.encode())
        return path

    return make


@pytest.fixture(scope="session")
def video_ref() -> Callable[[Path], MediaRef]:
    """References to all of a video file."""

    def ref(path: Path) -> MediaRef:
        info = probe_video(path)
        return MediaRef(
            kind="mp4",
            uri=str(path),
            start_seconds=0.0,
            stop_seconds=info.duration_seconds,
            num_frames=info.num_frames,
            rate_hz=info.rate_hz,
        )

    return ref


@pytest.fixture(scope="session")
def span_ref() -> Callable[[Path, int, float, float], MediaRef]:
    """References to a number of frames of a video file, at a rate, from a second on."""

    def ref(path: Path, frames: int, rate_hz: float, start: float = 0.0) -> MediaRef:
        return MediaRef(
            kind="mp4",
            uri=str(path),
            start_seconds=start,
            stop_seconds=start + frames / rate_hz,
            num_frames=frames,
            rate_hz=rate_hz,
        )

    return ref


@pytest.fixture(scope="session")
def decode() -> Callable[[Path], tuple[list[float], list[NDArray[np.uint8]]]]:
    """Seconds (from the first frame on) and pictures of a video, decoded from end to end."""

    def run(path: Path) -> tuple[list[float], list[NDArray[np.uint8]]]:
        import av

        with av.open(str(path)) as container:
            frames = list(container.decode(video=0))
            first = float(frames[0].time or 0)
            pictures: Any = [frame.to_ndarray(format="rgb24") for frame in frames]
            return [float(frame.time or 0) - first for frame in frames], pictures

    return run
