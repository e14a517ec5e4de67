"""How calls reach a model server: in attempts that are repeated, and answers that are read within limits."""

from __future__ import annotations

import random
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from ares.errors import ModelError, NotTried, ServerError, shorten
from ares.imports import needs_extra
from ares_annotators.models.server.concurrency import (
    MOST_CALLS,
    TIMEOUT_SECONDS,
    ServerConcurrency,
    find_server_concurrency,
)

if TYPE_CHECKING:
    import httpx2


RETRIES = 5
_CONNECT_SECONDS = 10.0
_POLL_SECONDS = 0.5
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
                self.concurrency.count_refusal(wait, attempt.wait_seconds is not None)
            _sleep_unless_stopped(wait, is_stopped)
        return _combine_attempts(attempts)

    def error(self, reason: str, detail: str, kind: type[ModelError] = ModelError) -> ModelError:
        """An error that never contains the key, even where the server echoed it."""
        return kind(reason, shorten(detail.replace(self._key, "***") if self._key else detail, 500))

    def _attempt(self, path: str, body: bytes, is_stopped: Callable[[], bool]) -> _Attempt:
        import httpx2

        began_at = 0.0
        try:
            with self.concurrency.slot(is_stopped):
                if is_stopped():
                    return _Attempt(error=NotTried("the run was stopped"), was_sent=False)
                began_at = time.monotonic()
                attempt = self._send(path, body)
                if attempt.error is None:
                    self.concurrency.count_answer()
                return attempt
        except httpx2.TimeoutException as error:
            self.concurrency.count_timeout(began_at)
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
