"""Jobs of pages and programs: commands of ARES in processes that go on when the server ends, with states in files."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pickle
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ares.console import escape_logs
from ares.errors import ReadOnlyWorkspace, RequestError
from ares.jobs import watch_progress
from ares.settings import PERSON_VARIABLE, inherited_environment, inherited_path, settings_environment
from ares.store import Stores

if TYPE_CHECKING:
    from ares.episode import Json

State = Literal["running", "finished", "failed", "stopped", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A command of ARES that runs in a separate process, or has ended.

    Attributes:
        words: What a person types behind `ares`. Only one job has these words: a later one replaces it.
        subject: What a page shows it with, such as the label of a set; "" for the page of all jobs alone.
        started: ISO 8601 time in UTC.
        total: How many items are to be done, as far as that is known.
        done: How many of them are done.
        step: What is being counted, such as the annotators, or "" before anything is.
        left_seconds: How long the rest takes by the rate of the last minute; None where that is not known.
        pid: Number of its process; 0 until the process has begun.
        state: "lost" is a process that ended without saying how, such as a killed one.
        report: Once it has finished, its exit "status" and the "document" that `--json` prints.
        reason: Why it failed, or "".
        detail: The value and the location of the failure.
        person: Who started it.
        stopped_by: Who stopped it, or "".
    """

    words: tuple[str, ...]
    started: str
    subject: str = ""
    total: int = 0
    done: int = 0
    step: str = ""
    left_seconds: float | None = None
    pid: int = 0
    state: State = "running"
    report: Mapping[str, Any] | None = None
    reason: str = ""
    detail: str = ""
    person: str = ""
    stopped_by: str = ""

    @property
    def name(self) -> str:
        """The words as a line of a shell."""
        return shlex.join(self.words)

    @property
    def document(self) -> Any:
        """What `--json` has printed; None before the end, and of a command that has failed."""
        return (self.report or {}).get("document")

    @property
    def ended(self) -> bool:
        """Whether no process works on it any more."""
        return self.state != "running"


def find_job_folder(stores: Stores) -> Path:
    """The folder with the files of jobs, in the workspace, or in its cache where that is on an object store."""
    return stores.folder / "jobs"


def find_job_path(stores: Stores, words: Sequence[str]) -> Path:
    """The file of the job of a command."""
    digest = hashlib.blake2b(shlex.join(words).encode(errors="surrogateescape"), digest_size=8).hexdigest()
    return find_job_folder(stores) / f"{digest}.json"


def list_all_jobs(stores: Stores) -> list[Job]:
    """The jobs of every command, the newest first."""
    jobs = [read_job(path) for path in find_job_folder(stores).glob("*.json")]
    return sorted((job for job in jobs if job), key=lambda job: job.started, reverse=True)


def read_job(path: Path) -> Job | None:
    """Read a file; None where there is none, or one that cannot be read."""
    # Before the file, whose last state is written before the process ends.
    is_alive = is_job_process_alive(path)
    try:
        fields = json.loads(path.read_text())
        job = Job(**{**fields, "words": tuple(fields["words"])})
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    stop = path.with_suffix(".stop")
    if job.state == "stopped" or not (job.ended or is_alive):
        is_stopped = stop.exists()
        stopped_by = stop.read_text() if is_stopped else ""
        return replace(job, state="stopped" if is_stopped or job.ended else "lost", stopped_by=stopped_by)
    return job


def write_job(path: Path, job: Job, **changes: object) -> Job:
    """Write a job with some fields changed, in one step; returns it. Of one that has ended nothing is left."""
    job = replace(job, **changes)  # type: ignore[arg-type]
    job = replace(job, left_seconds=None) if job.ended else job
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".tmp")
    partial.write_text(json.dumps(asdict(job)))
    partial.replace(path)
    return job


_WRITE_SECONDS, _RATE_SECONDS = 0.5, 60.0


