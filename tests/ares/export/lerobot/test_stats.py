"""Statistics added up episode by episode are those of all values at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from ares.export.lerobot.tables import (
    QUANTILES,
    FeatureStats,
    RunningStats,
    column_stats,
    image_stats,
    stats_to_lists,
)

_FLOATS = st.floats(-1e4, 1e4, width=32)
_EPISODES = st.lists(
    st.integers(1, 6).flatmap(lambda steps: arrays(np.float32, (steps, 2), elements=_FLOATS)),
    min_size=1,
    max_size=6,
)


def stats_of_values(values: NDArray[Any]) -> FeatureStats:
    """Statistics of a column between two others."""
    neighbours = np.ones((len(values), 3), np.int64)
    return column_stats({"before": neighbours, "it": values, "after": neighbours})["it"]


@settings(deadline=None)
@given(episodes=_EPISODES)
def test_totals_are_exact_and_quantiles_are_averages_weighted_by_length(
    episodes: list[NDArray[np.float32]],
) -> None:
    totals = RunningStats()
    for episode in episodes:
        totals.add(stats_of_values(episode))
    all_values, stats = np.concatenate(episodes).astype(np.float64), totals.stats()
    np.testing.assert_allclose(stats["mean"], all_values.mean(axis=0), rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(stats["std"], all_values.std(axis=0), rtol=1e-6, atol=1e-4)
    np.testing.assert_array_equal(stats["min"], all_values.min(axis=0))
    np.testing.assert_array_equal(stats["max"], all_values.max(axis=0))
    assert stats["count"].tolist() == [len(all_values)]
    lengths = [len(episode) for episode in episodes]
    for name, share in QUANTILES.items():
        quantiles = [np.quantile(episode.astype(np.float64), share, axis=0) for episode in episodes]
        expected = np.average(quantiles, axis=0, weights=lengths)
        np.testing.assert_allclose(stats[name], expected, rtol=1e-9, atol=1e-6)


@settings(deadline=None)
@given(images=arrays(np.uint8, (3, 4, 5, 3)))
def test_image_statistics_are_per_channel_in_zero_to_one(images: NDArray[np.uint8]) -> None:
    stats, scaled = image_stats(images), images.reshape(-1, 3) / 255.0
    expected: dict[str, NDArray[Any]] = {
        "min": scaled.min(axis=0),
        "max": scaled.max(axis=0),
        "mean": scaled.mean(axis=0),
        "std": scaled.std(axis=0),
        "q50": np.quantile(scaled, 0.5, axis=0, method="inverted_cdf"),
        "q99": np.quantile(scaled, 0.99, axis=0, method="inverted_cdf"),
    }
    for name, value in expected.items():
        assert stats[name].shape == (3, 1, 1)
        np.testing.assert_allclose(stats[name].ravel(), value, atol=1e-7)
    assert stats["count"].tolist() == [3]


def test_whole_numbers_stay_whole() -> None:
    lists = stats_to_lists(stats_of_values(np.arange(5, dtype=np.int64).reshape(5, 1)))
    assert (lists["min"], lists["max"], lists["count"]) == ([0], [4], [5])
    assert isinstance(lists["min"][0], int) and lists["mean"] == pytest.approx([2.0])
