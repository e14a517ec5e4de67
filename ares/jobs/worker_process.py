"""A worker process of this machine: how it starts, answers batches within limits, and ends with its parent."""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import cache, partial
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from ares.console import escape_logs
from ares.jobs.engine import WorkerLimits
from ares.jobs.worker_pool import WorkerDied, WorkerKilled, WorkerLimitExceeded, WorkerLost, WorkerNotStarted
from ares.settings import inherited_environment, inherited_path

# Not multiprocessing: that runs the user's main script again, which may have no guard against it. What keeps it from
# starting is sent as the first message, in the form that `Connection` reads.
_PROGRAM = """\
import os, sys
descriptor = int(sys.argv[1])
try:
    import json
    sys.path[:] = json.loads(sys.argv[2])
    from ares.jobs.worker_process import serve
except BaseException as error:
    reason = f"{type(error).__name__}: {error}".encode(errors="replace")[:500]
    os.write(descriptor, len(reason).to_bytes(4, "big") + reason)
    sys.exit(1)
serve(descriptor)
"""
_READY = b"ready"
_STDERR = 2
_PR_SET_PDEATHSIG = 1
_EXIT_TIMEOUT_SECONDS = 5.0
_POLL_SECONDS = 0.1
_CANNOT_START = "a worker process cannot start"


_Starts = SimpleQueue[tuple["Future[Any]", Callable[[], Any]]]


@cache
def _start_queue(process_id: int) -> _Starts:
    """What a thread runs that lives as long as this process: Linux ends a child with the thread that started it.

    Not an executor: those take nothing more once the main script has ended, where other threads may still work.
    """
    starts: _Starts = SimpleQueue()
    threading.Thread(target=_run_starts, args=(starts,), name="worker-starter", daemon=True).start()
    return starts


def _run_starts(starts: _Starts) -> None:
    while True:
        future, start = starts.get()
        try:
            future.set_result(start())
        except BaseException as error:
            future.set_exception(error)


class MachineMemory(NamedTuple):
    """Memory of this machine, in bytes; zeros where the system does not say."""

    total_bytes: int
    free_bytes: int


