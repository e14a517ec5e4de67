"""A workspace that a user can read but not write: what reads works, what writes says so in one line."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ares_app.cli.main import main
from tests.command_server import CommandServer

pytestmark = pytest.mark.slow
Run = Callable[..., subprocess.CompletedProcess[str]]

# Linux: root may write everywhere by this capability, which a child can give up for good.
_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1


def _give_up_root() -> None:
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)


def _set_writable(folder: Path, writable: bool) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200 if writable else path.stat().st_mode & ~0o222)


@pytest.fixture(scope="module")
def workspace(video_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("read_only") / "w"
    shutil.copytree(video_folder, path)
    assert main(["set", "create", "all", "-w", str(path)]) == 0
    _set_writable(path, False)
    yield path
    _set_writable(path, True)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs commands in a process that may not write where its user may not, also when that is root."""
    server = CommandServer(sys.executable, tmp_path_factory.mktemp("elsewhere"), prepare=_give_up_root)
    yield lambda workspace, *arguments: server.run(*arguments, "-w", str(workspace))
    server.close()


def _fill_disk() -> None:
    """No file can grow from now on, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.fixture(scope="module")
def run_full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs commands in a process for which every disk is full."""
    server = CommandServer(sys.executable, tmp_path_factory.mktemp("elsewhere"), prepare=_fill_disk)
    yield lambda workspace, *arguments: server.run(*arguments, "-w", str(workspace))
    server.close()


@pytest.fixture
def writable(workspace: Path, tmp_path: Path) -> Path:
    """A copy of the workspace that could be written, if there were room."""
    copy = tmp_path / "w"
    shutil.copytree(workspace, copy)
    _set_writable(copy, True)
    return copy


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("status",), "12 episodes"),
        (("search", "drawer"), "captions:1"),
        (("search", "--where", "num_steps > 0"), "video"),
        (("doctor",), "all promises"),
        (("set", "list"), "all"),
        (("set", "show", "all"), "\n"),
        (("use",), "quality"),
        (("undo", "--list"), "nothing"),
        (("failures", "list"), "no failures"),
    ],
    ids=lambda part: "_".join(part) if isinstance(part, tuple) else "",
)
def test_what_reads_works_without_the_right_to_write_and_on_a_full_disk(
    run: Run, run_full: Run, workspace: Path, writable: Path, arguments: tuple[str, ...], text: str
) -> None:
    for process in (run(workspace, *arguments), run_full(writable, *arguments)):
        assert (process.returncode, process.stderr) == (0, "")
        assert text in process.stdout


def test_an_episode_is_shown_on_a_full_disk_and_nothing_is_written(run_full: Run, writable: Path) -> None:
    episode_id = run_full(writable, "set", "show", "all", "--ids").stdout.split()[0]
    assert episode_id in run_full(writable, "show", episode_id[:6]).stdout
    for line in (("tag", "add", "odd", episode_id), ("note", "odd", episode_id), ("set", "create", "more")):
        process = run_full(writable, *line)
        assert process.returncode == 2 and "the disk is full" in process.stderr, line
    assert main(["tag", "add", "odd", episode_id, "-w", str(writable)]) == 0
    assert main(["doctor", "-w", str(writable)]) == 0


def test_a_killed_writer_leaves_what_is_read_on_a_full_disk(run_full: Run, writable: Path) -> None:
    """Its journal has what it stored; the index of the journal is made again, without a file."""
    program = "import os, sys; from ares_app.cli.main import main; main(sys.argv[1:]); os._exit(0)"
    stores = "from ares.workspace import Workspace; Workspace.close = lambda self: None; "
    line = ["tag", "add", "odd", "--where", "num_steps > 0", "-w", str(writable)]
    subprocess.run([sys.executable, "-c", stores + program, *line], check=True, capture_output=True)
    journal = writable / "annotations.sqlite-wal"
    assert journal.stat().st_size
    journal.with_name("annotations.sqlite-shm").unlink()
    process = run_full(writable, "undo", "--list")
    assert process.returncode == 0 and "tagged 12 episodes odd" in process.stdout
    assert "odd" in run_full(writable, "tag", "list").stdout
    assert main(["doctor", "-w", str(writable)]) == 0


def test_an_episode_is_shown_and_exported(run: Run, workspace: Path, tmp_path: Path) -> None:
    episode_id = run(workspace, "set", "show", "all", "--ids").stdout.split()[0]
    assert episode_id in run(workspace, "show", episode_id[:6]).stdout
    process = run(workspace, "export", "all", str(tmp_path / "x"), "--format", "parquet")
    assert process.returncode == 0 and (tmp_path / "x").is_dir()


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", "create", "more"),
        ("use", "quality=newest"),
        ("doctor", "--repair"),
        ("annotate", "motion"),
        ("ingest", "{samples}/rlds", "--rate", "10"),
    ],
    ids=lambda part: part[0],
)
def test_what_writes_says_that_it_is_read_only(
    run: Run, workspace: Path, arguments: tuple[str, ...], demo_samples: Path
) -> None:
    process = run(workspace, *(part.format(samples=demo_samples) for part in arguments))
    assert process.returncode == 2 and process.stdout == ""
    *waiting, line = process.stderr.splitlines()
    assert all(text.startswith("looking at ") for text in waiting), "as on a busy machine"
    assert "read-only" in line and str(workspace) in line


def test_what_a_writer_has_not_merged_yet_is_read(run: Run, workspace: Path, tmp_path: Path) -> None:
    copy = tmp_path / "w"
    shutil.copytree(workspace, copy)
    _set_writable(copy, True)
    connection = sqlite3.connect(copy / "annotations.sqlite")
    connection.execute("UPDATE documents SET key = replace(key, 'all@', 'renamed@')")
    connection.execute("UPDATE documents SET body = replace(body, '\"all\"', '\"renamed\"')")
    connection.commit()
    try:
        assert (copy / "annotations.sqlite-wal").stat().st_size
        _set_writable(copy, False)
        assert "renamed" in run(copy, "set", "list").stdout
    finally:
        _set_writable(copy, True)
        connection.close()
