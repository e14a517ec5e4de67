"""browser_video returns the source where a browser plays it, else a copy of its packets, else an encoding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ares.errors import MediaError
from ares.media import (
    FileCache,
    all_frames,
    browser_video,
    frames_at,
    playback,
    probe_video,
    small_frames,
    thumbnail,
)
from tests.ares.media.written_videos import make_video, video_ref


@pytest.fixture
def cache(tmp_path: Path) -> FileCache:
    return FileCache(tmp_path / "cache", 10**8)


def test_a_playable_file_is_returned_itself(tmp_path: Path, cache: FileCache) -> None:
    for name, codec in (("a.mp4", "libx264"), ("b.mp4", "libsvtav1")):
        path = make_video(tmp_path / name, codec=codec)
        assert browser_video(video_ref(path), "h264", cache) == path
    assert not list((tmp_path / "cache").rglob("*.mp4"))


def test_a_span_from_a_keyframe_is_copied_exactly(tmp_path: Path, cache: FileCache) -> None:
    ref = video_ref(make_video(tmp_path / "a.mp4", 60, 20, g=10, bf=0))
    span = replace(ref, start_seconds=1.0, stop_seconds=2.5, num_frames=30)
    path = browser_video(span, "h264", cache)
    assert np.array_equal(np.stack(list(all_frames(video_ref(path)))), np.stack(list(all_frames(span))))
    unaligned_span = replace(ref, start_seconds=1.25, stop_seconds=2.5, num_frames=25)
    frames = np.stack(list(all_frames(video_ref(browser_video(unaligned_span, "h264", cache)))))
    assert len(frames) == 25
    assert np.abs(frames.astype(int) - np.stack(list(all_frames(unaligned_span)))).mean() < 6


def test_a_rate_set_by_the_user_is_the_playback_speed(tmp_path: Path, cache: FileCache) -> None:
    ref = replace(video_ref(make_video(tmp_path / "a.mp4", 40, 20, g=10, bf=0)), rate_hz=5.0)
    info = probe_video(browser_video(ref, "h264", cache))
    assert (info.num_frames, info.duration_seconds) == (40, 8.0)


def test_a_video_is_encoded_once_and_again_when_it_has_changed(tmp_path: Path, cache: FileCache) -> None:
    """Other codecs: tests/ares/media/video/test_probe.py."""
    ref = video_ref(make_video(tmp_path / "a.mp4", 15, 20, "mpeg4"))
    before = browser_video(ref, "h264", cache)
    inode = before.stat().st_ino
    assert browser_video(ref, "h264", cache).stat().st_ino == inode
    frames, expected = np.stack(list(all_frames(video_ref(before)))), np.stack(list(all_frames(ref)))
    assert np.abs(frames.astype(int) - expected).mean() < 6
    make_video(tmp_path / "a.mp4", 15, 20, "mpeg4", b="90000")
    assert browser_video(ref, "h264", cache) != before


def test_thumbnail_is_the_frame_at_its_second(tmp_path: Path, cache: FileCache) -> None:
    import cv2

    ref = video_ref(make_video(tmp_path / "a.mp4", 40, 20))
    picture = cv2.imread(str(thumbnail(ref, 1.5, 32, cache)))
    assert picture is not None and picture.shape == (24, 32, 3)
    expected = cv2.resize(frames_at(ref, [1.5])[0], (32, 24), interpolation=cv2.INTER_AREA)
    assert np.abs(picture[..., ::-1].astype(int) - expected).mean() < 6
    largest = cv2.imread(str(thumbnail(ref, 1.5, 999, cache)))
    assert largest is not None and largest.shape[1] == 64


def test_a_missing_file_raises_a_media_error(tmp_path: Path, cache: FileCache) -> None:
    path = make_video(tmp_path / "a.mp4")
    ref = video_ref(path)
    path.unlink()
    with pytest.raises(MediaError, match="missing"):
        browser_video(ref, "h264", cache)
    with pytest.raises(MediaError, match="missing"):
        thumbnail(ref, 0.0, 64, cache)


def test_small_frames_of_a_camera_whose_clock_jumps_take_bounded_memory(
    tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = video_ref(make_video(tmp_path / "a.mp4", 8, 20))
    assert small_frames(ref, 10.0, cache).stat().st_size == 4 * 16 * 16 * 2
    frame = np.zeros((24, 32, 3), np.uint8)
    monkeypatch.setattr(playback, "frames_in_order", lambda ref, seconds: [frame] * len(seconds))
    slow = replace(ref, rate_hz=1e-14, stop_seconds=8e14)
    assert small_frames(slow, 10.0, cache).stat().st_size == 100 * 8 * 16 * 16 * 2
