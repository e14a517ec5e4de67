"""A record that takes too long is ended where it is read, and costs no other record."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path

import pytest

from ares.errors import SourceError
from ares.input import call_with_file_time_limit, call_with_time_limit, input_budgets, prepare_input_file
from ares_ingest.base import Item
from ares_ingest.guarded_loading import guard_item_loading
from ares_ingest.pipeline.read import read_records


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
        (error,) = read_records([guard_item_loading(item, "mcap").load])
        assert isinstance(error, SourceError)
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
                results.append(call_with_time_limit(limit, partial(wait, seconds)))
            except SourceError as error:
                results.append(error.reason)

    threads = [threading.Thread(target=run, args=arguments) for arguments in ((0.1, 60.0), (60.0, 0.2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert sorted(map(str, results)) == ["done"] * 2 + ["the record took too long to read"] * 2
    assert call_with_time_limit(60.0, partial(wait, 0.0)) == "done"


class Clock:
    """A clock that only the test moves; who waits for it looks often."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        time.sleep(0.005)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        time.sleep(0.03)  # whoever looks at this clock has looked


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("ares.input.time_limits.time", clock)
    return clock


def test_each_file_gives_the_opening_of_a_dataset_its_time_again(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")

    def open_files() -> str:
        for _ in range(8):
            clock.pass_time(10.0)
            prepare_input_file(str(path))
        return "opened"

    def open_for_ever() -> None:
        open_files()
        _count_for_ever()

    assert call_with_file_time_limit(15.0, open_files) == "opened"
    with pytest.raises(SourceError, match="the record took too long to read"):
        call_with_time_limit(15.0, open_for_ever)


def test_a_limit_within_the_opening_of_a_dataset_costs_one_file(clock: Clock) -> None:
    def read_for_ever() -> None:
        clock.pass_time(11.0)
        _count_for_ever()

    def open_dataset() -> str:
        with pytest.raises(SourceError, match="the record took too long to read"):
            call_with_time_limit(10.0, read_for_ever)
        clock.pass_time(14.0)  # the time of the dataset has begun again
        return "opened"

    assert call_with_file_time_limit(15.0, open_dataset) == "opened"
    assert call_with_file_time_limit(60.0, lambda: "the next one") == "the next one"
