"""Intervals of shares, held to SciPy and to what they promise."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from ares.statistics import share_lower_bound, share_upper_bound, wilson_interval

# Not inside a test: the first import takes longer than a test may.
scipy_stats = pytest.importorskip("scipy.stats")


@st.composite
def shares(draw: st.DrawFn) -> tuple[int, int]:
    total = draw(st.integers(1, 5_000))
    return draw(st.integers(0, total)), total


@settings(deadline=None)
@given(share=shares(), confidence=st.sampled_from([0.9, 0.95, 0.99]))
def test_exact_bounds_are_those_of_scipy(share: tuple[int, int], confidence: float) -> None:
    hits, total = share
    above = 1.0 if hits == total else scipy_stats.beta.ppf(confidence, hits + 1, total - hits)
    below = 0.0 if hits == 0 else scipy_stats.beta.ppf(1 - confidence, hits, total - hits + 1)
    assert share_upper_bound(hits, total, confidence) == pytest.approx(above, abs=1e-6)
    assert share_lower_bound(hits, total, confidence) == pytest.approx(below, abs=1e-6)


def test_bounds_of_an_effective_number_lie_between_those_of_whole_numbers() -> None:
    assert share_upper_bound(2, 41) < share_upper_bound(2, 40.5) < share_upper_bound(2, 40)
    assert share_lower_bound(2, 41) < share_lower_bound(2, 40.5) < share_lower_bound(2, 40)


def test_bounds_without_trials_say_nothing() -> None:
    assert (share_lower_bound(0, 0), share_upper_bound(0, 0)) == (0.0, 1.0)
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_59_false_captions_without_an_accepted_one_bound_the_share_by_5_percent() -> None:
    assert share_upper_bound(0, 59) < 0.05 < share_upper_bound(0, 58)
