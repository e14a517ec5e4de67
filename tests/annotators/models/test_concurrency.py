"""Pauses, refusals and the number of calls in flight; in simulated time it keeps ten kinds of servers busy."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from ares_annotators.models.server.concurrency import MOST_CALLS, TIMEOUT_SECONDS, ServerConcurrency
from ares_annotators.models.server.connection import ServerConnection
from benchmarks.model_server import PROFILES, Profile
from tests.annotators.models.simulated_server import SimulatedRun, Simulation


@pytest.mark.parametrize(("limit", "refusals", "is_asked_for"), [(40, 10, True), (3, 1, False)])
def test_no_call_is_sent_in_a_pause_that_a_server_asks_for_or_refuses_everything_in(
    limit: int, refusals: int, is_asked_for: bool
) -> None:
    concurrency = ServerConcurrency(limit)
    started_at = time.monotonic()
    for _ in range(refusals):
        concurrency.count_refusal(0.2, is_asked_for)
    assert is_asked_for or concurrency.limit == 1
    with concurrency.slot():
        assert time.monotonic() - started_at >= 0.15


def test_a_run_that_ends_does_not_wait_for_a_pause() -> None:
    concurrency = ServerConcurrency()
    concurrency.count_refusal(1e6, True)  # days
    with concurrency.slot(lambda: True):
        pass


@pytest.mark.parametrize(("seconds", "first"), [(0.1, 64), (10.0, 48), (200.0, 4)])
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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The seconds that the limit reads."""
    now = SimpleNamespace(seconds=1000.0)
    clock = SimpleNamespace(monotonic=lambda: now.seconds)
    monkeypatch.setattr("ares_annotators.models.server.concurrency.time", clock)
    return now


def answer(concurrency: ServerConcurrency, calls: int = 1) -> int:
    """The limit after so many calls that were answered."""
    for _ in range(calls):
        with concurrency.slot():
            concurrency.count_answer()
    return concurrency.limit


def test_a_quiet_minute_adds_one_call_after_a_timeout(clock: SimpleNamespace) -> None:
    concurrency = ServerConcurrency(40)
    concurrency.count_timeout(clock.seconds)
    limits = []
    for seconds in (30, 36, 24, 48):
        clock.seconds += seconds
        limits.append(answer(concurrency))
    assert limits == [20, 21, 21, 22]


def test_each_quiet_minute_adds_more_where_the_server_answers_so_many_in_time(clock: SimpleNamespace) -> None:
    concurrency = ServerConcurrency()
    answer(concurrency, 64)
    assert concurrency.limit == MOST_CALLS
    limits = []
    for minute in range(12):
        if minute in (0, 3):
            with ExitStack() as stack:
                for _ in range(20):
                    stack.enter_context(concurrency.slot())
                concurrency.count_refusal(0.0, False)
        clock.seconds += 61
        limits.append(answer(concurrency, 100))
    assert limits == [21, 23, 27, 21, 23, 27, 35, 51, 83, 147, 256, 256]


def test_a_server_that_refused_everything_for_a_moment_gets_as_many_calls_as_before(
    clock: SimpleNamespace,
) -> None:
    concurrency = ServerConcurrency(40)
    limits = []
    for _ in range(3):
        for calls in range(39, -1, -1):
            with ExitStack() as stack:
                for _ in range(min(calls, concurrency.limit)):
                    stack.enter_context(concurrency.slot())
                concurrency.count_refusal(1.0, False)
        assert concurrency.limit == 1
        clock.seconds += 1.5
        concurrency.count_refusal(1.0, False)
        assert concurrency.limit == 1
        clock.seconds += 1.5
        limits.append(answer(concurrency))
    # Without a quiet minute in between it gets half as many: it may have a quota.
    assert limits == [40, 20, 10]


@pytest.mark.parametrize("fault", [400, 500, "breaks"])
def test_a_call_that_failed_does_not_raise_the_limit(
    fault: int | str, model_server: Any, clock: SimpleNamespace
) -> None:
    connection = ServerConnection(model_server.url, "", retries=0)
    concurrency = connection.concurrency
    concurrency.set_first_limit(60.0, 600.0)
    model_server.fails(fault) if isinstance(fault, int) else model_server.breaks_off()
    for _ in range(2):
        for _ in range(20):
            assert connection.post("/chat/completions", b"{}", lambda: False).error
        clock.seconds += 61
    assert concurrency.limit == 8
    assert answer(concurrency, 20) > 8


def test_a_call_that_raises_leaves_its_slot() -> None:
    concurrency = ServerConcurrency(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"), concurrency.slot():
            raise ValueError("no")
    with concurrency.slot():
        pass


# Share of the time of all slots that is used, from the first call to the last.
BAR = 0.95


def _run(monkeypatch: pytest.MonkeyPatch, profile: Profile, seconds: float) -> SimulatedRun:
    mean_slots = (profile.slots + (profile.later_slots or profile.slots)) / 2
    return Simulation(profile, monkeypatch).run(round(mean_slots / profile.latency * seconds))


@pytest.mark.slow
@pytest.mark.parametrize("name", PROFILES)
def test_the_slots_of_a_server_are_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _run(monkeypatch, PROFILES[name], seconds=150)
    assert run.share_used >= BAR


def test_a_server_that_refuses_calls_gets_as_many_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    run = _run(monkeypatch, Profile(slots=24, latency=1.0, refuses=True), seconds=300)
    assert 20 <= run.last_limit <= 24


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, profile in PROFILES.items() if profile.refuses])
def test_a_server_that_refuses_calls_is_hardly_asked_in_vain(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _run(monkeypatch, PROFILES[name], seconds=300)
    assert run.refused < 0.04 * PROFILES[name].slots / PROFILES[name].latency * 300
    # The first calls are at most 64, and a server that refuses some gets hardly more later.
    assert run.most_in_flight <= 64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slots", "latency", "calls"), [(16, 0.5, 2400), (64, 2.0, 3200), (256, 2.0, 25600), (256, 8.0, 16000)]
)
def test_a_whole_run_nearly_reaches_the_rate_of_the_server(
    slots: int, latency: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Simulation(Profile(slots=slots, latency=latency), monkeypatch).run(calls)
    assert calls / run.seconds >= BAR * slots / latency
    assert run.last_limit == MOST_CALLS


@pytest.mark.slow
@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize(("slots", "latency"), [(64, 2.0), (256, 2.0), (256, 8.0)])
def test_a_server_that_refuses_everything_for_ten_seconds_is_soon_busy_again(
    slots: int, latency: float, refuses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = Profile(slots=slots, latency=latency, refuses=refuses)
    run = Simulation(profile, monkeypatch, outage=(200.0, 210.0)).run(round(slots / latency * 600))
    assert run.share_used >= BAR
    assert run.last_limit >= slots


@pytest.mark.parametrize(("slots", "latency"), [(1, 60.0), (2, 60.0), (1, 10.0), (4, 90.0)])
def test_no_call_waits_at_a_slow_server_until_its_time_limit(
    slots: int, latency: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Simulation(Profile(slots=slots, latency=latency), monkeypatch).run(200)
    assert run.most_in_flight * latency / slots < TIMEOUT_SECONDS
    assert run.share_used >= BAR
