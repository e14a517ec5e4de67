"""The ray engine gives the results and the errors of the local one."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ares.errors import MediaError, RequestError, SourceError
from ares.jobs import (
    Engine,
    KeptValue,
    LocalEngine,
    PoolRequest,
    WorkerLimits,
    WorkerNeeds,
    WorkerPool,
    engine_or_local,
    open_engine,
)

ray: Any = pytest.importorskip("ray", reason="ray is not installed: pip install 'ares-curation[ray]'")


@pytest.fixture(scope="module", autouse=True)
def pickled_by_value(ray_cluster: None) -> None:
    """The workers cannot import a test module, so its functions are pickled by value."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def engine() -> Iterator[Engine]:
    from ares.jobs.ray_engine import RayEngine

    with engine_or_local(RayEngine(max_workers=2)) as engine:
        yield engine


def double(batch: Sequence[int]) -> list[int]:
    return [2 * number for number in batch]


def process_ids(batch: Sequence[int]) -> list[int]:
    return [os.getpid() for _ in batch]


def errors(batch: Sequence[int]) -> list[SourceError]:
    return [SourceError("number is not even", str(number)) for number in batch]


def breaks(batch: Sequence[int]) -> list[int]:
    return [1 // number for number in batch]


def test_both_engines_give_the_same_in_order(engine: Engine) -> None:
    numbers = list(range(50))
    local = LocalEngine().pool(PoolRequest(double, max_workers=3, on_worker_death=SourceError))
    pool = engine.pool(PoolRequest(double, max_workers=3, on_worker_death=SourceError))
    assert pool.map(numbers) == local.map(numbers) == [2 * number for number in numbers]
    assert (local.max_workers, pool.max_workers) == (3, 2)


def test_the_work_is_built_where_it_is_done(engine: Engine) -> None:
    lock = threading.Lock()  # cannot be pickled

    def locked_process_ids(batch: Sequence[int]) -> list[int]:
        with lock:
            return process_ids(batch)

    def build() -> Any:
        return process_ids

    (ray_id,), (local_id,) = (
        either.pool(
            PoolRequest(locked_process_ids, max_workers=1, on_worker_death=SourceError, build=build)
        ).map([1])
        for either in (engine, LocalEngine())
    )
    assert ray_id != os.getpid() == local_id


def test_an_error_that_is_a_result_comes_back_whole(engine: Engine) -> None:
    pool: WorkerPool[int, SourceError] = engine.pool(
        PoolRequest(errors, max_workers=1, on_worker_death=MediaError)
    )
    (error,) = pool.map([3])
    assert type(error) is SourceError
    assert (error.reason, error.detail, str(error)) == ("number is not even", "3", "number is not even: 3")


def test_a_bug_is_raised_as_itself_with_the_traceback_of_the_worker(engine: Engine) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        engine.pool(PoolRequest(breaks, max_workers=1, on_worker_death=SourceError)).map([0])
    assert type(caught.value) is ZeroDivisionError
    assert "in breaks" in "".join(caught.value.__notes__)


def test_calls_that_wait_for_a_server_share_one_process(engine: Engine) -> None:
    def waits(batch: Sequence[int]) -> list[int]:
        import builtins  # of the process of the worker: all of its calls meet there

        if batch[0]:
            vars(builtins).setdefault("test_meeting", threading.Barrier(8)).wait(300)
        return process_ids(batch)

    pool = engine.pool(PoolRequest(waits, max_workers=8, on_worker_death=SourceError, shared_worker=True))
    assert pool.max_workers == 8
    (first,) = pool.map([0])
    results: list[object] = []
    threads = [threading.Thread(target=lambda: results.extend(pool.map([1]))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [first] * 8


@pytest.mark.nightly
def test_a_stored_value_can_be_read_by_all_workers_until_the_pool_ends(engine: Engine) -> None:
    put = engine.put

    def puts(batch: Sequence[int]) -> list[Any]:
        return [put([number] * 200_000) for number in batch]

    def reads(batch: Sequence[Any]) -> list[Any]:
        return [(fetch() or [None])[0] for fetch in batch]

    writers: WorkerPool[int, Any] = engine.pool(PoolRequest(puts, max_workers=1, on_worker_death=SourceError))
    getters: list[Any] = list(writers.map([7]))
    assert engine.pool(PoolRequest(reads, max_workers=1, on_worker_death=SourceError)).map(getters) == [7]
    engine.close()
    deadline = time.monotonic() + 300
    while getters[0]() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert LocalEngine().put(7)() == 7


@pytest.mark.nightly
def test_workers_fetch_from_each_other_what_they_keep_while_they_work(engine: Engine) -> None:
    keeper = engine.keeper

    def work(batch: Sequence[Any]) -> list[Any]:
        time.sleep(0.2)  # the other one has work, too
        ((method, argument),) = batch
        return [getattr(keeper, method)(argument)]

    pool: WorkerPool[Any, Any] = engine.pool(PoolRequest(work, max_workers=2, on_worker_death=SourceError))
    deadline = time.monotonic() + 300
    with ThreadPoolExecutor(2) as executor:

        def call(method: str, *arguments: Any) -> list[Any]:
            return [reply for (reply,) in executor.map(pool.map, [[(method, each)] for each in arguments])]

        kept: list[KeptValue] = []
        while len({worker for worker, _ in kept}) < 2:
            assert time.monotonic() < deadline, "one worker did all"
            kept = [token for tokens in call("keep", ["a", "b"], ["c", "d"]) for token in tokens]
        assert call("fetch", kept, kept) == [["a", "b", "c", "d"]] * 2
        call("forget", [kept[0], kept[3]])
        while call("fetch", kept) != [[None, "b", "c", None]]:
            assert time.monotonic() < deadline
        engine.close()
        pool = engine.pool(PoolRequest(work, max_workers=1, on_worker_death=SourceError))
        assert call("fetch", kept) == [[None] * 4]


@pytest.mark.nightly
def test_a_relative_path_means_the_same_on_a_worker(engine: Engine) -> None:
    def folder(batch: Sequence[int]) -> list[Path]:
        return [Path.cwd()]

    assert engine.pool(PoolRequest(folder, max_workers=1, on_worker_death=SourceError)).map([0]) == [
        Path.cwd()
    ]


def test_a_cluster_that_is_not_there_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setenv("RAY_ADDRESS", closed)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(RequestError, match=f"reached: RAY_ADDRESS '{closed}'"), open_engine("ray"):
        pass


@pytest.mark.nightly
def test_a_cluster_without_room_is_no_endless_wait(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.jobs.ray_engine._START_SECONDS", 0.5)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 4.0, "GPU": 1.0})
    with pytest.raises(RequestError, match="gave no worker within 0 s"):
        engine.pool(
            PoolRequest(double, max_workers=1, on_worker_death=SourceError, needs=WorkerNeeds(gpus=1.0))
        ).map([1])


def greedy(batch: Sequence[int]) -> list[int]:
    """1 takes too long, 2 too much memory."""
    blocks: list[bytes] = []
    while batch[0] == 1:
        time.sleep(0.1)
    while 2 in batch:
        blocks.append(b"x" * 2**25)
        time.sleep(0.05)
    return double(batch)


@pytest.mark.nightly
def test_an_item_beyond_the_limits_fails_and_the_others_do_not(engine: Engine) -> None:
    limits = WorkerLimits(seconds=2.0, memory_bytes=200 * 2**20)
    pool = engine.pool(PoolRequest(greedy, max_workers=1, on_worker_death=SourceError, limits=limits))
    late, large, last = pool.map([1, 2, 4])
    assert "the record took too long to read" in str(late) and isinstance(large, SourceError) and last == 8


def test_workers_fit_into_their_share_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    from ares.jobs.ray_engine import count_fitting_workers as count_room, fit_worker_resources

    machine = {"CPU": 8.0, "GPU": 2.0, "memory": 32e9}
    monkeypatch.setattr(
        ray, "cluster_resources", lambda: {name: 2 * total for name, total in machine.items()}
    )
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": machine}] * 2)
    large = WorkerNeeds(cpus=1.0, memory_bytes=int(7.4e9))
    assert count_room(large, 0.5, 1.0) == 4  # of 16 cores and 64 GB
    assert count_room(WorkerNeeds(cpus=4.0), 0.5, 1.0) == 2
    assert count_room(WorkerNeeds(gpus=0.5), 0.5, 0.5) == 4
    assert count_room(WorkerNeeds(gpus=0.25), 0.5, 1.0) == 8  # bounded by the cores
    # Even a worker that is larger than its share, or than a machine, is placed: workers of other pools may be on both.
    assert fit_worker_resources(WorkerNeeds(cpus=99.0, memory_bytes=int(90e9)), 0.5, 0.5) == WorkerNeeds(
        4.0, int(16e9)
    )
    assert fit_worker_resources(WorkerNeeds(gpus=1.0), 0.5, 0.5).gpus == 0.5
    assert count_room(fit_worker_resources(WorkerNeeds(cpus=99.0), 0.5, 0.5), 0.5, 0.5) == 2


@pytest.mark.nightly
def test_a_cluster_that_does_not_answer_is_asked_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.jobs.ray_engine._FOLLOW_SECONDS", 0.02)
    pool = engine.pool(PoolRequest(double, max_workers=1, on_worker_death=SourceError))
    silent, again = threading.Event(), threading.Event()

    def nodes() -> list[dict[str, Any]]:
        if not silent.is_set():
            silent.set()
            raise ray.exceptions.RpcError("the head does not answer")
        again.set()
        return []

    monkeypatch.setattr(ray, "nodes", nodes)
    assert again.wait(300)
    monkeypatch.undo()
    assert pool.map([1]) == [2]
