"""A signal ends a command whatever runs: a line, a status, no process or lock left, and work can go on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from ares_app.cli.errors import StoppedBySignal, run_command, stop_on_signals
from ares_app.cli.main import main
from tests.thinning import some_by_day
from tests.workspaces import CommandResult, copy_workspace

Run = Callable[..., CommandResult]

# Wraps a function so that the process sends itself a signal at its first call; then runs the command line.
SENDER = """
import hashlib, importlib, os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
import ares.jobs.pipeline, ares_app.stop_signals, ares_ingest.pipeline.write
ares.jobs.pipeline._SINK_BATCH_SIZE, ares_ingest.pipeline.write._EPISODES_PER_WRITE = 3, 3
if sys.argv[4] == "compute":
    ares_app.stop_signals._END_SECONDS = 1.0
ares.jobs.pipeline._STOP_SECONDS = 0.2
module, name, number, then = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
owner = importlib.import_module(module)
*path, leaf = name.split(".")
for part in path:
    owner = getattr(owner, part)
real, calls = getattr(owner, leaf), [0]
def sending(*args, **kwargs):
    result = real(*args, **kwargs)
    calls[0] += 1
    if calls[0] == 1:
        if then.startswith("compute"):  # in compiled code, from which no handler of Python is called
            threading.Timer(0.5, os.kill, [os.getpid(), number]).start()
            hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
        os.kill(os.getpid(), number)
        time.sleep(120 if then == "hang" else 0.5)
    return result
setattr(owner, leaf, sending)
from ares.__main__ import main
sys.argv[1:] = sys.argv[5:]
sys.exit(main())
"""
# Tests that run in the background, or under nohup, ignore these signals and pass that on.
DASHBOARD = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from ares_app.cli.main import main
sys.exit(main())
"""
STATUSES = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
STORED_STAYS = "what was stored until then stays; run the same command again"
WRITE = ("ares.store.lance.episodes", "EpisodeTable.write")


def start(point: tuple[str, str], name: str, *arguments: str, then: str = "go on") -> subprocess.Popen[str]:
    """Start a command that gets a signal, in a separate session; then it goes on, hangs or computes."""
    number = str(int(signal.Signals[name]))
    command = [sys.executable, "-c", SENDER, *point, number, then, *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def processes_of_session(session: int) -> list[str]:
    """Processes that still run in a session."""
    running = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            running.append(stat.parent.name)
    return running


def last_line(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert out == "" and "Traceback" not in err, err
    return err.splitlines()[-1]


# A command, where it gets which signal, what it does then, and the start and end of its line.
INGEST, MOTION = "ingest SAMPLES", "annotate motion"
AT_ONCE = "without waiting for what still ran; "
STOPS = [
    (INGEST, WRITE, "SIGINT", "go on", "ares ingest: stopped by Ctrl-C; the workspace has ", "to read the rest"),
    (INGEST, WRITE, "SIGTERM", "compute", f"ares ingest: stopped by SIGTERM, {AT_ONCE}", "same command again"),
    (
        MOTION, ("ares_annotators.motion.annotator", "MotionAnnotator.process"), "SIGTERM", "hang",
        f"ares annotate: stopped by SIGTERM; {STORED_STAYS}", "",
    ),
    (
        "status", ("ares.workspace.workspace", "Workspace.status"), "SIGTERM", "compute",
        f"ares status: stopped by SIGTERM, {AT_ONCE}", "nothing was changed",
    ),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "point", "name", "then", "begins", "ends"),
    some_by_day(STOPS, rows=True, kept=STOPS[:3]),
    ids=lambda value: "-".join(value.split()[:2]) if isinstance(value, str) else "",
)
def test_a_command_that_is_stopped_says_so_and_can_go_on(
    command: str,
    point: tuple[str, str],
    name: str,
    then: str,
    begins: str,
    ends: str,
    demo_samples: Path,
    video_folder: Path,
    tmp_path: Path,
    run_ares: Run,
) -> None:
    workspace = tmp_path / "w"
    if command != INGEST:
        copy_workspace(video_folder, workspace)
    words = [word.replace("SAMPLES", str(demo_samples / "video")) for word in command.split()]
    process = start(point, name, *words, "-w", str(workspace), then=then)
    line = last_line(process)
    assert process.returncode == STATUSES[name]
    assert line.startswith(begins) and line.endswith(ends), line
    assert not processes_of_session(process.pid)
    if command != "status":
        document = run_ares(*words, "-w", workspace, "--json").json
        assert document["already"] + document["kept"] == document["planned"] == 12
        assert document["already"] >= (3 if command == INGEST else 0)
    assert run_ares("doctor", "-w", workspace).status == 0


@pytest.mark.slow
def test_an_export_that_is_stopped_has_no_folder_of_its_name_and_the_next_run_completes_it(
    video_folder: Path, tmp_path: Path
) -> None:
    workspace = str(copy_workspace(video_folder, tmp_path / "w"))
    assert main(["set", "create", "all", "--limit", "4", "-w", workspace]) == 0
    point = ("ares.export.lerobot.writer", "LeRobotWriter.add")
    command = ("export", "all", str(tmp_path / "x"), "--format", "lerobot", "-w", workspace)
    process = start(point, "SIGTERM", *command)
    line = last_line(process)
    assert process.returncode == 143
    assert "stopped by SIGTERM" in line and "was not written; run the same command again" in line
    assert {path.name for path in tmp_path.iterdir()} <= {"w", "x.tmp"}
    assert main(list(command)) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"w", "x"}