class JobProgress:
    """Writes into the file of a job how far it is, twice a second at most. Safe to update from threads.

    Args:
        path: The file.
        job: The job.
    """

    def __init__(self, path: Path, job: Job) -> None:
        self._path, self.job = path, job  # as far as it has come, also what is not written yet
        self._lock = threading.Lock()
        # When how much was done, of the last minute.
        self._counts: deque[tuple[float, int]] = deque()

    def tell(self, step: str, done: int, total: int | None) -> None:
        """Say what is being done, how much of it is done, and of how much, where that is known."""
        now = time.monotonic()
        with self._lock:
            if step != self.job.step:
                self._counts.clear()
            is_due = not self._counts or now - self._counts[-1][0] >= _WRITE_SECONDS
            if is_due:
                self._counts.append((now, done))
            while now - self._counts[0][0] > _RATE_SECONDS and len(self._counts) > 2:
                self._counts.popleft()
            (began, before), left = self._counts[0], None
            if total is not None and done > before:
                left = (total - done) * (now - began) / (done - before)
            self.job = replace(self.job, step=step, done=done, total=total or 0, left_seconds=left)
            if is_due:
                with suppress(OSError):  # a full disk ends no job that needs none of it
                    write_job(self._path, self.job)


def take_job_lock(path: Path) -> int:
    """Take the lock that the process of a job holds while it lives.

    Returns:
        Its file descriptor, to be passed to the process.

    Raises:
        BlockingIOError: A process has it, or somebody looks for one at this moment.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def is_job_process_alive(path: Path) -> bool:
    """Whether the process of a job lives."""
    if not path.with_suffix(".lock").exists():
        return False
    try:
        os.close(take_job_lock(path))
    except BlockingIOError:
        return True
    return False


# Files of jobs that have ended are deleted beyond so many.
_MAX_KEPT, _DAY_SECONDS = 100, 86_400.0
# A page that asks whether the process lives has its lock for a moment; a process that has written its end, for longer.
_LOCK_SECONDS, _END_SECONDS = 0.2, 5.0


def start_command(stores: Stores, words: Sequence[str], person: str, subject: str = "") -> Job:
    """Start what `ares WORDS` does, in a separate process, which goes on when the server ends.

    Args:
        stores: Stores of the workspace.
        words: The command and its arguments; what a person typed is a value of an option, or a path.
        person: Who starts it.
        subject: What a page shows it with.

    Raises:
        RequestError: The same command runs already.
        ReadOnlyWorkspace: The workspace cannot be written.
    """
    if not stores.is_writable:
        raise ReadOnlyWorkspace("the workspace is read-only", str(stores.folder))
    path = find_job_path(stores, words)
    clean_jobs(stores)
    lock = _wait_for_job_lock(path)
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    job = Job(words=tuple(words), subject=subject, person=person, started=started)
    try:
        path.with_suffix(".stop").unlink(missing_ok=True)
        write_job(path, job)
        # The settings may hold a password; other users of the machine cannot read variables.
        variables = {**settings_environment(stores.settings), **name_person(person)}
        process = start_module_process(
            "ares_app.server.jobs",
            [str(path), str(lock)],
            stores.location,
            inherited=[lock],
            variables=variables,
        )
    finally:
        os.close(lock)  # the new process holds it too
    assert process.stdin
    process.stdin.close()
    threading.Thread(target=process.wait, daemon=True).start()
    return job


def clean_jobs(stores: Stores) -> None:
    """Delete the files of jobs that ended long ago."""
    folder, oldest = find_job_folder(stores), time.time() - stores.settings.job_days * _DAY_SECONDS
    times = {path: _modified_at(path) for path in folder.glob("*.json")}
    newest_first = sorted(times, key=lambda path: times[path], reverse=True)
    for number, path in enumerate(newest_first):
        if (number >= _MAX_KEPT or times[path] < oldest) and not is_job_process_alive(path):
            for ending in (".json", ".lock", ".stop", ".log", ".out"):
                path.with_suffix(ending).unlink(missing_ok=True)
    for path in folder.glob("*.csv"):  # reasons of a composition
        if _modified_at(path) < oldest:
            path.unlink(missing_ok=True)


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another server has deleted it
        return time.time()


def _wait_for_job_lock(path: Path) -> int:
    began = time.monotonic()
    while True:
        try:
            return take_job_lock(path)
        except BlockingIOError:
            job = read_job(path)
            limit = _END_SECONDS if job and job.ended else _LOCK_SECONDS
            if time.monotonic() - began > limit:
                raise RequestError("the same job is running", "wait for its end, or stop it") from None
        time.sleep(_LOCK_SECONDS / 4)


def stop_job(stores: Stores, job: Job, person: str) -> None:
    """Ask the process of a job to end as Ctrl+C would.

    Args:
        stores: Stores of the workspace.
        job: The job.
        person: Who stops it.
    """
    path = find_job_path(stores, job.words)
    current = read_job(path)
    if current and current.pid and is_job_process_alive(path):
        path.with_suffix(".stop").write_text(person)
        os.kill(current.pid, signal.SIGINT)


def name_person(person: str) -> dict[str, str]:
    """The variable with the name that the log has for what a process does; none for nobody."""
    printable = "".join(character for character in person if character.isprintable())
    return {PERSON_VARIABLE: printable} if printable else {}


# Of two modules of one name the child finds the same.
_PROGRAM = """\
import json, runpy, sys
sys.path[:] = json.loads(sys.argv.pop(1))
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


