"""Statistics added up episode by episode are those of all values at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from ares.export.lerobot_stats import QUANTILES, Stats, Totals, of_columns, of_images, to_lists

_FLOATS = st.floats(-1e4, 1e4, width=32)
_EPISODES = st.lists(
    st.integers(1, 6).flatmap(lambda steps: arrays(np.float32, (steps, 2), elements=_FLOATS)),
    min_size=1,
    max_size=6,
)


def of_values(values: NDArray[Any]) -> Stats:
    """Statistics of a column between two others."""
    beside = np.ones((len(values), 3), np.int64)
    return of_columns({"before": beside, "it": values, "after": beside})["it"]


@settings(deadline=None)
@given(episodes=_EPISODES)
def test_totals_are_exact(episodes: list[NDArray[np.float32]]) -> None:
    totals = Totals()
    for episode in episodes:
        totals.add(of_values(episode))
    whole, found = np.concatenate(episodes).astype(np.float64), totals.stats()
    np.testing.assert_allclose(found["mean"], whole.mean(axis=0), rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(found["std"], whole.std(axis=0), rtol=1e-6, atol=1e-4)
    np.testing.assert_array_equal(found["min"], whole.min(axis=0))
    np.testing.assert_array_equal(found["max"], whole.max(axis=0))
    assert found["count"].tolist() == [len(whole)]


@settings(deadline=None)
@given(episodes=_EPISODES)
def test_quantiles_are_averages_weighted_by_length(episodes: list[NDArray[np.float32]]) -> None:
    totals = Totals()
    for episode in episodes:
        totals.add(of_values(episode))
    lengths = [len(episode) for episode in episodes]
    for name, share in QUANTILES.items():
        each = [np.quantile(episode.astype(np.float64), share, axis=0) for episode in episodes]
        want = np.average(each, axis=0, weights=lengths)
        np.testing.assert_allclose(totals.stats()[name], want, rtol=1e-9, atol=1e-6)


@settings(deadline=None)
@given(images=arrays(np.uint8, (3, 4, 5, 3)))
def test_image_statistics_are_per_channel_in_zero_to_one(images: NDArray[np.uint8]) -> None:
    found, scaled = of_images(images), images.reshape(-1, 3) / 255.0
    want: dict[str, NDArray[Any]] = {
        "min": scaled.min(axis=0),
        "max": scaled.max(axis=0),
        "mean": scaled.mean(axis=0),
        "std": scaled.std(axis=0),
        "q50": np.quantile(scaled, 0.5, axis=0, method="inverted_cdf"),
        "q99": np.quantile(scaled, 0.99, axis=0, method="inverted_cdf"),
    }
    for name, value in want.items():
        assert found[name].shape == (3, 1, 1)
        np.testing.assert_allclose(found[name].ravel(), value, atol=1e-7)
    assert found["count"].tolist() == [3]


def test_whole_numbers_stay_whole() -> None:
    lists = to_lists(of_values(np.arange(5, dtype=np.int64).reshape(5, 1)))
    assert (lists["min"], lists["max"], lists["count"]) == ([0], [4], [5])
    assert isinstance(lists["min"][0], int) and lists["mean"] == pytest.approx([2.0])
