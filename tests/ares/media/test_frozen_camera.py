"""Cameras that never change are detected by the sizes of their packets, for every codec, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.errors import MediaError
from ares.media import find_inactive_spans, frozen_camera_flags, probe_video
from tests.ares.media.written_videos import span_ref, write_video

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
    options: dict[str, Any] = {"x265-params": "log-level=none"} if codec == "libx265" else {}
    return write_video(path, [picture(n) for n in range(FRAMES)], rate=10, codec=codec, g=gop, **options)


def flags(path: Path, first: int = 0, count: int = FRAMES) -> tuple[str, ...]:
    return frozen_camera_flags(
        span_ref(path, count, 10.0, first / 10), probe_video(path).inactive_spans, first
    )


@pytest.mark.parametrize(
    ("codec", "gop"),
    [
        ("libx264", 250),
        ("libsvtav1", 2),
        *(
            pytest.param(codec, gop, marks=pytest.mark.slow)
            for codec, gop in (("libx264", 2), ("libx264", 1), ("libx265", 12), ("mpeg4", 12))
        ),
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

    monkeypatch.setattr("ares.media.camera_views.frames_at", fail)
    if reason == "file cannot be read":
        with pytest.raises(MediaError, match=reason):
            flags(frozen)
    else:
        assert flags(frozen) == ()


def test_few_frames_are_never_an_inactive_span() -> None:
    assert find_inactive_spans([100] * 9, [True] + [False] * 8, 64) == ()
    assert find_inactive_spans([], [], 64) == ()
    assert find_inactive_spans([900, *[20] * 19, 900, *[20] * 5], [True, *[False] * 25], 64) == ((0, 20),)
