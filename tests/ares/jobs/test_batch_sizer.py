"""Batches grow until they take the target time."""

from __future__ import annotations

import pytest

from ares_ingest.pipeline.run import GrowingBatcher


@pytest.mark.parametrize(
    ("seconds_per_item", "first_sizes"),
    [(0.3, [1, 2, 3, 3]), (0.001, [1, 2, 4, 8, 8])],
    ids=["slow", "quick"],
)
def test_batches_grow_to_the_target_time_and_not_beyond_the_limit(
    seconds_per_item: float, first_sizes: list[int]
) -> None:
    sizer = GrowingBatcher(1.0, max_size=8)
    sizes = []
    for batch in sizer.batches(range(100)):
        sizes.append(len(batch))
        sizer.record_duration(len(batch), seconds_per_item * len(batch))
    assert sizes[: len(first_sizes)] == first_sizes
    assert (max(sizes), sum(sizes)) == (first_sizes[-1], 100)
