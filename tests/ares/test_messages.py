"""What a person waits for is announced, unless it ends soon or messages are off."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from ares import console
from ares.console import (
    Verbosity,
    announce_if_slow,
    print_message,
    verbosity,
    write_stderr,
)
from ares.episode import describe_seconds, format_duration


def test_what_takes_long_is_announced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = threading.Event()

    def print_and_tell(text: str) -> None:
        print_message(text)
        printed.set()

    monkeypatch.setattr(console, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(console, "print_message", print_and_tell)
    with announce_if_slow("loading the model"):
        assert printed.wait(300)
    assert capsys.readouterr().err == "loading the model\n"
    printed.clear()
    with verbosity(Verbosity.QUIET), announce_if_slow("loading the model"):
        assert printed.wait(300)
    assert capsys.readouterr().err == ""


def test_what_ends_soon_is_not_announced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[threading.Timer] = []
    monkeypatch.setattr(console, "_PATIENCE_SECONDS", 3600.0)
    monkeypatch.setattr(threading.Timer, "start", lambda timer: timers.append(timer))
    with announce_if_slow("loading the model"):
        pass
    assert timers[0].finished.is_set(), "it was cancelled"
    assert capsys.readouterr().err == ""


def test_a_line_is_one_write_so_that_threads_do_not_mix_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            writes.append(text)
            return len(text)

    writes: list[str] = []
    monkeypatch.setattr(sys, "stderr", Stream())
    write_stderr("first line", "second line")
    assert writes == ["first line\nsecond line\n"]


def test_a_length_of_time_is_said_in_the_unit_that_a_person_reads() -> None:
    seconds = (0.0, 0.04, 5.46, 12.0, 119.9, 120.0, 200.0, 7199.0, 7200.0, 4_500_000.0)
    assert [format_duration(second) for second in seconds] == [
        *("0 s", "0.04 s", "5.5 s", "12 s", "119.9 s"),
        *("2 min", "3.3 min", "120 min", "2 h", "1,250 h"),
    ]
    estimates = [describe_seconds(second) for second in (0.1, 44.7, 151.0, 7800.0)]
    assert estimates == ["about 1 s", "about 45 s", "about 2.5 min", "about 2.2 h"]
