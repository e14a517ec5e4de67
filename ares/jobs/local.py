"""Opens an execution engine by its name; the local one runs batches on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

from ares.errors import AresError, RequestError
from ares.jobs.engine import (
    BatchFunction,
    Build,
    Engine,
    PoolRequest,
    R,
    T,
    V,
    WorkerPool,
    identity,
)
from ares.jobs.worker_pool import InlineCalls, RestartingPool, WorkerStarts
from ares.jobs.worker_process import WorkerProcess, is_picklable
from ares.registry import did_you_mean

# A process that loads a model takes seconds: a short job is done before.
_REPLICA_START_SECONDS = 3.0


class LocalEngine:
    """Fills `ares.jobs.engine.Engine` with threads and processes of this machine."""

    def __init__(self) -> None:
        self._pools: list[ProcessPool[Any, Any]] = []

    def pool(self, request: PoolRequest[T, R]) -> WorkerPool[T, R]:
        """A pool that runs the function in the calling thread, or in processes."""
        builds = request.replicas() if request.replicas else ()
        if builds and is_picklable(builds[0], ()):
            # The last one is the first to get work.
            inline = InlineCalls(request.fn, _REPLICA_START_SECONDS, is_worker=True)
            pool = ProcessPool(request, list(reversed(builds)), inline)
        elif request.start_after_seconds is None:
            return InlinePool(request.fn, request.max_workers)
        else:
            inline = InlineCalls(request.fn, request.start_after_seconds)
            builds = [request.make_builder()] * request.max_workers
            pool = ProcessPool(request, builds, inline if request.start_after_seconds else None)
        self._pools.append(pool)
        return pool

    def put(self, value: V) -> Callable[[], V | None]:
        """A getter of the value, which stays in this process."""
        return partial(identity, value)

    def close(self) -> None:
        """End the worker processes."""
        pools, self._pools = self._pools, []
        for pool in pools:
            pool.close()


@dataclass(frozen=True, slots=True)
class InlinePool(Generic[T, R]):
    """Runs a function in the calling thread.

    Attributes:
        fn: The function.
        max_workers: Threads that may call `map` at the same time.
    """

    fn: BatchFunction[T, R]
    max_workers: int

    @property
    def most_workers(self) -> int:
        """Calls of `map` that can ever run at the same time."""
        return self.max_workers

    def map(self, batch: Sequence[T]) -> Sequence[R | AresError]:
        """The function's results."""
        return self.fn(batch)

    def start(self) -> None:
        """Does nothing: there is no worker to start."""


class ProcessPool(RestartingPool[T, R]):
    """Runs a function in worker processes, and in the calling thread what cannot be sent to one.

    Args:
        request: The function and its limits.
        builds: Each makes the function in one process.
        inline: What the calling threads run themselves; None for nothing.
    """

    def __init__(
        self,
        request: PoolRequest[T, R],
        builds: Sequence[Build[T, R]],
        inline: InlineCalls[T, R] | None,
    ) -> None:
        starts: WorkerStarts = {
            number: partial(WorkerProcess, build, request.limits) for number, build in enumerate(builds)
        }
        super().__init__(lambda: starts, request.on_worker_death, inline)
        self._fn, self._build = request.fn, builds[0]
        self._is_picklable = inline is not None and inline.is_worker

    def map(self, batch: Sequence[T]) -> Sequence[R | AresError]:
        """As `RestartingPool.map`."""
        if self._is_picklable or is_picklable(self._build, batch[:1]):
            return super().map(batch)
        return self._fn(batch)


def available_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


ENGINE_NAMES = ("local", "ray")


@contextmanager
def open_engine(name: str) -> Iterator[Engine]:
    """An engine by its name, closed at the end. With ray, standard output goes to standard error until then.

    Raises:
        RequestError: There is no such engine, ray is not installed, or its cluster cannot be reached.
    """
    if name == "local":
        with engine_or_local(None) as engine:
            yield engine
    elif name == "ray":
        from ares.jobs.ray_engine import RayEngine

        # ray reports the death of a worker on standard output, which belongs to the command's answer.
        with redirect_stdout(sys.stderr):
            ray_engine = RayEngine()
            try:
                yield ray_engine
            finally:
                ray_engine.disconnect()
    else:
        raise RequestError(
            f"no engine {name!r}", f"{did_you_mean(name, ENGINE_NAMES)}there are: {', '.join(ENGINE_NAMES)}"
        )


@contextmanager
def engine_or_local(engine: Engine | None) -> Iterator[Engine]:
    """The engine, or a local one for None; the workers of its pools end with the block."""
    engine = engine or LocalEngine()
    try:
        yield engine
    finally:
        engine.close()
