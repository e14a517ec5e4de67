"""The ray engine: workers are actors of a ray cluster, placed by resources; those that die are replaced."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ares.console import print_message
from ares.errors import RequestError
from ares.imports import needs_extra
from ares.jobs.elastic_pool import ElasticWorkerPool, PoolResources, WorkerWaitLimit
from ares.jobs.engine import (
    BatchFunction,
    KeptValue,
    PoolRequest,
    R,
    T,
    V,
    WorkerLimits,
    WorkerNeeds,
    WorkerPool,
)
from ares.jobs.worker_pool import WorkerDied, WorkerKilled, WorkerLimitExceeded, WorkerLost, resident_bytes
from ares.settings import inherited_path, ray_address

# The methods of an actor for other actors run beside its work: it answers while it works, and two actors that ask
# each other do not wait for ever.
VALUE_HOLDER_GROUP = "kept_values"


class ObjectStoreEntry(NamedTuple):
    """A value: the list in the object store that holds it, and its position there."""

    reference: Any
    position: int


# What this process keeps, by number. Memory is that of the object store, which ray moves to disk when it is full.
_entries: dict[int, ObjectStoreEntry] = {}
_numbers = count()


class RayValueHolder:
    """Keeps values in actors that have a name; see `ares.jobs.engine.ValueHolder`."""

    def keep(self, values: Sequence[Any]) -> list[KeptValue]:
        """Keep values in this actor."""
        import ray

        name, reference = _own_name(), ray.put(list(values))
        kept = [(name, next(_numbers)) for _ in values]
        _entries.update(
            (number, ObjectStoreEntry(reference, index)) for index, (_, number) in enumerate(kept)
        )
        return kept

    def fetch(self, kept: Sequence[KeptValue]) -> list[Any | None]:
        """Values of this actor and of others."""
        by_token = _find_everywhere(_numbers_by_worker(kept))
        entries = [by_token.get(token) for token in kept]
        lists = _read_lists({entry.reference for entry in entries if entry})
        return [_kept_value(entry, lists) for entry in entries]

    def forget(self, kept: Sequence[KeptValue]) -> None:
        """Free the memory of values, wherever they are."""
        for worker, numbers in _numbers_by_worker(kept).items():
            if worker == _own_name():
                drop_actor_entries(numbers)
            elif (actor := _find_actor(worker)) is not None:
                _beside_work(actor.forget_kept).remote(numbers)


def find_actor_entries(numbers: Sequence[int]) -> list[ObjectStoreEntry | None]:
    """The entries of this actor with some numbers; None for those that it has no more."""
    return [_entries.get(number) for number in numbers]


def drop_actor_entries(numbers: Sequence[int]) -> None:
    """Drop entries of this actor; a list is freed with its last entry."""
    for number in numbers:
        _entries.pop(number, None)


def _own_name() -> str:
    import ray

    return str(ray.get_runtime_context().get_actor_name())


def _numbers_by_worker(kept: Sequence[KeptValue]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for worker, number in kept:
        numbers.setdefault(worker, []).append(number)
    return numbers


def _find_everywhere(numbers: Mapping[str, Sequence[int]]) -> dict[KeptValue, ObjectStoreEntry]:
    """The entries that are still there, by token; all actors are asked at once."""
    own_name = _own_name()
    replies = {
        worker: _beside_work(actor.find_kept).remote(numbers[worker])
        for worker in numbers
        if worker != own_name and (actor := _find_actor(worker)) is not None
    }
    answers = {worker: _read_reference(reply) or [] for worker, reply in replies.items()}
    if own_name in numbers:
        answers[own_name] = find_actor_entries(numbers[own_name])
    return {
        (worker, number): entry
        for worker, entries in answers.items()
        for number, entry in zip(numbers[worker], entries, strict=False)
        if entry is not None
    }


def _find_actor(name: str) -> Any:
    import ray

    try:
        return ray.get_actor(name)
    except ValueError:  # it has ended
        return None


def _beside_work(method: Any) -> Any:
    return method.options(concurrency_group=VALUE_HOLDER_GROUP)


def _read_lists(references: Iterable[Any]) -> dict[Any, Any]:
    """Lists by reference, those that are lost with a machine left out."""
    import ray

    references = list(references)
    try:
        return dict(zip(references, ray.get(references), strict=True))
    except ray.exceptions.RayError:
        return {reference: _read_reference(reference) for reference in references}


def _read_reference(reference: Any) -> Any:
    """What a reference stands for; None when it is lost."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayError:
        return None


def _kept_value(entry: ObjectStoreEntry | None, lists: Mapping[Any, Any]) -> Any:
    values = lists.get(entry.reference) if entry else None
    return None if values is None or entry is None else values[entry.position]


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
    parts = urlsplit(f"//{address.rpartition('://')[2]}")
    try:
        host, port = parts.hostname, parts.port
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


