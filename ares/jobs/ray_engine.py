"""The ray engine: workers are actors of a ray cluster, placed by resources; those that die are replaced."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ares.errors import RequestError
from ares.imports import needs_extra
from ares.io import read_server_address
from ares.jobs.engine import (
    BatchFunction,
    PoolRequest,
    R,
    T,
    V,
    WorkerLimits,
    WorkerNeeds,
    WorkerPool,
)
from ares.jobs.worker_pool import (
    RestartingPool,
    WorkerDied,
    WorkerKilled,
    WorkerLimitExceeded,
    WorkerLost,
    WorkerStarts,
    WorkerWaitLimit,
)
from ares.jobs.worker_process import resident_bytes
from ares.settings import inherited_path, ray_address

_CONNECT_TIMEOUT_SECONDS = 5.0


def load_ray() -> Any:
    """The module. Raises RequestError where it is not installed."""
    with needs_extra("ray"):
        import ray
    return ray


def first_line(error: BaseException) -> str:
    """The first line of the text of an error, or its name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def check_reachable(address: str) -> None:
    """Raises RequestError when nothing listens at the address; ray itself would retry for a quarter of an hour."""
    try:
        _, host, port = read_server_address(address)
        if host and port:
            socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise unreachable_error(address, error) from None
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
        raise unreachable_error(address, error) from None


@contextmanager
def _muted_stderr() -> Iterator[None]:
    """Drop what C++ writes on standard error: ray repeats the error there in other words."""
    sys.stderr.flush()
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


def make_job_config(address: str) -> Any:
    """Where the workers of this job import from, for `ray.init`; None for a client of ray ("ray://...").

    By default ray puts the current folder of the driver first on the path of every worker, whose files would be taken
    for modules. It does not for a job with a working folder. The folder of the driver's script stays on the path.
    """
    if address.startswith("ray://"):
        return None
    from ray.job_config import JobConfig

    class PathConfig(JobConfig):
        def _runtime_env_has_working_dir(self) -> bool:
            return True

    script_folder = str(Path(sys.argv[0]).resolve().parent)
    config = PathConfig()
    config._py_driver_sys_path = [script_folder] if script_folder in inherited_path() else []
    return config


def unreachable_error(address: str, error: Exception) -> RequestError:
    return RequestError("ray cannot be started or reached", f"RAY_ADDRESS {address!r}: {first_line(error)}")


_STEPS = 10_000
_ROUNDING = 1e-6


def fit_worker_needs(
    needs: WorkerNeeds, share: float, gpu_share: float, machines: Sequence[Mapping[str, float]]
) -> WorkerNeeds:
    """What one worker takes: at most the share of the largest machine that has GPUs enough for it.

    See `list_worker_needs`.
    """

    # A machine without a CPU is the head of the cluster.
    hosts = [machine for machine in machines if machine.get("CPU")]
    gpus = needs.gpus if needs.gpus > 1 else min(needs.gpus, gpu_share)
    gpus = gpus if any(machine.get("GPU", 0) >= 1 for machine in hosts) else 0.0
    able = [machine for machine in hosts if machine.get("GPU", 0) >= gpus]
    if not able:  # the worker waits for such a machine
        return replace(needs, gpus=gpus)
    return WorkerNeeds(
        cpus=min(needs.cpus, share * max(machine["CPU"] for machine in able)),
        memory_bytes=int(min(needs.memory_bytes, share * max(machine.get("memory", 0) for machine in able))),
        gpus=gpus,
    )


def list_worker_needs(
    needs: WorkerNeeds, share: float, gpu_share: float, machines: Sequence[Mapping[str, float]]
) -> list[list[WorkerNeeds]]:
    """What each worker of a pool takes, by machine: on every machine the pool has its share, whatever others have.

    A worker takes fewer cores where its machine has less for it. One that asks for a core takes less where one worker
    more then has room: a share is seldom a whole number of cores.

    Args:
        needs: What one worker asks for; GPUs only where the cluster has any.
        share: Share of the CPUs and the memory of each machine that the workers of the pool take together.
        gpu_share: The same of its GPUs.
        machines: Resources of each machine, as ray names them.
    """
    fitted = fit_worker_needs(needs, share, gpu_share, machines)
    rooms = []
    for machine in machines:
        cpus = share * machine.get("CPU", 0)
        parts = (
            (fitted.memory_bytes, share * machine.get("memory", 0)),
            (fitted.gpus, gpu_share * machine.get("GPU", 0)),
        )
        counts = [int(room / need + _ROUNDING) for need, room in parts if need]
        if needs.cpus:
            counts.append(max(1, int(cpus / needs.cpus + (0.5 if needs.cpus <= 1 else _ROUNDING))))
        count = min(counts, default=0) if cpus else 0
        rooms.append([replace(fitted, cpus=min(needs.cpus, cpus / count))] * count if count else [])
    return rooms


