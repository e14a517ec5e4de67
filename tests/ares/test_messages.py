"""What a person waits for is announced, unless it ends soon or messages are off."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from ares import console
from ares.console import Verbosity, announce_if_slow, print_message, verbosity, write_stderr


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
