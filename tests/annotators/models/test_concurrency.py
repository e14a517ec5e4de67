"""Pauses, refusals and the first number of calls in flight; how it follows a server is in test_concurrency_profiles."""

from __future__ import annotations

import time

import pytest

from annotators.models.server.connection import ServerConcurrency


def test_no_call_is_sent_while_the_server_has_asked_for_a_pause() -> None:
    concurrency = ServerConcurrency(limit=40)
    started_at = time.monotonic()
    for _ in range(10):
        concurrency.slow_down(0.2, True)
    with concurrency.slot():
        assert time.monotonic() - started_at >= 0.15


def test_a_server_that_refuses_everything_is_left_alone_for_a_while() -> None:
    concurrency = ServerConcurrency(limit=3)
    started_at = time.monotonic()
    for _ in range(5):
        concurrency.slow_down(0.2, False)
    assert concurrency.limit == 1
    with concurrency.slot():
        assert time.monotonic() - started_at >= 0.15


def test_a_run_that_ends_does_not_wait_for_a_pause() -> None:
    concurrency = ServerConcurrency()
    concurrency.slow_down(1e6, True)  # days
    with concurrency.slot(lambda: True):
        pass


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
