"""The ray engine: workers are actors of a ray cluster, placed by resources; those that die are replaced."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ares.errors import RequestError
from ares.jobs.engine import (
    PoolRequest,
    R,
    T,
    V,
    WorkerPool,
)
from ares.jobs.ray_actors import ActorWorker
from ares.jobs.ray_cluster import (
    check_reachable,
    fit_worker_needs,
    list_worker_needs,
    load_ray,
    make_job_config,
    unreachable_error,
)
from ares.jobs.worker_pool import (
    RestartingPool,
    WorkerStarts,
    WorkerWaitLimit,
)
from ares.settings import ray_address

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
