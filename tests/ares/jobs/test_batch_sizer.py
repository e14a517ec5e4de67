"""Batches grow until they take the target time."""

from __future__ import annotations

from ingest.pipeline.run import GrowingBatcher


def test_batches_grow_to_the_target_time() -> None:
    sizer = GrowingBatcher(1.0, max_size=8)
    sizes = []
    for batch in sizer.batches(range(100)):
        sizes.append(len(batch))
        sizer.record_duration(len(batch), 0.3 * len(batch))
    assert sizes[:4] == [1, 2, 3, 3] and sum(sizes) == 100


def test_batches_are_never_larger_than_the_limit() -> None:
    sizer = GrowingBatcher(1.0, max_size=8)
    sizes = []
    for batch in sizer.batches(range(100)):
        sizes.append(len(batch))
        sizer.record_duration(len(batch), 0.001)
    assert max(sizes) == 8 and sum(sizes) == 100
