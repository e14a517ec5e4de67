"""browser_video returns the source where a browser plays it, else a copy of its packets, else an encoding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.errors import MediaError, SourceError
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


@pytest.fixture
def cache(tmp_path: Path) -> FileCache:
    return FileCache(tmp_path / "cache", 10**8)


def test_a_playable_file_is_returned_itself(
    tmp_path: Path, make_video: Any, video_ref: Any, cache: FileCache
) -> None:
    for name, codec in (("a.mp4", "libx264"), ("b.mp4", "libsvtav1")):
        path = make_video(tmp_path / name, codec=codec)
        assert browser_video(video_ref(path), "h264", cache) == path
    assert cache.size_bytes() == 0


@pytest.mark.parametrize(
    ("codec", "options"),
    [("mpeg4", {}), ("libx264", {"pix_fmt": "yuv444p"}), ("libx265", {"x265-params": "log-level=none"})],
)
def test_other_codecs_are_encoded_once(
    tmp_path: Path, make_video: Any, video_ref: Any, cache: FileCache, codec: str, options: dict[str, Any]
) -> None:
    ref = video_ref(make_video(tmp_path / "a.mp4", 15, 20, codec, **options))
    path = browser_video(ref, "h264", cache)
    info = probe_video(path)
    assert (info.codec, info.pixel_format, info.num_frames, info.rate_hz) == ("h264", "yuv420p", 15, 20.0)
    inode = path.stat().st_ino
    assert browser_video(ref, "h264", cache).stat().st_ino == inode
    frames, expected = np.stack(list(all_frames(video_ref(path)))), np.stack(list(all_frames(ref)))
    assert np.abs(frames.astype(int) - expected).mean() < 6


def test_a_span_from_a_keyframe_is_copied_exactly(
    tmp_path: Path, make_video: Any, video_ref: Any, cache: FileCache
) -> None:
    ref = video_ref(make_video(tmp_path / "a.mp4", 60, 20, g=10, bf=0))
    span = replace(ref, start_seconds=1.0, stop_seconds=2.5, num_frames=30)
    path = browser_video(span, "h264", cache)
    assert np.array_equal(np.stack(list(all_frames(video_ref(path)))), np.stack(list(all_frames(span))))
    unaligned_span = replace(ref, start_seconds=1.25, stop_seconds=2.5, num_frames=25)
    frames = np.stack(list(all_frames(video_ref(browser_video(unaligned_span, "h264", cache)))))
    assert len(frames) == 25
    assert np.abs(frames.astype(int) - np.stack(list(all_frames(unaligned_span)))).mean() < 6


def test_a_rate_set_by_the_user_is_the_playback_speed(
    tmp_path: Path, make_video: Any, video_ref: Any, cache: FileCache
) -> None:
    ref = replace(video_ref(make_video(tmp_path / "a.mp4", 40, 20, g=10, bf=0)), rate_hz=5.0)
    info = probe_video(browser_video(ref, "h264", cache))
    assert (info.num_frames, info.duration_seconds) == (40, 8.0)


def test_a_changed_source_is_encoded_again(
    tmp_path: Path, make_video: Any, video_ref: Any, cache: FileCache
) -> None:
    ref = video_ref(make_video(tmp_path / "a.mp4", 15, 20, "mpeg4"))
    before = browser_video(ref, "h264", cache)
    make_video(tmp_path / "a.mp4", 15, 20, "mpeg4", b="90000")
    assert browser_video(ref, "h264", cache) != before


def test_thumbnail_is_the_frame_at_its_second(
    tmp_path: Path, make_video: Any, video_ref: Any, cache: FileCache
) -> None:
    import cv2

    ref = video_ref(make_video(tmp_path / "a.mp4", 40, 20))
    picture = cv2.imread(str(thumbnail(ref, 1.5, 32, cache)))
    assert picture is not None and picture.shape == (24, 32, 3)
    expected = cv2.resize(frames_at(ref, [1.5])[0], (32, 24), interpolation=cv2.INTER_AREA)
    assert np.abs(picture[..., ::-1].astype(int) - expected).mean() < 6
    assert image_width(thumbnail(ref, 1.5, 999, cache)) == 64


def image_width(path: Path) -> int:
    import cv2

    picture = cv2.imread(str(path))
    assert picture is not None
    return int(picture.shape[1])


def test_a_missing_file_raises_a_media_error(
    tmp_path: Path, make_video: Any, video_ref: Any, cache: FileCache
) -> None:
    path = make_video(tmp_path / "a.mp4")
    ref = video_ref(path)
    path.unlink()
    with pytest.raises(MediaError, match="missing"):
        browser_video(ref, "h264", cache)
    with pytest.raises(MediaError, match="missing"):
        thumbnail(ref, 0.0, 64, cache)


def test_files_that_are_not_a_video_say_why(tmp_path: Path, make_video: Any) -> None:
    empty, text, truncated = tmp_path / "a.mp4", tmp_path / "b.mp4", make_video(tmp_path / "c.mp4")
    empty.touch()
    text.write_text("<html>not found</html>")
    truncated.write_bytes(truncated.read_bytes()[:-2000])
    reasons = {}
    for path in (empty, text, truncated, tmp_path / "gone.mp4"):
        with pytest.raises(SourceError) as error_info:
            probe_video(path)
        assert str(path) in error_info.value.detail
        reasons[path.name] = error_info.value.reason
    assert reasons == {
        "a.mp4": "video file is empty",
        "b.mp4": "video file is cut or no video",
        "c.mp4": "video file is cut or no video",
        "gone.mp4": "video file is missing",
    }


def test_a_video_cut_behind_its_index_and_one_without_pictures(tmp_path: Path) -> None:
    import av

    from ares.media import encode_mp4

    path = tmp_path / "a.mp4"
    encode_mp4([np.full((48, 64, 3), n, np.uint8) for n in range(30)], path, 10.0)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SourceError, match="video file is cut"):
        probe_video(path)
    sound = tmp_path / "sound.mp4"
    with av.open(str(sound), "w") as container:
        stream: Any = container.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with pytest.raises(SourceError, match="file holds no video stream"):
        probe_video(sound)


def test_small_frames_of_a_camera_whose_clock_jumps_take_bounded_memory(
    tmp_path: Path, make_video: Any, video_ref: Any, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = video_ref(make_video(tmp_path / "a.mp4", 8, 20))
    assert small_frames(ref, 10.0, cache).stat().st_size == 4 * 16 * 16 * 2
    frame = np.zeros((24, 32, 3), np.uint8)
    monkeypatch.setattr(playback, "frames_in_order", lambda ref, seconds: [frame] * len(seconds))
    slow = replace(ref, rate_hz=1e-14, stop_seconds=8e14)
    assert small_frames(slow, 10.0, cache).stat().st_size == 100 * 8 * 16 * 16 * 2
