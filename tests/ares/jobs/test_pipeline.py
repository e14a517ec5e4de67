"""A pipeline keeps every item, overlaps its stages, and stops as a unit when a stage fails."""

from __future__ import annotations

import threading
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
