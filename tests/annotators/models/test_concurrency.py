"""Pauses, refusals and the first number of calls in flight; how it follows a server is in test_concurrency_profiles."""

from __future__ import annotations

import time
from functools import partial
from types import SimpleNamespace

import pytest

from annotators.models.server.concurrency import MOST_CALLS, ServerConcurrency


def test_no_call_is_sent_while_the_server_has_asked_for_a_pause() -> None:
    concurrency = ServerConcurrency(40)
    started_at = time.monotonic()
    for _ in range(10):
        concurrency.count_refusal(0.2, True)
    with concurrency.slot():
        assert time.monotonic() - started_at >= 0.15


def test_a_server_that_refuses_everything_is_left_alone_for_a_while() -> None:
    concurrency = ServerConcurrency(3)
    started_at = time.monotonic()
    concurrency.count_refusal(0.2, False)
    assert concurrency.limit == 1
    with concurrency.slot():
        assert time.monotonic() - started_at >= 0.15


def test_a_run_that_ends_does_not_wait_for_a_pause() -> None:
    concurrency = ServerConcurrency()
    concurrency.count_refusal(1e6, True)  # days
    with concurrency.slot(lambda: True):
        pass


@pytest.mark.parametrize(("seconds", "first"), [(0.1, MOST_CALLS), (10.0, 48), (200.0, 4)])
def test_the_first_limit_is_answered_within_the_time_limit(seconds: float, first: int) -> None:
    concurrency = ServerConcurrency()
    concurrency.set_first_limit(seconds, 600.0)
    assert concurrency.limit == first
    concurrency.set_first_limit(300.0, 600.0)
    assert concurrency.limit == first


def test_calls_that_time_out_together_halve_the_limit_once() -> None:
    concurrency = ServerConcurrency(40)
    began_at = time.monotonic()
    for _ in range(20):
        concurrency.count_timeout(began_at)
    assert concurrency.limit == 20
    concurrency.count_timeout(time.monotonic())
    assert concurrency.limit == 10


def test_a_quiet_minute_adds_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    concurrency = ServerConcurrency(40)
    concurrency.count_timeout(time.monotonic())
    for minutes, limit in ((0.5, 20), (1.1, 21), (1.5, 21), (2.3, 22)):
        clock = SimpleNamespace(monotonic=partial(float, time.monotonic() + 60 * minutes))
        with monkeypatch.context() as patched:
            patched.setattr("annotators.models.server.concurrency.time", clock)
            with concurrency.slot():
                pass
        assert concurrency.limit == limit


def test_a_call_that_raises_leaves_its_slot() -> None:
    concurrency = ServerConcurrency(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"), concurrency.slot():
            raise ValueError("no")
    with concurrency.slot():
        pass
