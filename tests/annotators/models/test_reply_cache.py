"""Replies are kept by the content of the request: what was asked before is not asked, and not paid, again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.errors import ModelError
from ares.settings import Price, Settings
from ares.store import open_stores
from ares.workspace import open_workspace
from ares_annotators.models import VlmFailure, VlmReply, VlmRequest
from ares_annotators.models.reply_cache import CachedVlm, ReplyCache, hash_model_request
from ares_annotators.models.server.connection import ServerConnection
from ares_annotators.models.server.vlm import OpenAiVlm
from tests.annotators.scripted_vlm import StubVlm

IMAGE = np.zeros((8, 8, 3), np.uint8)
REQUEST = VlmRequest(images=[IMAGE], prompt="what?")


@pytest.fixture()
def folder(tmp_path: Path) -> str:
    with open_workspace(str(tmp_path / "w"), Settings(), create=True) as workspace:
        return str(workspace.stores.location)


def _cache(folder: str) -> ReplyCache:
    return ReplyCache(open_stores(folder, Settings()).annotations, "m")


def _vlm(url: str, cache: ReplyCache) -> OpenAiVlm:
    price = Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0)
    return OpenAiVlm("m", ServerConnection(url, "", retries=0), 64, price, cache=cache)


def test_a_reply_is_paid_once_also_by_another_process(model_server: Any, folder: str) -> None:
    model_server.says("a drawer")
    (first,) = _vlm(model_server.url, _cache(folder)).ask([REQUEST])
    (again,) = _vlm(model_server.url, _cache(folder)).ask([REQUEST])
    assert isinstance(first, VlmReply) and isinstance(again, VlmReply)
    assert len(model_server.requests) == 1
    assert (again.text, again.cost) == ("a drawer", first.cost)
    assert (first.paid, again.paid.calls, again.paid.usd) == (first.cost, 0, 0.0)


def test_equal_questions_at_the_same_time_are_one_call(model_server: Any, folder: str) -> None:
    model_server.says("a drawer")
    vlm = _vlm(model_server.url, _cache(folder))
    with ThreadPoolExecutor(20) as threads:
        replies = list(threads.map(lambda _: vlm.ask([REQUEST, REQUEST]), range(20)))
    assert len(model_server.requests) == 1
    paid = [reply.paid.calls for pair in replies for reply in pair if isinstance(reply, VlmReply)]
    assert (len(paid), sum(paid)) == (40, 1)


@pytest.mark.parametrize(("seconds", "first_limit"), [(10.0, 48), (200.0, 4), (None, 4)])
def test_a_test_call_whose_reply_is_kept_says_how_slow_the_server_was(
    model_server: Any, folder: str, seconds: float | None, first_limit: int
) -> None:
    model_server.says("a drawer")
    cache, key = _cache(folder), hash_model_request("m", REQUEST, 64)
    _vlm(model_server.url, cache).ask([REQUEST])
    if seconds is not None:
        cache.add_seconds(key, seconds)
    vlm = _vlm(model_server.url, _cache(folder))
    vlm.measure_first_call(REQUEST)
    assert (len(model_server.requests), vlm.call_limit()) == (1, first_limit)


def test_the_duration_of_a_test_call_is_kept(model_server: Any, folder: str) -> None:
    model_server.says("a drawer")
    cache, key = _cache(folder), hash_model_request("m", REQUEST, 64)
    _vlm(model_server.url, cache).measure_first_call(REQUEST)
    measured = cache.seconds(key)
    assert measured is not None and measured > 0
    _vlm(model_server.url, cache).measure_first_call(REQUEST)
    assert cache.seconds(key) == measured


def test_a_failure_is_asked_again(model_server: Any, folder: str) -> None:
    model_server.fails(400)
    model_server.says("a drawer")
    vlm = _vlm(model_server.url, _cache(folder))
    assert isinstance(vlm.ask([REQUEST])[0], VlmFailure)
    assert isinstance(vlm.ask([REQUEST])[0], VlmReply)


CHANGES: dict[str, Any] = {
    "prompt": "who?",
    "system": "look",
    "schema": {"type": "object"},
    "choices": ("a", "b"),
    "probabilities": True,
    "samples": 2,
    "temperature": 0.5,
    "seed": 1,
    "max_tokens": 7,
    "clip": True,
    "images": [IMAGE + 1],
}


def test_all_that_can_change_a_reply_is_part_of_its_key() -> None:
    key = hash_model_request("m", REQUEST, 64)
    changed = [replace(REQUEST, **{field: value}) for field, value in CHANGES.items()]
    changed.append(replace(REQUEST, images=[IMAGE.reshape(4, 16, 3)]))
    others = {hash_model_request("m", request, 64) for request in changed}
    others |= {hash_model_request("n", REQUEST, 64), hash_model_request("m", REQUEST, 65)}
    assert len(others) == len(changed) + 2 and key not in others
    assert hash_model_request("m", replace(REQUEST, images=[IMAGE.copy()]), 64) == key


def test_a_batch_asks_a_model_on_this_machine_only_what_is_new(folder: str) -> None:
    stub = StubVlm(lambda request: ModelError("no", "") if request.prompt == "c" else request.prompt.upper())
    vlm = CachedVlm(stub, _cache(folder), 64)

    def texts(*prompts: str) -> list[str]:
        replies = vlm.ask([VlmRequest(images=[], prompt=prompt) for prompt in prompts])
        return [reply.text if isinstance(reply, VlmReply) else "failed" for reply in replies]

    assert texts("a", "c", "a") == ["A", "failed", "A"]
    assert texts("b", "a", "c") == ["B", "A", "failed"]
    assert [request.prompt for request in stub.history] == ["a", "c", "b", "c"]
