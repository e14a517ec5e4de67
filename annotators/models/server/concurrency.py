"""How many calls are in flight at one server: raised until throughput stops rising, lowered when it refuses calls."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

INITIAL_CALLS = 16
MOST_CALLS = 512
_FEWEST_FIRST_CALLS = 4
_MOST_FIRST_CALLS = 64
# Share of the time limit within which even a server that answers one call at a time answers all first ones.
_SHARE_OF_TIMEOUT = 0.8
_FAST_GROWTH = 4.0
_PROBE_GROWTH = 2.0
# Throughput rises when it gains at least this share of what the limit gained.
_RISING_SHARE = 0.5
# Calls above the capacity of a server, so that a free slot of it finds a call that waits.
_SPARE = 1.15
_AFTER_REFUSAL = 0.7
# Waits before the limit is tried higher again, doubled each time in vain.
_FIRST_PROBE_SECONDS, _LONGEST_PROBE_SECONDS = 5.0, 60.0
# A shorter period says more of threads that start than of the server.
_SHORTEST_PERIOD_SECONDS = 1.0
_FEWEST_REPLIES = 8


@dataclass(slots=True)
class _Period:
    """Replies since the limit was last changed; only calls that began in it count."""

    number: int
    started_at: float
    replies: int = 0
    was_full: bool = False


class ServerConcurrency:
    """The limit of calls in flight at one server; safe to use from threads.

    A period lasts until as many calls as the limit allows have begun and ended in it. When the throughput of a period
    has risen with the limit, the limit rises further; else it goes back to what the server can do at a time.

    Args:
        limit: Calls in flight at first.
        most: Largest limit.
    """

    def __init__(self, limit: int = INITIAL_CALLS, most: int = MOST_CALLS) -> None:
        self._limit, self._most = limit, most
        self._in_flight = 0
        self._paused_until = 0.0
        self._changed = threading.Condition()
        self._period = _Period(0, time.monotonic())
        self._growth = _FAST_GROWTH
        # Limit and throughput of the period before a rise, or None while nothing is compared.
        self._before_rise: tuple[int, float] | None = None
        self._is_rising = True
        self._probe_seconds = _FIRST_PROBE_SECONDS
        self._next_probe_at = 0.0

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return self._limit

    def set_first_limit(self, seconds_per_call: float, timeout_seconds: float) -> None:
        """Choose the first limit by the duration of one call alone."""
        calls = _SHARE_OF_TIMEOUT * timeout_seconds / max(seconds_per_call, 1e-3)
        with self._changed:
            if self._period.number == 0:
                first = int(min(max(calls, _FEWEST_FIRST_CALLS), _MOST_FIRST_CALLS, self._most))
                self._start_period(first)

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Hold one of the calls in flight. A call that raises does not count for the throughput."""
        period = self._acquire()
        try:
            yield
        except BaseException:
            self._release()
            raise
        self._release(period)

    def slow_down(self, wait_seconds: float) -> None:
        """The server refused a call: fewer calls, and none before so many seconds have passed."""
        now = time.monotonic()
        with self._changed:
            if now >= self._paused_until:  # the calls that it refuses together lower the limit once
                self._is_rising, self._before_rise = False, None
                self._probe_seconds = _LONGEST_PROBE_SECONDS
                self._next_probe_at = now + self._probe_seconds
                self._start_period(max(1, int(self._limit * _AFTER_REFUSAL)))
            self._paused_until = max(self._paused_until, now + wait_seconds)

    def _acquire(self) -> int:
        with self._changed:
            while True:
                pause = self._paused_until - time.monotonic()
                if pause <= 0 and self._in_flight < self._limit:
                    break
                self._period.was_full |= self._in_flight >= self._limit
                self._changed.wait(pause if pause > 0 else None)
            self._in_flight += 1
            return self._period.number

    def _release(self, period: int | None = None) -> None:
        with self._changed:
            self._in_flight -= 1
            if period == self._period.number:
                self._period.replies += 1
                self._end_period_when_due()
            self._wake()

    def _wake(self) -> None:
        """Wake as many calls that wait as there are free slots, not all of them."""
        self._changed.notify(max(self._limit - self._in_flight, 0))

    def _start_period(self, limit: int) -> None:
        self._limit = limit
        self._period = _Period(self._period.number + 1, time.monotonic())
        self._wake()

    def _end_period_when_due(self) -> None:
        now = time.monotonic()
        is_long = now - self._period.started_at >= _SHORTEST_PERIOD_SECONDS
        if is_long and self._period.replies >= max(self._limit, _FEWEST_REPLIES):
            self._end_period(now)

    def _end_period(self, now: float) -> None:
        throughput = self._period.replies / max(now - self._period.started_at, 1e-9)
        if not self._period.was_full:
            # There was less to do than the limit allows: nothing can be said of the server.
            self._start_period(self._limit)
        elif self._is_rising:
            self._rise_or_settle(throughput)
        elif now >= self._next_probe_at:
            self._is_rising, self._growth = True, _PROBE_GROWTH
            self._rise(throughput)
        else:
            self._start_period(self._limit)

    def _rise_or_settle(self, throughput: float) -> None:
        if self._before_rise is None or self._has_risen(throughput):
            self._probe_seconds = _FIRST_PROBE_SECONDS
            if self._limit < self._most:
                self._rise(throughput)
            else:
                self._settle(self._limit)
            return
        self._probe_seconds = min(2 * self._probe_seconds, _LONGEST_PROBE_SECONDS)
        limit, throughput_before = self._before_rise
        at_a_time = limit * max(throughput / max(throughput_before, 1e-9), 1.0)
        self._settle(min(math.ceil(at_a_time * _SPARE) + 1, self._most))

    def _has_risen(self, throughput: float) -> bool:
        assert self._before_rise is not None
        limit, throughput_before = self._before_rise
        return throughput / throughput_before - 1 >= _RISING_SHARE * (self._limit / limit - 1)

    def _rise(self, throughput: float) -> None:
        self._before_rise = (self._limit, throughput)
        self._start_period(min(math.ceil(self._limit * self._growth), self._most))

    def _settle(self, limit: int) -> None:
        self._is_rising, self._before_rise = False, None
        self._next_probe_at = time.monotonic() + self._probe_seconds
        self._start_period(limit)


_SERVERS: dict[str, ServerConcurrency] = {}
_SERVERS_LOCK = threading.Lock()


def concurrency_of(url: str) -> ServerConcurrency:
    """The limit of a server; all models of a process that one server serves share it."""
    with _SERVERS_LOCK:
        return _SERVERS.setdefault(url.rstrip("/"), ServerConcurrency())
