"""Batches go to what is ready first: a process that has started is used while the calling process still works."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from ares.errors import ModelError
from ares.jobs.worker_pool import InlineCalls, RestartingPool, WorkerDied


class SlowToStart:
    """A worker that says when it has become ready; 13 kills it.

    Attributes:
        started: All workers so far.
        ready: Set once all are ready.
    """

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
    """What the calling process does: it works on its first batch until it is released.

    Attributes:
        is_working: Set once it has begun.
        release: Lets it end.
    """

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