def rounded(share: float) -> float:
    """A share as ray counts it: in steps of a ten thousandth."""
    return int(share * _STEPS) / _STEPS


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


# Each worker is served by a thread of the driver.
_MAX_WORKERS = 256
# Longer than an autoscaling cluster takes for a new machine, and no endless wait on a full cluster.
_START_SECONDS = 600.0


class RayEngine:
    """An engine on the cluster that RAY_ADDRESS names, or a new one on this machine.

    Args:
        max_workers: Most actors of one pool; None for one per GPU, where the function takes any, else one per CPU.

    Raises:
        RequestError: ray is not installed, or the cluster cannot be reached.
    """

    def __init__(self, max_workers: int | None = None) -> None:
        ray = load_ray()
        self._max_workers = max_workers or _MAX_WORKERS
        self._pools: list[RestartingPool[Any, Any]] = []
        self._owns_connection = not ray.is_initialized()
        if self._owns_connection:
            address = ray_address()
            check_reachable(address)
            try:
                with _keeping_sigterm():
                    ray.init(
                        address,
                        include_dashboard=False,
                        log_to_driver=False,
                        logging_level=logging.ERROR,
                        job_config=make_job_config(address),
                    )
            except Exception as error:  # a cluster that does not start in time is a plain Exception
                raise unreachable_error(address, error) from None

    def pool(self, request: PoolRequest[T, R]) -> WorkerPool[T, R]:
        """Actors, started when there is work for them, wherever the cluster has room for them now."""
        most = min(request.most_workers or _MAX_WORKERS, self._max_workers)
        pool: RestartingPool[T, R] = RestartingPool(
            partial(_list_slots, request, most),
            request.on_worker_death,
            patience=WorkerWaitLimit(_START_SECONDS, _no_worker_error),
            most_workers=most,
        )
        self._pools.append(pool)
        return pool

    @staticmethod  # so that it can be pickled
    def put(value: V) -> Callable[[], V | None]:
        """Store a value in the cluster's object store; see `ares.jobs.engine.Engine.put`."""
        return partial(_get_object, load_ray().put(value))

    def close(self) -> None:
        """End all actors."""
        pools, self._pools = self._pools, []
        for pool in pools:
            pool.close()

    def disconnect(self) -> None:
        """End all actors, and the connection (with the cluster on this machine) if it was made here."""
        self.close()
        if self._owns_connection:
            load_ray().shutdown()


def _list_slots(request: PoolRequest[Any, Any], most: int) -> WorkerStarts | None:
    """What starts the actor of each slot of a pool; None where the cluster does not answer now."""
    ray = load_ray()
    try:
        nodes = [node for node in ray.nodes() if node["Alive"]]
    except (ray.exceptions.RayError, ConnectionError, RuntimeError):
        return None
    machines = [node["Resources"] for node in nodes]
    by_node = list_worker_needs(request.needs, request.share, request.gpu_share, machines)
    # The first of each machine come first: a pool of few workers is spread over the machines.
    slots = sorted(
        (number, str(node["NodeID"]), needs)
        for node, workers in zip(nodes, by_node, strict=True)
        for number, needs in enumerate(workers)
    )
    if not slots:  # ray places one where it has room as a whole, or asks for a machine for it
        fitted = fit_worker_needs(request.needs, request.share, request.gpu_share, machines)
        slots = [(0, "", fitted)]
    build, limits = request.make_builder(), request.limits
    return {slot: partial(ActorWorker, slot[1], slot[2], build, limits) for slot in reversed(slots[:most])}


@contextmanager
def _keeping_sigterm() -> Iterator[None]:
    """Put back the handler of SIGTERM that ray replaces by one that ends the process without a word."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _get_object(reference: Any) -> Any:
    from ray.exceptions import RayError

    ray = load_ray()
    try:
        return ray.get(reference)
    except RayError:
        return None


def _no_worker_error() -> RequestError:
    return RequestError(
        f"ray gave no worker within {_START_SECONDS:.0f} s",
        f"the cluster has {load_ray().available_resources()} free; end other jobs, or add machines",
    )
