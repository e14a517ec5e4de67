"""How calls reach a model server: retried attempts, and how many are in flight at one time."""

from __future__ import annotations

import math
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from ares.errors import ModelError, NotTried, ServerError, shorten
from ares.imports import needs_extra

if TYPE_CHECKING:
    import httpx2


# Longest duration of one attempt.
TIMEOUT_SECONDS = 600.0
INITIAL_CALLS = 16
MOST_CALLS = 512
_FEWEST_FIRST_CALLS = 4
_MOST_FIRST_CALLS = 64
# Share of the time limit within which all calls in flight are answered: the first ones even by a server that answers
# one at a time, more of them at the rate that was measured.
_SHARE_OF_TIMEOUT = 0.8
_FAST_GROWTH = 4.0
_PROBE_GROWTH = 2.0
# A server that refuses calls is asked for little more at first, then for three times as much more at a time.
_CAUTIOUS_GROWTH = 1.05
# Throughput rises when it gains at least this share of what the limit gained; a smaller gain than this says nothing.
_RISING_SHARE, _LEAST_COMPARED_GROWTH = 0.5, 1.5
# Calls above the capacity of a server that lets calls wait, so that a free slot of it finds one.
_SPARE = 1.15
# A smaller gain of throughput is chance.
_LEAST_GAIN = 1.03
# Waits before the limit is tried higher again, doubled each time in vain.
_FIRST_PROBE_SECONDS, _LONGEST_PROBE_SECONDS = 5.0, 60.0
# A refusal makes the server wait for as long as it says; tried again so seldom that little is lost by that.
_PROBE_PAUSES, _LONGEST_CAUTIOUS_PROBE_SECONDS = 40.0, 600.0
# A shorter period says more of threads that start than of the server.
_SHORTEST_PERIOD_SECONDS = 1.0
_FEWEST_REPLIES = 8
_POLL_SECONDS = 0.5


@dataclass(slots=True)
class _Period:
    """Replies since the limit was last changed; only calls that began in it count.

    Attributes:
        number: Number of the period.
        needed_replies: Replies after which it ends.
        started_at: Monotonic seconds.
        replies: Calls that began and ended in it.
        durations: Seconds of these calls, in the order of their ends.
        all_replies: Calls that ended in it, whenever they began.
        was_full: Whether a call had to wait for another to end.
    """

    number: int
    needed_replies: int
    started_at: float
    all_replies: int = 0
    durations: list[float] = field(default_factory=list)
    was_full: bool = False


@dataclass(frozen=True, slots=True)
class _Throughput:
    """Calls a second at a limit, measured in two ways.

    Attributes:
        limit: Calls in flight.
        by_duration: Calls in flight over the seconds of one: right at once, but blind for calls that get no turn.
        by_count: Replies over the seconds of the period: blind for how many more will come.
    """

    limit: int
    by_duration: float
    by_count: float

    def gain_over(self, other: _Throughput) -> float:
        """By what factor it has risen; 1 where one of the measures says that it has not."""
        by_duration, by_count = self.by_duration / other.by_duration, self.by_count / other.by_count
        growth = self.limit / other.limit
        has_more_replies = by_count - 1 >= _RISING_SHARE / 2 * (growth - 1)
        return by_duration if has_more_replies else min(by_duration, max(by_count, 1.0))


@dataclass(slots=True)
class ServerCallSlot:
    """One of the calls in flight.

    Attributes:
        is_answered: Whether the server did the work; set to False for a call that says nothing of its throughput.
    """

    is_answered: bool = True