def start_module_process(
    module: str,
    arguments: Sequence[str],
    message: object,
    *,
    inherited: Sequence[int] = (),
    stdout: int | None = None,
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Run a module as the main one of a process that Ctrl+C in the terminal does not reach.

    Args:
        module: Name of the module.
        arguments: Its command line; every user of the machine can read it.
        message: What it reads from its standard input by `pickle.load`; the pipe stays open.
        inherited: File descriptors that it keeps.
        stdout: As for `subprocess.Popen`.
        variables: Of its environment, beside those of this process.
    """
    command = [sys.executable, "-P", "-c", _PROGRAM, json.dumps(inherited_path()), module, *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=stdout,
        pass_fds=inherited,
        start_new_session=True,
        env={**inherited_environment(), **(variables or {})},
    )
    assert process.stdin
    pickle.dump(message, process.stdin)
    process.stdin.flush()
    return process


# What a page shows of the lines that a command has printed.
_LAST_LINES, _MOST_BYTES = 8, 20_000
# Exit statuses of a command that has ended by itself: all is done, or some items failed.
_ENDED = (0, 1)
# That of the parser, which has printed why it refuses the words.
_REFUSED = 2
# From here on, that of one that a signal has stopped.
_SIGNALLED = 128


def main() -> None:
    """Run the command of a job in this process, whose command line is JOB_FILE LOCK, and write down how it ends.

    What it prints is in two files beside that of the job: messages in `.log`, its document in `.out`.
    """
    from ares.registry import operations

    escape_logs()
    path, lock = Path(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(lock, False)  # only this process holds it
    location = pickle.load(sys.stdin.buffer)
    job = read_job(path)
    assert job
    for number in (signal.SIGINT, signal.SIGTERM):  # which a server that `nohup` started ignores
        signal.signal(number, signal.default_int_handler)
    progress = JobProgress(path, job)
    try:
        # Who reads the number of this process may stop it at once.
        progress.job = job = write_job(path, job, pid=os.getpid())
        for descriptor, ending in ((1, ".out"), (2, ".log")):
            with path.with_suffix(ending).open("wb") as file:
                os.dup2(file.fileno(), descriptor)
        watch_progress(progress.tell)
        status = operations.get("command")([*job.words, "--workspace", location, "--json"])
    except KeyboardInterrupt:
        status = _SIGNALLED
    except SystemExit:
        status = _REFUSED
    sys.stdout.flush()
    _write_end(path, progress.job, status)


def _write_end(path: Path, job: Job, status: int) -> None:
    document = _read_document(path.with_suffix(".out"))
    if status >= _SIGNALLED:
        write_job(path, job, state="stopped")
        return
    if status in _ENDED:
        write_job(path, job, state="finished", report={"status": status, "document": document})
        return
    error = document.get("error", {}) if isinstance(document, dict) else {}
    reason = str(error.get("reason") or "the command failed")
    detail = str(error.get("detail") or "\n".join(_read_last_lines(path)[-1:]))
    write_job(path, job, state="failed", reason=reason, detail=detail)


def _read_document(path: Path) -> Json:
    """The last document that begins a line; a plug-in may have printed as well. Without any, {}."""
    try:
        text = path.read_text(errors="replace")
    except OSError:  # a purge deletes what names its episodes
        return {}
    for start in reversed([match.start() for match in re.finditer(r"^[\[{]", text, re.MULTILINE)]):
        with suppress(ValueError, RecursionError):
            document: Json
            document, _ = json.JSONDecoder().raw_decode(text, start)
            return document
    return {}


def last_lines_of(stores: Stores, job: Job) -> list[str]:
    """The last lines that a job has printed; none before the first."""
    return _read_last_lines(find_job_path(stores, job.words))


def _read_last_lines(path: Path) -> list[str]:
    try:
        with path.with_suffix(".log").open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    # A line that a progress bar has drawn over ends with a carriage return.
    lines = [line.rpartition("\r")[2] or line.strip("\r") for line in text.split("\n")]
    return [line for line in lines if line.strip()][-_LAST_LINES:]


if __name__ == "__main__":
    main()
