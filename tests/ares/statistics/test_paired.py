"""Paired comparisons: the exact test of McNemar, and the bootstrap by cluster."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ares.statistics import compare_paired, mcnemar_p_value

scipy_stats = pytest.importorskip("scipy.stats")


@given(only_first=st.integers(0, 400), only_second=st.integers(0, 400))
def test_mcnemar_is_the_exact_binomial_test(only_first: int, only_second: int) -> None:
    total = only_first + only_second
    expected = scipy_stats.binomtest(only_first, total).pvalue if total else 1.0
    assert mcnemar_p_value(only_first, only_second) == pytest.approx(expected, abs=1e-9)


def test_a_difference_has_its_direction_and_its_discordant_items() -> None:
    first = [True] * 10 + [False] * 30
    second = [True] * 10 + [True] * 12 + [False] * 18
    compared = compare_paired(first, second, range(40), seed=1)
    assert (compared.difference, compared.only_first, compared.only_second) == (0.3, 0, 12)
    assert 0 < compared.low < 0.3 < compared.high < 0.5
    assert compared.p_value == pytest.approx(2 * 0.5**12)


def test_items_of_one_cluster_count_less() -> None:
    random = np.random.default_rng(3)
    gains = np.repeat(random.random(30) < 0.3, 8)
    first, second = np.zeros(240, bool).tolist(), gains.tolist()
    clustered = compare_paired(first, second, np.repeat(np.arange(30), 8).tolist(), seed=1)
    independent = compare_paired(first, second, range(240), seed=1)
    assert clustered.high - clustered.low > 2 * (independent.high - independent.low)


def test_a_comparison_without_items_is_refused() -> None:
    with pytest.raises(ValueError, match="no item"):
        compare_paired([], [], [], seed=0)


@pytest.mark.slow
def test_the_interval_of_a_difference_covers_it() -> None:
    random, covered = np.random.default_rng(9), 0
    for run in range(120):
        before = random.random((30, 4)) < 0.5
        after = random.random((30, 4)) < np.where(random.random((30, 1)) < 0.5, 0.8, 0.4)
        clusters = np.repeat(np.arange(30), 4).tolist()
        compared = compare_paired(before.ravel().tolist(), after.ravel().tolist(), clusters, seed=run)
        covered += compared.low <= 0.1 <= compared.high
    assert 0.89 <= covered / 120 <= 0.99
