"""A pool that follows the size of a cluster: lost machines cost their work in hand, new ones get work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ares.errors import AresError, RequestError, SourceError
from ares.jobs import WorkerNeeds
from ares.jobs.elastic_pool import ElasticWorkerPool, PoolResources, WorkerWaitLimit
from ares.jobs.worker_pool import WorkerDied, WorkerLost


class Cluster:
    """A cluster of so many machines for one worker each; a worker of a lost machine is lost at its next batch.

    Attributes:
        cpus: What a worker takes of its machine.
        events: What happens after so many batches.
    """

    def __init__(self, machines: int) -> None:
        self.machines = machines
        self.cpus = 1.0
        self.running: list[Worker] = []
        self.lines: list[str] = []
        self.events: dict[int, Callable[[], None]] = {}
        self.batches = 0
        self.lock = threading.Lock()

    def start(self, needs: WorkerNeeds) -> Worker:
        return Worker(self, needs)

    def room(self) -> PoolResources:
        with self.lock:
            machines = frozenset(worker.machine for worker in self.running)
            return PoolResources(max(1, self.machines), WorkerNeeds(cpus=self.cpus), machines)

    def count_batch(self) -> None:
        with self.lock:
            self.batches += 1
            event = self.events.get(self.batches)
        if event:
            event()

    def lose(self, count: int) -> None:
        with self.lock:
            self.machines -= count
            for worker in self.running[:count]:
                worker.is_lost = True
            del self.running[:count]


class Worker:
    """A worker; it doubles numbers, 13 kills it, 7 raises."""

    def __init__(self, cluster: Cluster, needs: WorkerNeeds) -> None:
        self.cluster, self.needs = cluster, needs
        self.is_lost = self.is_closed = False
        self.machine = str(id(self))

    def is_ready(self) -> bool:
        with self.cluster.lock:
            if self not in self.cluster.running and len(self.cluster.running) < self.cluster.machines:
                self.cluster.running.append(self)
            return self in self.cluster.running

    def process(self, batch: Sequence[int]) -> list[int]:
        time.sleep(0.01)
        self.cluster.count_batch()
        if self.is_lost:
            raise WorkerLost("its machine is gone")
        if 13 in batch:
            raise WorkerDied("killed by 13")
        if 7 in batch:
            raise ZeroDivisionError
        return [2 * number for number in batch]

    def close(self) -> None:
        self.is_closed = True
        with self.cluster.lock:
            if self in self.cluster.running:
                self.cluster.running.remove(self)


MakePool = Callable[..., ElasticWorkerPool[int, int]]


@pytest.fixture
def make_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakePool]:
    monkeypatch.setattr("ares.jobs.elastic_pool._READY_SECONDS", 0.02)
    pools: list[ElasticWorkerPool[int, int]] = []
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(0.05):
            for pool in pools:
                pool.follow()

    follower = threading.Thread(target=follow)
    follower.start()

    def make(cluster: Cluster, most: int = 8, threads: int = 1, patience: float = 300.0) -> Any:
        pool: ElasticWorkerPool[int, int] = ElasticWorkerPool(
            cluster.start,
            cluster.room,
            most,
            threads,
            SourceError,
            WorkerWaitLimit(patience, lambda: RequestError("no worker", "none")),
            cluster.lines.append,
        )
        pools.append(pool)
        return pool

    yield make
    ended.set()
    follower.join()
    for pool in pools:
        pool.close()


def run_all(pool: ElasticWorkerPool[int, int], numbers: Sequence[int], threads: int) -> list[int | AresError]:
    with ThreadPoolExecutor(threads) as executor:
        return [result for results in executor.map(lambda n: pool.map([n]), numbers) for result in results]


def test_few_workers_are_started_for_little_work(make_pool: MakePool) -> None:
    cluster = Cluster(6)
    pool = make_pool(cluster)
    assert [pool.map([number]) for number in range(5)] == [[0], [2], [4], [6], [8]]
    assert len(cluster.running) == 1


def test_a_lost_machine_costs_no_item_and_is_said_once(make_pool: MakePool) -> None:
    cluster = Cluster(4)
    pool = make_pool(cluster)
    cluster.events = {60: lambda: cluster.lose(3)}
    numbers = list(range(100, 400))
    assert run_all(pool, numbers, 4) == [2 * number for number in numbers]
    assert cluster.lines == ["the cluster has room for 1 worker now, and had for 4"]
    assert (pool.max_workers, len(cluster.running)) == (1, 1)


def test_machines_that_join_later_get_work(make_pool: MakePool) -> None:
    cluster = Cluster(1)
    pool = make_pool(cluster)

    def join() -> None:
        cluster.machines = 3

    cluster.events = {20: join}
    numbers = list(range(100, 300))
    assert run_all(pool, numbers, 4) == [2 * number for number in numbers]
    assert (pool.max_workers, len(cluster.running)) == (3, 3)


def test_an_item_that_kills_its_workers_fails_and_no_other(make_pool: MakePool) -> None:
    pool = make_pool(Cluster(2))
    first, killed, last = pool.map([1, 13, 2])
    assert (first, last) == (2, 4)
    assert str(killed) == "its worker died every time: killed by 13, 2 times"


def test_a_lost_machine_is_not_counted_as_a_death_of_the_worker(make_pool: MakePool) -> None:
    cluster = Cluster(2)
    cluster.events = {1: lambda: cluster.lose(1)}
    assert str(make_pool(cluster).map([13])[0]).endswith("killed by 13, 2 times")
    assert cluster.batches == 3


def test_a_cluster_without_any_machine_ends_the_job_after_the_wait(make_pool: MakePool) -> None:
    cluster = Cluster(2)
    pool = make_pool(cluster, patience=0.4)
    assert pool.map([1]) == [2]
    cluster.lose(2)
    started = time.monotonic()
    with pytest.raises(RequestError, match="no worker"):
        pool.map([1])
    assert time.monotonic() - started >= 0.4


def test_a_machine_that_comes_back_within_the_wait_goes_on(make_pool: MakePool) -> None:
    cluster = Cluster(1)
    pool = make_pool(cluster)
    assert pool.map([1]) == [2]
    cluster.lose(1)

    def come_back() -> None:
        cluster.machines = 1

    threading.Timer(0.3, come_back).start()
    assert pool.map([2]) == [4]


def test_what_the_function_raises_is_raised_and_the_worker_stays(make_pool: MakePool) -> None:
    cluster = Cluster(1)
    pool = make_pool(cluster)
    with pytest.raises(ZeroDivisionError):
        pool.map([7])
    assert pool.map([1]) == [2]
    assert len(cluster.running) == 1


def test_a_shared_worker_takes_several_batches_at_once(make_pool: MakePool) -> None:
    cluster = Cluster(1)
    pool = make_pool(cluster, most=1, threads=4)
    numbers = list(range(100, 160))
    assert run_all(pool, numbers, 4) == [2 * number for number in numbers]
    assert (pool.max_workers, pool.most_workers, len(cluster.running)) == (4, 4, 1)


def test_a_closed_pool_ends_its_workers(make_pool: MakePool) -> None:
    cluster = Cluster(3)
    pool = make_pool(cluster)
    pool.start()
    assert pool.map([1]) == [2]
    pool.close()
    assert cluster.running == []


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_pool_without_work_gives_up_what_is_more_than_its_share(make_pool: MakePool) -> None:
    """Else the workers of other pools, whose machine was lost, could not start again."""
    cluster = Cluster(4)
    pool = make_pool(cluster)
    run_all(pool, list(range(100, 140)), 4)
    assert len(cluster.running) == 4
    cluster.machines = 2
    wait_until(lambda: len(cluster.running) == 2)
    assert pool.map([1]) == [2]


def test_a_worker_that_takes_more_than_there_is_now_is_replaced_by_a_smaller_one(make_pool: MakePool) -> None:
    cluster = Cluster(1)
    pool = make_pool(cluster)
    assert pool.map([1]) == [2]
    (large,) = cluster.running
    cluster.cpus = 0.5
    wait_until(lambda: large.is_closed)
    assert pool.map([2]) == [4]
    assert [worker.needs.cpus for worker in cluster.running] == [0.5]


def test_a_worker_without_room_ends_after_its_call(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(1)
    pool = make_pool(cluster)
    goes_on = threading.Event()

    def slow(worker: Worker, batch: Sequence[int]) -> list[int]:
        assert goes_on.wait(300) and not worker.is_closed
        return [2 * number for number in batch]

    monkeypatch.setattr(Worker, "process", slow)
    with ThreadPoolExecutor(1) as executor:
        call = executor.submit(pool.map, [1])
        wait_until(lambda: bool(cluster.running))
        cluster.cpus = 0.5
        time.sleep(0.2)
        goes_on.set()
        assert call.result() == [2]
    wait_until(lambda: not cluster.running)


def test_lost_workers_go_before_idle_ones(make_pool: MakePool) -> None:
    cluster = Cluster(3)
    pool = make_pool(cluster)
    run_all(pool, list(range(100, 130)), 3)
    kept = cluster.running[1:]
    cluster.lose(1)
    wait_until(lambda: pool.max_workers == 2)
    assert run_all(pool, list(range(100, 130)), 2) == [2 * number for number in range(100, 130)]
    assert cluster.running == kept


def test_a_caller_that_keeps_to_the_room_hears_of_machines_that_join(make_pool: MakePool) -> None:
    cluster = Cluster(1)
    pool = make_pool(cluster)
    assert pool.map([1]) == [2]
    cluster.machines = 3
    wait_until(lambda: pool.max_workers == 3)
