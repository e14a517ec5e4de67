"""The money of a run: calls in flight never make others fail, and it ends when it pays for no call more."""

from __future__ import annotations

import pickle
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ares.annotation import Cost
from ares.settings import Price
from ares_annotators.base import Budget
from ares_annotators.models import VlmRequest
from ares_annotators.models.paid_calls import ModelSpending


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


def test_a_call_whose_cost_is_unknown_is_charged_the_most_it_can_cost() -> None:
    budget = Budget(1.0)
    assert budget.reserve(0.6)
    budget.settle(0.6, None)
    assert not budget.reserve(0.6)


def test_without_a_limit_every_call_is_paid() -> None:
    budget = Budget(None)
    assert all(budget.reserve(1e9) for _ in range(3)) and not budget.is_limited


def test_a_worker_gets_what_is_left() -> None:
    budget = Budget(1.0)
    assert budget.reserve(0.75)
    copy = pickle.loads(pickle.dumps(budget))
    assert copy.reserve(0.25)
    copy.settle(0.25, 0.25)
    assert not copy.reserve(0.01)


@pytest.mark.parametrize("seed", [random.randrange(10**6) for _ in range(3)])
def test_a_run_ends_within_one_call_of_its_budget(seed: int) -> None:
    """Calls of random cost in many threads; the images of a size always cost the same, the texts vary."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    price = Price(usd_per_mtok_in=rng.uniform(0.1, 5), usd_per_mtok_out=rng.uniform(0.1, 20))
    limit, max_tokens, image_tokens = rng.uniform(0.02, 0.2), rng.choice([64, 300]), rng.randrange(200, 4000)
    spending, image = ModelSpending(Budget(limit), price), np.zeros((8, 8, 3), np.uint8)
    spent: list[float] = []

    def call(number: int) -> None:
        request = VlmRequest(images=[image], prompt="x" * 100)
        tokens_in, tokens_out = image_tokens + number % 40, 1 + number * 7919 % max_tokens
        usd = (tokens_in * price.usd_per_mtok_in + tokens_out * price.usd_per_mtok_out) / 1e6
        with spending.call(request, max_tokens) as paid:
            if paid.is_paid:
                time.sleep(0.001)
                paid.cost = Cost(calls=1, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)
                spent.append(usd)

    with ThreadPoolExecutor(32) as threads:
        list(threads.map(call, range(1000)))
    most = (image_tokens + 40) * 1.05 + 64
    most_usd = (most * price.usd_per_mtok_in + max_tokens * price.usd_per_mtok_out) / 1e6
    assert sum(spent) <= limit
    assert len(spent) == 1000 or sum(spent) >= limit - most_usd
