"""A record that takes too long is ended where it is read, and costs no other record."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from ares.errors import SourceError
from ares.input import call_within, input_budgets
from ingest.base import Item
from ingest.guard import guarded_item
from ingest.pipeline.read import read_records


def _count_for_ever() -> None:
    number = 0
    while True:
        try:
            number += 1
        except Exception:
            number = 0


def test_a_record_that_never_ends_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARES_RECORD_SECONDS", "0.3")
    input_budgets.cache_clear()
    try:
        item = Item(episode_id="a", location="x.mcap", load=_count_for_ever)  # type: ignore[arg-type]
        started = time.monotonic()
        (error,) = read_records([guarded_item(item, "mcap").load])
        assert isinstance(error, SourceError) and time.monotonic() - started < 20
        assert str(error) == "the record took too long to read: more than 0.3 s"
    finally:
        input_budgets.cache_clear()


def test_only_the_thread_that_is_late_is_ended() -> None:
    results: list[object] = []

    def wait(seconds: float) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.01)
        return "done"

    def run(limit: float, seconds: float) -> None:
        for _ in range(2):  # a thread that was ended once goes on
            try:
                results.append(call_within(limit, partial(wait, seconds)))
            except SourceError as error:
                results.append(error.reason)

    threads = [threading.Thread(target=run, args=arguments) for arguments in ((0.2, 60.0), (60.0, 0.5))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(map(str, results)) == ["done"] * 2 + ["the record took too long to read"] * 2
    assert call_within(60.0, partial(wait, 0.0)) == "done"
