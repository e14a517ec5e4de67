"""The money of a run: calls in flight never make others fail, and it ends when it pays for no call more."""

from __future__ import annotations

import pickle
import threading
import time

from ares_annotators.base import Budget


def test_a_call_waits_for_what_the_calls_before_it_leave() -> None:
    budget = Budget(1.0)
    assert budget.reserve(0.9)
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(budget.reserve(0.5)))
    thread.start()
    time.sleep(0.05)
    assert not results
    budget.settle(0.9, 0.1)
    thread.join(300)
    assert results == [True] and not budget.is_spent
    budget.settle(0.5, 0.5)
    assert not budget.reserve(0.5) and budget.is_spent


def test_a_worker_gets_what_is_left() -> None:
    budget = Budget(1.0)
    assert budget.reserve(0.75)
    copy = pickle.loads(pickle.dumps(budget))
    assert copy.reserve(0.25)
    copy.settle(0.25, 0.25)
    assert not copy.reserve(0.01)
