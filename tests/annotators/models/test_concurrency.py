"""The number of calls in flight follows what a server can do, and goes down when it refuses calls."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from annotators.models.server import ServerConcurrency


class _Server:
    """Answers so many calls at a time, each after some seconds; the others wait."""

    def __init__(self, slots: int, seconds: float) -> None:
        self._free, self._seconds = threading.Semaphore(slots), seconds

    def answer(self) -> None:
        with self._free:
            time.sleep(self._seconds)


def _run(concurrency: ServerConcurrency, server: _Server, calls: int) -> list[int]:
    """The limit at the end of every call."""
    limits = []

    def call(_: int) -> None:
        with concurrency.slot():
            server.answer()
        limits.append(concurrency.limit)

    with ThreadPoolExecutor(300) as threads:
        list(threads.map(call, range(calls)))
    return limits


@pytest.mark.parametrize("slots", [3, 24])
def test_the_limit_finds_what_a_server_can_do(slots: int) -> None:
    concurrency = ServerConcurrency(limit=8)
    limits = _run(concurrency, _Server(slots, 0.05), 100 * slots)
    assert max(slots, 16) <= max(limits)
    assert slots <= limits[-1] <= max(2 * slots, 12)


def test_a_server_that_refuses_calls_gets_as_many_as_it_takes() -> None:
    concurrency, server = ServerConcurrency(limit=40), _RefusingServer(24)
    with ThreadPoolExecutor(60) as threads:
        answered = list(threads.map(lambda _: server.ask(concurrency), range(600)))
    assert all(answered)
    assert 20 <= concurrency.limit <= 24


class _RefusingServer:
    """Takes so many calls at a time, each for 0.05 s, and refuses the others."""

    def __init__(self, slots: int) -> None:
        self._free = threading.Semaphore(slots)

    def ask(self, concurrency: ServerConcurrency) -> bool:
        for _ in range(100):
            with concurrency.slot() as slot:
                slot.is_answered = self._free.acquire(blocking=False)
                if slot.is_answered:
                    time.sleep(0.05)
                    self._free.release()
                    return True
            concurrency.slow_down(0.05, False)
            time.sleep(0.05)
        return False


def test_no_call_is_sent_while_the_server_has_asked_for_a_pause() -> None:
    concurrency = ServerConcurrency(limit=40)
    for _ in range(10):
        concurrency.slow_down(0.2, True)
    started_at = time.monotonic()
    with concurrency.slot():
        assert time.monotonic() - started_at >= 0.15


def test_a_server_that_refuses_everything_is_left_alone_for_a_while() -> None:
    concurrency = ServerConcurrency(limit=3)
    for _ in range(5):
        concurrency.slow_down(0.2, False)
    assert concurrency.limit == 1
    started_at = time.monotonic()
    with concurrency.slot():
        assert time.monotonic() - started_at >= 0.15


def test_a_run_that_ends_does_not_wait_for_a_pause() -> None:
    concurrency = ServerConcurrency()
    concurrency.slow_down(100.0, True)
    started_at = time.monotonic()
    with concurrency.slot(lambda: True):
        assert time.monotonic() - started_at < 5


def test_with_little_to_do_nothing_is_said_of_the_server() -> None:
    concurrency = ServerConcurrency(limit=20)
    for _ in range(100):
        with concurrency.slot():
            pass
    assert concurrency.limit == 20


@pytest.mark.parametrize(("seconds", "first"), [(0.1, 64), (10.0, 48), (200.0, 4)])
def test_the_first_limit_is_answered_within_the_time_limit(seconds: float, first: int) -> None:
    concurrency = ServerConcurrency()
    concurrency.set_first_limit(seconds, 600.0)
    assert concurrency.limit == first
    concurrency.set_first_limit(0.01, 600.0)
    assert concurrency.limit == first


def test_a_call_that_raises_leaves_its_slot() -> None:
    concurrency = ServerConcurrency(limit=1)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"), concurrency.slot():
            raise ValueError("no")
    with concurrency.slot():
        pass
