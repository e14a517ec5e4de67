"""The ray engine: workers are actors of a ray cluster; those that die, and lost machines, are replaced."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ares.errors import AresError, RequestError
from ares.extras import needs_extra
from ares.jobs.engine import (
    DEFAULT_NEEDS,
    BatchFunction,
    Build,
    R,
    T,
    V,
    WorkerLimits,
    WorkerNeeds,
    WorkerPool,
)
from ares.jobs.growing_pool import GrowingPool, Room
from ares.jobs.worker_pool import WorkerDied, WorkerLimitExceeded, WorkerLost, identity
from ares.jobs.worker_process import resident_bytes
from ares.messages import print_message
from ares.settings import ray_address

# Each worker is served by a thread of the driver.
_MAX_WORKERS = 256
# Longer than an autoscaling cluster takes for a new machine, and no endless wait on a full cluster.
_START_SECONDS = 600.0
_CONNECT_TIMEOUT_SECONDS = 5.0
_FOLLOW_SECONDS = 5.0
_STEPS = 10_000
_ROUNDING = 1e-6
_POLL_SECONDS = 0.1
_NODE_DEATH_SECONDS = 1.0


class RayEngine:
    """An engine on the cluster that RAY_ADDRESS names, or one of its own on this machine.

    Args:
        max_workers: Most actors of one pool; None for one per GPU, where the function takes any, else one per CPU.

    Raises:
        RequestError: ray is not installed, or the cluster cannot be reached.
    """

    def __init__(self, max_workers: int | None = None) -> None:
        ray = _ray()
        self._max_workers = max_workers or _MAX_WORKERS
        self._pools: list[GrowingPool[Any, Any]] = []
        self._stop_following = threading.Event()
        self._follower: threading.Thread | None = None
        self._owns_connection = not ray.is_initialized()
        if self._owns_connection:
            address = ray_address()
            _check_reachable(address)
            try:
                ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise _unreachable_error(address, error) from None

    def pool(
        self,
        fn: BatchFunction[T, R],
        *,
        max_workers: int,
        on_worker_death: type[AresError],
        build: Callable[[], BatchFunction[T, R]] | None = None,
        shared_worker: bool = False,
        needs: WorkerNeeds = DEFAULT_NEEDS,
        share: float = 1.0,
        gpu_share: float = 1.0,
        most_workers: int | None = None,
        replicas: Callable[[], Sequence[Build[T, R]]] | None = None,
        start_after_seconds: float | None = None,
        limits: WorkerLimits | None = None,
    ) -> WorkerPool[T, R]:
        """Actors, started when there is work for them; see `ares.jobs.engine.Engine.pool`."""
        threads = max_workers if shared_worker else 1
        pool: GrowingPool[T, R] = GrowingPool(
            partial(_start_actor, build or partial(identity, fn), threads, limits),
            partial(_measure_room, needs, share, gpu_share),
            1 if shared_worker else min(most_workers or _MAX_WORKERS, self._max_workers),
            threads,
            on_worker_death,
            _no_worker_error,
            _START_SECONDS,
            print_message,
        )
        self._pools.append(pool)
        self._start_following()
        return pool

    def _start_following(self) -> None:
        """Have all pools follow the size of the cluster: each keeps to its share, so that the others have theirs."""
        if self._follower is None:
            self._stop_following = threading.Event()
            self._follower = threading.Thread(target=self._follow, args=[self._stop_following], daemon=True)
            self._follower.start()

    def _follow(self, stop: threading.Event) -> None:
        while not stop.wait(_FOLLOW_SECONDS):
            # A cluster that does not answer fails the calls of the pools; here the next round may do better.
            with suppress(_ray().exceptions.RayError, ConnectionError, RuntimeError):
                for pool in list(self._pools):
                    pool.follow()

    @staticmethod  # so that it can be pickled
    def put(value: V) -> Callable[[], V | None]:
        """Store a value in the cluster's object store; see `ares.jobs.engine.Engine.put`."""
        return partial(_get_object, _ray().put(value))

    def close(self) -> None:
        """End all actors."""
        self._stop_following.set()
        if self._follower is not None:
            self._follower.join()
            self._follower = None
        pools, self._pools = self._pools, []
        for pool in pools:
            pool.close()

    def disconnect(self) -> None:
        """End all actors, and the connection (with the cluster on this machine) if it was made here."""
        self.close()
        if self._owns_connection:
            _ray().shutdown()


def _get_object(reference: Any) -> Any:
    from ray.exceptions import RayError

    ray = _ray()
    try:
        return ray.get(reference)
    except RayError:
        return None


class _ActorBody:
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
        return str(_ray().get_runtime_context().get_node_id())

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


def _end_beyond(memory_bytes: int, is_done: threading.Event) -> None:
    """End this process when it has taken so much more memory before the event comes."""
    idle_bytes = resident_bytes(os.getpid())
    while not is_done.wait(_POLL_SECONDS):
        if resident_bytes(os.getpid()) - idle_bytes > memory_bytes:
            os._exit(1)


