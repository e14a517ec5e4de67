"""Garbage collection and pickling of bulk jobs, and scheduling around libraries.

Records hold no reference cycles, and a full collection over 500,000 objects stops all threads for 0.1 s.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

# A youngest collection after 50,000 new objects, a full one after a thousand million.
_GC_THRESHOLDS = (50_000, 20, 1_000)


def tune_garbage_collector() -> None:
    """Exclude existing objects from collection and make collections rare; for a worker process."""
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


@contextmanager
def tuned_garbage_collector() -> Iterator[None]:
    """Apply `tune_garbage_collector` until the end of the block.

    A job of 100,000 episodes would otherwise run about ten full collections.
    """
    thresholds = gc.get_threshold()
    tune_garbage_collector()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def fast_slots_pickling(cls: type[T]) -> type[T]:
    """Let a frozen dataclass with slots be pickled in less than half the time, in the same form.

    Python's methods look up the fields of the class for every object.

    Args:
        cls: The class, with at least two fields.
    """
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    values = attrgetter(*names)
    setters = [getattr(cls, name).__set__ for name in names]

    def get_state(self: T) -> Sequence[Any]:
        return list(values(self))

    def set_state(self: T, state: Sequence[Any]) -> None:
        for setter, value in zip(setters, state, strict=True):
            setter(self, value)

    cls.__getstate__ = get_state  # type: ignore[method-assign, assignment]
    cls.__setstate__ = set_state  # type: ignore[attr-defined]
    return cls


@contextmanager
def kept_scheduling() -> Iterator[None]:
    """Give the threads of this process their scheduling back after the block, where the block made them real-time.

    Run as root, the AV1 encoder SVT-AV1 sets SCHED_FIFO with priority 99 for the thread that opens it. All threads and
    processes started from it inherit that. On two cores threads that wait actively then starve each other for minutes.
    """
    if sys.platform != "linux":
        yield
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        for thread in [int(task.name) for task in Path("/proc/self/task").iterdir()]:
            try:
                if os.sched_getscheduler(thread) == os.SCHED_FIFO != policy:
                    os.sched_setscheduler(thread, policy, parameters)
            except ProcessLookupError:
                continue  # it has ended


class _PandasBlocker:
    """An import finder that reports pandas as not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def hide_pandas_from_pyarrow() -> None:
    """Make pyarrow check for pandas now and not find it; it checks once per process.

    pyarrow imports pandas where it is installed: 0.3 s of `ares status`, which makes no DataFrame. Does nothing where
    pandas is loaded already.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _PandasBlocker)
    try:
        import pyarrow as pa

        pa.array([])
    finally:
        sys.meta_path.remove(_PandasBlocker)
