"""Runs batches in other processes of this machine, and replaces those that die in the middle of one."""

from __future__ import annotations

import json
import os
import pickle
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol

from ares.console import escape_logs
from ares.errors import AresError, RequestError
from ares.jobs.engine import BatchFunction, R, T, WorkerLimits
from ares.settings import inherited_environment, inherited_path


class WorkerDied(Exception):
    """The worker died while it worked on a batch; the text says of what.

    Attributes:
        most_deaths: How many such deaths make an item the likely cause of them.
    """

    most_deaths = 2


class WorkerKilled(WorkerDied):
    """The worker was ended from outside, or by what looks like that: a batch is the cause only if it happens often."""

    most_deaths = 5


class WorkerLimitExceeded(WorkerDied):
    """The worker was ended because a batch took too long or too much memory; the text says which."""


class Worker(Protocol):
    """A process or an actor that works on batches."""

    def is_ready(self) -> bool:
        """Whether it would begin at once."""

    def process(self, batch: Sequence[Any]) -> Sequence[Any]:
        """One result per item. Raises WorkerDied, WorkerLimitExceeded, or whatever the function raised."""

    def close(self) -> None:
        """End it."""


class WorkerLost(WorkerDied):
    """The machine of the worker is gone: the items cannot have killed it."""


# An item whose machine is lost so often is tried no more.
_MOST_LOSSES = 10
# Whoever waits looks so often whether a worker has become ready.
_READY_SECONDS = 0.05


def map_with_retries(
    process: BatchFunction[T, R],
    retry: BatchFunction[T, R],
    batch: Sequence[T],
    on_worker_death: type[AresError],
) -> Sequence[R | AresError]:
    """One result or error per item, in order; items of a batch whose worker died are tried once more, one by one.

    Args:
        process: Works on the batch.
        retry: Works on one item after that, in another worker.
        batch: The items.
        on_worker_death: Error of an item whose worker died in both attempts; lost machines do not count, and a worker
            that was killed is replaced more often. Nobody can tell whether others or the item killed a worker, so
            the reason says neither.
    """
    try:
        return process(batch)
    except WorkerDied as error:
        if isinstance(error, WorkerLimitExceeded) and len(batch) == 1:
            return [on_worker_death(*error.args)]  # a second attempt would take as long
        # One by one, so that an item that kills its worker costs no other item.
        deaths = 0 if isinstance(error, WorkerLost) else 1
        return [_retry_item(retry, item, on_worker_death, deaths) for item in batch]


def _retry_item(
    retry: BatchFunction[T, R], item: T, on_worker_death: type[AresError], deaths: int
) -> R | AresError:
    """The result of one item, which has been in a batch whose worker died so often already."""
    for _ in range(_MOST_LOSSES):
        try:
            return retry([item])[0]
        except WorkerLimitExceeded as error:
            return on_worker_death(*error.args)
        except WorkerLost:
            continue
        except WorkerDied as error:
            deaths += 1
            if deaths >= error.most_deaths:
                return on_worker_death("its worker died every time", f"{error}, {deaths} times")
    return on_worker_death(f"its machine was lost {_MOST_LOSSES} times", "")


