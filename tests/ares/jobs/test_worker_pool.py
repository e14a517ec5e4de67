"""Batches go to what is ready first; workers that die or are lost are replaced, and slots come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from ares.errors import ModelError, RequestError, SourceError
from ares.jobs.worker_pool import (
    InlineCalls,
    RestartingPool,
    WorkerDied,
    WorkerLost,
    WorkerStarts,
    WorkerWaitLimit,
)


class SlowToStart:
    """A worker that says when it has become ready; 13 kills it."""

    def __init__(self) -> None:
        self.started: list[SlowToStart] = []
        self.ready = threading.Event()

    def start(self) -> SlowToStart:
        worker = SlowToStart()
        worker.ready = self.ready
        self.started.append(worker)
        return worker

    def is_ready(self) -> bool:
        return self.ready.is_set()

    def process(self, batch: Sequence[Any]) -> Sequence[Any]:
        if 13 in batch:
            raise WorkerDied("signal SIGKILL")
        return [f"{number} there" for number in batch]

    def close(self) -> None:
        """Nothing has to be ended."""


class BusyCaller:
    """What the calling process does: it works on its first batch until it is released."""

    def __init__(self) -> None:
        self.is_working, self.release = threading.Event(), threading.Event()

    def process(self, batch: Sequence[int]) -> list[str]:
        self.is_working.set()
        assert self.release.wait(300)
        return [f"{number} here" for number in batch]


@pytest.mark.parametrize("stays_inline", [False, True])
def test_a_process_that_has_become_ready_is_used_while_the_caller_works(stays_inline: bool) -> None:
    caller, workers = BusyCaller(), SlowToStart()
    pool: RestartingPool[int, str] = RestartingPool(
        lambda: dict.fromkeys(range(3), workers.start),
        ModelError,
        InlineCalls(caller.process, is_worker=stays_inline),
    )
    with ThreadPoolExecutor(3) as executor:
        first: Future[Any] = executor.submit(pool.map, [1])
        assert caller.is_working.wait(300)
        waiting = [executor.submit(pool.map, [number]) for number in (2, 3)]
        workers.ready.set()
        assert [future.result(300) for future in waiting] == [["2 there"], ["3 there"]]
        assert not first.done()
        caller.release.set()
        assert first.result(300) == ["1 here"]


def test_an_item_that_killed_a_process_is_not_tried_in_the_calling_one() -> None:
    caller, workers = BusyCaller(), SlowToStart()
    caller.release.set()
    workers.ready.set()
    pool: RestartingPool[int, str] = RestartingPool(
        lambda: {0: workers.start}, ModelError, InlineCalls(caller.process)
    )
    died, survived = pool.map([13, 7])
    assert str(died) == "its worker died every time: signal SIGKILL, 2 times" and survived == "7 there"
    assert not caller.is_working.is_set()


def test_one_thread_needs_no_process_beside_the_caller() -> None:
    caller, workers = BusyCaller(), SlowToStart()
    caller.release.set()
    pool: RestartingPool[int, str] = RestartingPool(
        lambda: dict.fromkeys(range(2), workers.start),
        ModelError,
        InlineCalls(caller.process, is_worker=True),
    )
    assert [pool.map([number]) for number in (1, 2)] == [["1 here"], ["2 here"]]
    assert workers.started == []


class Slots:
    """Slots of a cluster whose machines go and come, the last works first; each starts a worker that is ready at once.

    Workers of a slot in `lost` are lost at their next batch, those of one in `goes_on` wait for it within a batch.
    """

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.lost: set[str] = set()
        self.workers: dict[str, list[SlotWorker]] = {}
        self.goes_on: dict[str, threading.Event] = {}

    def list(self) -> WorkerStarts:
        return {name: partial(self.start, name) for name in self.names}

    def start(self, name: str) -> SlotWorker:
        worker = SlotWorker(self, name)
        self.workers.setdefault(name, []).append(worker)
        return worker

    def make_pool(self, patience: float = 300.0, most_workers: int | None = None) -> RestartingPool[int, str]:
        return RestartingPool(
            self.list,
            SourceError,
            patience=WorkerWaitLimit(patience, lambda: RequestError("no worker came")),
            most_workers=most_workers,
        )


class SlotWorker:
    """A worker of a slot; 13 kills it, 7 raises."""

    def __init__(self, slots: Slots, name: str) -> None:
        self.slots, self.name = slots, name
        self.is_working, self.is_closed = threading.Event(), False

    def is_ready(self) -> bool:
        return True

    def process(self, batch: Sequence[int]) -> list[str]:
        assert not self.is_closed
        self.is_working.set()
        if self.name in self.slots.goes_on:
            assert self.slots.goes_on[self.name].wait(300)
        if self.name in self.slots.lost:
            raise WorkerLost("its machine is gone")
        if 13 in batch:
            raise WorkerDied("exit status 1")
        if 7 in batch:
            raise ZeroDivisionError
        return [f"{number} {self.name}" for number in batch]

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The seconds that the pool reads; a pause is over at once."""
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(
        "ares.jobs.worker_pool.time",
        SimpleNamespace(monotonic=lambda: now.seconds, sleep=lambda seconds: None),
    )
    return now


