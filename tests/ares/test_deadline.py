"""A deadline ends queries: in their loops, in the engines that compute for them, and at locks that others hold."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from ares.deadline import (
    Deadline,
    carry_deadline_to_thread,
    check_deadline,
    interruptible,
    limit_time,
    wait_for_lock,
)
from ares.errors import QueryTimeout

_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def test_without_a_deadline_nothing_ends() -> None:
    check_deadline()
    with wait_for_lock(threading.Lock()), interruptible(lambda: None, ValueError):
        check_deadline()


def test_a_loop_ends_at_its_next_check_also_in_other_threads() -> None:
    deadline = Deadline(60)
    with limit_time(deadline):
        check_deadline()
        inherited = carry_deadline_to_thread(check_deadline)
        deadline.cancel()
        with pytest.raises(QueryTimeout, match="longer than 60 s"):
            check_deadline()
    errors: list[Exception] = []

    def run() -> None:
        try:
            inherited()
        except QueryTimeout as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(errors) == 1
    check_deadline()


def test_an_engine_is_interrupted_and_can_be_used_again() -> None:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    deadline = Deadline(60)
    timer = threading.Timer(0.2, deadline.cancel)
    timer.start()
    interrupting = interruptible(connection.interrupt, sqlite3.OperationalError)
    with limit_time(deadline), pytest.raises(QueryTimeout), interrupting:
        connection.execute(_ENDLESS).fetchall()
    assert connection.execute("SELECT 1").fetchone() == (1,)
    connection.close()


def test_an_error_of_the_engine_stays_its_own() -> None:
    interrupting = interruptible(lambda: None, sqlite3.OperationalError)
    with limit_time(Deadline(60)), pytest.raises(sqlite3.OperationalError), interrupting:
        raise sqlite3.OperationalError("no such table")


def test_who_waits_for_a_lock_waits_until_the_deadline() -> None:
    lock = threading.Lock()
    with lock, limit_time(Deadline(0.05)), pytest.raises(QueryTimeout), wait_for_lock(lock):
        pass
    assert lock.acquire(blocking=False)
