"""A pipeline keeps every item, overlaps its stages, and stops as a unit when a stage fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from threading import Barrier

import pytest
from hypothesis import given, settings, strategies as st

from ares.jobs import PipelineStage, run_pipeline


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(0, 200),
    shapes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), max_size=3),
)
def test_every_item_passes_every_stage_once(count: int, shapes: list[tuple[int, int]]) -> None:
    lock, counts = threading.Lock(), dict.fromkeys(range(len(shapes)), 0)

    def counting(number: int, batch: int) -> PipelineStage[int]:
        def run(items: list[int]) -> None:
            assert 0 < len(items) <= batch
            with lock:
                counts[number] += len(items)

        return PipelineStage(f"s{number}", run, batch_size=batch, workers=1)

    out: list[int] = []
    stages = [counting(number, batch) for number, (batch, _) in enumerate(shapes)]
    run_pipeline(range(count), stages, out.extend)
    assert sorted(out) == list(range(count))
    assert set(counts.values()) <= {count}


def test_stages_overlap() -> None:
    """The first works on item 2 while the second works on item 1 and the third on item 0."""
    meeting = Barrier(3, timeout=300)

    def meet(number: int, items: list[int]) -> None:
        if items == [2 - number]:
            meeting.wait()

    stages = [PipelineStage[int](f"s{number}", partial(meet, number)) for number in range(3)]
    run_pipeline(range(20), stages, lambda items: None)
    assert not meeting.broken


def test_a_failing_stage_stops_the_others_and_is_raised() -> None:
    def explode(items: list[int]) -> None:
        if 7 in items:
            raise ZeroDivisionError("seven")

    def endless() -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    with pytest.raises(ZeroDivisionError, match="seven"):
        run_pipeline(
            endless(),
            [PipelineStage("a", lambda items: None, workers=3), PipelineStage("b", explode)],
            lambda items: None,
        )
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pipeline-")]


def test_a_failing_source_or_sink_is_raised() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        run_pipeline(source(), [PipelineStage("a", lambda items: None)], lambda items: None)

    def sink(items: list[int]) -> None:
        raise KeyError("sink")

    with pytest.raises(KeyError):
        run_pipeline(range(1000), [PipelineStage("a", lambda items: None, batch_size=3)], sink)


def test_a_slow_stage_does_not_let_items_pile_up() -> None:
    read_count = [0]

    def source() -> Iterator[int]:
        for number in range(500):
            read_count[0] += 1
            yield number

    waiting: list[int] = []
    processed = [0]

    def slow(items: list[int]) -> None:
        processed[0] += len(items)
        waiting.append(read_count[0] - processed[0])

    run_pipeline(source(), [PipelineStage("slow", slow, batch_size=2)], lambda items: None)
    assert max(waiting) < 20


def test_as_many_threads_as_have_work_are_started() -> None:
    names: set[str] = set()

    def see_threads(items: list[int]) -> None:
        names.update(thread.name for thread in threading.enumerate() if "pipeline-wide" in thread.name)

    def late() -> Iterator[int]:
        time.sleep(0.5)
        yield from range(2)

    run_pipeline(late(), [PipelineStage("wide", see_threads, workers=512)], lambda items: None)
    assert 1 <= len(names) <= 3
    names.clear()
    meeting = Barrier(8, timeout=300)

    def meet(items: list[int]) -> None:
        see_threads(items)
        meeting.wait()

    run_pipeline(range(16), [PipelineStage("wide", meet, workers=8)], lambda items: None)
    assert len(names) == 8


@pytest.mark.parametrize("name", ["pipeline-items", "pipeline-second-1", "pipeline-second-2"])
def test_a_thread_that_cannot_be_started_ends_the_others(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start, ends = threading.Thread.start, []

    def limited(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    stages = [PipelineStage[int](stage, lambda items: None, workers=2) for stage in ("first", "second")]
    with pytest.raises(RuntimeError, match="can't start new thread"):
        run_pipeline(range(20), stages, lambda items: None, on_end=lambda: ends.append("ended"))
    assert ends == ["ended"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pipeline-")]
