"""Opens an execution engine by its name; the local one runs batches on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Generic

from ares.errors import AresError, RequestError
from ares.jobs.engine import (
    BatchFunction,
    Build,
    Engine,
    KeptValue,
    PoolRequest,
    R,
    T,
    V,
    WorkerPool,
    identity,
)
from ares.jobs.worker_pool import RestartingPool, WorkerProcess, is_picklable
from ares.registry import did_you_mean

# A process that loads a model takes seconds: a short job is done before.
_REPLICA_START_SECONDS = 3.0


class LocalValueHolder:
    """Keeps values in this process."""

    def __init__(self) -> None:
        self._values: dict[int, Any] = {}
        self._numbers = count()

    def keep(self, values: Sequence[Any]) -> list[KeptValue]:
        """As `ValueHolder.keep`."""
        kept = [("", next(self._numbers)) for _ in values]
        self._values.update((number, value) for (_, number), value in zip(kept, values, strict=True))
        return kept

    def fetch(self, kept: Sequence[KeptValue]) -> list[Any | None]:
        """As `ValueHolder.fetch`."""
        return [self._values.get(number) for _, number in kept]

    def forget(self, kept: Sequence[KeptValue]) -> None:
        """As `ValueHolder.forget`."""
        for _, number in kept:
            self._values.pop(number, None)


class LocalEngine:
    """Fills `ares.jobs.engine.Engine` with threads and processes of this machine."""

    def __init__(self) -> None:
        self._pools: list[ProcessPool[Any, Any] | ReplicaPool[Any, Any]] = []
        self.keeper = LocalValueHolder()

    def pool(self, request: PoolRequest[T, R]) -> WorkerPool[T, R]:
        """A pool that runs the function in the calling thread, or in processes."""
        builds = request.replicas() if request.replicas else ()
        if builds and is_picklable(builds[0], ()):
            replica_pool = ReplicaPool(request.fn, builds, request.on_worker_death)
            self._pools.append(replica_pool)
            return replica_pool
        if request.start_after_seconds is None:
            return InlinePool(request.fn, request.max_workers)
        pool = ProcessPool(request, request.start_after_seconds)
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


class ProcessPool(Generic[T, R]):
    """Runs a function in worker processes once the job is long enough to be worth them.

    Args:
        request: The function and its workers.
        start_after_seconds: How long batches run in the calling thread before processes start.
    """

    def __init__(self, request: PoolRequest[T, R], start_after_seconds: float) -> None:
        self._fn, self._build = request.fn, request.make_builder()
        self.max_workers = request.max_workers
        self._pool: RestartingPool[T, R] = RestartingPool(
            [partial(WorkerProcess, self._build, request.limits)] * request.max_workers,
            request.on_worker_death,
            request.fn if start_after_seconds else None,
            start_after_seconds,
        )

    @property
    def most_workers(self) -> int:
        """Calls of `map` that can ever run at the same time."""
        return self.max_workers

    def map(self, batch: Sequence[T]) -> Sequence[R | AresError]:
        """Results of a worker process, or of this thread where the function or the items cannot be pickled."""
        return self._pool.map(batch) if is_picklable(self._build, batch[:1]) else self._fn(batch)

    def start(self) -> None:
        """Start all processes now, without waiting for them."""
        self._pool.start()

    def close(self) -> None:
        """End all processes."""
        self._pool.close()


class ReplicaPool(Generic[T, R]):
    """Runs a function in this process and copies of it in further processes, each on a device or cores of its own.

    Args:
        fn: The function.
        replicas: Each makes it in one further process.
        on_worker_death: Error of an item whose worker died in two attempts.
    """

    def __init__(
        self,
        fn: BatchFunction[T, R],
        replicas: Sequence[Build[T, R]],
        on_worker_death: type[AresError],
    ) -> None:
        # The last one is the first to get work.
        processes = [partial(WorkerProcess, build) for build in reversed(replicas)]
        self._pool: RestartingPool[T, R] = RestartingPool(
            processes, on_worker_death, fn, _REPLICA_START_SECONDS, stays_inline=True
        )
        self.max_workers = self._pool.max_workers

    @property
    def most_workers(self) -> int:
        """Calls of `map` that can ever run at the same time."""
        return self.max_workers

    def map(self, batch: Sequence[T]) -> Sequence[R | AresError]:
        """Results of this process, or of a further one."""
        return self._pool.map(batch)

    def start(self) -> None:
        """Start all processes now, without waiting for them."""
        self._pool.start()

    def close(self) -> None:
        """End the further processes."""
        self._pool.close()


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
