"""Runs functions and commands in forked child processes, with limits of time and memory on all their processes."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

_POLL_SECONDS = 0.01
_PAGE = resource.getpagesize()
_DROPPED_CAPABILITIES = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: they read files of any permission
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP = 1, 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnd:
    """How a child process ended.

    Attributes:
        value: What the function returned; None when it did not.
        status: Exit status, or minus the signal that ended it.
        output: What it wrote to standard output.
        errors: What it wrote to standard error.
        seconds: How long it ran.
        peak_bytes: Most resident memory that it and its children had at one moment, as sampled.
        exceeded: "time" or "memory" for a child that was ended at a limit, else "".
    """

    value: Any
    status: int
    output: str
    errors: str
    seconds: float
    peak_bytes: int
    exceeded: str

    @property
    def fault(self) -> str:
        """What no input may cause: a limit exceeded, a crash, a bug or a traceback; else ""."""
        if self.exceeded:
            return f"more {self.exceeded} than allowed after {self.seconds:.1f} s, {self.peak_bytes >> 20} MB"
        if self.status < 0:
            return f"ended by {signal.Signals(-self.status).name}: {self.errors[-300:]}"
        if self.status == 70 or "Traceback (most recent call last)" in self.errors:
            return f"exit status {self.status}: {self.errors[-600:]}"
        return ""


def import_everything() -> None:
    """Import what the jobs use, once, in the process that all children are forked from.

    Not lancedb: a child starts its threads again at once, before its calls are supervised, so its writes are not seen.
    """
    warnings.filterwarnings("ignore", message=".*fork")
    import av
    import cv2
    import duckdb
    import h5py  # type: ignore[import-untyped]
    import lance
    import mcap
    import pyarrow.parquet

    import ares.doctor
    import ares_app.cli.main
    import ares_ingest.pipeline

    imported = (av, cv2, duckdb, h5py, lance, mcap, pyarrow, ares_app, ares, ares_ingest)
    assert all(imported)
    gc.freeze()


def import_as_in(job: Callable[[], object]) -> None:
    """Run a job once in a child, and import here every module that it has then: later children find them.

    Among them may be lancedb, so only for jobs whose files no thread of it writes.
    """
    from importlib import import_module

    def list_modules() -> list[str]:
        job()
        return [name for name in sys.modules if name != "__main__"]

    end = run_child(list_modules, seconds=120)
    if end.value is None:
        raise RuntimeError(end.errors[-1000:])
    for name in end.value:
        with suppress(ImportError):  # a module that was made in the process
            import_module(name)
    gc.freeze()


def run_child(
    function: Callable[[], Any],
    *,
    seconds: float,
    megabytes: int = 4_000,
    prepare: Callable[[], None] = lambda: None,
    kill_after: float | None = None,
) -> ChildEnd:
    """Run a function in a forked child; its result must be picklable.

    Args:
        function: What to run.
        seconds: The child and its children are killed once they have computed this long, or after five times as long:
            how busy the machine is decides nothing.
        megabytes: They are killed when they have more resident memory than this.
        prepare: Called in the child before the function.
        kill_after: Kill them with SIGKILL after this time, as part of the trial.
    """
    with (
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        tempfile.TemporaryFile() as result,
    ):
        started = time.monotonic()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _be_child(function, prepare, output, errors, result, parent)
        status, peak_bytes, exceeded = _watch(pid, started, seconds, megabytes << 20, kill_after)
        ended = time.monotonic() - started
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # what it started and left behind
        return ChildEnd(
            value=_read_result(result),
            status=status,
            output=_read_text(output),
            errors=_read_text(errors),
            seconds=ended,
            peak_bytes=peak_bytes,
            exceeded=exceeded,
        )


def run_ares(arguments: Sequence[str], *, seconds: float = 120, **limits: Any) -> ChildEnd:
    """Run `ares ARGUMENTS` in a forked child; `value` is its exit status where it was not killed."""

    def command() -> int:
        from ares_app.cli.main import main

        return int(main(list(arguments)))

    return run_child(command, seconds=seconds, **limits)


def obey_permissions() -> None:
    """Take from this process the privileges by which root reads every file."""
    import ctypes

    libc = ctypes.CDLL(None)
    for capability in _DROPPED_CAPABILITIES:
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if os.geteuid() == 0:
        _drop_effective_capabilities(libc)


def _drop_effective_capabilities(libc: Any) -> None:
    """capset(2) with the capabilities cleared; layout of _LINUX_CAPABILITY_VERSION_3."""
    import ctypes

    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    libc.capget(header, data)
    for capability in _DROPPED_CAPABILITIES:
        for word in (0, 1, 2):
            data[word] &= ~(1 << capability)
    libc.capset(header, data)


def _be_child(
    function: Callable[[], Any],
    prepare: Callable[[], None],
    output: BinaryIO,
    errors: BinaryIO,
    result: BinaryIO,
    parent: int,
) -> None:
    """Run the function and end the process; the exit status is the function's result where that is an int."""
    import ctypes
    import traceback

    status = 70
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(70)
        with Path(os.devnull).open() as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(errors.fileno(), 2)
        prepare()
        value = function()
        result.write(pickle.dumps(value))
        result.flush()
        status = value if isinstance(value, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status & 0xFF)


def _watch(
    pid: int, started: float, seconds: float, max_bytes: int, kill_after: float | None
) -> tuple[int, int, str]:
    """Wait for a child: its exit status, its peak memory, and the limit that it exceeded."""
    peak_bytes, exceeded = 0, ""
    while True:
        ended, wait_status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(wait_status), peak_bytes, exceeded
        elapsed = time.monotonic() - started
        tree = list(_tree(pid))
        peak_bytes = max(peak_bytes, sum(map(_resident_bytes, tree)))
        if not exceeded:
            is_late = elapsed > 5 * seconds or (elapsed > seconds and sum(map(_cpu_seconds, tree)) > seconds)
            exceeded = "time" if is_late else "memory" if peak_bytes > max_bytes else ""
        if exceeded or (kill_after is not None and elapsed >= kill_after):
            for member in tree:
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
        time.sleep(_POLL_SECONDS if kill_after is None else _POLL_SECONDS / 10)


def _tree(pid: int) -> Iterator[int]:
    """A process and its descendants; those of its threads too."""
    yield pid
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                yield from _tree(int(child))


def _cpu_seconds(pid: int) -> float:
    """Time that a process and its ended children have computed."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _resident_bytes(pid: int) -> int:
    """Resident memory of a process that other processes do not share with it, so that a fork counts once."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * _PAGE


def _read_result(file: BinaryIO) -> Any:
    file.seek(0)
    data = file.read()
    return pickle.loads(data) if data else None


def _read_text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read(4_000_000).decode(errors="backslashreplace")
