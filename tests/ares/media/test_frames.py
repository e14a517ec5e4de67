"""frames_at returns the frames of a full decode, for every second and every kind of file."""

from __future__ import annotations

from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ares.episode import MediaRef
from ares.errors import MediaError
from ares.media import all_frames, encoded_frames, frames_at
from tests.ares.media.written_videos import decode, make_video, span_ref, video_ref, write_record

VIDEOS: dict[str, tuple[str, int, int, str, dict[str, Any]]] = {
    "b-frames": ("a.mp4", 60, 20, "libx264", {"bf": 3, "g": 17}),
    "open-gop": ("b.mp4", 60, 30, "libx264", {"bf": 2, "g": 13, "x264-params": "open-gop=1:b-pyramid=2"}),
    "one-keyframe": ("c.mp4", 50, 10, "libx264", {"g": 500}),
    "av1": ("d.mp4", 45, 20, "libsvtav1", {"g": 9, "preset": 12, "svtav1-params": "lp=1"}),
    "one-frame": ("e.mp4", 1, 20, "libx264", {}),
    "matroska": ("f.mkv", 60, 30, "libx264", {"bf": 2, "g": 11}),
    "webm": ("g.webm", 30, 30, "libvpx-vp9", {"g": 8, "cpu-used": 8, "deadline": "realtime"}),
    "fragmented": ("h.mp4", 40, 20, "libx264", {"bf": 2, "g": 12}),
}


@pytest.fixture(scope="module", params=VIDEOS)
def video(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[MediaRef, list[float], list[np.ndarray]]:
    name, frames, rate, codec, options = VIDEOS[request.param]
    path = make_video(tmp_path_factory.mktemp("video") / name, frames, rate, codec, **options)
    seconds, pictures = decode(path)
    assert len(pictures) == frames
    return video_ref(path), seconds, pictures


def shown_number(seconds: list[float], second: float) -> int:
    """Number of the frame that a full decode shows at a second."""
    return max(0, bisect_right(seconds, second + 1e-3) - 1)


def test_all_frames_are_those_of_a_full_decode(video: Any) -> None:
    ref, _, pictures = video
    assert np.array_equal(np.stack(list(all_frames(ref))), np.stack(pictures))


def test_each_frame_is_shown_at_its_own_second(video: Any) -> None:
    ref, seconds, pictures = video
    numbers = list(range(len(seconds)))[::-1]
    frames = frames_at(ref, [number / ref.rate_hz for number in numbers])
    assert np.array_equal(frames, np.stack([pictures[number] for number in numbers]))


@pytest.mark.parametrize("rate", [30, 240, 600, 2000])
def test_a_fast_camera_shows_a_frame_until_the_next_one_begins(tmp_path: Path, rate: int) -> None:
    images = np.arange(40, dtype=np.uint8)[:, None, None, None].repeat(8, 1).repeat(8, 2).repeat(3, 3)
    np.save(tmp_path / "eye.npy", images)
    ref = span_ref(tmp_path / "eye.npy", 40, rate, kind="npy")
    for share in (0.0, 0.5, 0.85):
        shown = frames_at(ref, [(number + share) / rate for number in range(40)])
        assert shown[:, 0, 0, 0].tolist() == list(range(40))
    video = video_ref(make_video(tmp_path / "a.mp4", 40, rate))
    at_start, later = (frames_at(video, [(n + share) / rate for n in range(40)]) for share in (0.0, 0.85))
    assert np.array_equal(at_start, np.stack(list(all_frames(video))))
    assert np.array_equal(at_start, later)


@pytest.mark.parametrize("rate", [240, 300, 450])
def test_a_fast_matroska_whose_times_are_whole_milliseconds_shows_each_frame_at_its_second(
    tmp_path: Path, rate: int
) -> None:
    ref = replace(video_ref(make_video(tmp_path / "a.mkv", 40, rate)), rate_hz=float(rate))
    shown = frames_at(ref, [number / rate for number in range(40)])
    assert np.array_equal(shown, np.stack(list(all_frames(ref))))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requested=st.lists(st.floats(-1.0, 8.0), min_size=1, max_size=6))