class RestartingPool(Generic[T, R]):
    """A fixed number of slots for workers; a batch goes to whatever is free and ready first.

    Args:
        start_workers: Each makes the worker of one slot, which need not be ready at once; the last works first.
        on_worker_death: Error of an item whose worker died in two attempts.
        inline_fn: The function itself, called in the calling threads, one at a time, while workers are not ready; None
            for never.
        start_after_seconds: How long the function runs in the calling threads before workers are started.
        stays_inline: Whether it goes on to run there, beside the workers.
    """

    def __init__(
        self,
        start_workers: Sequence[Callable[[], Worker]],
        on_worker_death: type[AresError],
        inline_fn: BatchFunction[T, R] | None = None,
        start_after_seconds: float = 0.0,
        stays_inline: bool = False,
    ) -> None:
        self.max_workers = len(start_workers) + stays_inline
        self._slots = [_WorkerSlot(start_worker) for start_worker in start_workers]
        self._on_worker_death = on_worker_death
        self._inline_fn = inline_fn
        self._start_after_seconds = start_after_seconds
        self._stays_inline = stays_inline
        self._started_at: float | None = None
        # Last in, first out: with little work, few workers are started.
        self._free_slots = list(self._slots)
        # CPU-bound threads that run together take three times as long as one by one.
        self._is_inline_free = inline_fn is not None
        self._waiting = 0
        self._changed = threading.Condition()

    @property
    def most_workers(self) -> int:
        """Calls of `map` that can ever run at the same time."""
        return self.max_workers

    def map(self, batch: Sequence[T]) -> Sequence[R | AresError]:
        """One result or error per item, in order; raises what the function raised."""
        return map_with_retries(
            self._process, partial(self._process, is_retry=True), batch, self._on_worker_death
        )

    def start(self) -> None:
        """Start all workers now, without waiting for them: there is enough work for each."""
        self._started_at = float("-inf")
        for slot in self._slots:
            with suppress(WorkerNotStarted):  # its first batch starts it again
                slot.worker()

    def close(self) -> None:
        """End all workers."""
        for slot in self._slots:
            slot.close()

    def _process(self, batch: Sequence[T], is_retry: bool = False) -> Sequence[R | AresError]:
        for _ in range(_STARTS - 1):
            with suppress(WorkerNotStarted):
                return self._process_once(batch, is_retry)
            time.sleep(_START_PAUSE_SECONDS)
        return self._process_once(batch, is_retry)

    def _process_once(self, batch: Sequence[T], is_retry: bool) -> Sequence[R | AresError]:
        slot = self._take(is_retry)
        worker = None
        try:
            if slot is None:
                assert self._inline_fn is not None
                return self._inline_fn(batch)
            worker = slot.worker()
            results: Sequence[R | AresError] = worker.process(batch)
            return results
        except (WorkerDied, WorkerNotStarted):
            if slot is not None:
                slot.discard(worker)
            raise
        finally:
            self._give_back(slot)

    def _take(self, is_retry: bool) -> _WorkerSlot | None:
        """A slot whose worker is ready, or None for the calling thread, which works on no item that killed a worker."""
        with self._changed:
            self._waiting += 1
            try:
                while True:
                    if self._is_due_inline() and not is_retry:
                        self._is_inline_free = False
                        return None
                    if self._is_start_due() and (slot := self._ready_slot()) is not None:
                        self._free_slots.remove(slot)
                        return slot
                    self._changed.wait(_READY_SECONDS)
            finally:
                self._waiting -= 1

    def _is_due_inline(self) -> bool:
        """Whether the calling thread works itself: as one of the workers, or because not all of them are ready."""
        if not self._is_inline_free or self._stays_inline or not self._is_start_due():
            return self._is_inline_free
        return bool(self._free_slots) and self._ready_slot() is None

    def _ready_slot(self) -> _WorkerSlot | None:
        """A free slot with a ready worker; as many workers are started as threads wait."""
        for slot in self._free_slots[-self._waiting :]:
            slot.worker()
        return next((slot for slot in reversed(self._free_slots) if slot.is_ready()), None)

    def _give_back(self, slot: _WorkerSlot | None) -> None:
        with self._changed:
            if slot is None:
                self._is_inline_free = True
            else:
                self._free_slots.append(slot)
            self._changed.notify_all()

    def _is_start_due(self) -> bool:
        now = time.monotonic()
        if self._started_at is None:
            self._started_at = now
        return now - self._started_at >= self._start_after_seconds


class _WorkerSlot:
    """Room for one worker: the current one, or the one that replaces it."""

    def __init__(self, start_worker: Callable[[], Worker]) -> None:
        self._start_worker = start_worker
        self._worker: Worker | None = None
        self._lock = threading.Lock()

    def worker(self) -> Worker:
        with self._lock:
            if self._worker is None:
                self._worker = self._start_worker()
            return self._worker

    def is_ready(self) -> bool:
        """Whether there is a worker that would begin at once."""
        with self._lock:
            return self._worker is not None and self._worker.is_ready()

    def discard(self, worker: Worker | None) -> None:
        """End a worker, unless another thread has done so already."""
        with self._lock:
            if worker is not None and self._worker is worker:
                self._worker = None
                worker.close()

    def close(self) -> None:
        self.discard(self._worker)


# Not multiprocessing: that runs the user's main script again, which may have no guard against it. What keeps it from
# starting is sent as the first message, in the form that `Connection` reads.
_PROGRAM = """\
import os, sys
descriptor = int(sys.argv[1])
try:
    import json
    sys.path[:] = json.loads(sys.argv[2])
    from ares.jobs.worker_pool import serve
except BaseException as error:
    reason = f"{type(error).__name__}: {error}".encode(errors="replace")[:500]
    os.write(descriptor, len(reason).to_bytes(4, "big") + reason)
    sys.exit(1)
serve(descriptor)
"""
_READY = b"ready"
_STDERR = 2
_EXIT_TIMEOUT_SECONDS = 5.0
_POLL_SECONDS = 0.1
_CANNOT_START = "a worker process cannot start"
# A worker that cannot start is started so often, after so long a pause: memory may be short for a moment.
_STARTS, _START_PAUSE_SECONDS = 3, 0.5


class WorkerNotStarted(RequestError):
    """A worker that could not start; the next one may."""


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
            try:
                # What the function prints must not get into the command's answer.
                self._process = subprocess.Popen(
                    command,
                    pass_fds=[descriptor],
                    stdin=subprocess.DEVNULL,
                    stdout=_STDERR,
                    env=inherited_environment(),
                )
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
    # The parent decides what a signal to the whole group ends; it closes the connection, which ends this process.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    escape_logs()
    connection = Connection(connection_fd)
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive_messages, args=(connection, messages), daemon=True).start()
    fn = _build_function(messages.get())
    connection.send_bytes(_READY)
    while True:
        connection.send_bytes(_answer_batch(fn, messages.get()))


def _build_function(build: bytes) -> Callable[[Any], Any] | Exception:
    """The function, or the error in making it, which must not be taken for a death of the worker."""
    try:
        fn: Callable[[Any], Any] = pickle.loads(build)()
    except Exception as error:
        error.add_note(traceback.format_exc())
        return error
    return fn


def _receive_messages(connection: Connection[Any, Any], messages: queue.SimpleQueue[bytes]) -> None:
    """Queue the parent's messages; when the parent is gone, exit at once, even in the middle of a batch."""
    try:
        while True:
            messages.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(1)


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
