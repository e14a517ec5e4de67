"""A worker process that takes too long or too much memory is ended; other items get their results."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import pytest

from ares.errors import SourceError
from ares.jobs import LocalEngine, PoolRequest, WorkerLimits, WorkerPool
from tests.thinning import some_by_day

MEGABYTES = 2**20


def takes_memory_or_time(items: Sequence[int]) -> Sequence[int]:
    """Doubles numbers; 13 fills 600 MB, 14 sleeps for ten minutes."""
    for item in items:
        if item == 13:
            data = bytearray(600 * MEGABYTES)
            time.sleep(600)
            del data
        if item == 14:
            time.sleep(600)
    return [2 * item for item in items]


@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is read from /proc")
@pytest.mark.parametrize(
    ("item", "seconds", "reason"),
    some_by_day(
        [
            (13, 600.0, "reading takes more memory than allowed"),
            (14, 3.0, "the record took too long to read"),
        ],
        rows=True,
    ),
)
def test_an_item_beyond_the_limits_fails_and_the_others_do_not(
    item: int, seconds: float, reason: str
) -> None:
    engine = LocalEngine()
    try:
        pool: WorkerPool[int, int] = engine.pool(
            PoolRequest(
                takes_memory_or_time,
                max_workers=1,
                on_worker_death=SourceError,
                start_after_seconds=0.0,
                limits=WorkerLimits(seconds=seconds, memory_bytes=200 * MEGABYTES),
            )
        )
        results = pool.map([1, item, 2])
        assert [results[0], results[2]] == [2, 4]
        assert isinstance(results[1], SourceError) and results[1].reason == reason
        (again,) = pool.map([item])
        assert isinstance(again, SourceError) and pool.map([3]) == [6]
    finally:
        engine.close()
