"""Bounds of items in clusters cover what they say they cover, and the distribution function is that of SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ares.statistics import beta_cdf, effective_items, share_lower_bound, share_upper_bound
from tests.thinning import some_by_day

scipy_special = pytest.importorskip("scipy.special")

RUNS = 1_000


@given(value=st.floats(0.0, 1.0), first=st.floats(0.5, 3_000.0), second=st.floats(0.5, 3_000.0))
def test_the_beta_distribution_is_that_of_scipy(value: float, first: float, second: float) -> None:
    assert beta_cdf(value, first, second) == pytest.approx(
        scipy_special.betainc(first, second, value), abs=1e-8
    )


def _is_covered(share: float, hits: list[int], items: int, effective: float) -> bool:
    """Whether both one-sided bounds of 97.5 % hold a share."""
    counted = sum(hits) / (items * len(hits)) * effective
    return (
        share_lower_bound(counted, effective, 0.975) <= share <= share_upper_bound(counted, effective, 0.975)
    )


def _draw_hits(share: float, clusters: int, items: int, agreement: float) -> list[list[int]]:
    """Hits by cluster of seeded runs; clusters draw their own share from a beta."""
    random, size = np.random.default_rng(5), (1 - agreement) / agreement
    shares = random.beta(share * size, (1 - share) * size, (RUNS, clusters))
    drawn: list[list[int]] = random.binomial(items, shares).tolist()
    return drawn


@pytest.mark.parametrize(
    ("share", "agreement"), some_by_day([(0.85, 0.2), (0.1, 0.02), (0.5, 0.4)], rows=True)
)
def test_bounds_of_clusters_cover_the_share(share: float, agreement: float) -> None:
    runs = _draw_hits(share, 40, 6, agreement)
    covered = [_is_covered(share, hits, 6, effective_items(hits, [6] * 40, 0.0)) for hits in runs]
    assert 0.93 <= np.mean(covered) <= 0.985


def test_bounds_that_ignored_the_clusters_would_not() -> None:
    covered = [_is_covered(0.5, hits, 6, 240.0) for hits in _draw_hits(0.5, 40, 6, 0.4)]
    assert np.mean(covered) < 0.85


def test_items_of_clusters_count_by_their_design_effect() -> None:
    assert effective_items([0] * 20, [4] * 20, 0.1) == pytest.approx(80 / 1.3), "no hit: as assumed"
    assert effective_items([3, 0] * 10, [3] * 20, 0.1) == pytest.approx(19), "all agree: one item each"
    assert effective_items([1, 0] * 10, [1] * 20, 0.5) == pytest.approx(19), "clusters of one item"
    assert effective_items([0, 0], [0, 5], 0.0) == 5
    assert effective_items([], [], 0.1) == 0
