"""Progress is a bar on a terminal and plain lines elsewhere."""

from __future__ import annotations

import io
import re
import threading

import pytest

from ares.jobs import Progress, progress as progress_module


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress_module, "time", clock)
    monkeypatch.setattr(progress_module, "LINE_SECONDS", 10.0)  # no other test writes lines after some time
    return clock


def test_a_line_every_ten_seconds_and_one_at_the_end(clock: Clock) -> None:
    stream = io.StringIO()
    progress = Progress("embed", 40, stream)
    for _ in range(21):
        clock.seconds += 1
        progress.advance()
    progress.close()
    assert stream.getvalue().splitlines() == [
        "embed 10/40, 1.0/s, 30 s left",
        "embed 20/40, 1.0/s, 20 s left",
        "embed 21/40, 1.0/s, 19 s left",
    ]


def test_a_line_also_while_one_item_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lines(io.StringIO):
        def write(self, text: str) -> int:
            seen.append(text)
            has_two.set() if len(seen) == 2 else None
            return len(text)

    seen: list[str] = []
    has_two = threading.Event()
    monkeypatch.setattr(progress_module, "LINE_SECONDS", 0.01)
    progress = Progress("embed", 40, Lines())
    assert has_two.wait(300)
    progress.close()
    assert {line.partition(",")[0] for line in seen} == {"embed 0/40"}
    progress.close()


def test_a_total_that_is_passed_is_not_shown(clock: Clock) -> None:
    progress = Progress("embed", 10, None)
    clock.seconds += 10
    progress.advance(10)
    assert progress.line() == "embed 10/10, 1.0/s, 0 s left"
    progress.advance(20)
    assert progress.line() == "embed 30, 3.0/s"


def test_a_bar_forgets_a_total_that_is_passed(clock: Clock) -> None:
    stream = Terminal()
    progress = Progress("embed", 10, stream)
    clock.seconds += 2
    progress.advance(30)
    progress.close()
    assert "30/?" in stream.getvalue() and "30/10" not in stream.getvalue()


def test_a_short_job_writes_nothing(clock: Clock) -> None:
    stream = io.StringIO()
    progress = Progress("embed", 2, stream)
    progress.advance(2)
    progress.close()
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("total", "count"), [(40, "20/40"), (None, "20/?")])
def test_a_terminal_gets_a_bar_with_count_and_rate(clock: Clock, total: int | None, count: str) -> None:
    stream = Terminal()
    progress = Progress("embed [raw]", total, stream)
    clock.seconds += 2
    progress.advance(20)
    progress.close()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert "embed [raw]" in text and count in text and "10.0/s" in text
    assert stream.getvalue().endswith("\x1b[?25h")  # the cursor is visible again