def test_items_of_a_lost_machine_go_to_a_worker_that_is_free() -> None:
    slots = Slots("living", "gone")
    slots.lost = {"gone"}
    pool = slots.make_pool()
    assert pool.map([1, 2]) == ["1 living", "2 living"]
    assert [worker.is_closed for worker in slots.workers["gone"]] == [True]
    slots.lost = {"living"}
    assert str(pool.map([13])[0]) == "its worker died every time: exit status 1, 2 times", (
        "a loss is no death"
    )


def test_slots_are_listed_again_once_a_worker_is_lost() -> None:
    slots = Slots("gone")
    slots.lost = {"gone"}
    pool = slots.make_pool()
    slots.names = ["new"]
    assert pool.map([1, 2]) == ["1 new", "2 new"]


def test_an_item_whose_workers_are_always_lost_ends(clock: SimpleNamespace) -> None:
    slots = Slots("gone")
    slots.lost = {"gone"}
    (error,) = slots.make_pool().map([1])
    assert str(error) == "its machine was lost 10 times"
    assert len(slots.workers["gone"]) == 11


def test_slots_that_come_and_go_are_followed(clock: SimpleNamespace) -> None:
    slots = Slots("first", "second")
    pool = slots.make_pool(most_workers=8)
    assert (pool.map([1]), pool.max_workers, pool.most_workers) == (["1 second"], 2, 8)
    slots.names = ["first", "third", "fourth"]
    assert (pool.map([1]), pool.max_workers) == (["1 second"], 2)
    clock.seconds += 6
    assert pool.max_workers == 3
    assert slots.workers["second"][0].is_closed
    assert pool.map([1])[0] in ("1 third", "1 fourth")


def test_a_worker_whose_slot_is_gone_ends_after_its_batch(clock: SimpleNamespace) -> None:
    slots = Slots("old")
    slots.goes_on["old"] = threading.Event()
    pool = slots.make_pool()
    with ThreadPoolExecutor(1) as executor:
        first = executor.submit(pool.map, [1])
        wait_until(lambda: "old" in slots.workers)
        (old,) = slots.workers["old"]
        assert old.is_working.wait(300)
        slots.names, clock.seconds = ["new"], clock.seconds + 6
        assert pool.map([2]) == ["2 new"] and not old.is_closed
        slots.goes_on["old"].set()
        assert first.result(300) == ["1 old"] and old.is_closed


