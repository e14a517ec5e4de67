"""Tables and colours appear on a terminal only, and data never controls the terminal."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable

import pytest

from app.cli.output import OutputTable, answer, paragraphs, print_error
from ares.errors import AresError, RequestError

HOSTILE = "[red]bold[/red] :smile: \x1b[31m\a\n"
PLAIN = "name                                    count\n[red]bold[/red] :smile: \\x1b[31m\\x07\\n  1.500\nb\n"
TEXT = argparse.Namespace(output="table")


class Terminal(io.StringIO):
    """Output that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


Show = Callable[[Callable[[], None]], str]


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Show:
    """Runs a function with a terminal of 100 columns as its output; returns what it printed."""

    def show(function: Callable[[], None]) -> str:
        terminal = Terminal()
        with monkeypatch.context() as patch:
            patch.setenv("TERM", "xterm-256color")
            patch.setenv("COLUMNS", "100")
            patch.delenv("NO_COLOR", raising=False)
            patch.setattr(sys, "stdout", terminal)
            patch.setattr(sys, "stderr", terminal)
            function()
        return terminal.getvalue()

    return show


def table() -> OutputTable:
    return OutputTable([(HOSTILE, 1.5), ("b", None)], ("name", "count"))


def test_a_table_is_aligned_text_where_output_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    answer(TEXT, {}, table)
    assert capsys.readouterr().out == PLAIN


def test_blocks_are_separated_by_an_empty_line(capsys: pytest.CaptureFixture[str]) -> None:
    answer(TEXT, {}, lambda: paragraphs(["first", OutputTable([("a", 1)])]))
    assert capsys.readouterr().out == "first\n\na  1\n"


def test_json_is_the_same_on_a_terminal(on_terminal: Show) -> None:
    text = on_terminal(lambda: answer(argparse.Namespace(output="json"), [{"name": "a"}], table))
    assert text == '[\n {\n  "name": "a"\n }\n]\n'


def test_a_table_on_a_terminal_has_a_dim_header_and_data_as_they_are(on_terminal: Show) -> None:
    header, first, second = on_terminal(lambda: answer(TEXT, {}, table)).splitlines()
    assert "\x1b[2mname" in header
    assert first.split("  ")[0] == "[red]bold[/red] :smile: \\x1b[31m\\x07\\n"
    assert second.split() == ["b"]
    assert "\x1b" not in first + second


def test_a_long_cell_is_wrapped_and_not_cut(on_terminal: Show) -> None:
    words = [f"word{number}" for number in range(60)]
    table = OutputTable([("key", " ".join(words))])
    text = on_terminal(lambda: answer(TEXT, {}, lambda: table))
    assert text.split() == ["key", *words]
    assert max(map(len, text.splitlines())) <= 100


def test_a_table_without_rows_shows_its_header(on_terminal: Show) -> None:
    table = OutputTable([], ("name", "count"))
    assert "name" in on_terminal(lambda: answer(TEXT, {}, lambda: table))


def test_an_error_is_one_red_line_on_a_terminal(on_terminal: Show) -> None:
    error = AresError("no episode [bold]x[/bold]", "see\n\x1b[2J" + "long " * 40)
    text = on_terminal(lambda: print_error("show", error))
    assert text.startswith("\x1b[31mares show:\x1b[0m no episode [bold]x[/bold]: see \\x1b[2Jlong")
    assert text.count("\n") == 1


def test_an_error_is_plain_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    print_error("show", RequestError("no episode 'x'", "give\nan id"))
    assert capsys.readouterr().err == "ares show: no episode 'x': give an id\n"
