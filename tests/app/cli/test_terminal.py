"""What data name, such as folders, cameras and tasks, cannot control a terminal, whichever command prints it."""

from __future__ import annotations

import argparse
import io
import json
import logging
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

import ares
from ares.console import Verbosity, announce_if_slow, print_message, verbosity
from ares.errors import AresError, RequestError
from ares.jobs import Progress
from ares_app.cli.main import main
from ares_app.cli.output import OutputTable, answer, paragraphs, print_error

# Sets the title of a terminal, clears it, begins a new line, turns the direction of text, and a C1 control.
EVIL = "x\x1b]0;pwned\x07\x1b[2J\nforged line\r\u202edaer\u2066\x9b31m\x7f"
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
Output = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset whose folder, file, camera, task, signal and dimension have that name; and a workspace of it."""
    folder = tmp_path_factory.mktemp("terminal")
    data = folder / EVIL.replace("/", "") / f"{EVIL}.hdf5"
    data.parent.mkdir()
    random = np.random.default_rng(3)
    with h5py.File(data, "w") as file:
        for name in ("demo_0", "demo_1"):
            file[f"data/{name}/actions"] = random.normal(size=(30, 7)).astype(np.float32)
            file[f"data/{name}/obs/{EVIL}"] = random.integers(0, 256, (30, 24, 32, 3), np.uint8)
            file[f"data/{name}/obs/joint{EVIL}_pos"] = random.normal(size=(30, 7)).astype(np.float32)
            file["data"].attrs["task"] = EVIL
            file[f"data/{name}"].attrs["language_instruction"] = EVIL
    (data.parent / f"broken{EVIL}.hdf5").write_bytes(b"\x89HDF\r\n\x1a\nbroken")
    return folder


@pytest.fixture
def output(folder: Path, capsys: pytest.CaptureFixture[str]) -> Output:
    """What a command prints in all, which is checked."""

    def run(*arguments: str, workspace: bool = True) -> str:
        main([*arguments, *(("-w", str(folder / "ws")) if workspace else ())])
        printed = capsys.readouterr()
        text = printed.out + printed.err
        assert not (found := UNSAFE.search(text)), (
            f"{arguments}: {text[max(0, found.start() - 80) :][:160]!r}"
        )
        assert "\nforged" not in text, arguments
        return text

    return run


def test_no_command_prints_what_controls_a_terminal(folder: Path, output: Output) -> None:
    data = str(next(path for path in folder.iterdir() if path.name.startswith("x")))
    assert "pwned" in output("ingest", data, "--dry-run")
    assert "pwned" in output("ingest", data, "--show-spec")
    assert "pwned" in output("ingest", data)
    assert "pwned" in output("check", data, workspace=False)
    (row,) = json.loads(output("status", "--json"))["datasets"].items()
    assert "pwned" in row[0] and row[1] == 2
    ids = [hit["episode_id"] for hit in json.loads(output("search", "--where", "num_steps > 0", "--json"))]
    output("tag", "add", "odd", ids[0])
    output("note", EVIL.replace("\x00", ""), ids[0])
    output("set", "create", "all")
    output("annotate", "motion")
    for command in (
        ["status"], ["status", "-v"], ["show", ids[0]], ["search", "--where", "num_steps > 0"],
        ["search", "--where", "num_steps > 0", "--output", "jsonl"], ["search", "--where", EVIL], ["search", EVIL],
        ["set", "list"], ["set", "show", "all"], ["set", "show", EVIL], ["tag", "list"], ["undo", "--list"], ["doctor"],
        ["doctor", "--output", "csv"], ["failures", "list"], ["annotate", "motion", "--dry-run"], ["use"],
        ["export", "all", str(folder / "out"), "--format", "parquet"], ["remove", ids[0]], ["remove", EVIL],
        ["export", "all", str(folder / EVIL)], ["ingest", str(folder / "none" / EVIL)], ["rubric", "check", EVIL],
        ["annotate", EVIL], ["search", f"--{EVIL}"], [EVIL],
    ):  # fmt: skip
        try:
            output(*command)
        except SystemExit:  # of the parser of arguments
            continue
    with ares.open(folder / "ws") as ws:
        for shown in (repr(ws), repr(ws.episodes), repr(ws.episodes[ids[0]]), repr(ws.sets)):
            assert not UNSAFE.search(shown), shown


def test_messages_progress_and_logs_are_lines_without_controls(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.console._PATIENCE_SECONDS", 0.0)
    with verbosity(Verbosity.VERBOSE):
        print_message(EVIL, "a second line")
        with announce_if_slow(EVIL) as _:
            pass
        progress = Progress(EVIL, 3, sys.stderr)
        monkeypatch.setattr("ares.jobs.progress.LINE_SECONDS", 0.0)
        progress.advance()
        progress.close()
        try:
            raise ValueError(EVIL)
        except ValueError:
            logging.getLogger("some.library").exception("about %s", EVIL)
        logging.getLogger("some.library").warning(EVIL)
        shown = warnings.formatwarning(EVIL, UserWarning, "file.py", 1, "")
    text = capfd.readouterr().err + shown
    assert text.count("pwned") >= 5 and "a second line\n" in text
    assert not UNSAFE.search(text), text
    assert "\nforged line" not in text.replace(shown, "").partition("some.library")[0]


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
