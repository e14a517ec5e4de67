"""Workers that are Ray actors: their bodies, calls and deaths."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ares.jobs.engine import (
    BatchFunction,
    WorkerLimits,
    WorkerNeeds,
)
from ares.jobs.ray_cluster import (
    first_line,
    load_ray,
    rounded,
)
from ares.jobs.worker_pool import (
    WorkerDied,
    WorkerKilled,
    WorkerLimitExceeded,
    WorkerLost,
)
from ares.jobs.worker_process import resident_bytes

_POLL_SECONDS = 0.1

_NODE_DEATH_SECONDS = 1.0


class RayActorBody:
    """Runs inside an actor. The function is built at the first call: its error must not be taken for a death."""

    def __init__(
        self, build: Callable[[], BatchFunction[Any, Any]], folder: str, memory_bytes: int | None
    ) -> None:
        self._build = build
        self._memory_bytes = memory_bytes
        self._fn: BatchFunction[Any, Any] | None = None
        if Path(folder).is_dir():
            os.chdir(folder)  # so that relative paths mean the same on the worker

    def is_ready(self) -> bool:
        """True, once the actor runs."""
        return True

    def process(self, batch: Sequence[Any]) -> list[Any]:
        if self._fn is None:
            self._fn = self._build()
        if self._memory_bytes is None:
            return list(self._fn(batch))
        is_done = threading.Event()
        threading.Thread(target=_end_beyond, args=(self._memory_bytes, is_done), daemon=True).start()
        try:
            return list(self._fn(batch))
        finally:
            is_done.set()


def _end_beyond(memory_bytes: int, is_done: threading.Event) -> None:
    """End this process when it has taken so much more memory before the event comes."""
    idle_bytes = resident_bytes(os.getpid())
    while not is_done.wait(_POLL_SECONDS):
        if resident_bytes(os.getpid()) - idle_bytes > memory_bytes:
            os._exit(1)


class ActorDied(WorkerDied):
    """An actor died; ray does not tell whether its batch or somebody else has killed it."""

    most_deaths = WorkerKilled.most_deaths


class ActorWorker:
    """The driver's side of an actor.

    Args:
        node_id: The machine that it runs on, and no other; "" for any that has room.
        needs: What it takes there.
        build: Makes its function.
        limits: What one batch may cost; None for no limits.
    """

    def __init__(
        self,
        node_id: str,
        needs: WorkerNeeds,
        build: Callable[[], BatchFunction[Any, Any]],
        limits: WorkerLimits | None,
    ) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._node_id = node_id
        self._seconds = limits.seconds if limits else None
        remote = load_ray().remote(RayActorBody)
        actor = remote.options(
            num_cpus=rounded(needs.cpus),
            num_gpus=rounded(needs.gpus),
            memory=needs.memory_bytes,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False) if node_id else "SPREAD",
        )
        # Not `max_restarts` and `max_task_retries`: ray would repeat a batch that kills its worker as a whole.
        self._actor = actor.remote(build, str(Path.cwd()), limits.memory_bytes if limits else None)
        self._starting = [self._actor.is_ready.remote()]

    def is_ready(self) -> bool:
        """Whether it runs, or has ended: then its first batch says so."""
        if self._starting:
            _, self._starting = load_ray().wait(self._starting, timeout=0)
        return not self._starting

    def process(self, batch: Sequence[Any]) -> Sequence[Any]:
        """One result per item. Raises WorkerDied, WorkerLimitExceeded, or what the function raised."""
        from ray.exceptions import ActorUnschedulableError, GetTimeoutError, RayTaskError

        ray = load_ray()
        try:
            results: Sequence[Any] = ray.get(self._actor.process.remote(batch), timeout=self._seconds)
            return results
        except GetTimeoutError:
            ray.kill(self._actor)
            reason = "the record took too long to read"
            raise WorkerLimitExceeded(reason, f"more than {self._seconds:g} s") from None
        except ActorUnschedulableError as error:  # its machine was gone before it began
            raise WorkerLost(first_line(error)) from None
        except _worker_death_errors() as error:
            death = ActorDied if _stays_alive(self._node_id) else WorkerLost
            raise death(first_line(error)) from None
        except RayTaskError as error:
            raise _original_error(error) from None

    def close(self) -> None:
        """End it."""
        load_ray().kill(self._actor)


def _stays_alive(node_id: str) -> bool:
    """Whether a machine is still there a second later: ray may learn of a worker's end before that of its machine.

    True for "", a machine that ray has chosen.
    """
    deadline = time.monotonic() + _NODE_DEATH_SECONDS
    while not node_id or any(node["NodeID"] == node_id and node["Alive"] for node in load_ray().nodes()):
        if time.monotonic() >= deadline:
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _worker_death_errors() -> tuple[type[Exception], ...]:
    """Errors that ray raises when the process, the machine or the result is gone."""
    from ray import exceptions as ray

    return (
        ray.RayActorError,
        ray.WorkerCrashedError,
        ray.NodeDiedError,
        ray.ObjectLostError,
        ray.OutOfMemoryError,
    )


def _original_error(error: Any) -> BaseException:
    """The exception that was raised on the worker, with the worker's traceback as a note."""
    cause: BaseException = error.cause
    cause.add_note(str(error))
    return cause