def _cluster_total(resource: str) -> float:
    return float(load_ray().cluster_resources().get(resource, 0))


def fit_worker_resources(needs: WorkerNeeds, share: float, gpu_share: float) -> WorkerNeeds:
    """What a worker takes: at most the share of its pool of the largest machine, so that each pool can start one.

    A worker that takes more could be kept out for ever by small workers of other pools, some on every machine. Where
    no machine has a CPU at the moment, a worker waits for one: without any it would run on the head.
    """
    has_gpus = bool(needs.gpus) and _cluster_total("GPU") >= 1
    gpus = needs.gpus if needs.gpus > 1 else min(needs.gpus, gpu_share)
    return WorkerNeeds(
        cpus=min(needs.cpus, share * _largest_machine_amount("CPU") or needs.cpus),
        memory_bytes=int(min(needs.memory_bytes, share * _largest_machine_amount("memory"))),
        gpus=gpus if has_gpus else 0.0,
    )


def measure_pool_resources(needs: WorkerNeeds, share: float, gpu_share: float) -> PoolResources:
    """What the cluster has now for the workers of a pool with a share of it."""
    fitted = fit_worker_resources(needs, share, gpu_share)
    machines = frozenset(str(node["NodeID"]) for node in load_ray().nodes() if node["Alive"])
    return PoolResources(count_fitting_workers(fitted, share, gpu_share), fitted, machines)


def _largest_machine_amount(resource: str) -> float:
    """What the largest machine of the cluster gives to workers; 0 where none says so."""
    nodes = [node["Resources"] for node in load_ray().nodes() if node["Alive"]]
    return float(max((node.get(resource, 0) for node in nodes), default=0))


def count_fitting_workers(needs: WorkerNeeds, share: float, gpu_share: float) -> int:
    """Workers that have room in a share of the machines of the cluster, at least 1."""
    totals = (
        (needs.cpus, share * _cluster_total("CPU")),
        (needs.memory_bytes, share * _cluster_total("memory")),
        (needs.gpus, gpu_share * _cluster_total("GPU")),
    )
    return max(1, min((int(total / need + _ROUNDING) for need, total in totals if need), default=1))


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

    def find_kept(self, numbers: Sequence[int]) -> list[ObjectStoreEntry | None]:
        """For another actor: what this one keeps, by number, and None for what it has no more."""
        return find_actor_entries(numbers)

    def forget_kept(self, numbers: Sequence[int]) -> None:
        """For another actor: keep some values no longer."""
        drop_actor_entries(numbers)


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
            death = ActorDied if _stays_alive(self._node_id) else WorkerLost
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
    remote = load_ray().remote(concurrency_groups={VALUE_HOLDER_GROUP: 1})(RayActorBody).options(**options)
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


# Each worker is served by a thread of the driver.
_MAX_WORKERS = 256
# Longer than an autoscaling cluster takes for a new machine, and no endless wait on a full cluster.
_START_SECONDS = 600.0
_FOLLOW_SECONDS = 5.0


class RayEngine:
    """An engine on the cluster that RAY_ADDRESS names, or one of its own on this machine.

    Args:
        max_workers: Most actors of one pool; None for one per GPU, where the function takes any, else one per CPU.

    Raises:
        RequestError: ray is not installed, or the cluster cannot be reached.
    """

    keeper = RayValueHolder()

    def __init__(self, max_workers: int | None = None) -> None:
        ray = load_ray()
        self._max_workers = max_workers or _MAX_WORKERS
        self._pools: list[ElasticWorkerPool[Any, Any]] = []
        self._stop_following = threading.Event()
        self._follower: threading.Thread | None = None
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
        """Actors, started when there is work for them."""
        is_shared, most = request.shared_worker, min(request.most_workers or _MAX_WORKERS, self._max_workers)
        threads = request.max_workers if is_shared else 1
        pool: ElasticWorkerPool[T, R] = ElasticWorkerPool(
            partial(start_actor, request.make_builder(), threads, request.limits),
            partial(measure_pool_resources, request.needs, request.share, request.gpu_share),
            most_workers=1 if is_shared else most,
            threads_per_worker=threads,
            on_worker_death=request.on_worker_death,
            patience=WorkerWaitLimit(_START_SECONDS, _no_worker_error),
            report=print_message,
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
            with suppress(load_ray().exceptions.RayError, ConnectionError, RuntimeError):
                for pool in list(self._pools):
                    pool.follow()

    @staticmethod  # so that it can be pickled
    def put(value: V) -> Callable[[], V | None]:
        """Store a value in the cluster's object store; see `ares.jobs.engine.Engine.put`."""
        return partial(_get_object, load_ray().put(value))

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
            load_ray().shutdown()


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
