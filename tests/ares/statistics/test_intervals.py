"""The clustered interval covers what it says it covers, and its distribution function is that of SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ares.statistics import beta_cdf, clustered_interval, effective_items

scipy_special = pytest.importorskip("scipy.special")

RUNS = 1_000


@given(value=st.floats(0.0, 1.0), first=st.floats(0.5, 3_000.0), second=st.floats(0.5, 3_000.0))
def test_the_beta_distribution_is_that_of_scipy(value: float, first: float, second: float) -> None:
    assert beta_cdf(value, first, second) == pytest.approx(
        scipy_special.betainc(first, second, value), abs=1e-8
    )


def _covered(share: float, clusters: int, items: int, agreement: float, seed: int) -> float:
    """Share of seeded runs whose interval holds the true share; clusters draw their own share from a beta."""
    random = np.random.default_rng(seed)
    size = (1 - agreement) / agreement
    shares = random.beta(share * size, (1 - share) * size, (RUNS, clusters))
    hits = random.binomial(items, shares)
    intervals = [clustered_interval(row, [items] * clusters) for row in hits.tolist()]
    return float(np.mean([interval.low <= share <= interval.high for interval in intervals]))


@pytest.mark.parametrize(("share", "agreement"), [(0.1, 0.02), (0.5, 0.4), (0.85, 0.2)])
def test_an_interval_of_clusters_covers_the_share(share: float, agreement: float) -> None:
    assert 0.93 <= _covered(share, 40, 6, agreement, seed=5) <= 0.985


def test_an_interval_that_ignored_the_clusters_would_not() -> None:
    random = np.random.default_rng(5)
    hits = random.binomial(6, random.beta(0.5 * 1.5, 0.5 * 1.5, (RUNS, 40)))
    totals = hits.sum(axis=1).tolist()
    naive = {total: clustered_interval([0] * (240 - total) + [1] * total, [1] * 240) for total in set(totals)}
    assert np.mean([naive[total].low <= 0.5 <= naive[total].high for total in totals]) < 0.85


def test_clusters_that_all_agree_count_as_one_item() -> None:
    agreeing, single = clustered_interval([0] * 30, [5] * 30), clustered_interval([0] * 30, [1] * 30)
    assert agreeing == single
    assert agreeing.high == pytest.approx(1 - 0.025 ** (1 / 30))


def test_items_of_clusters_count_by_their_design_effect() -> None:
    assert effective_items([0] * 20, [4] * 20, 0.1) == pytest.approx(80 / 1.3), "no hit: as assumed"
    assert effective_items([3, 0] * 10, [3] * 20, 0.1) == pytest.approx(19), "all agree: one item each"
    assert effective_items([1, 0] * 10, [1] * 20, 0.5) == pytest.approx(19), "clusters of one item"
    assert effective_items([0, 0], [0, 5], 0.0) == 5
    assert effective_items([], [], 0.1) == 0


def test_no_item_says_nothing() -> None:
    assert clustered_interval([0], [0]) == (None, 0.0, 1.0)
