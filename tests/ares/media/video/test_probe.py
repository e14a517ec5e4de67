"""Videos as phones, browsers and cameras write them: rotated, at a varying rate, late, truncated, with sound."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from ares.errors import MediaError, SourceError
from ares.media import (
    FileCache,
    NotCopyable,
    all_frames,
    browser_video,
    cut_packets,
    frames_at,
    probe_video,
    thumbnail,
)
from ares.media.video.orientation import Orientation, matrix_orientation
from tests.ares.media.written_videos import (
    A_QUARTER_TO_THE_RIGHT,
    span_ref,
    video_ref,
    write_sound,
    write_video,
)

PHONE = [0, 33, 66, 133, 166, 200, 400, 433, 466, 1000, 1033, 1066]
UNIT = 1 << 16


def quarters(number: int = 0, height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    """Red top left, green top right, blue bottom left, grey bottom right."""
    picture = np.full((height, width, 3), 60 + number, np.uint8)
    picture[: height // 2, : width // 2] = (250, 0, 0)
    picture[: height // 2, width // 2 :] = (0, 250, 0)
    picture[height // 2 :, : width // 2] = (0, 0, 250)
    return picture


def corners(picture: NDArray[np.uint8]) -> str:
    """The colours of the four corners, read like a page."""
    names = []
    for y, x in ((6, 6), (6, -6), (-6, 6), (-6, -6)):
        colour = picture[y, x].astype(int)
        names.append("rgb"[int(colour.argmax())] if np.ptp(colour) > 60 else "-")
    return "".join(names)


def shades(count: int) -> list[NDArray[np.uint8]]:
    return [np.full((48, 64, 3), 20 + 15 * number, np.uint8) for number in range(count)]


def shade_numbers(pictures: NDArray[np.uint8]) -> list[int]:
    """Numbers of the `shades` that pictures show."""
    return [round((float(picture.mean()) - 20) / 15) for picture in pictures]


ORIENTATIONS = {
    "as it lies": ((UNIT, 0, 0, 0, UNIT, 0, 0, 0, 1 << 30), "rgb-"),
    "a quarter to the right": (A_QUARTER_TO_THE_RIGHT, "br-g"),
    "upside down": ((-UNIT, 0, 0, 0, -UNIT, 0, 0, 0, 1 << 30), "-bgr"),
    "a quarter to the left": ((0, -UNIT, 0, UNIT, 0, 0, 0, 0, 1 << 30), "g-rb"),
    "mirrored": ((-UNIT, 0, 0, 0, UNIT, 0, 0, 0, 1 << 30), "gr-b"),
}


@pytest.mark.parametrize("name", ORIENTATIONS)
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_turned_video_is_seen_as_a_person_sees_it(tmp_path: Path, name: str, suffix: str) -> None:
    matrix, expected = ORIENTATIONS[name]
    path = write_video(tmp_path / f"a.{suffix}", [quarters(n) for n in range(12)], matrix=matrix)
    info, ref = probe_video(path), video_ref(path)
    size = (48, 64) if "quarter" in name else (64, 48)
    pictures = frames_at(ref, [0.0, 0.3])
    assert (info.width, info.height) == size and pictures.shape[1:3] == (size[1], size[0])
    assert {corners(picture) for picture in (*pictures, *all_frames(ref))} == {expected}
    cache = FileCache(tmp_path / "cache", 2**30)
    jpeg: Any = cv2.imread(str(thumbnail(ref, 0.1, 400, cache)))
    assert corners(cv2.cvtColor(jpeg, cv2.COLOR_BGR2RGB).astype(np.uint8)) == expected


def test_packets_of_a_turned_video_are_not_copied_and_its_span_plays_upright(tmp_path: Path) -> None:
    matrix, expected = ORIENTATIONS["a quarter to the right"]
    path = write_video(tmp_path / "phone.mp4", [quarters(n) for n in range(20)], matrix=matrix, g="5", bf="0")
    ref = video_ref(path)
    with pytest.raises(NotCopyable, match="stored rotated"):
        cut_packets(ref, ref.num_frames, ref.rate_hz)
    cache = FileCache(tmp_path / "cache", 2**30)
    assert browser_video(ref, "h264", cache) == path
    output = browser_video(span_ref(path, 10, 20.0, 0.25), "h264", cache)
    with av.open(str(output)) as container:
        frames: Any = list(container.decode(video=0))
        assert len(frames) == 10 and frames[0].rotation == 0
        assert corners(frames[0].to_ndarray(format="rgb24")) == expected


@given(st.permutations(range(4)), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_an_orientation_does_what_its_matrix_says(
    colours: list[int], transposed: bool, flipped_horizontally: bool, flipped_vertically: bool
) -> None:
    x, y = (-1 if flipped_horizontally else 1), (-1 if flipped_vertically else 1)
    matrix = (0, y, 0, x, 0, 0, 0, 0, 1) if transposed else (x, 0, 0, 0, y, 0, 0, 0, 1)
    stored = np.repeat(np.array(colours, np.uint8).reshape(2, 2, 1), 3, axis=2)
    orientation = matrix_orientation(matrix)
    assert orientation == Orientation(transposed, flipped_horizontally, flipped_vertically)
    expected = np.zeros_like(stored)
    for q in range(2):
        for p in range(2):
            position = np.array([2 * p - 1, 2 * q - 1]) @ np.array([matrix[0:2], matrix[3:5]])
            expected[(position[1] + 1) // 2, (position[0] + 1) // 2] = stored[q, p]
    assert (orientation.apply(stored) == expected).all()


@pytest.mark.parametrize("options", [{"bf": "0"}, {"bf": "3", "b_strategy": "0"}])
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_varying_rate_has_its_true_seconds(tmp_path: Path, options: dict[str, Any], suffix: str) -> None:
    path = write_video(tmp_path / f"phone.{suffix}", shades(12), PHONE, **options)
    info, ref = probe_video(path), video_ref(path)
    assert info.seconds is not None
    assert np.allclose(info.seconds, np.array(PHONE) / 1e3, atol=1e-3)
    assert info.rate_hz == pytest.approx(11 / 1.066, rel=1e-3)
    assert shade_numbers(frames_at(ref, list(info.seconds))) == list(range(12))
    assert shade_numbers(frames_at(ref, [0.3, 0.39, 0.401, 0.9, 0.999, 5.0])) == [5, 5, 6, 8, 8 + 1, 11]
    assert shade_numbers(np.stack(list(all_frames(ref)))) == list(range(12))


def test_a_span_at_a_varying_rate_is_played_in_its_time_and_ends_where_it_ends(tmp_path: Path) -> None:
    path = write_video(tmp_path / "phone.mp4", shades(12), PHONE, bf="0")
    info = probe_video(path)
    assert info.seconds is not None
    first, after = 3, 10  # 0.133 s up to 1.033 s
    start, stop = float(info.seconds[first]), float(info.seconds[after])
    rate = (after - first - 1) / (float(info.seconds[after - 1]) - start)
    whole = span_ref(path, after - first, rate, start)
    ref = replace(whole, stop_seconds=min(stop, whole.stop_seconds))
    assert shade_numbers(frames_at(ref, list(info.seconds[first:after] - start))) == list(range(first, after))
    assert shade_numbers(frames_at(ref, [9.0])) == [after - 1]
    assert shade_numbers(np.stack(list(all_frames(ref)))) == list(range(first, after))
    with pytest.raises(NotCopyable, match="constant rate"):
        cut_packets(ref, ref.num_frames, ref.rate_hz)
    output = video_ref(browser_video(ref, "h264", FileCache(tmp_path / "cache", 2**30)))
    seconds = [number / rate for number in range(ref.num_frames)]
    assert shade_numbers(np.stack(list(all_frames(output)))) == shade_numbers(frames_at(ref, seconds))


def test_a_rate_that_only_the_container_rounds_is_constant(tmp_path: Path) -> None:
    for suffix in ("mkv", "webm", "mp4", "avi"):
        codec = "libvpx-vp9" if suffix == "webm" else "mpeg4" if suffix == "avi" else "libx264"
        info = probe_video(write_video(tmp_path / f"a.{suffix}", shades(12), codec=codec))
        assert (info.num_frames, info.rate_hz, info.seconds) == (12, 20.0, None), suffix
        assert shade_numbers(frames_at(video_ref(tmp_path / f"a.{suffix}"), [0.0, 0.25, 0.55])) == [
            0,
            5,
            11,
        ], suffix
    times = [round(1000 * number / 30) for number in range(12)]
    info = probe_video(write_video(tmp_path / "b.mkv", shades(12), times))
    assert info.seconds is None and info.rate_hz == pytest.approx(30, abs=0.01)


def test_sound_first_and_a_cover_picture_are_not_the_video(tmp_path: Path) -> None:
    path = write_video(tmp_path / "loud.mp4", shades(12), sound=True)
    assert probe_video(path).num_frames == 12 and shade_numbers(frames_at(video_ref(path), [0.3])) == [6]
    cover = tmp_path / "cover.jpg"
    cv2.imwrite(str(cover), np.zeros((200, 200, 3), np.uint8))
    output = tmp_path / "covered.mp4"
    with av.open(str(path)) as source, av.open(str(cover)) as picture, av.open(str(output), "w") as out:
        front: Any = out.add_stream_from_template(picture.streams.video[0], opaque=True)
        front.disposition = av.stream.Disposition.attached_pic
        stream: Any = out.add_stream_from_template(source.streams.video[0], opaque=True)
        for packet in picture.demux(video=0):
            if packet.dts is not None:
                packet.stream = front
                out.mux(packet)
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                out.mux(packet)
    with av.open(str(output)) as container:
        assert len(container.streams.video) == 2
    ref = video_ref(output)
    assert (probe_video(output).width, ref.num_frames) == (64, 12) and shade_numbers(
        frames_at(ref, [0.3])
    ) == [6]
    with cut_packets(ref, 12, 20.0)._container:
        pass


def test_a_video_that_begins_late_is_shown_and_cut_from_its_first_frame(tmp_path: Path) -> None:
    times = [3000 + 50 * number for number in range(14)]
    path = write_video(tmp_path / "late.mkv", shades(14), times, bf="0", g="7")
    info, ref = probe_video(path), video_ref(path)
    assert (info.start_seconds, info.rate_hz, info.seconds) == (3.0, 20.0, None)
    assert shade_numbers(frames_at(ref, [0.0, 0.35])) == [0, 7]
    span = span_ref(path, 7, 20.0, 0.35)
    output = video_ref(browser_video(span, "h264", FileCache(tmp_path / "cache", 2**30)))
    assert shade_numbers(np.stack(list(all_frames(output)))) == list(range(7, 14))


@pytest.mark.parametrize(
    ("name", "codec", "pixels"),
    [
        ("a.mp4", "libx265", "yuv420p10le"),
        ("b.avi", "mjpeg", "yuvj420p"),
        ("c.mp4", "mpeg4", "yuv420p"),
        ("d.webm", "libvpx-vp9", "yuv420p"),
        ("e.avi", "libx264", "yuv420p"),
        ("f.mov", "prores_ks", "yuv422p10le"),
        ("g.mp4", "libx264", "yuv444p"),
    ],
)
def test_what_cameras_write_is_read_and_made_playable(
    tmp_path: Path, name: str, codec: str, pixels: str
) -> None:
    options: dict[str, Any] = {"x265-params": "log-level=none"} if codec == "libx265" else {}
    path = write_video(tmp_path / name, shades(12), codec=codec, pix_fmt=pixels, **options)
    ref = video_ref(path)
    assert (ref.num_frames, ref.rate_hz) == (12, 20.0)
    assert shade_numbers(frames_at(ref, [0.0, 0.3, 0.55])) == [0, 6, 11]
    output = browser_video(ref, "h264", FileCache(tmp_path / "cache", 2**30))
    info = probe_video(output)
    assert output != path and "mp4" in info.container and info.pixel_format == "yuv420p"
    assert shade_numbers(np.stack(list(all_frames(video_ref(output))))) == list(range(12))


def test_a_fragmented_mp4_has_all_its_frames(tmp_path: Path) -> None:
    options = {"movflags": "frag_keyframe+empty_moov"}
    path = write_video(tmp_path / "live.mp4", shades(12), container=options, g="4")
    assert (probe_video(path).num_frames, probe_video(path).rate_hz) == (12, 20.0)
    assert shade_numbers(frames_at(video_ref(path), [0.0, 0.3, 0.55])) == [0, 6, 11]


def test_a_truncated_file_is_refused_or_flagged(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (60, 48, 64, 3), np.uint8)
    index_last = write_video(tmp_path / "moov_last.mp4", list(noise))
    index_first = write_video(tmp_path / "moov_first.mp4", list(noise), container={"movflags": "faststart"})
    mkv = write_video(tmp_path / "a.mkv", list(noise), g="10")
    behind_index = tmp_path / "end.mp4"
    behind_index.write_bytes(index_first.read_bytes()[:-100])
    for path in (index_last, index_first, mkv):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    for path in (index_last, index_first, behind_index):
        with pytest.raises(SourceError, match="video file is cut"):
            probe_video(path)
    info = probe_video(mkv)
    assert info.is_truncated and 10 < info.num_frames < 50
    assert not probe_video(write_video(tmp_path / "whole.mkv", list(noise))).is_truncated


def test_files_without_video_are_refused_with_their_reason(tmp_path: Path) -> None:
    write_sound(tmp_path / "sound.mp4")
    (tmp_path / "text.mp4").write_text("not a video" * 100)
    (tmp_path / "empty.mp4").touch()
    reasons = {
        "sound": "no video stream",
        "text": "cut or no video",
        "empty": "is empty",
        "gone": "is missing",
    }
    for name, reason in reasons.items():
        with pytest.raises(SourceError, match=reason):
            probe_video(tmp_path / f"{name}.mp4")
        with pytest.raises(MediaError, match=reason):
            frames_at(span_ref(tmp_path / f"{name}.mp4", 9, 9.0), [0.0])


def test_pixels_that_are_not_square_are_flagged(tmp_path: Path) -> None:
    path = tmp_path / "dv.mp4"
    with av.open(str(path), "w") as out:
        stream: Any = out.add_stream("libx264", rate=20)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.sample_aspect_ratio = Fraction(16, 11)
        for picture in shades(4):
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        out.mux(stream.encode())
    assert not probe_video(path).square_pixels and probe_video(path).width == 64
