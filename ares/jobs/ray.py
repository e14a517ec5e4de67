"""Ray: an engine whose hands are actors of a ray cluster; one that dies is replaced and its batch done again."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ares.errors import AresError, RequestError
from ares.jobs.engine import Hired, Run, same
from ares.jobs.pool import Died, Pool
from ares.settings import ray_address

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")

# Each worker is served by a thread of the driver.
_MOST_WORKERS = 256
# Longer than a cluster that grows takes for a new machine; then nobody waits for a place that never comes free.
_START_SECONDS = 600.0
_KNOCK_SECONDS = 5.0
_GPU_STEPS = 10_000


class Ray:
    """An engine on the cluster that RAY_ADDRESS names, or one of its own on this machine.

    Args:
        workers: Most places of one kind of work; None for one per GPU, where the work takes any, else one per CPU.

    Raises:
        RequestError: ray is not installed, or the cluster cannot be reached.
    """

    def __init__(self, workers: int | None = None) -> None:
        ray = _ray()
        self._most = workers or _MOST_WORKERS
        self._pools: list[Pool[Any, Any]] = []
        self._ours = not ray.is_initialized()
        if self._ours:
            address = ray_address()
            _knock(address)
            try:
                ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise _unreachable(address, error) from None

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
        """Actors, started when there is work for them; see `ares.jobs.engine.Engine.hire`."""
        ray = _ray()

        found = ray.cluster_resources()
        gpus = int(found.get("GPU", 0)) if gpu else 0
        places = 1 if together else max(1, min(gpus or int(found.get("CPU", 1)), self._most))
        threads = workers if together else 1
        share = int(gpu * _GPU_STEPS) / _GPU_STEPS if gpus else 0.0
        start = partial(_start, build or partial(same, run), threads, share)
        pool: Pool[T, R] = Pool(start, places, threads, lost)
        self._pools.append(pool)
        return Hired(pool.run, places * threads)

    @staticmethod  # so that it can be sent
    def keep(value: V) -> Callable[[], V | None]:
        """Leave a value in the cluster's object store."""
        ray = _ray()

        return partial(_fetch, ray.put(value))

    def dismiss(self) -> None:
        """End all actors."""
        pools, self._pools = self._pools, []
        for pool in pools:
            pool.close()

    def close(self) -> None:
        """End all actors, and the connection (with the cluster on this machine) if it was made here."""
        ray = _ray()

        self.dismiss()
        if self._ours:
            ray.shutdown()


def _fetch(reference: Any) -> Any:
    from ray.exceptions import RayError

    ray = _ray()
    try:
        return ray.get(reference)
    except RayError:
        return None


class _Worker:
    """What runs in an actor. The work is built at the first call: an error of it must not look like a death."""

    def __init__(self, build: Callable[[], Run[Any, Any]], folder: str) -> None:
        self._build = build
        self._run: Run[Any, Any] | None = None
        self._lock = threading.Lock()
        if Path(folder).is_dir():
            os.chdir(folder)  # relative paths that the user gave mean the same here

    def ready(self) -> bool:
        return True

    def run(self, batch: Sequence[Any]) -> list[Any]:
        with self._lock:
            if self._run is None:
                self._run = self._build()
        return list(self._run(batch))


class _Actor:
    """A worker of the pool on the cluster."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def ready(self) -> bool:
        """Whether it is there; `_start` waits for that."""
        return True

    def ask(self, batch: Sequence[Any]) -> Sequence[Any]:
        """One result per item. Raises Died, or what the work raised."""
        from ray.exceptions import RayTaskError

        ray = _ray()
        try:
            results: Sequence[Any] = ray.get(self._actor.run.remote(batch))
            return results
        except _deaths() as error:
            raise Died(_first_line(error)) from None
        except RayTaskError as error:
            raise _cause(error) from None

    def close(self) -> None:
        """End it."""
        _ray().kill(self._actor)


def _start(build: Callable[[], Run[Any, Any]], threads: int, gpu: float) -> _Actor:
    """An actor that is there. Raises RequestError when the cluster has no place for it."""
    from ray.exceptions import GetTimeoutError

    ray = _ray()
    remote = ray.remote(_Worker).options(
        max_concurrency=threads, num_gpus=gpu or None, scheduling_strategy="SPREAD"
    )
    actor = remote.remote(build, str(Path.cwd()))
    try:
        ray.get(actor.ready.remote(), timeout=_START_SECONDS)
    except GetTimeoutError:
        ray.kill(actor)
        raise RequestError(
            f"ray gave no worker within {_START_SECONDS:.0f} s",
            f"the cluster has {ray.available_resources()} free; end other jobs, or add machines",
        ) from None
    return _Actor(actor)


def _deaths() -> tuple[type[Exception], ...]:
    """What ray raises when the process, the machine or the answer is gone."""
    from ray import exceptions as ray

    return (
        ray.RayActorError,
        ray.WorkerCrashedError,
        ray.NodeDiedError,
        ray.ObjectLostError,
        ray.OutOfMemoryError,
    )


def _cause(error: Any) -> BaseException:
    """The exception as it was raised on the worker, with the traceback of there."""
    cause: BaseException = error.cause
    cause.add_note(str(error))
    return cause


def _knock(address: str) -> None:
    """Raises RequestError when nothing listens at the address; ray itself would try for a quarter of an hour."""
    parts = urlsplit(f"//{address.rpartition('://')[2]}")
    try:
        host, port = parts.hostname, parts.port
        if host and port:
            socket.create_connection((host, port), timeout=_KNOCK_SECONDS).close()
    except (OSError, ValueError) as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> RequestError:
    return RequestError("ray cannot be started or reached", f"RAY_ADDRESS {address!r}: {_first_line(error)}")


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise RequestError("ray is not installed", "pip install 'ares-curation[ray]'") from None
    return ray


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
