"""Packets joined from several mp4s decode to the frames of the sources, each at its exact time."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ares.episode import MediaRef
from ares.errors import MediaError
from ares.media import NotCopyable, PacketJoiner, all_frames, cut_packets, frames_at
from ares.media.copies import _copy_span as copy_span
from tests.ares.media.written_videos import make_video, picture, span_ref, write_video


def frame_hashes(path: Path) -> list[tuple[float, str]]:
    """(second, hash of the decoded planes) of every frame."""
    with av.open(str(path)) as container:
        return [
            (float(frame.time or 0.0), hashlib.sha256(frame.to_ndarray().tobytes()).hexdigest())
            for frame in container.decode(video=0)
        ]


def write(path: Path, times: list[int], options: dict[str, str], size: int = 64) -> Path:
    """An H.264 mp4 with a frame at each of these thirtieths of a second."""
    random = np.random.default_rng(0)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30, options=options)
        stream.width = stream.height = size
        stream.pix_fmt = "yuv420p"
        for time in times:
            frame = av.VideoFrame.from_ndarray(random.integers(0, 255, (size, size, 3), np.uint8), "rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 30)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def join(target: Path, rate_hz: int, refs: list[MediaRef]) -> Path:
    joiner = None
    for ref in refs:
        span = cut_packets(ref, ref.num_frames, ref.rate_hz)
        joiner = joiner or PacketJoiner(target, rate_hz, span)
        assert joiner.fits(span)
        joiner.append(span)
        span.close()
    assert joiner
    joiner.close()
    return target


def assert_same(target: Path, rate_hz: int, sources: list[list[tuple[float, str]]]) -> None:
    frames = frame_hashes(target)
    assert [time for time, _ in frames] == pytest.approx([k / rate_hz for k in range(len(frames))], abs=1e-9)
    assert [image for _, image in frames] == [image for source in sources for _, image in source]


def test_whole_videos_with_b_frames_are_joined_bit_by_bit(demo_samples: Path, tmp_path: Path) -> None:
    files = sorted((demo_samples / "video" / "videos").glob("*_front.mp4"))[:4]
    sources = [frame_hashes(file) for file in files]
    refs = [span_ref(file, len(source), 20.0) for file, source in zip(files, sources, strict=True)]
    assert_same(join(tmp_path / "joined.mp4", 20, refs), 20, sources)


@pytest.mark.parametrize("bframes", ["0", "3"])
def test_a_span_between_key_frames_is_cut_out(tmp_path: Path, bframes: str) -> None:
    video = write(tmp_path / "v.mp4", list(range(40)), {"g": "10", "bf": bframes, "sc_threshold": "0"})
    refs = [span_ref(video, 10, 30.0, 1 / 3), span_ref(video, 20, 30.0, 0.0)]
    frames = frame_hashes(video)
    assert_same(join(tmp_path / "joined.mp4", 30, refs), 30, [frames[10:20], frames[:20]])


def test_a_span_that_starts_between_key_frames_is_no_copy(tmp_path: Path) -> None:
    video = write(tmp_path / "v.mp4", list(range(40)), {"g": "10", "bf": "0", "sc_threshold": "0"})
    with pytest.raises(NotCopyable, match="key frame"):
        cut_packets(span_ref(video, 10, 30.0, 5 / 30), 10, 30.0)


def test_a_span_that_ends_where_later_frames_are_needed_is_no_copy(tmp_path: Path) -> None:
    video = write(
        tmp_path / "v.mp4", list(range(40)), {"g": "40", "x264-params": "bframes=3:b-adapt=0:scenecut=0"}
    )
    with pytest.raises(NotCopyable, match="outside"):
        cut_packets(span_ref(video, 7, 30.0), 7, 30.0)


@pytest.mark.parametrize("times", [[0, 1, 2, 4, 5, 6], [0, 1, 2, 3, 5, 6]])
def test_a_variable_rate_is_no_copy(tmp_path: Path, times: list[int]) -> None:
    video = write(tmp_path / "v.mp4", times, {"bf": "0"})
    with pytest.raises(NotCopyable, match="constant rate"):
        cut_packets(span_ref(video, len(times), 30.0), len(times), 30.0)


def test_another_rate_than_the_requested_one_is_no_copy(tmp_path: Path) -> None:
    video = write(tmp_path / "v.mp4", list(range(30)), {"bf": "0"})
    with pytest.raises(NotCopyable, match="constant rate"):
        cut_packets(span_ref(video, 10, 10.0), 10, 10.0)
    with pytest.raises(NotCopyable, match="constant rate"):
        cut_packets(span_ref(video, 30, 29.0), 30, 29.0)


def test_a_file_that_begins_late_is_copied_from_its_first_frame(tmp_path: Path) -> None:
    video = write(tmp_path / "v.mp4", list(range(7, 37)), {})
    assert frame_hashes(video)[0][0] > 0.2
    assert_same(join(tmp_path / "joined.mp4", 30, [span_ref(video, 30, 30.0)]), 30, [frame_hashes(video)])


def test_a_rate_that_the_user_gave_is_no_hindrance(tmp_path: Path) -> None:
    video = write(tmp_path / "v.mp4", list(range(40)), {"g": "10", "sc_threshold": "0"})
    slower = replace(span_ref(video, 40, 30.0), rate_hz=5.0)
    assert_same(join(tmp_path / "joined.mp4", 5, [slower]), 5, [frame_hashes(video)])


def test_other_sizes_do_not_fit_in_one_file(tmp_path: Path) -> None:
    small = cut_packets(span_ref(write(tmp_path / "a.mp4", [0, 1], {}), 2, 30.0), 2, 30.0)
    large = cut_packets(span_ref(write(tmp_path / "b.mp4", [0, 1], {}, size=96), 2, 30.0), 2, 30.0)
    joiner = PacketJoiner(tmp_path / "joined.mp4", 30, small)
    assert joiner.fits(small) and not joiner.fits(large)
    joiner.append(small)
    joiner.close()
    small.close()
    large.close()


def test_a_missing_or_broken_video_is_reported(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="file is missing"):
        cut_packets(span_ref(tmp_path / "none.mp4", 10, 30.0), 10, 30.0)
    (tmp_path / "empty.mp4").touch()
    with pytest.raises(MediaError, match="cannot be opened"):
        cut_packets(span_ref(tmp_path / "empty.mp4", 10, 30.0), 10, 30.0)


@pytest.mark.parametrize(("first", "count"), [(0, 12), (5, 4), (13, 9), (12, 6), (30, 15), (1, 2)])
def test_a_span_comes_with_the_frames_that_it_depends_on(tmp_path: Path, first: int, count: int) -> None:
    video = write(tmp_path / "v.mp4", list(range(45)), {"g": "12", "bf": "3", "sc_threshold": "0"})
    ref, joiner, starts = span_ref(video, count, 30.0, first / 30), None, []
    for _ in range(2):
        span = cut_packets(ref, count, 30.0, with_neighbours=True)
        joiner = joiner or PacketJoiner(tmp_path / "joined.mp4", 30, span)
        starts.append(joiner.append(span) + span.lead)
        assert (span.num_frames, span.lead) == (count, first % 12)
        span.close()
    assert joiner
    joiner.close()
    expected = [image for _, image in frame_hashes(video)[first : first + count]]
    joined = [image for _, image in frame_hashes(tmp_path / "joined.mp4")]
    assert [joined[start : start + count] for start in starts] == [expected, expected]


@pytest.fixture(
    scope="module", params=[{}, {"bf": 3, "g": 12}, {"g": 2, "codec": "libsvtav1"}, {"bf": 2, "g": 250}]
)
def source(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Path:
    path: Path = make_video(tmp_path_factory.mktemp("source") / "a.mp4", frames=90, **request.param)
    return path


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    first=st.integers(0, 88),
    count=st.integers(1, 90),
    seconds=st.lists(st.floats(-0.1, 5), min_size=1, max_size=5),
)
def test_same_frames_at_the_same_seconds(
    source: Path, tmp_path: Path, first: int, count: int, seconds: list[float]
) -> None:
    ref = span_ref(source, min(count, 90 - first), 20.0, first / 20)
    trimmed = copy_span(ref, tmp_path / "cut.mp4")
    assert (trimmed.num_frames, trimmed.rate_hz) == (ref.num_frames, ref.rate_hz)
    assert np.array_equal(frames_at(trimmed, seconds), frames_at(ref, seconds))
    assert np.array_equal(np.stack(list(all_frames(trimmed))), np.stack(list(all_frames(ref))))


def test_a_span_at_a_keyframe_holds_no_frame_too_many(tmp_path: Path) -> None:
    source = make_video(tmp_path / "a.mp4", frames=60, g=10, bf=0)
    trimmed = copy_span(span_ref(source, 20, 20.0, 1.0), tmp_path / "cut.mp4")
    assert trimmed.start_seconds == 0.0
    with av.open(trimmed.uri) as container:
        assert container.streams.video[0].frames == 20


def test_packets_that_do_not_fit_an_mp4_are_not_copyable(tmp_path: Path) -> None:
    source = write_video(tmp_path / "a.webm", [picture(number) for number in range(30)], codec="libvpx")
    with pytest.raises(NotCopyable):
        copy_span(span_ref(source, 10, 20.0, 0.2), tmp_path / "cut.mp4")