@pytest.mark.slow
def test_the_second_signal_ends_a_command_that_does_not_end(demo_samples: Path, tmp_path: Path) -> None:
    process = start(
        WRITE, "SIGHUP", "ingest", "-w", str(tmp_path / "w"), str(demo_samples / "video"), then="compute long"
    )
    assert process.stderr is not None
    line = next(line for line in process.stderr if "received" in line)
    assert line.startswith("ares ingest: SIGHUP received, ending within ")
    os.kill(process.pid, signal.SIGTERM)
    line = last_line(process)
    assert process.returncode == 143
    assert line.startswith("ares ingest: stopped by a second SIGTERM, at once") and "stays" in line


@pytest.mark.slow
def test_the_dashboard_ends_on_a_signal_while_it_starts(video_folder: Path, tmp_path: Path) -> None:
    workspace = str(copy_workspace(video_folder, tmp_path / "w"))
    point = ("uvicorn.server", "Server.startup")
    process = start(point, "SIGTERM", "app", "-w", workspace, "--port", "0", "--no-browser")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 143, err
    assert err.splitlines()[-1] == f"ares app: stopped by SIGTERM; {STORED_STAYS}"
    assert "Traceback" not in err and "ignored" not in err and not processes_of_session(process.pid)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "status"), some_by_day([("SIGTERM", 143), ("SIGHUP", 129)], rows=True))
def test_the_dashboard_ends_on_a_signal(name: str, status: int, video_folder: Path, tmp_path: Path) -> None:
    workspace = str(copy_workspace(video_folder, tmp_path / "w"))
    command = [sys.executable, "-c", DASHBOARD, "app", "-w", workspace, "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    # A busy machine says of any command what it does "so far".
    line = next(line for line in process.stderr if not line.endswith(" so far\n"))
    address = re.search(r"http://\S+", line)
    assert address
    # Its answer waits until the server has started.
    tagged = httpx2.post(f"{address[0]}/api/tags/late", json={"where": "true"}, timeout=300)
    assert tagged.json()["count"] == 12
    os.kill(process.pid, signal.Signals[name])
    _, err = process.communicate(timeout=300)
    assert process.returncode == status, err
    assert err.splitlines()[-1] == f"ares app: stopped by {name}; {STORED_STAYS}", "what its API tagged, too"
    assert "Traceback" not in err and not processes_of_session(process.pid)


def test_an_ignored_signal_stays_ignored() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    # An earlier test of this worker may have left a handler, as Ray does, so this test starts from the default.
    terminate_before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with stop_on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
        with pytest.raises(StoppedBySignal) as error_info, stop_on_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        assert error_info.value.exit_status == 143
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, terminate_before)
        signal.signal(signal.SIGHUP, previous)


class PanicOfALibrary(BaseException):
    """As the PanicException of Rust libraries, which replaces the exception of a callback."""


@pytest.mark.parametrize("replacement", [ImportError("half imported"), PanicOfALibrary(), None])
def test_a_signal_stops_the_command_whatever_a_library_makes_of_its_exception(
    replacement: BaseException | None, capsys: pytest.CaptureFixture[str]
) -> None:
    def lose_the_exception() -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        except StoppedBySignal:
            if replacement:
                raise replacement from None
        return 1

    terminate_before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with stop_on_signals() as request:
            status = run_command("ingest", lose_the_exception, lambda: "nothing was stored", request)
    finally:
        signal.signal(signal.SIGTERM, terminate_before)
    assert status == 143
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "ares ingest: stopped by SIGTERM; nothing was stored", "and no bug of ARES before it"


# Sends this process a signal when it begins to import the first module that ARES needs.
EARLY = """
import os, signal, sys
class Sender:
    def find_spec(self, name, path=None, target=None):
        if name == "ares.imports":
            os.kill(os.getpid(), signal.SIGTERM)
sys.meta_path.insert(0, Sender())
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["program", "module"])
def test_a_signal_has_its_line_from_the_first_import_on(way: str, tmp_path: Path) -> None:
    program = tmp_path / "ares"
    program.write_text("import sys\nfrom ares.__main__ import main\nsys.exit(main())\n")
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "sitecustomize.py").write_text(EARLY)
    path = os.pathsep.join([str(tmp_path / "early"), *sys.path])
    ran = subprocess.run(
        [sys.executable, *([str(program)] if way == "program" else ["-m", "ares"]), "set", "create", "late"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (143, "ares: stopped by SIGTERM\n")


@pytest.mark.slow
def test_a_library_or_a_process_of_a_pool_keeps_its_own_handlers() -> None:
    code = "import signal, ares; print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)"
    for arguments in (["-c", code, "ares"], ["-c", code, "-m", "ares", "status"]):
        ran = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
        assert ran.stdout == "True\n", ran.stderr
