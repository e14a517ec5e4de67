"""A record that takes too long is ended where it is read, and costs no other record."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path

import pytest

from ares.errors import SourceError
from ares.input import call_within, call_within_per_file, check_input_file, input_budgets
from ingest.base import Item, guarded_item
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


def test_each_file_gives_the_opening_of_a_dataset_its_time_anew(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")

    def open_files() -> str:
        for _ in range(8):
            time.sleep(0.1)
            check_input_file(str(path))
        return "opened"

    assert call_within_per_file(0.5, open_files) == "opened"
    with pytest.raises(SourceError, match="the record took too long to read"):
        call_within(0.5, open_files)
    with pytest.raises(SourceError, match="the dataset took too long to open and list"):
        call_within_per_file(0.3, _count_for_ever)


def test_a_limit_within_the_opening_of_a_dataset_costs_one_file() -> None:
    def open_dataset() -> str:
        with pytest.raises(SourceError, match="the record took too long to read"):
            call_within(0.3, _count_for_ever)
        time.sleep(0.4)  # the time of the dataset has begun anew
        return "opened"

    assert call_within_per_file(0.8, open_dataset) == "opened"
    assert call_within_per_file(60.0, lambda: "the next one") == "the next one"
