"""How many calls are in flight at a model server at one time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Longest duration of one attempt.
TIMEOUT_SECONDS = 600.0
MOST_CALLS = 256
# Before anything is known of the server.
_FEWEST_FIRST_CALLS, _MOST_FIRST_CALLS = 4, 64
# Share of the time limit within which all calls in flight are answered, also by a server that answers one at a time.
_SHARE_OF_TIMEOUT = 0.8
_QUIET_SECONDS = 60.0
_POLL_SECONDS = 0.5


class ServerConcurrency:
    """The limit of calls in flight at one server; safe to use from threads.

    It is a fixed number, or fewer as long as the server would not answer so many within the time limit, which the first
    answers tell. A refusal lowers the limit to the calls that the server has taken, a time-out to the half; the minutes
    without either then add one, two, four and so on. Where the server refuses a call while it works on no other, one
    call is tried at a time; its answer brings back the limit of the last such minute.

    Args:
        most: Largest limit.
    """

    def __init__(self, most: int = MOST_CALLS) -> None:
        self._most = most
        self._limit = self._quiet_limit = min(most, _MOST_FIRST_CALLS)
        self._in_flight = self._answers = 0
        self._step = 1
        self._paused_until = 0.0
        self._changed = threading.Condition()
        self._quiet_since = self._lowered_at = time.monotonic()
        self._is_measured = self._has_trouble = self._refuses_all = False
        self._answer_seconds = _SHARE_OF_TIMEOUT * TIMEOUT_SECONDS

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return self._limit

    def set_first_limit(self, seconds_per_call: float, timeout_seconds: float) -> None:
        """Choose the first limit by the duration of one call alone; only the first such call counts."""
        with self._changed:
            if self._is_measured:
                return
            self._is_measured = True
            self._answer_seconds = _SHARE_OF_TIMEOUT * timeout_seconds
            calls = int(self._answer_seconds / max(seconds_per_call, 1e-3))
            self._limit = self._quiet_limit = min(max(calls, _FEWEST_FIRST_CALLS), self._limit)
            self._begin_quiet_time()

    @contextmanager
    def slot(self, is_stopped: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Hold one of the calls in flight.

        Args:
            is_stopped: Whether the run is ending; then no call waits for its turn.
        """
        self._acquire(is_stopped)
        try:
            yield
        finally:
            self._release()

    def count_refusal(self, wait_seconds: float, has_retry_after: bool) -> None:
        """The server refused a call, which is not in flight any more: it gets no more calls than it has now.

        Args:
            wait_seconds: Pause before the next call, where the server has asked for it or works on no call.
            has_retry_after: Whether the server has said how long to wait.
        """
        with self._changed:
            self._refuses_all |= not self._in_flight
            if has_retry_after or not self._in_flight:
                self._paused_until = max(self._paused_until, time.monotonic() + wait_seconds)
            self._lower(self._in_flight)

    def count_answer(self) -> None:
        """The server has answered a call that is in flight; one that it could not answer says nothing of its speed."""
        with self._changed:
            if self._refuses_all:
                self._refuses_all = False
                self._limit = max(self._limit, self._quiet_limit)
                # Where it soon refuses all again, as for a quota, it gets half as many.
                self._quiet_limit //= 2
                self._begin_quiet_time()
            self._answers += 1
            seconds = time.monotonic() - self._quiet_since
            is_round = self._answers >= self._limit and not self._has_trouble
            if seconds >= _QUIET_SECONDS or is_round:
                self._raise_limit(int(self._answers / max(seconds, 1e-3) * self._answer_seconds))

    def count_timeout(self, began_at: float) -> None:
        """A call that began at a monotonic second got no answer in time; those that began together count once."""
        with self._changed:
            if began_at >= self._lowered_at:
                self._lower(self._limit // 2)

    def _acquire(self, is_stopped: Callable[[], bool]) -> None:
        with self._changed:
            while not is_stopped():
                pause = self._paused_until - time.monotonic()
                if pause <= 0 and self._in_flight < self._limit:
                    break
                self._changed.wait(min(pause, _POLL_SECONDS) if pause > 0 else None)
            self._in_flight += 1

    def _release(self) -> None:
        with self._changed:
            self._in_flight -= 1
            # As many calls that wait as there are free slots, not all of them.
            self._changed.notify(max(self._limit - self._in_flight, 0))

    def _raise_limit(self, answered_in_time: int) -> None:
        """Raise the limit towards the calls that the server answers within the time limit."""
        limit = max(self._limit, answered_in_time)
        if self._has_trouble:
            limit = max(self._limit + 1, min(self._limit + self._step, limit))
            self._step *= 2
        self._limit = self._quiet_limit = min(limit, self._most)
        self._begin_quiet_time()

    def _lower(self, limit: int) -> None:
        self._limit, self._has_trouble = max(1, min(limit, self._limit)), True
        self._lowered_at, self._step = time.monotonic(), 1
        self._begin_quiet_time()

    def _begin_quiet_time(self) -> None:
        self._quiet_since, self._answers = time.monotonic(), 0


_SERVERS: dict[str, ServerConcurrency] = {}
_SERVERS_LOCK = threading.Lock()


def find_server_concurrency(url: str) -> ServerConcurrency:
    """The limit of a server; all models of a process that one server serves share it."""
    with _SERVERS_LOCK:
        return _SERVERS.setdefault(url.rstrip("/"), ServerConcurrency())
