"""Intervals of shares, held to SciPy and to what they promise."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from ares.statistics import wilson_interval

# Not inside a test: the first import takes longer than a test may.
scipy_stats = pytest.importorskip("scipy.stats")


@st.composite
def shares(draw: st.DrawFn) -> tuple[int, int]:
    total = draw(st.integers(1, 5_000))
    return draw(st.integers(0, total)), total


@settings(deadline=None)
@given(share=shares())
def test_the_interval_is_that_of_scipy(share: tuple[int, int]) -> None:
    hits, total = share
    expected = scipy_stats.binomtest(hits, total).proportion_ci(0.95, method="wilson")
    assert wilson_interval(hits, total) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_an_interval_without_trials_says_nothing() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)
