"""Runs the queries of the pages, each within a time limit and few of them at once, so that no page waits for long."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import BoundedSemaphore, Lock, Thread
from typing import TypeVar

from ares.deadline import Deadline, current_deadline, limit_time
from ares.errors import QueryTimeout

T = TypeVar("T")

# Queries that run at once, with those that no page waits for any more and that could not be ended.
MAX_QUERIES = 8
# A filter that was too slow is refused without a try for this long: a page uses one filter in several queries.
_REFUSED_SECONDS = 30.0
_MAX_REFUSED = 256

_slots = BoundedSemaphore(MAX_QUERIES)
_lock = Lock()
# By filter: until when it is refused.
_refused: dict[str, float] = {}


def run_limited(query: Callable[[], T], seconds: float, where: str = "") -> T:
    """Return the result of a query that runs in a thread of its own.

    Args:
        query: The query; it checks the deadline of its thread, see `ares.deadline`.
        seconds: Time limit, with the wait for a free slot.
        where: Filter of a user that the query evaluates, or "".

    Raises:
        QueryTimeout: It took longer, or too many other queries run.
    """
    if current_deadline() is not None:
        return query()
    deadline = Deadline(seconds)
    if _is_refused(where):
        raise deadline.error()
    if not _slots.acquire(timeout=seconds):
        raise QueryTimeout(f"the server is busy with {MAX_QUERIES} other queries", "reload the page later")
    future: Future[T] = Future()
    Thread(target=_run, args=(query, deadline, future), name="query", daemon=True).start()
    wait([future], timeout=deadline.remaining_seconds)
    if not future.done():
        deadline.cancel()
        _refuse(where)
        raise deadline.error()
    try:
        return future.result()
    except QueryTimeout:
        _refuse(where)
        raise


def forget_slow_filters() -> None:
    """Allow every filter again."""
    with _lock:
        _refused.clear()


def _run(query: Callable[[], T], deadline: Deadline, future: Future[T]) -> None:
    try:
        with limit_time(deadline):
            result = query()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        _slots.release()


def _is_refused(where: str) -> bool:
    with _lock:
        return _refused.get(where, 0.0) > time.monotonic()


def _refuse(where: str) -> None:
    if not where:
        return
    with _lock:
        _refused.pop(where, None)
        _refused[where] = time.monotonic() + _REFUSED_SECONDS
        while len(_refused) > _MAX_REFUSED:
            del _refused[next(iter(_refused))]
