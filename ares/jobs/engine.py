"""Engine: where the batches of a stage are worked on: in place, in processes, or by the workers of a ray cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from ares.errors import AresError, RequestError
from ares.jobs.pool import Pool
from ares.jobs.process import Process, can_be_sent

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")

NAMES = ("local", "ray")
Run = Callable[[Sequence[T]], Sequence[R | AresError]]


def no_start() -> None:
    """Nothing has to be started."""


@dataclass(frozen=True, slots=True)
class Hired(Generic[T, R]):
    """Hands for one kind of work.

    Attributes:
        run: Works on a batch and waits for it: one result or AresError per item, in order.
        workers: Calls of `run` that may be under way at the same time.
        begin: Tells that there is much to do, so that what takes time to start is started now.
    """

    run: Run[T, R]
    workers: int
    begin: Callable[[], None] = no_start


class Engine(Protocol):
    """Hires hands; plans, counts, budgets and writes stay with the caller, so every engine comes to the same end."""

    def hire(
        self,
        run: Run[T, R],
        *,
        workers: int,
        lost: type[AresError],
        build: Callable[[], Run[T, R]] | None = None,
        together: bool = False,
        gpu: float = 0.0,
        patience_seconds: float | None = None,
    ) -> Hired[T, R]:
        """Hands that do `run`, until they are dismissed.

        Args:
            run: The work; an exception that it raises is raised to whoever called.
            workers: Calls at the same time on this machine.
            lost: Error of an item whose worker died under it twice; the others of its batch are done.
            build: Makes the work anew where it is to be done, when `run` holds what cannot be sent (a model).
            together: Whether those calls share one place: they only wait for a server.
            gpu: Share of a GPU that one place takes, where there is any.
            patience_seconds: For work that keeps the interpreter busy: how long it is done in place on this
                machine before it gets processes; None for never.
        """

    def keep(self, value: V) -> Callable[[], V | None]:
        """Leave a value where every worker reaches it; what comes back fetches it, or None once it is lost."""

    def dismiss(self) -> None:
        """Let all hands go."""


class Local:
    """Works on this machine: in the thread that asks, or in processes of its own."""

    def __init__(self) -> None:
        self._pools: list[Pool[Any, Any]] = []

    def hire(
        self,
        run: Run[T, R],
        *,
        workers: int,
        lost: type[AresError],
        build: Callable[[], Run[T, R]] | None = None,
        together: bool = False,
        gpu: float = 0.0,
        patience_seconds: float | None = None,
    ) -> Hired[T, R]:
        """The work itself, or processes that do it; see `Engine.hire`."""
        if patience_seconds is None:
            return Hired(run, workers)
        build = build or partial(same, run)
        here = run if patience_seconds else None
        pool: Pool[T, R] = Pool(partial(Process, build), workers, 1, lost, here, patience_seconds)
        self._pools.append(pool)
        return Hired(partial(_sent_or_in_place, pool, run, build), workers, pool.begin)

    def keep(self, value: V) -> Callable[[], V | None]:
        """The value is where it was."""
        return partial(same, value)

    def dismiss(self) -> None:
        """End the processes."""
        pools, self._pools = self._pools, []
        for pool in pools:
            pool.close()


@contextmanager
def at_work(engine: Engine | None) -> Iterator[Engine]:
    """The engine (the local one by default), whose hands are let go at the end of the job."""
    engine = engine or Local()
    try:
        yield engine
    finally:
        engine.dismiss()


def _sent_or_in_place(
    pool: Pool[T, R], run: Run[T, R], build: Callable[[], Run[T, R]], batch: Sequence[T]
) -> Sequence[R | AresError]:
    return pool.run(batch) if can_be_sent(build, batch[:1]) else run(batch)


def same(value: V) -> V:
    """The value; a partial of it can be sent, unlike a lambda."""
    return value


@contextmanager
def open_engine(name: str) -> Iterator[Engine]:
    """An engine by its name, closed at the end; until then what is printed goes to standard error with ray.

    Raises:
        RequestError: There is no such engine, ray is not installed, or its cluster cannot be reached.
    """
    if name == "local":
        yield Local()
    elif name == "ray":
        from ares.jobs.ray import Ray

        # ray reports the death of a worker on standard output, which belongs to the command's answer.
        with redirect_stdout(sys.stderr), closing(Ray()) as engine:
            yield engine
    else:
        raise RequestError(f"no engine {name!r}", f"there are: {', '.join(NAMES)}")
