"""Cameras that never change are detected by the sizes of their packets, for every codec, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from ares.episode import MediaRef
from ares.errors import MediaError
from ares.media import frozen_camera_flags, probe_video

FRAMES, HEIGHT, WIDTH = 30, 144, 192
Picture = Callable[[int], NDArray[np.uint8]]


def scene(number: int, moving: bool) -> NDArray[np.uint8]:
    """A pattern, over which a small square moves once."""
    blocks = np.random.default_rng(0).integers(0, 255, (HEIGHT // 16, WIDTH // 16, 3), np.uint8)
    image = blocks.repeat(16, 0).repeat(16, 1)
    offset = 8 + 4 * number if moving else 8
    image[60:80, offset : offset + 20] = 255
    return image


def black(_: int) -> NDArray[np.uint8]:
    return np.zeros((HEIGHT, WIDTH, 3), np.uint8)


def write(path: Path, picture: Picture, codec: str, gop: int) -> Path:
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.gop_size = WIDTH, HEIGHT, gop
        stream.pix_fmt = "yuv420p"
        if codec == "libx265":
            stream.options = {"x265-params": "log-level=none"}
        for number in range(FRAMES):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture(number), format="rgb24")))
        container.mux(stream.encode())
    return path


def flags(path: Path, first: int = 0, count: int = FRAMES) -> tuple[str, ...]:
    ref = MediaRef(
        kind="mp4",
        uri=str(path),
        start_seconds=first / 10,
        stop_seconds=(first + count) / 10,
        num_frames=count,
        rate_hz=10.0,
    )
    return frozen_camera_flags(ref, probe_video(path).inactive_spans, first)


@pytest.mark.parametrize(
    ("codec", "gop"),
    [
        ("libx264", 250),
        ("libx264", 2),
        ("libx264", 1),
        ("libx265", 12),
        ("libsvtav1", 2),
        ("mpeg4", 12),
    ],
)
def test_frozen_black_and_moving(tmp_path: Path, codec: str, gop: int) -> None:
    frozen = write(tmp_path / "frozen.mp4", lambda number: scene(number, False), codec, gop)
    dark = write(tmp_path / "black.mp4", black, codec, gop)
    moving = write(tmp_path / "moving.mp4", lambda number: scene(number, True), codec, gop)
    late_change = write(tmp_path / "late.mp4", lambda number: scene(max(number - 24, 0), True), codec, gop)
    assert [flags(path) for path in (frozen, dark, moving, late_change)] == [
        ("frozen",),
        ("black", "frozen"),
        (),
        (),
    ]


def test_an_episode_of_a_shared_video(tmp_path: Path) -> None:
    path = write(tmp_path / "two.mp4", lambda number: scene(max(number - 15, 0), True), "libx264", 5)
    assert flags(path, 0, 15) == ("frozen",) and flags(path, 15, 15) == ()


@pytest.mark.parametrize("reason", ["file cannot be read", "frames cannot be decoded"])
def test_a_disk_that_fails_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    frozen = write(tmp_path / "frozen.mp4", lambda number: scene(number, False), "libx264", 250)

    def fail(*arguments: object) -> None:
        raise MediaError(reason, str(frozen))

    monkeypatch.setattr("ares.media.frames.frames_at", fail)
    if reason == "file cannot be read":
        with pytest.raises(MediaError, match=reason):
            flags(frozen)
    else:
        assert flags(frozen) == ()
