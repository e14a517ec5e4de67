"""A copied span shows the frames of its source at the same seconds, wherever it is cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ares.episode import MediaRef
from ares.media import NotCopyable, all_frames, frames_at
from ares.media.copies import _copy_span as copy_span

MakeRef = Callable[..., MediaRef]


@pytest.fixture(
    scope="module", params=[{}, {"bf": 3, "g": 12}, {"g": 2, "codec": "libsvtav1"}, {"bf": 2, "g": 250}]
)
def source(request: pytest.FixtureRequest, make_video: Any, tmp_path_factory: Any) -> Path:
    path: Path = make_video(tmp_path_factory.mktemp("source") / "a.mp4", frames=90, **request.param)
    return path


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    first=st.integers(0, 88),
    count=st.integers(1, 90),
    seconds=st.lists(st.floats(-0.1, 5), min_size=1, max_size=5),
)
def test_same_frames_at_the_same_seconds(
    span_ref: MakeRef, source: Path, tmp_path: Path, first: int, count: int, seconds: list[float]
) -> None:
    ref = span_ref(source, min(count, 90 - first), 20.0, first / 20)
    trimmed = copy_span(ref, tmp_path / "cut.mp4")
    assert (trimmed.num_frames, trimmed.rate_hz) == (ref.num_frames, ref.rate_hz)
    assert np.array_equal(frames_at(trimmed, seconds), frames_at(ref, seconds))
    assert np.array_equal(np.stack(list(all_frames(trimmed))), np.stack(list(all_frames(ref))))


def test_a_span_at_a_keyframe_holds_no_frame_too_many(
    span_ref: MakeRef, tmp_path: Path, make_video: Any
) -> None:
    source = make_video(tmp_path / "a.mp4", frames=60, g=10, bf=0)
    trimmed = copy_span(span_ref(source, 20, 20.0, 1.0), tmp_path / "cut.mp4")
    assert trimmed.start_seconds == 0.0
    with av.open(trimmed.uri) as container:
        assert container.streams.video[0].frames == 20


def test_a_span_at_uneven_times_is_not_copyable(span_ref: MakeRef, tmp_path: Path) -> None:
    source = tmp_path / "a.mp4"
    with av.open(str(source), "w") as container:
        stream: Any = container.add_stream("libx264", rate=30, options={"g": "8"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number, time in enumerate(k + k // 3 for k in range(40)):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), number * 6, np.uint8), format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 30)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with pytest.raises(NotCopyable, match="constant rate"):
        copy_span(span_ref(source, 20, 15.0, 0.5), tmp_path / "cut.mp4")


def test_a_rate_of_the_user_is_kept(span_ref: MakeRef, tmp_path: Path, make_video: Any) -> None:
    source = make_video(tmp_path / "a.mp4", frames=60, g=10, bf=2)
    ref = replace(span_ref(source, 20, 20.0, 1.3), rate_hz=15.0)
    copied = copy_span(ref, tmp_path / "cut.mp4")
    assert np.array_equal(np.stack(list(all_frames(copied))), np.stack(list(all_frames(ref))))
    seconds = [k / 15 for k in range(20)]
    assert np.array_equal(frames_at(copied, seconds), frames_at(ref, seconds))


def test_packets_that_do_not_fit_an_mp4_are_not_copyable(span_ref: MakeRef, tmp_path: Path) -> None:
    source = tmp_path / "a.webm"
    with av.open(str(source), "w") as container:
        stream: Any = container.add_stream("libvpx", rate=20)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(30):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), number * 6, np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with pytest.raises(NotCopyable):
        copy_span(span_ref(source, 10, 20.0, 0.2), tmp_path / "cut.mp4")
