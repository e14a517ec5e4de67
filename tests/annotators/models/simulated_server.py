"""A server of the benchmark `model_server` in simulated time: what the limit of calls makes of it, without waiting."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pytest

from ares_annotators.models.server.concurrency import TIMEOUT_SECONDS, ServerConcurrency
from benchmarks.model_server import Profile

_REFUSAL_SECONDS = 0.005
_BACKOFF_SECONDS = 0.5
_POLL_SECONDS = 0.25


@dataclass(frozen=True)
class SimulatedRun:
    """What a run of many calls made of a server.

    Attributes:
        seconds: From the start of the test call to the end of the last call.
        share_used: Share of the time of all slots that was used, from the first call after the test call on.
        refused: Calls that the server refused.
        most_in_flight: Most calls in flight at a time.
        last_limit: Calls that the limit allowed at the end.
    """

    seconds: float
    share_used: float
    refused: int
    most_in_flight: int
    last_limit: int


class _MustWait(Exception):
    """The limit does not let the call begin now."""


class _Condition:
    """In place of the condition of the limit: nothing runs at the same time in simulated time."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass

    def wait(self, seconds: float | None) -> None:
        raise _MustWait

    def notify(self, count: int) -> None:
        pass


class Simulation:
    """A server and the calls of a run; `run` is called once.

    Args:
        profile: The server.
        monkeypatch: Gives the limit the simulated time.
        outage: Seconds between which the server refuses all calls; those that it works on end.
    """

    def __init__(
        self, profile: Profile, monkeypatch: pytest.MonkeyPatch, outage: tuple[float, float] = (0.0, 0.0)
    ) -> None:
        self._profile, self._random, self._outage = profile, random.Random(1), outage
        self._now, self._order = 0.0, itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._slots, self._busy = profile.slots, 0
        self._queue: deque[Callable[[], None]] = deque()
        self._waiting = self._in_flight = self._most_in_flight = self._refused = 0
        self._used, self._capacity, self._counted_at = 0.0, 0.0, 0.0
        # The monotonic clock of the module alone.
        monkeypatch.setattr("ares_annotators.models.server.concurrency.time", self)
        self._limit: Any = ServerConcurrency()
        monkeypatch.setattr(self._limit, "_changed", _Condition())

    def monotonic(self) -> float:
        """The simulated time in seconds."""
        return self._now

    def run(self, calls: int) -> SimulatedRun:
        """A test call alone, then so many calls, as fast as the limit lets them begin."""
        self._now = self._seconds()
        self._limit.set_first_limit(self._now, TIMEOUT_SECONDS)
        self._counted_at = self._now
        if self._profile.later_slots:
            self._at(self._profile.change_after, self._change_slots)
        self._waiting = calls
        self._begin_calls()
        while self._events:
            at, _, event = heapq.heappop(self._events)
            self._now = at
            event()
        return SimulatedRun(
            seconds=self._now,
            share_used=self._used / self._capacity,
            refused=self._refused,
            most_in_flight=self._most_in_flight,
            last_limit=self._limit.limit,
        )

    def _at(self, seconds: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._now + seconds, next(self._order), event))

    def _seconds(self) -> float:
        spread = self._profile.latency * self._profile.spread
        return self._profile.latency + self._random.uniform(-spread, spread)

    def _change_slots(self) -> None:
        self._count_capacity()
        self._slots = self._profile.later_slots
        self._start_queued()

    def _count_capacity(self) -> None:
        self._capacity += self._slots * (self._now - self._counted_at)
        self._counted_at = self._now

    def _begin_calls(self) -> None:
        while self._waiting:
            call = self._limit.slot()
            try:
                call.__enter__()
            except _MustWait:
                if self._limit._paused_until > self._now:
                    self._at(_POLL_SECONDS, self._begin_calls)
                return
            self._waiting -= 1
            self._in_flight += 1
            self._most_in_flight = max(self._most_in_flight, self._in_flight)
            self._arrive(call)

    def _arrive(self, call: AbstractContextManager[Any]) -> None:
        is_out = self._outage[0] <= self._now < self._outage[1]
        if is_out or (self._profile.refuses and self._busy >= self._slots):
            self._at(_REFUSAL_SECONDS, lambda: self._refuse(call))
            return
        self._queue.append(lambda: self._end(call))
        self._start_queued()

    def _start_queued(self) -> None:
        while self._queue and self._busy < self._slots:
            self._busy += 1
            end, seconds = self._queue.popleft(), self._seconds()
            self._used += seconds
            self._at(seconds, end)

    def _end(self, call: AbstractContextManager[Any]) -> None:
        self._count_capacity()
        self._busy -= 1
        self._limit.count_answer()
        self._leave(call)
        self._start_queued()
        self._begin_calls()

    def _refuse(self, call: AbstractContextManager[Any]) -> None:
        self._refused += 1
        self._leave(call)
        wait = self._profile.retry_after or _BACKOFF_SECONDS
        self._limit.count_refusal(wait, bool(self._profile.retry_after))
        self._at(wait, self._try_again)

    def _leave(self, call: AbstractContextManager[Any]) -> None:
        self._in_flight -= 1
        call.__exit__(None, None, None)

    def _try_again(self) -> None:
        self._waiting += 1
        self._begin_calls()