def test_any_seconds_in_any_order_show_what_a_player_would(video: Any, requested: list[float]) -> None:
    ref, seconds, pictures = video
    frames = frames_at(ref, requested)
    expected = [
        pictures[shown_number(seconds, min(second, ref.num_frames / ref.rate_hz))] for second in requested
    ]
    assert np.array_equal(frames, np.stack(expected))


def test_a_span_of_a_shared_file_never_shows_its_neighbours(tmp_path: Path) -> None:
    ref = video_ref(make_video(tmp_path / "shared.mp4", 60, 20, bf=3, g=17))
    pictures = list(all_frames(ref))
    span = replace(ref, start_seconds=21 / 20, stop_seconds=40 / 20, num_frames=19)
    assert np.array_equal(np.stack(list(all_frames(span))), np.stack(pictures[21:40]))
    frames = frames_at(span, [-1.0, 0.0, 0.049, 0.05, 18 / 20, 0.96, 5.0])
    assert np.array_equal(frames, np.stack([pictures[n] for n in (21, 21, 21, 22, 39, 39, 39)]))


def test_a_rate_set_by_the_user_scales_the_seconds(tmp_path: Path) -> None:
    ref = video_ref(make_video(tmp_path / "fast.mp4", 40, 20))
    pictures = list(all_frames(ref))
    slow = replace(ref, rate_hz=5.0)
    assert np.array_equal(
        frames_at(slow, [0.0, 0.2, 4.0, 7.8]), np.stack([pictures[n] for n in (0, 1, 20, 39)])
    )
    assert len(list(all_frames(slow))) == 40


def test_only_the_frames_on_the_way_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ares.media.video import codec as video_file

    ref = video_ref(make_video(tmp_path / "long.mp4", 300, 20, g=10, bf=0))
    packets = 0
    decode_packets = video_file._decode_packets

    def counting_decoder(packet: Any, rest: Any) -> Any:
        def count_packets() -> Any:
            nonlocal packets
            for next_packet in rest:
                packets += 1
                yield next_packet

        return decode_packets(packet, count_packets())

    monkeypatch.setattr(video_file, "_decode_packets", counting_decoder)
    frames_at(ref, [1.2, 12.7])
    assert packets < 60


def test_many_threads_may_read_one_file(tmp_path: Path) -> None:
    ref = video_ref(make_video(tmp_path / "a.mp4", 60, 20, bf=3))
    expected = frames_at(ref, [0.3, 1.7, 2.9])
    with ThreadPoolExecutor(8) as pool:
        for frames in pool.map(lambda _: frames_at(ref, [0.3, 1.7, 2.9]), range(24)):
            assert np.array_equal(frames, expected)


def test_files_that_cannot_be_decoded_raise_media_errors(tmp_path: Path) -> None:
    path = make_video(tmp_path / "a.mp4", 40, 20, movflags="+faststart")
    ref = video_ref(path)
    with pytest.raises(MediaError, match="file is missing"):
        frames_at(replace(ref, uri=str(tmp_path / "gone.mp4")), [0.0])
    with pytest.raises(MediaError, match="file is not an MCAP file"):
        frames_at(replace(ref, kind="mcap"), [0.0])
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    with pytest.raises(MediaError):
        frames_at(ref, [1.95])


def test_images_of_a_record_by_second(tmp_path: Path) -> None:
    images = [np.full((6, 8, 3), 20 * number, np.uint8) for number in range(10)]
    encoded = [cv2.imencode(".png", image)[1].tobytes() for image in images]
    ref = write_record(tmp_path / "a.tfrecord", encoded, 3.0)
    numbers = [9, 0, 4, 4]
    frames = frames_at(ref, [number / 3.0 for number in numbers])
    assert np.array_equal(frames, np.stack([images[number] for number in numbers]))
    assert np.array_equal(frames_at(ref, [-1, 0.32, 99]), np.stack([images[number] for number in (0, 0, 9)]))
    assert np.array_equal(np.stack(list(all_frames(ref))), np.stack(images))
    assert encoded_frames(ref) == encoded
    with pytest.raises(MediaError, match="no such images"):
        frames_at(replace(ref, key="steps/depth"), [0.0])
