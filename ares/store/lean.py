"""Lean: processes that take less: no second for pandas where no DataFrame is made, few heaps for many threads."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

# M_ARENA_MAX of malloc.h.
_MOST_HEAPS = -8


class _NoPandas:
    """An import finder that says there is no pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def without_pandas() -> None:
    """Let pyarrow look for pandas now, once and for all, and not find it. Nothing happens where pandas is loaded."""
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        import pyarrow as pa
        import pyarrow.dataset

        pa.array([])
    finally:
        sys.meta_path.remove(_NoPandas)


def few_heaps() -> None:
    """Let all threads share two heaps, before any starts; the C library would make eight for each core.

    What is free in one heap is not used by threads of another: an ingestion of 100,000 episodes took 680 MB with 32
    heaps and 525 MB with two, in the same time. Nothing happens where the C library has no such setting.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MOST_HEAPS, 2)
