"""A flow keeps every item, overlaps its stages, and stops as one when a stage fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ares.jobs.flow import Stage, flow


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(0, 200),
    shapes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), max_size=3),
)
def test_every_item_passes_every_stage_once(count: int, shapes: list[tuple[int, int]]) -> None:
    lock, seen = threading.Lock(), dict.fromkeys(range(len(shapes)), 0)

    def counting(number: int, batch: int) -> Stage[int]:
        def run(items: list[int]) -> None:
            assert 0 < len(items) <= batch
            with lock:
                seen[number] += len(items)

        return Stage(f"s{number}", run, batch=batch, workers=1)

    out: list[int] = []
    stages = [counting(number, batch) for number, (batch, _) in enumerate(shapes)]
    flow(range(count), stages, out.extend)
    assert sorted(out) == list(range(count))
    assert set(seen.values()) <= {count}


def test_stages_overlap() -> None:
    pause = Stage[int]("pause", lambda items: time.sleep(0.02))
    started = time.monotonic()
    flow(range(20), [pause, pause, pause], lambda items: None)
    assert time.monotonic() - started < 3 * 20 * 0.02 * 0.75


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
        flow(endless(), [Stage("a", lambda items: None, workers=3), Stage("b", explode)], lambda items: None)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("flow-")]


def test_a_failing_source_or_sink_is_raised() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        flow(source(), [Stage("a", lambda items: None)], lambda items: None)

    def sink(items: list[int]) -> None:
        raise KeyError("sink")

    with pytest.raises(KeyError):
        flow(range(1000), [Stage("a", lambda items: None, batch=3)], sink)


def test_a_slow_stage_does_not_let_items_pile_up() -> None:
    fed = [0]

    def source() -> Iterator[int]:
        for number in range(500):
            fed[0] += 1
            yield number

    gap: list[int] = []
    passed = [0]

    def slow(items: list[int]) -> None:
        passed[0] += len(items)
        gap.append(fed[0] - passed[0])

    flow(source(), [Stage("slow", slow, batch=2)], lambda items: None)
    assert max(gap) < 20
