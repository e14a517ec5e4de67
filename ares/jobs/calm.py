"""Calm: a job that makes and drops millions of small objects, none of them in a circle, is not searched for circles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Objects made before the youngest are looked through; the oldest are looked through once in a thousand million.
_THRESHOLDS = (50_000, 20, 1_000)


def calm() -> None:
    """Never again look through what there is, and seldom through what comes; for a process that only works."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


@contextmanager
def calmly() -> Iterator[None]:
    """As `calm`, until the end of the block.

    Every look through half a million objects stops all threads for a tenth of a second, and there would be ten of them
    in a job of 100,000 episodes.
    """
    before = gc.get_threshold()
    calm()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
