"""Workers that are actors of ray: what runs in them, and the side of the driver."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ares.jobs.engine import BatchFunction, WorkerLimits, WorkerNeeds
from ares.jobs.ray.connection import first_line, load_ray
from ares.jobs.ray.keeper import KEEPER_GROUP, KeptEntry, find_entries, forget_entries
from ares.jobs.ray.room import rounded
from ares.jobs.worker_pool import WorkerDied, WorkerLimitExceeded, WorkerLost
from ares.jobs.worker_process import resident_bytes

_POLL_SECONDS = 0.1
_NODE_DEATH_SECONDS = 1.0


class ActorBody:
    """Runs inside an actor. The function is built at the first call: its error must not be taken for a death."""

    def __init__(
        self, build: Callable[[], BatchFunction[Any, Any]], folder: str, memory_bytes: int | None
    ) -> None:
        self._build = build
        self._memory_bytes = memory_bytes
        self._fn: BatchFunction[Any, Any] | None = None
        self._lock = threading.Lock()
        if Path(folder).is_dir():
            os.chdir(folder)  # so that relative paths mean the same on the worker

    def node_id(self) -> str:
        """The machine that it runs on."""
        return str(load_ray().get_runtime_context().get_node_id())

    def process(self, batch: Sequence[Any]) -> list[Any]:
        with self._lock:
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

    def find_kept(self, numbers: Sequence[int]) -> list[KeptEntry | None]:
        """For another actor: what this one keeps, by number, and None for what it has no more."""
        return find_entries(numbers)

    def forget_kept(self, numbers: Sequence[int]) -> None:
        """For another actor: keep some values no longer."""
        forget_entries(numbers)


def _end_beyond(memory_bytes: int, is_done: threading.Event) -> None:
    """End this process when it has taken so much more memory before the event comes."""
    idle_bytes = resident_bytes(os.getpid())
    while not is_done.wait(_POLL_SECONDS):
        if resident_bytes(os.getpid()) - idle_bytes > memory_bytes:
            os._exit(1)


class ActorWorker:
    """A worker of the pool: the driver's side of an actor."""

    def __init__(self, actor: Any, seconds: float | None) -> None:
        self._actor = actor
        self._seconds = seconds
        self._starting = actor.node_id.remote()
        self._node_id = ""

    @property
    def machine(self) -> str:
        """Id of its machine, or "" until it has started."""
        return self._node_id

    def is_ready(self) -> bool:
        """Whether it has started. Raises WorkerDied when it could not."""
        ray = load_ray()
        if not self._node_id and ray.wait([self._starting], timeout=0)[0]:
            try:
                self._node_id = ray.get(self._starting)
            except _worker_death_errors() as error:
                raise WorkerDied(first_line(error)) from None
        return bool(self._node_id)

    def process(self, batch: Sequence[Any]) -> Sequence[Any]:
        """One result per item. Raises WorkerDied, WorkerLimitExceeded, or what the function raised."""
        from ray.exceptions import GetTimeoutError, RayTaskError

        ray = load_ray()
        try:
            results: Sequence[Any] = ray.get(self._actor.process.remote(batch), timeout=self._seconds)
            return results
        except GetTimeoutError:
            ray.kill(self._actor)
            reason = "the record took too long to read"
            raise WorkerLimitExceeded(reason, f"more than {self._seconds:g} s") from None
        except _worker_death_errors() as error:
            death = WorkerDied if _stays_alive(self._node_id) else WorkerLost
            raise death(first_line(error)) from None
        except RayTaskError as error:
            raise _original_error(error) from None

    def close(self) -> None:
        """End it."""
        load_ray().kill(self._actor)


def start_actor(
    build: Callable[[], BatchFunction[Any, Any]],
    threads: int,
    limits: WorkerLimits | None,
    needs: WorkerNeeds,
) -> ActorWorker:
    """Start an actor that takes so much, without waiting for it: it runs once the cluster has room."""
    options: dict[str, Any] = {
        "max_concurrency": threads,
        "scheduling_strategy": "SPREAD",
        "num_cpus": rounded(needs.cpus),
        "num_gpus": rounded(needs.gpus),
        "memory": needs.memory_bytes,
    }
    # Named so that other actors reach it; no other actor of the cluster has the same name, whatever its job.
    options["name"] = f"ares-{uuid.uuid4().hex}"
    remote = load_ray().remote(concurrency_groups={KEEPER_GROUP: 1})(ActorBody).options(**options)
    actor = remote.remote(build, str(Path.cwd()), limits.memory_bytes if limits else None)
    return ActorWorker(actor, limits.seconds if limits else None)


def _stays_alive(node_id: str) -> bool:
    """Whether a machine is still there a second later: ray may learn of a worker's end before that of its machine."""
    deadline = time.monotonic() + _NODE_DEATH_SECONDS
    while any(node["NodeID"] == node_id and node["Alive"] for node in load_ray().nodes()):
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
