"""Calls a function with batches of items, as many at the same time as its owner has workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ares.store.filters import batched

Item = TypeVar("Item")
Value = TypeVar("Value")


def map_batches(
    function: Callable[[Sequence[Item]], Sequence[Value]],
    items: Sequence[Item],
    batch_size: int,
    workers: int,
) -> list[Value]:
    """What a function makes of items, in their order.

    Args:
        function: Makes one value of each item of a batch, in order.
        items: The items.
        batch_size: Most items of a batch.
        workers: Most calls at the same time.
    """
    batches = [list(batch) for batch in batched(items, batch_size)]
    if workers == 1 or len(batches) == 1:
        return [value for batch in batches for value in function(batch)]
    with ThreadPoolExecutor(workers) as pool:
        return [value for results in pool.map(function, batches) for value in results]
