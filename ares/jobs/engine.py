"""Protocols of what runs batches: an engine, its pools of workers, and the values that workers hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from ares.errors import AresError

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")
ItemT = TypeVar("ItemT", contravariant=True)
ResultT = TypeVar("ResultT", covariant=True)


def identity(value: V) -> V:
    """The value; a partial of this function can be pickled, unlike a lambda."""
    return value


BatchFunction = Callable[[Sequence[T]], Sequence[R | AresError]]
Build = Callable[[], BatchFunction[T, R]]


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What a worker process may cost for one batch; beyond it the process is ended and the batch retried by items.

    Attributes:
        seconds: Time for the batch.
        memory_bytes: Resident memory that the batch adds to the process.
    """

    seconds: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class WorkerNeeds:
    """What one worker takes of a machine or a cluster.

    Attributes:
        cpus: Cores.
        memory_bytes: Memory; 0 where that is not known.
        gpus: GPUs, or the share of one, where there are any.
    """

    cpus: float = 1.0
    memory_bytes: int = 0
    gpus: float = 0.0


class WorkerPool(Protocol[ItemT, ResultT]):
    """Workers that all run one function on batches; safe to call from many threads."""

    @property
    def max_workers(self) -> int:
        """Calls of `map` that can run at the same time."""

    @property
    def most_workers(self) -> int:
        """Calls of `map` that can ever run at the same time: a cluster may grow."""

    def map(self, batch: Sequence[ItemT]) -> Sequence[ResultT | AresError]:
        """Run the function on a batch and wait: one result or error per item, in order.

        Raises whatever the function raised.
        """

    def start(self) -> None:
        """Start all workers now, without waiting for them: the caller knows that there is much work."""


DEFAULT_NEEDS = WorkerNeeds()


@dataclass(frozen=True, slots=True)
class PoolRequest(Generic[T, R]):
    """The workers that a job wants of an engine, and what they run.

    Attributes:
        fn: Works on one batch; an exception that it raises is raised to the caller of `map`.
        max_workers: Calls at the same time on this machine; a cluster decides by its size.
        on_worker_death: Error of an item whose worker crashed in two attempts, or was killed in five; the others of its
            batch get results.
        build: Makes `fn` on the worker, when `fn` holds what cannot be pickled (a model).
        needs: What one worker takes.
        share: Share of the CPUs and the memory of a cluster that the workers take together: those of all pools
            that work at the same time must fit.
        gpu_share: The same for its GPUs.
        most_workers: Most workers on a cluster; None for as many as have room.
        replicas: On this machine, returns builders of `fn` for further processes beside the calling one.
        start_after_seconds: For functions that keep the interpreter busy: on this machine they run in the calling
            thread for so long before worker processes start; None for no processes.
        limits: Limits of one batch in a worker process of this machine.
    """

    fn: BatchFunction[T, R]
    _: KW_ONLY
    max_workers: int
    on_worker_death: type[AresError]
    build: Build[T, R] | None = None
    needs: WorkerNeeds = DEFAULT_NEEDS
    share: float = 1.0
    gpu_share: float = 1.0
    most_workers: int | None = None
    replicas: Callable[[], Sequence[Build[T, R]]] | None = None
    start_after_seconds: float | None = None
    limits: WorkerLimits | None = None

    def make_builder(self) -> Build[T, R]:
        """What makes the function on a worker."""
        return self.build or partial(identity, self.fn)


class Engine(Protocol):
    """Makes worker pools. Planning, counting, budgets and writes stay with the caller, on every engine."""

    def pool(self, request: PoolRequest[T, R]) -> WorkerPool[T, R]:
        """A pool of workers that run the function of the request, until the engine is closed."""

    def put(self, value: V) -> Callable[[], V | None]:
        """Store a value where every worker reaches it; returns a getter, which gives None once the value is lost."""

    def close(self) -> None:
        """End the workers of all pools; the engine can make new pools."""