def test_a_cluster_that_says_nothing_keeps_its_workers(clock: SimpleNamespace) -> None:
    slots = Slots("only")
    answers: list[WorkerStarts | None] = [None, slots.list()]
    pool: RestartingPool[int, str] = RestartingPool(lambda: answers.pop(), SourceError)
    assert pool.map([1]) == ["1 only"]
    clock.seconds += 6
    assert pool.map([2]) == ["2 only"] and not answers
    assert len(slots.workers["only"]) == 1


def test_few_workers_are_started_for_little_work_and_all_for_much() -> None:
    slots = Slots("a", "b", "c")
    pool = slots.make_pool()
    assert [pool.map([number]) for number in range(3)] == [["0 c"], ["1 c"], ["2 c"]]
    assert list(slots.workers) == ["c"]
    pool.start()
    assert sorted(slots.workers) == ["a", "b", "c"]


def test_what_the_function_raises_is_raised_and_the_worker_stays() -> None:
    slots = Slots("only")
    pool = slots.make_pool()
    with pytest.raises(ZeroDivisionError):
        pool.map([7])
    assert pool.map([1]) == ["1 only"] and len(slots.workers["only"]) == 1


def test_a_job_without_any_machine_ends_after_the_wait() -> None:
    pool = Slots().make_pool(patience=0.2)
    started_at = time.monotonic()
    with pytest.raises(RequestError, match="no worker came"):
        pool.map([1])
    assert time.monotonic() - started_at >= 0.2


def test_a_pool_that_had_nothing_to_do_for_long_waits_as_long_as_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ares.jobs.worker_pool._SLOTS_SECONDS", 0.05)
    slots = Slots("first")
    pool = slots.make_pool(patience=600)
    assert pool.map([1]) == ["1 first"]
    slots.names = []
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 3600, sleep=time.sleep)
    monkeypatch.setattr("ares.jobs.worker_pool.time", later)
    threading.Timer(0.3, slots.names.append, ["second"]).start()
    assert pool.map([2]) == ["2 second"]


def test_a_closed_pool_ends_its_workers_and_starts_no_other() -> None:
    slots = Slots("a", "b")
    slots.goes_on = {"a": threading.Event(), "b": threading.Event()}
    slots.lost = {"b"}
    pool = slots.make_pool()
    with ThreadPoolExecutor(1) as executor:
        call = executor.submit(pool.map, [1])
        wait_until(lambda: "b" in slots.workers)
        assert slots.workers["b"][0].is_working.wait(300)
        pool.close()
        slots.goes_on["b"].set()
        with pytest.raises(RequestError, match="the workers have ended"):
            call.result(300)
    pool.start()
    with pytest.raises(RequestError, match="the workers have ended"):
        pool.map([2])
    assert {name: len(workers) for name, workers in slots.workers.items()} == {"b": 1}
    assert slots.workers["b"][0].is_closed


def test_a_worker_that_starts_while_the_pool_is_closed_ends_after_its_batch() -> None:
    slots = Slots("only")
    pool = slots.make_pool()
    taken = pool._take(is_retry=False)
    assert taken is not None
    pool.close()
    assert taken.worker().process([1]) == ["1 only"]
    pool._give_back(taken, is_lost=False)
    assert all(worker.is_closed for worker in slots.workers["only"])


def test_many_threads_that_wait_ask_the_workers_no_more_often_than_one() -> None:
    asked: list[int] = []

    class NeverReady(SlotWorker):
        def is_ready(self) -> bool:
            asked.append(1)
            return False

    slots = Slots()
    pool: RestartingPool[int, str] = RestartingPool(
        lambda: {number: partial(NeverReady, slots, "never") for number in range(20)},
        SourceError,
        patience=WorkerWaitLimit(0.5, lambda: RequestError("no worker came")),
    )
    started_at = time.monotonic()
    with ThreadPoolExecutor(20) as executor:
        calls = [executor.submit(pool.map, [number]) for number in range(20)]
        errors = [call.exception(300) for call in calls]
    assert all("no worker came" in str(error) for error in errors)
    assert len(asked) <= 20 * (1 + (time.monotonic() - started_at) / 0.05)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