class _ActorWorker:
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
        ray = _ray()
        if not self._node_id and ray.wait([self._starting], timeout=0)[0]:
            try:
                self._node_id = ray.get(self._starting)
            except _worker_death_errors() as error:
                raise WorkerDied(_first_line(error)) from None
        return bool(self._node_id)

    def process(self, batch: Sequence[Any]) -> Sequence[Any]:
        """One result per item. Raises WorkerDied, WorkerLimitExceeded, or what the function raised."""
        from ray.exceptions import GetTimeoutError, RayTaskError

        ray = _ray()
        try:
            results: Sequence[Any] = ray.get(self._actor.process.remote(batch), timeout=self._seconds)
            return results
        except GetTimeoutError:
            ray.kill(self._actor)
            reason = "the record took too long to read"
            raise WorkerLimitExceeded(reason, f"more than {self._seconds:g} s") from None
        except _worker_death_errors() as error:
            death = WorkerDied if _stays_alive(self._node_id) else WorkerLost
            raise death(_first_line(error)) from None
        except RayTaskError as error:
            raise _original_error(error) from None

    def close(self) -> None:
        """End it."""
        _ray().kill(self._actor)


def _start_actor(
    build: Callable[[], BatchFunction[Any, Any]],
    threads: int,
    limits: WorkerLimits | None,
    needs: WorkerNeeds,
) -> _ActorWorker:
    """Start an actor that takes so much, without waiting for it: it runs once the cluster has room."""
    options = {
        "max_concurrency": threads,
        "scheduling_strategy": "SPREAD",
        "num_cpus": _rounded(needs.cpus),
        "num_gpus": _rounded(needs.gpus),
        "memory": needs.memory_bytes,
    }
    remote = _ray().remote(_ActorBody).options(**options)
    actor = remote.remote(build, str(Path.cwd()), limits.memory_bytes if limits else None)
    return _ActorWorker(actor, limits.seconds if limits else None)


def _no_worker_error() -> RequestError:
    return RequestError(
        f"ray gave no worker within {_START_SECONDS:.0f} s",
        f"the cluster has {_ray().available_resources()} free; end other jobs, or add machines",
    )


def _total(resource: str) -> float:
    return float(_ray().cluster_resources().get(resource, 0))


def _fitted_needs(needs: WorkerNeeds, share: float, gpu_share: float) -> WorkerNeeds:
    """What a worker takes: at most the share of its pool of the largest machine, so that each pool can start one.

    A worker that takes more could be kept out for ever by small workers of other pools, some on every machine. Where
    no machine has a CPU at the moment, a worker waits for one: without any it would run on the head.
    """
    has_gpus = bool(needs.gpus) and _total("GPU") >= 1
    gpus = needs.gpus if needs.gpus > 1 else min(needs.gpus, gpu_share)
    return WorkerNeeds(
        cpus=min(needs.cpus, share * _largest("CPU") or needs.cpus),
        memory_bytes=int(min(needs.memory_bytes, share * _largest("memory"))),
        gpus=gpus if has_gpus else 0.0,
    )


def _measure_room(needs: WorkerNeeds, share: float, gpu_share: float) -> Room:
    """What the cluster has now for the workers of a pool with a share of it."""
    fitted = _fitted_needs(needs, share, gpu_share)
    machines = frozenset(str(node["NodeID"]) for node in _ray().nodes() if node["Alive"])
    return Room(_count_room(fitted, share, gpu_share), fitted, machines)


def _largest(resource: str) -> float:
    """What the largest machine of the cluster gives to workers; 0 where none says so."""
    nodes = [node["Resources"] for node in _ray().nodes() if node["Alive"]]
    return float(max((node.get(resource, 0) for node in nodes), default=0))


def _count_room(needs: WorkerNeeds, share: float, gpu_share: float) -> int:
    """Workers that have room in a share of the machines of the cluster, at least 1."""
    totals = (
        (needs.cpus, share * _total("CPU")),
        (needs.memory_bytes, share * _total("memory")),
        (needs.gpus, gpu_share * _total("GPU")),
    )
    return max(1, min((int(total / need + _ROUNDING) for need, total in totals if need), default=1))


def _rounded(share: float) -> float:
    """A share as ray counts it: in steps of a ten thousandth."""
    return int(share * _STEPS) / _STEPS


def _stays_alive(node_id: str) -> bool:
    """Whether a machine is still there a second later: ray may learn of a worker's end before that of its machine."""
    deadline = time.monotonic() + _NODE_DEATH_SECONDS
    while any(node["NodeID"] == node_id and node["Alive"] for node in _ray().nodes()):
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


def _check_reachable(address: str) -> None:
    """Raises RequestError when nothing listens at the address; ray itself would retry for a quarter of an hour."""
    parts = urlsplit(f"//{address.rpartition('://')[2]}")
    try:
        host, port = parts.hostname, parts.port
        if host and port:
            socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise _unreachable_error(address, error) from None
    if host and port and "://" not in address:
        _check_token(address)


def _check_token(address: str) -> None:
    """Raises RequestError when the cluster refuses the token; ray itself would try for 20 s and name no reason."""
    from ray import _raylet, exceptions

    client: Any = _raylet  # compiled, without types
    refused = getattr(exceptions, "AuthenticationError", None)  # older versions have no tokens
    if refused is None:
        return
    try:
        with _muted_stderr():
            client.GcsClient(address=address)
    except refused:
        raise RequestError(
            "the ray cluster wants a token, which is missing or another one",
            f"RAY_ADDRESS {address!r}; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH as there",
        ) from None
    except exceptions.RayError as error:
        raise _unreachable_error(address, error) from None


@contextmanager
def _muted_stderr() -> Iterator[None]:
    """Drop what C++ writes on standard error: ray repeats the error there in words of its own."""
    sys.stderr.flush()
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


def _unreachable_error(address: str, error: Exception) -> RequestError:
    return RequestError("ray cannot be started or reached", f"RAY_ADDRESS {address!r}: {_first_line(error)}")


def _ray() -> Any:
    with needs_extra("ray"):
        import ray
    return ray


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
