"""The ray engine gives the results and the errors of the local one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ares.errors import MediaError, RequestError, SourceError
from ares.jobs import (
    Engine,
    LocalEngine,
    PoolRequest,
    WorkerLimits,
    WorkerPool,
    engine_or_local,
)

ray: Any = pytest.importorskip("ray", reason="ray is not installed: pip install 'ares-curation[ray]'")


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def pickled_by_value(ray_cluster: None) -> None:
    """The workers cannot import a test module, so its functions are pickled by value."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def engine() -> Iterator[Engine]:
    from ares.jobs.ray_engine import RayEngine

    with engine_or_local(RayEngine(max_workers=2)) as engine:
        yield engine


def _pool(engine: Engine, function: Any, **options: Any) -> WorkerPool[Any, Any]:
    defaults: dict[str, Any] = {"max_workers": 1, "on_worker_death": SourceError}
    return engine.pool(PoolRequest(function, **(defaults | options)))


class OtherJob:
    """Holds cores of the cluster."""

    def is_ready(self) -> bool:
        return True


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
    local, pool = (_pool(either, double, max_workers=3) for either in (LocalEngine(), engine))
    assert pool.map(numbers) == local.map(numbers) == [2 * number for number in numbers]
    assert (local.max_workers, pool.max_workers) == (3, 2)


def test_the_work_is_built_where_it_is_done(engine: Engine) -> None:
    lock = threading.Lock()  # cannot be pickled

    def locked_process_ids(batch: Sequence[int]) -> list[int]:
        with lock:
            return process_ids(batch)

    def build() -> Any:
        return process_ids

    (ray_id,) = _pool(engine, locked_process_ids, build=build).map([1])
    (local_id,) = _pool(LocalEngine(), locked_process_ids, build=build).map([1])
    assert ray_id != os.getpid() == local_id


def test_an_error_that_is_a_result_comes_back_whole(engine: Engine) -> None:
    (error,) = _pool(engine, errors, on_worker_death=MediaError).map([3])
    assert type(error) is SourceError
    assert (error.reason, error.detail, str(error)) == ("number is not even", "3", "number is not even: 3")


def test_a_bug_is_raised_as_itself_with_the_traceback_of_the_worker(engine: Engine) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        _pool(engine, breaks).map([0])
    assert type(caught.value) is ZeroDivisionError
    assert "in breaks" in "".join(caught.value.__notes__)


@pytest.mark.nightly
def test_a_stored_value_can_be_read_by_all_workers_until_the_pool_ends(engine: Engine) -> None:
    put = engine.put

    def puts(batch: Sequence[int]) -> list[Any]:
        return [put([number] * 200_000) for number in batch]

    def reads(batch: Sequence[Any]) -> list[Any]:
        return [(fetch() or [None])[0] for fetch in batch]

    getters: list[Any] = list(_pool(engine, puts).map([7]))
    assert _pool(engine, reads).map(getters) == [7]
    engine.close()
    deadline = time.monotonic() + 300
    while getters[0]() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert LocalEngine().put(7)() == 7


@pytest.mark.nightly
def test_a_relative_path_means_the_same_on_a_worker(engine: Engine) -> None:
    def folder(batch: Sequence[int]) -> list[Path]:
        return [Path.cwd()]

    assert _pool(engine, folder).map([0]) == [Path.cwd()]


def test_a_cluster_without_room_is_no_endless_wait(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.jobs.ray_engine._START_SECONDS", 0.5)
    (node,) = ray.nodes()
    other = ray.remote(num_cpus=node["Resources"]["CPU"])(OtherJob).remote()
    assert ray.get(other.is_ready.remote(), timeout=300)
    with pytest.raises(RequestError, match="gave no worker within 0 s"):
        _pool(engine, double).map([1])
    ray.kill(other)


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
    pool = _pool(engine, greedy, limits=limits)
    late, large, last = pool.map([1, 2, 4])
    assert "the record took too long to read" in str(late) and isinstance(large, SourceError) and last == 8


@pytest.mark.nightly
def test_a_worker_that_ray_places_works(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    (node,) = ray.nodes()
    nodes = [{**node, "Resources": {"memory": 8e9}}]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    monkeypatch.setattr("ares.jobs.worker_pool._SLOTS_SECONDS", 0.0)

    def exits(batch: Sequence[int]) -> list[int]:
        if 5 in batch:
            os._exit(1)
        return process_ids(batch)

    pool = _pool(engine, exits)
    (first,) = pool.map([1])
    assert "its worker died every time" in str(pool.map([5])[0])
    nodes[:] = [node]
    (second,), (third,) = pool.map([1]), pool.map([1])
    assert isinstance(first, int) and first != second == third


def test_an_actor_whose_machine_is_gone_before_it_starts_is_lost(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node,) = ray.nodes()
    gone = {**node, "NodeID": "1" * len(node["NodeID"])}
    answers = [[gone], [node]]
    monkeypatch.setattr(ray, "nodes", lambda: answers.pop(0) if len(answers) > 1 else answers[0])
    pool = _pool(engine, double)
    assert pool.map([1, 2]) == [2, 4]


@pytest.mark.nightly
def test_a_cluster_that_does_not_answer_is_asked_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.jobs.worker_pool._SLOTS_SECONDS", 0.0)
    pool = _pool(engine, double)
    asked = []

    def nodes() -> list[dict[str, Any]]:
        asked.append(1)
        raise ray.exceptions.RpcError("the head does not answer")

    monkeypatch.setattr(ray, "nodes", nodes)
    assert pool.map([1]) == [2] and asked
    monkeypatch.undo()
    assert pool.map([1]) == [2]


def test_a_killed_actor_costs_no_item_and_an_item_that_kills_costs_only_itself(
    engine: Engine, tmp_path: Path
) -> None:
    mark = tmp_path / "killed"

    def killed_once(batch: Sequence[int]) -> list[int]:
        if 3 in batch and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if 5 in batch:
            os._exit(1)
        return double(batch)

    pool = _pool(engine, killed_once)
    assert pool.map([1, 2, 3]) == [2, 4, 6] and mark.exists()
    first, killer, last = pool.map([4, 5, 6])
    assert (first, last) == (8, 12) and "its worker died every time" in str(killer)


def test_a_machine_that_is_lost_counts_as_no_death_of_an_item(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ares.jobs.ray_actors import ActorDied

    monkeypatch.setattr("ares.jobs.ray_actors._stays_alive", lambda node_id: False)
    losses = ActorDied.most_deaths + 1

    def killed_often(batch: Sequence[int]) -> list[int]:
        if 3 in batch and len(list(tmp_path.iterdir())) < losses:
            (tmp_path / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return double(batch)

    assert _pool(engine, killed_often).map([1, 2, 3]) == [2, 4, 6]
    assert len(list(tmp_path.iterdir())) == losses