class ServerConcurrency:
    """The limit of calls in flight at one server; safe to use from threads.

    With n calls in flight that take W seconds each, a server answers n / W calls a second. When that has risen with the
    limit, the limit rises further; else it goes back to what the server can do at a time. A refusal shows how many
    calls the server takes: those that are in flight then.

    Args:
        limit: Calls in flight at first.
        most: Largest limit.
    """

    def __init__(self, limit: int = INITIAL_CALLS, most: int = MOST_CALLS) -> None:
        self._limit, self._most = limit, most
        self._in_flight = 0
        self._paused_until = 0.0
        self._refusals_in_a_row = 0
        self._changed = threading.Condition()
        self._period = _Period(0, limit, time.monotonic())
        self._growth, self._is_cautious = _FAST_GROWTH, False
        # Throughput before a rise, or None while nothing is compared.
        self._before_rise: _Throughput | None = None
        self._is_rising = True
        self._probe_seconds = _FIRST_PROBE_SECONDS
        self._next_probe_at = 0.0
        self._answer_seconds = _SHARE_OF_TIMEOUT * TIMEOUT_SECONDS

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return self._limit

    def set_first_limit(self, seconds_per_call: float, timeout_seconds: float) -> None:
        """Choose the first limit by the duration of one call alone."""
        with self._changed:
            self._answer_seconds = _SHARE_OF_TIMEOUT * timeout_seconds
            calls = self._answer_seconds / max(seconds_per_call, 1e-3)
            if self._period.number == 0:
                first = int(min(max(calls, _FEWEST_FIRST_CALLS), _MOST_FIRST_CALLS, self._most))
                self._start_period(first)

    @contextmanager
    def slot(self, is_stopped: Callable[[], bool] = lambda: False) -> Iterator[ServerCallSlot]:
        """Hold one of the calls in flight. A call that raises does not count for the throughput.

        Args:
            is_stopped: Whether the run is ending; then no call waits for its turn.
        """
        period, slot, started_at = self._acquire(is_stopped), ServerCallSlot(), time.monotonic()
        try:
            yield slot
        except BaseException:
            self._release()
            raise
        if slot.is_answered:
            self._release(period, time.monotonic() - started_at)
        else:
            self._release()

    def slow_down(self, wait_seconds: float, has_retry_after: bool) -> None:
        """The server refused a call, which is not in flight any more: it gets no more calls than it has now.

        Args:
            wait_seconds: Pause before the next call, where the server has asked for it or refuses all calls.
            has_retry_after: Whether the server has said how long to wait.
        """
        now = time.monotonic()
        with self._changed:
            self._refusals_in_a_row += 1
            pause = wait_seconds if has_retry_after or self._refusals_in_a_row > self._limit else 0.0
            self._paused_until = max(self._paused_until, now + pause)
            self._is_cautious, self._growth = True, _CAUTIOUS_GROWTH
            self._probe_seconds = min(
                max(_FIRST_PROBE_SECONDS, _PROBE_PAUSES * pause), _LONGEST_CAUTIOUS_PROBE_SECONDS
            )
            self._settle(max(1, min(self._limit, self._in_flight)))

    def _acquire(self, is_stopped: Callable[[], bool]) -> int:
        with self._changed:
            while not is_stopped():
                pause = self._paused_until - time.monotonic()
                if pause <= 0 and self._in_flight < self._limit:
                    break
                self._period.was_full |= self._in_flight >= self._limit
                self._changed.wait(min(pause, _POLL_SECONDS) if pause > 0 else None)
            self._in_flight += 1
            return self._period.number

    def _release(self, period: int | None = None, seconds: float = 0.0) -> None:
        with self._changed:
            self._in_flight -= 1
            if period is not None:
                self._refusals_in_a_row = 0
                self._period.all_replies += 1
            if period == self._period.number:
                self._period.durations.append(seconds)
                self._end_period_when_due()
            self._wake()

    def _wake(self) -> None:
        """Wake as many calls that wait as there are free slots, not all of them."""
        self._changed.notify(max(self._limit - self._in_flight, 0))

    def _start_period(self, limit: int) -> None:
        # In the first rises no time is lost: as many replies are enough as calls were added, which began at once.
        is_first_rise = limit > self._limit and self._growth == _FAST_GROWTH
        needed = limit - self._limit if is_first_rise else limit
        self._limit = limit
        self._period = _Period(self._period.number + 1, max(needed, _FEWEST_REPLIES), time.monotonic())
        self._wake()

    def _end_period_when_due(self) -> None:
        now, durations = time.monotonic(), self._period.durations
        is_long = now - self._period.started_at >= _SHORTEST_PERIOD_SECONDS
        if is_long and len(durations) >= self._period.needed_replies:
            # The calls of the first half may have found a shorter queue than the limit makes.
            later = durations[len(durations) // 2 :]
            by_duration = self._limit * len(later) / max(sum(later), 1e-9)
            by_count = self._period.all_replies / (now - self._period.started_at)
            self._end_period(now, _Throughput(self._limit, by_duration, by_count))

    def _end_period(self, now: float, throughput: _Throughput) -> None:
        if not self._period.was_full:
            # There was less to do than the limit allows: nothing can be said of the server.
            self._start_period(self._limit)
        elif self._is_rising:
            self._rise_or_settle(throughput)
        elif now >= self._next_probe_at:
            self._is_rising, self._growth = True, _CAUTIOUS_GROWTH if self._is_cautious else _PROBE_GROWTH
            self._before_rise = None
            self._rise(throughput)
        else:
            self._start_period(self._limit)

    def _rise_or_settle(self, throughput: _Throughput) -> None:
        before = self._before_rise
        if before is None or _has_risen(before, throughput):
            if not self._is_cautious:
                self._probe_seconds = _FIRST_PROBE_SECONDS
            self._rise(throughput)
            return
        self._probe_seconds = min(2 * self._probe_seconds, _LONGEST_PROBE_SECONDS)
        gain = throughput.gain_over(before)
        is_enough = gain < _LEAST_GAIN
        self._settle(before.limit if is_enough else min(math.ceil(before.limit * gain * _SPARE), self._limit))

    def _rise(self, throughput: _Throughput) -> None:
        most = min(self._most, int(throughput.by_count * self._answer_seconds))
        if self._limit >= most:
            self._settle(self._limit)
            return
        if self._before_rise is None or self._limit >= _LEAST_COMPARED_GROWTH * self._before_rise.limit:
            self._before_rise = throughput
        self._start_period(min(math.ceil(self._limit * self._growth), most))
        if self._is_cautious:
            self._growth = min(1 + 3 * (self._growth - 1), _PROBE_GROWTH)

    def _settle(self, limit: int) -> None:
        self._is_rising, self._before_rise = False, None
        self._next_probe_at = time.monotonic() + self._probe_seconds
        self._start_period(limit)


def _has_risen(before: _Throughput, after: _Throughput) -> bool:
    growth = after.limit / before.limit
    if growth < _LEAST_COMPARED_GROWTH:
        return True
    return after.gain_over(before) - 1 >= _RISING_SHARE * (growth - 1)


_SERVERS: dict[str, ServerConcurrency] = {}
_SERVERS_LOCK = threading.Lock()


def find_server_concurrency(url: str) -> ServerConcurrency:
    """The limit of a server; all models of a process that one server serves share it."""
    with _SERVERS_LOCK:
        return _SERVERS.setdefault(url.rstrip("/"), ServerConcurrency())


RETRIES = 5
_CONNECT_SECONDS = 10.0
_LARGEST_REPLY_BYTES = 8_000_000
_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 30.0
# A server that asks for more than this is given up.
_LONGEST_RETRY_AFTER_SECONDS = 300.0
_REFUSED = (429, 503)
_RETRIED = (408, 409, 425, 429)
_BAD_REQUEST = (400, 422)
# Statuses of what was asked; every other one says that the server would refuse any request.
_OF_THE_REQUEST = (*_BAD_REQUEST, 413, 415, 451)


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What became of one request.

    Attributes:
        body: Body of the answer, or b"" where there is none.
        calls: Requests that were sent, retries included.
        unknown_calls: Those of them whose usage is not known, as no answer came or it could not be read.
        error: Why there is no answer, or None.
        is_bad_request: The server does not take a field of the request.
    """

    body: bytes
    calls: int
    unknown_calls: int = 0
    error: ModelError | None = None
    is_bad_request: bool = False


@dataclass(frozen=True, slots=True)
class _Attempt:
    body: bytes = b""
    error: ModelError | None = None
    is_retried: bool = False
    wait_seconds: float | None = None
    is_refused: bool = False
    was_sent: bool = True
    is_usage_unknown: bool = False
    is_bad_request: bool = False


class ServerConnection:
    """Posts JSON to one server.

    After 408, 409, 425, 429, 5xx, a timeout or a broken connection an attempt is repeated, after growing waits or that
    of the server's Retry-After.

    Args:
        url: Base URL, ending in /v1 for most servers.
        key: Key, or "".
        timeout_seconds: Longest duration of one attempt.
        retries: Attempts after the first.

    Raises:
        RequestError: The extra `openai` is not installed.
    """

    def __init__(
        self, url: str, key: str, timeout_seconds: float = TIMEOUT_SECONDS, retries: int = RETRIES
    ) -> None:
        with needs_extra("openai"):
            import httpx2
        self.url = url.rstrip("/")
        self.timeout_seconds = timeout_seconds
        self.concurrency: ServerConcurrency = find_server_concurrency(url)
        self._key, self._retries = key, retries
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {key or 'none'}", "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(timeout_seconds, connect=min(_CONNECT_SECONDS, timeout_seconds)),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=MOST_CALLS),
        )
        weakref.finalize(self, self._client.close)

    def post(self, path: str, body: bytes, is_stopped: Callable[[], bool]) -> ServerAnswer:
        """Send a JSON document; the answer has status 200, or an error says why there is none.

        Args:
            path: Path below the base URL.
            body: The document.
            is_stopped: Whether the run is ending; then nothing is sent any more.
        """
        attempts: list[_Attempt] = []
        for number in range(self._retries + 1):
            attempt = self._attempt(path, body, is_stopped)
            attempts.append(attempt)
            if attempt.error is None or not attempt.is_retried or number == self._retries:
                break
            wait = attempt.wait_seconds if attempt.wait_seconds is not None else _backoff_seconds(number)
            if wait > _LONGEST_RETRY_AFTER_SECONDS:
                break
            if attempt.is_refused:
                self.concurrency.slow_down(wait, attempt.wait_seconds is not None)
            _sleep_unless_stopped(wait, is_stopped)
        return _combine_attempts(attempts)

    def error(self, reason: str, detail: str, kind: type[ModelError] = ModelError) -> ModelError:
        """An error that never contains the key, even where the server echoed it."""
        return kind(reason, shorten(detail.replace(self._key, "***") if self._key else detail, 500))

    def _attempt(self, path: str, body: bytes, is_stopped: Callable[[], bool]) -> _Attempt:
        import httpx2

        try:
            with self.concurrency.slot(is_stopped) as slot:
                if is_stopped():
                    return _Attempt(error=NotTried("the run was stopped"), was_sent=False)
                attempt = self._send(path, body)
                slot.is_answered = attempt.error is None
                return attempt
        except httpx2.TimeoutException as error:
            return _Attempt(
                error=self.error("model server did not answer in time", self.url, ServerError),
                is_retried=True,
                was_sent=_was_sent(error),
                is_usage_unknown=_was_sent(error),
            )
        except (httpx2.TransportError, OSError) as error:
            detail = f"{self.url}: {error or type(error).__name__}"
            return _Attempt(
                error=self.error("model server cannot be reached", detail, ServerError),
                is_retried=True,
                was_sent=_was_sent(error),
                is_usage_unknown=_was_sent(error),
            )
        except httpx2.HTTPError as error:
            return _Attempt(
                error=self.error("model server did not answer with a completion", f"{self.url}: {error}"),
                is_usage_unknown=True,
            )

    def _send(self, path: str, body: bytes) -> _Attempt:
        deadline = time.monotonic() + self.timeout_seconds
        headers = {"Content-Type": "application/json"}
        with self._client.stream("POST", f"{self.url}{path}", content=body, headers=headers) as response:
            return self._read(response, deadline)

    def _read(self, response: httpx2.Response, deadline: float) -> _Attempt:
        import httpx2

        if response.headers.get("content-encoding", "identity") != "identity":
            return _Attempt(
                error=self.error("model server sent a compressed reply", f"{self.url}; none was asked for"),
                is_usage_unknown=True,
            )
        chunks, size = [], 0
        for chunk in response.iter_raw():
            chunks.append(chunk)
            size += len(chunk)
            if size > _LARGEST_REPLY_BYTES:
                limit = f"more than {_LARGEST_REPLY_BYTES} bytes from {self.url}"
                error = self.error("model server sent too large a reply", limit)
                return _Attempt(error=error, is_usage_unknown=True)
            if time.monotonic() > deadline:
                raise httpx2.ReadTimeout("the reply came too slowly")
        body = b"".join(chunks)
        return _Attempt(body=body) if response.status_code == 200 else self._refusal(response, body)

    def _refusal(self, response: httpx2.Response, body: bytes) -> _Attempt:
        status = response.status_code
        kind = ModelError if status in _OF_THE_REQUEST else ServerError
        text = f"{self.url}: {body[:2000].decode(errors='replace')}"
        error = self.error(f"model server answered {status}", text, kind)
        return _Attempt(
            error=error,
            is_retried=status in _RETRIED or status >= 500,
            wait_seconds=_retry_after_seconds(response.headers.get("retry-after", "")),
            is_refused=status in _REFUSED,
            is_bad_request=status in _BAD_REQUEST,
        )


def _combine_attempts(attempts: Sequence[_Attempt]) -> ServerAnswer:
    """The last attempt, with the calls of all."""
    calls = sum(attempt.was_sent for attempt in attempts)
    unknown_calls = sum(attempt.is_usage_unknown for attempt in attempts)
    last = attempts[-1]
    return ServerAnswer(last.body, calls, unknown_calls, last.error, last.is_bad_request)


def _was_sent(error: Exception) -> bool:
    """Whether a server may have read a request that failed: not where no connection was made."""
    import httpx2

    return not isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout))


def _sleep_unless_stopped(seconds: float, is_stopped: Callable[[], bool]) -> None:
    """Wait, but not beyond the end of the run."""
    deadline = time.monotonic() + seconds
    while not is_stopped() and (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, _POLL_SECONDS))


def _backoff_seconds(number: int) -> float:
    """Growing waits; at random, so that calls which failed together do not come back together."""
    return min(_FIRST_WAIT_SECONDS * 2.0**number, _LONGEST_WAIT_SECONDS) * random.uniform(0.75, 1.25)


def _retry_after_seconds(text: str) -> float | None:
    """Seconds of a Retry-After header, which has seconds or a date (RFC 9110, 10.2.3); None where it has neither."""
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
