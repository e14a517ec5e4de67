"""The limit of calls keeps ten kinds of servers busy; in simulated time, so that no machine is too slow for it."""

from __future__ import annotations

import pytest

from annotators.models.server.concurrency import MOST_CALLS, TIMEOUT_SECONDS
from benchmarks.model_server import PROFILES, Profile
from tests.annotators.models.simulated_server import SimulatedRun, Simulation

# Share of the time of all slots that is used, from the first call to the last.
BAR = 0.95


def _run(monkeypatch: pytest.MonkeyPatch, profile: Profile, seconds: float) -> SimulatedRun:
    mean_slots = (profile.slots + (profile.later_slots or profile.slots)) / 2
    return Simulation(profile, monkeypatch).run(round(mean_slots / profile.latency * seconds))


@pytest.mark.parametrize("name", PROFILES)
def test_the_slots_of_a_server_are_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _run(monkeypatch, PROFILES[name], seconds=150)
    assert run.share_used >= BAR


def test_a_server_that_refuses_calls_gets_as_many_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    run = _run(monkeypatch, Profile(slots=24, latency=1.0, refuses=True), seconds=300)
    assert 20 <= run.last_limit <= 24


@pytest.mark.parametrize("name", [name for name, profile in PROFILES.items() if profile.refuses])
def test_a_server_that_refuses_calls_is_hardly_asked_in_vain(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _run(monkeypatch, PROFILES[name], seconds=300)
    assert run.refused < 0.04 * PROFILES[name].slots / PROFILES[name].latency * 300
    # The first calls are at most 64, and a server that refuses some gets hardly more later.
    assert run.most_in_flight <= 64


@pytest.mark.parametrize(
    ("slots", "latency", "calls"), [(16, 0.5, 2400), (64, 2.0, 3200), (256, 2.0, 25600), (256, 8.0, 16000)]
)
def test_a_whole_run_nearly_reaches_the_rate_of_the_server(
    slots: int, latency: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Simulation(Profile(slots=slots, latency=latency), monkeypatch).run(calls)
    assert calls / run.seconds >= BAR * slots / latency
    assert run.last_limit == MOST_CALLS


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