def machine_memory() -> MachineMemory:
    """The memory of this machine, and how much of it new processes can take."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return MachineMemory(0, 0)
    sizes = {name: int(size) * 1024 for name, size in re.findall(r"(\w+):\s+(\d+) kB", text)}
    return MachineMemory(sizes.get("MemTotal", 0), sizes.get("MemAvailable", 0))


def is_picklable(fn: Callable[..., Any], sample: Sequence[Any]) -> bool:
    """Whether a function and sample items can be sent to another process: nothing local or of the main script."""
    try:
        return b"__main__" not in pickle.dumps((fn, list(sample)))
    except (pickle.PicklingError, AttributeError, TypeError):
        return False


class WorkerProcess:
    """A worker process; it is started at once and says when it is ready.

    Args:
        build: Makes the function, in the new process.
        limits: What one batch may cost; None for no limits.

    Raises:
        WorkerNotStarted: It cannot be started.
    """

    def __init__(
        self,
        build: Callable[[], Callable[[Sequence[Any]], Sequence[Any]]],
        limits: WorkerLimits | None = None,
    ) -> None:
        self._limits = limits
        self._connection, child_connection = Pipe()
        with child_connection:
            descriptor = child_connection.fileno()
            command = [sys.executable, "-P", "-c", _PROGRAM, str(descriptor), json.dumps(inherited_path())]
            start = partial(
                subprocess.Popen,
                command,
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
                stdout=_STDERR,  # what the function prints must not get into the command's answer
                env=inherited_environment(),
            )
            process: Future[subprocess.Popen[bytes]] = Future()
            _start_queue(os.getpid()).put((process, start))
            try:
                self._process = process.result()
            except OSError as error:  # no memory, too many processes, no such interpreter
                raise WorkerNotStarted(
                    _CANNOT_START, f"{error.filename or ''} {error.strerror}".strip()
                ) from None
        with suppress(OSError):  # it has ended already: the first call of `process` reports why
            self._connection.send_bytes(pickle.dumps(build))
        self._is_ready = False

    def is_ready(self) -> bool:
        """Whether the function has been made there."""
        return self._is_ready or self._connection.poll()

    def process(self, batch: Sequence[Any]) -> Sequence[Any]:
        """One result per item.

        Raises:
            WorkerDied: The process ended during this batch.
            WorkerLimitExceeded: The batch exceeded the limits; the process was killed.
            WorkerNotStarted: It ended before its first batch.
            Exception: What the function raised, with the traceback of the worker as a note.
        """
        if not self._is_ready:
            self._wait_until_ready()
        try:
            self._connection.send_bytes(pickle.dumps(list(batch), pickle.HIGHEST_PROTOCOL))
            self._wait_within_limits()
            is_result, answer = pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            reason = self._exit_reason()
            raise (WorkerKilled if self._was_killed() else WorkerDied)(reason) from None
        if not is_result:
            raise answer
        results: Sequence[Any] = answer
        return results

    def _wait_within_limits(self) -> None:
        """Wait for the answer. Raises WorkerLimitExceeded, after killing the process."""
        if self._limits is None:
            return
        started, idle_bytes = time.monotonic(), resident_bytes(self._process.pid)
        while not self._connection.poll(_POLL_SECONDS):
            if time.monotonic() - started > self._limits.seconds:
                self._process.kill()
                raise WorkerLimitExceeded(
                    "the record took too long to read", f"more than {self._limits.seconds:g} s"
                )
            if resident_bytes(self._process.pid) - idle_bytes > self._limits.memory_bytes:
                self._process.kill()
                raise WorkerLimitExceeded(
                    "reading takes more memory than allowed", f"more than {self._limits.memory_bytes} bytes"
                )

    def _wait_until_ready(self) -> None:
        try:
            answer = self._connection.recv_bytes()
        except (EOFError, OSError):
            reason = self._exit_reason()
            if self._was_killed():  # no batch is the cause: it had none
                raise WorkerLost(reason) from None
            raise WorkerNotStarted(_CANNOT_START, f"{reason}; see its output above") from None
        if answer != _READY:
            raise WorkerNotStarted(_CANNOT_START, answer.decode(errors="replace"))
        self._is_ready = True

    def close(self) -> None:
        """Kill it, even in the middle of a batch."""
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def _was_killed(self) -> bool:
        """Whether it ended by a signal that others send; the system, too, when memory is short."""
        return self._process.returncode in (-signal.SIGKILL, -signal.SIGTERM)

    def _exit_reason(self) -> str:
        """Signal or exit status of the process."""
        try:
            status = self._process.wait(_EXIT_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            return f"no exit within {_EXIT_TIMEOUT_SECONDS:.0f} s of closing its connection"
        return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def resident_bytes(process_id: int) -> int:
    """Resident memory of a process of this machine; 0 where the system does not tell, or it has ended."""
    try:
        pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def serve(connection_fd: int) -> None:
    """Main loop of a worker process, until its parent goes away.

    Args:
        connection_fd: File descriptor of the connection to the parent, which sends the pickled builder of the function
            first and then batches; each batch is answered.
    """
    _end_with_parent()
    # The parent decides what a signal to the whole group ends; it closes the connection, which ends this process.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    escape_logs()
    connection = Connection(connection_fd)
    with suppress(EOFError, OSError):
        fn = _build_function(connection.recv_bytes())
        connection.send_bytes(_READY)
        while True:
            connection.send_bytes(_answer_batch(fn, connection.recv_bytes()))


def _end_with_parent() -> None:
    """Have Linux kill this process when its parent ends, even in the middle of a batch."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _build_function(build: bytes) -> Callable[[Any], Any] | Exception:
    """The function, or the error in making it, which must not be taken for a death of the worker."""
    try:
        fn: Callable[[Any], Any] = pickle.loads(build)()
    except Exception as error:
        error.add_note(traceback.format_exc())
        return error
    return fn


def _answer_batch(fn: Callable[[Any], Any] | Exception, batch: bytes) -> bytes:
    """(True, results) or (False, exception), pickled."""
    try:
        if isinstance(fn, Exception):
            raise fn
        return pickle.dumps((True, fn(pickle.loads(batch))), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        if error is not fn:
            error.add_note(traceback.format_exc())
        try:
            answer = pickle.dumps((False, error))
            pickle.loads(answer)
            return answer
        except Exception:
            return pickle.dumps((False, RuntimeError("".join(traceback.format_exception(error)))))
