"""The ray engine: workers are actors of a ray cluster; those that die, and lost machines, are replaced."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from ares.console import print_message
from ares.errors import RequestError
from ares.jobs.elastic_pool import ElasticWorkerPool, WorkerWaitLimit
from ares.jobs.engine import PoolRequest, R, T, V, WorkerPool
from ares.jobs.ray_actors import (
    RayValueHolder,
    check_reachable,
    load_ray,
    make_job_config,
    measure_pool_resources,
    start_actor,
    unreachable_error,
)
from ares.settings import ray_address

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
