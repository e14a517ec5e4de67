"""Whatever a person types or has on disk is answered in one line: no command has a traceback or a bug for it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

import ares
from ares_app.cli.main import COMMANDS
from tests.thinning import some_by_day
from tests.workspaces import CommandResult

Run = Callable[..., CommandResult]
# Values that fit no option, and those that parsers of numbers, paths and filters stumble over.
VALUES = (
    "", " ", "-1", "0", "nan", "inf", "1e400", "99999999999999999999", "x" * 5000, "a\0b", "../..", "/dev/null",
    "/proc/self/mem", "~", "'", '"', ";--", "%s{}", "[bold]", "\x1b[31m", "\u202e", "é", "🤖", "a=b=c", ",,", "=", "@1",
    "name@", "[]", "null",
)  # fmt: skip
# For the option that all commands read by the same lines.
FEW_VALUES = ("", "-1", "x" * 5000, "a\0b", "\x1b[31m")
OUTPUTS = tuple((command, "--output={}") for command in COMMANDS)
# Each takes one value in the position of the braces.
PATTERNS = (
    ("search", "{}"),
    ("search", "mug", "--where", "{}"),
    ("search", "mug", "--by", "{}"),
    ("search", "mug", "--limit={}"),
    ("search", "--like={}"),
    ("search", "--image={}"),
    ("show", "--", "{}"),
    ("set", "create", "s", "./{}"),
    ("set", "create", "--where", "false", "--", "{}"),
    ("set", "show", "--", "{}"),
    ("set", "diff", "--", "{}", "{}"),
    ("use", "--", "{}"),
    ("rubric", "show", "--", "{}"),
    ("rubric", "check", "--", "{}.yaml"),
    ("annotate", "--dry-run", "--", "{}"),
    ("annotate", "motion", "--dry-run", "--where={}"),
    ("annotate", "motion", "--budget={}"),
    ("annotate", "motion", "--device={}", "--dry-run"),
    ("annotate", "caption", "--model={}"),
    ("ingest", "--", "{}"),
    ("ingest", "--format={}", "."),
    ("ingest", "--spec={}", "."),
    ("ingest", "--cameras={}", "--limit", "0", "{samples}/video"),
    ("ingest", "--rate={}", "."),
    ("ingest", "--engine={}", "."),
    ("export", "--format=parquet", "--", "{}", "/dev/null/x"),
    ("export", "all", "/dev/null/x", "--format={}"),
    ("export", "all", "--format=parquet", "--", "{}/dev/null"),
    ("doctor", "--relocate={}"),
    ("app", "--no-browser", "--port={}", "-w", "/dev/null/x"),
    ("--output={}", "status"),
    *OUTPUTS,
)


@pytest.fixture(scope="module")
def workspace(demo_samples: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("bad_values") / "w"
    with ares.open(path, create=True) as opened:
        opened.ingest(demo_samples / "video", limit=2, quiet=True)
        opened.sets.create("all", where="true")
    return str(path)


def is_answer(status: int, err: str) -> bool:
    """Whether a refusal is one line, or two more with the position in a filter."""
    lines = [line for line in err.splitlines() if line]
    if status in (0, 1):
        return "Traceback" not in err
    pointer = lines[1:]
    return status == 2 and lines[0].startswith("ares") and (not pointer or pointer[-1].strip() == "^")


# By day every pattern has a third of the values, each of these with every third pattern.
@pytest.mark.parametrize("part", some_by_day(range(3)))
@pytest.mark.parametrize(
    "pattern", some_by_day(PATTERNS), ids=lambda pattern: "_".join(pattern).replace("/", "")
)
def test_a_bad_value_is_one_line(
    pattern: tuple[str, ...],
    part: int,
    workspace: str,
    demo_samples: Path,
    run_ares: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    inner = tmp_path / "a" / "b"  # "../.." and "~" are empty too, or an ingestion reads all that lies there
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.setenv("HOME", str(tmp_path))
    wrong = []
    for value in (FEW_VALUES if pattern in OUTPUTS else VALUES)[(PATTERNS.index(pattern) + part) % 3 :: 3]:
        arguments = [part.replace("{samples}", str(demo_samples)).replace("{}", value) for part in pattern]
        position = arguments.index("--") if "--" in arguments else len(arguments)
        if "app" not in arguments:
            arguments[position:position] = ["-w", workspace]
        done = run_ares(*arguments)
        if not is_answer(done.status, done.err):
            wrong.append((value[:40], done.status, done.err[-400:]))
    assert not wrong


def _empty_tables(copy: Path) -> None:
    for file in (copy / "lance").rglob("*.lance"):
        if file.is_file():
            file.write_bytes(b"")


def _file_as_folder(copy: Path) -> None:
    shutil.rmtree(copy / "lance")
    (copy / "lance").write_text("")


def _edit_manifest(**changes: object) -> Callable[[Path], object]:
    def edit(copy: Path) -> None:
        document = json.loads((copy / "workspace.json").read_text())
        (copy / "workspace.json").write_text(json.dumps({**document, **changes}))

    return edit


DAMAGES: dict[str, Callable[[Path], object]] = {
    "manifest": lambda copy: (copy / "workspace.json").write_text("{"),
    "list": lambda copy: (copy / "workspace.json").write_text("[]"),
    "bytes": lambda copy: (copy / "workspace.json").write_bytes(b"\xff\xfe"),
    "newer": _edit_manifest(format=99),
    "store": _edit_manifest(annotations="x"),
    "no lance": lambda copy: shutil.rmtree(copy / "lance"),
    "a file as lance": _file_as_folder,
    "no log": lambda copy: (copy / "annotations.sqlite").unlink(),
    "log": lambda copy: (copy / "annotations.sqlite").write_text("longer than the header of a database " * 9),
    "tables": _empty_tables,
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", some_by_day(DAMAGES, 2))
def test_a_damaged_workspace_is_one_line(damage: str, workspace: str, tmp_path: Path, run_ares: Run) -> None:
    copy = tmp_path / "w"
    shutil.copytree(workspace, copy)
    DAMAGES[damage](copy)
    wrong = []
    for arguments in (["status"], ["search", "drawer"], ["set", "list"], ["show", "0"], ["doctor"], ["use"]):
        done = run_ares(*arguments, "-w", copy)
        if not is_answer(done.status, done.err):
            wrong.append((arguments, done.status, done.err[-400:]))
    assert not wrong


ENVIRONMENTS: dict[str, dict[str, str | None]] = {
    "no home": {"HOME": None},
    "home of nobody": {"HOME": "/nonexistent/home", "XDG_CACHE_HOME": None},
    "no temporary folder": {"TMPDIR": "/nonexistent/tmp"},
    "locale C": {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "price": {"ARES_PRICE": "cheap"},
    "cache size": {"ARES_MEDIA_CACHE_GB": "nan"},
    "workspace": {"ARES_WORKSPACE": "\t"},
    "terminal": {"TERM": "nonsense", "COLUMNS": "-3"},
}


# Runs two commands, and says with which status each has ended.
TWO_COMMANDS = """
import sys
from ares_app.cli.main import main
for command in (["status"], ["search", "drawer"]):
    status = main([*command, "-w", sys.argv[1]])
    print("status", status, file=sys.stderr, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", some_by_day(ENVIRONMENTS, 2))
def test_a_strange_environment_is_no_bug(name: str, workspace: str) -> None:
    environment: dict[str, str | None] = {**os.environ, **ENVIRONMENTS[name]}
    process = subprocess.run(
        [sys.executable, "-c", TWO_COMMANDS, workspace],
        env={key: value for key, value in environment.items() if value is not None},
        capture_output=True,
        timeout=300,
        check=False,
    )
    printed = process.stderr.decode()
    answers = re.findall(r"(.*?)^status (\d+)\n", printed, flags=re.M | re.S)
    assert len(answers) == 2 and process.returncode == 0, printed
    assert all(is_answer(int(status), err) for err, status in answers), printed


# What each command writes to: an answer or help to standard output, a refusal to standard error.
_ANSWERS = product(("--help", "status -w W", "status --json -w W"), (">/dev/full", ">&-", "| head -c 1"))
_REFUSALS = product(("status -w nowhere",), ("2>/dev/full", "2>&-"))


@pytest.mark.slow
@pytest.mark.parametrize(("command", "redirection"), some_by_day([*_ANSWERS, *_REFUSALS], 2, rows=True))
def test_an_output_that_cannot_be_written_is_no_traceback(
    command: str, redirection: str, workspace: str
) -> None:
    line = f"{sys.executable} -m ares_app.cli.main {command.replace('W', workspace)} {redirection}"
    process = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, timeout=300, check=False
    )
    assert "Traceback" not in process.stderr and "Exception ignored" not in process.stderr
    refused = "nowhere" in command or redirection == ">/dev/full"
    assert process.returncode == (2 if refused else 0)


@pytest.mark.slow
def test_an_argument_that_is_no_text_is_named(workspace: str) -> None:
    words = [sys.executable, "-m", "ares_app.cli.main", "search", "-w", workspace]
    command = [*map(os.fsencode, words), b"caf\xe9"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert process.stderr.startswith("ares search: an argument is not valid UTF-8: b'caf\\xe9'")


def test_a_bug_is_one_line_with_its_location_and_a_status_of_its_own(
    workspace: str, run_ares: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.workspace.status.failures_by_reason", lambda stores: {"": 0}["missing\x1b[31m"])
    for options, count in (([], 1), (["-v"], 0)):
        done = run_ares("status", "-w", workspace, *options)
        err = done.err
        assert done.status == 70 and "this is a bug of ARES, KeyError: " in err and ".py:" in err
        assert "\x1b" not in err.splitlines()[-1]
        assert err.count("-v shows the traceback") == count
        assert ("Traceback" in err) == (not count)
