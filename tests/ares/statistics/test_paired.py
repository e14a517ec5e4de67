"""Paired comparisons: the exact test of McNemar."""

from __future__ import annotations

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
    compared = compare_paired(first, second)
    assert (compared.difference, compared.only_first, compared.only_second) == (0.3, 0, 12)
    assert compared.p_value == pytest.approx(2 * 0.5**12)
