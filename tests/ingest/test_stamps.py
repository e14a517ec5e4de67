"""Times and names that all formats share: stamps exact to nanoseconds, the source of a rate, roles of cameras."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ares.errors import SourceError
from ares_ingest.signals import (
    compute_spec_step_times,
    compute_step_times,
    convert_to_seconds,
    numbered_names,
)
from ares_ingest.source_words import distinct_texts, guess_camera_role, is_meaningful_text

NANOSECONDS = 1_700_000_000_123_456_789 + np.arange(5, dtype=np.int64) * 33_333_333


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
@pytest.mark.parametrize("shape", [(5,), (5, 1)])
def test_nanoseconds_since_1970_lose_no_digit(kind: Any, shape: tuple[int, ...]) -> None:
    seconds = convert_to_seconds(NANOSECONDS.astype(kind).reshape(shape), "ns", "t", {})
    np.testing.assert_allclose(seconds, np.arange(5) * 0.033333333, rtol=0, atol=1e-12)


def test_seconds_count_from_the_first_stamp_that_is_finite() -> None:
    seconds = convert_to_seconds(np.array([np.nan, 10.0, 10.5]), "s", "t", {})
    np.testing.assert_array_equal(seconds, [np.nan, 0.0, 0.5])


@pytest.mark.parametrize(
    ("rates", "rate_hz", "source", "has_stamps"),
    [
        ({"user_rate_hz": 5.0, "stated_rate_hz": 8.0}, 5.0, "user", False),
        ({"user_rate_hz": None, "stated_rate_hz": 8.0}, 8.0, "source", True),
        ({"user_rate_hz": None}, 10.0, "measured", True),
    ],
)
def test_the_user_wins_over_stamps_and_stamps_stay_beside_a_stated_rate(
    rates: dict[str, Any], rate_hz: float, source: str, has_stamps: bool
) -> None:
    stamps = np.arange(20) / 10
    times = compute_step_times(stamps, 20, {}, name="t", **rates)
    assert (round(times.rate_hz, 9), times.rate_source, times.has_stamps) == (rate_hz, source, has_stamps)
    np.testing.assert_allclose(times.seconds, stamps if has_stamps else np.arange(20) / rate_hz)


def test_without_stamps_the_rate_is_stated_usual_or_assumed() -> None:
    for rates, source in (({"stated_rate_hz": 8.0}, "source"), ({"usual_rate_hz": 8.0}, "format")):
        warnings: dict[str, None] = {}
        times = compute_step_times(None, 4, warnings, name="t", user_rate_hz=None, **rates)
        assert (times.rate_hz, times.rate_source, warnings) == (8.0, source, {})
    times = compute_step_times(None, 4, warnings, name="t", user_rate_hz=None)
    (warning,) = warnings
    assert times.rate_source == "assumed" and f"{times.rate_hz:g} Hz assumed (give --rate)" in warning


@pytest.mark.parametrize(
    ("stamps", "reason"),
    [
        (np.zeros((5, 2)), "timestamps of the spec are not one number per step"),
        (np.zeros(5), "timestamps of the spec do not rise"),
        (np.full(5, np.nan), "timestamps of the spec do not rise"),
    ],
)
def test_an_array_that_is_no_times_is_refused(stamps: Any, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        compute_spec_step_times(stamps, "t", "s", None, "here", {})


def test_the_spec_gives_way_to_a_rate_of_the_user() -> None:
    assert compute_spec_step_times(np.arange(5.0), "t", "s", 10.0, "here", {}) is None
    assert compute_spec_step_times(np.arange(1.0), "t", "s", None, "here", {}) is None


def test_dimensions_are_numbered_unless_there_is_one() -> None:
    assert numbered_names("joint", 0) == ()
    assert numbered_names("joint", 1) == ("joint",)
    assert numbered_names("joint", 3) == ("joint_0", "joint_1", "joint_2")


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("image", "front"), ("image_0", "front"), ("front", "front"), ("rgb_static", "front"),
        ("agentview_rgb", "front"), ("exterior_image_1_left", "side"), ("wrist_image_left", "wrist"),
        ("hand_image", "wrist"), ("eye_in_hand_rgb", "wrist"), ("rgb_gripper", "wrist"), ("top_image", "top"),
        ("cam_high", "front"), ("finger_vision_1", "other"), ("video", "other"),
    ],
)  # fmt: skip
def test_camera_roles(name: str, role: str) -> None:
    assert guess_camera_role(name) == role


def test_texts_that_say_nothing() -> None:
    assert distinct_texts(["", " ", "None", "NULL", "open it ", "open it", "n/a"]) == ("open it",)
    assert is_meaningful_text("none of the cups")
