"""Process: a worker that is another Python process of this machine, and ends when its parent does."""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import Any

from ares.errors import RequestError
from ares.jobs.pool import Died

# Not multiprocessing: that runs the user's main script again, which may have no guard against it.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from ares.jobs.process import serve; serve(int(sys.argv[1]))"
)
_STDERR = 2
_END_SECONDS = 5.0
_CANNOT_START = "a worker process cannot start"


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def can_be_sent(work: Callable[..., Any], sample: Sequence[Any]) -> bool:
    """Whether a worker can be given such items: not what only the main script or a local function knows."""
    try:
        return b"__main__" not in pickle.dumps((work, list(sample)))
    except (pickle.PicklingError, AttributeError, TypeError):
        return False


class Process:
    """A worker process; it is started at once and says when it is ready.

    Args:
        build: Makes the work, there.

    Raises:
        RequestError: It cannot be started.
    """

    def __init__(self, build: Callable[[], Callable[[Sequence[Any]], Sequence[Any]]]) -> None:
        self._line, theirs = Pipe()
        with theirs:
            words = [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), json.dumps(sys.path)]
            try:
                # What the work prints must not get into the command's answer.
                self._process = subprocess.Popen(
                    words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=_STDERR
                )
            except OSError as error:  # no memory, too many processes, no such interpreter
                raise RequestError(
                    _CANNOT_START, f"{error.filename or ''} {error.strerror}".strip()
                ) from None
        with suppress(OSError):  # it has ended already: the first who asks it is told of what
            self._line.send_bytes(pickle.dumps(build))
        self._ready = False

    def ready(self) -> bool:
        """Whether the work has been made there."""
        return self._ready or self._line.poll()

    def ask(self, batch: Sequence[Any]) -> Sequence[Any]:
        """One result per item. Raises Died, or what the work raised, with the traceback of there as a note.

        Raises RequestError when it ended before there was any work: the next one would, too.
        """
        if not self._ready:
            self._begin()
        try:
            self._line.send_bytes(pickle.dumps(list(batch), pickle.HIGHEST_PROTOCOL))
            good, answer = pickle.loads(self._line.recv_bytes())
        except (EOFError, OSError):
            raise Died(self._end()) from None
        if not good:
            raise answer
        results: Sequence[Any] = answer
        return results

    def _begin(self) -> None:
        try:
            self._line.recv_bytes()
        except (EOFError, OSError):
            ended = f"{self._end()}; what it said stands above"
            raise RequestError(_CANNOT_START, ended) from None
        self._ready = True

    def close(self) -> None:
        """End it, in the middle of its work too."""
        self._line.close()
        self._process.kill()
        self._process.wait()

    def _end(self) -> str:
        """What it died of."""
        try:
            status = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return "it went silent"
        return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def serve(number: int) -> None:
    """Do the work of a parent until it goes away.

    Args:
        number: File descriptor of the line to it: first what makes the work, then batches, each answered.
    """
    # The parent decides what an interrupt ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = Connection(number)
    asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(line, asked), daemon=True).start()
    made = _made(asked.get())
    line.send_bytes(b"ready")
    while True:
        line.send_bytes(_answer(made, asked.get()))


def _made(build: bytes) -> Callable[[Any], Any] | Exception:
    """The work; an error in making it must not look like a death."""
    try:
        run: Callable[[Any], Any] = pickle.loads(build)()
    except Exception as error:
        error.add_note(traceback.format_exc())
        return error
    return run


def _listen(line: Connection[Any, Any], asked: queue.SimpleQueue[bytes]) -> None:
    """Pass on what is asked; when the parent is gone, end at once, whatever is being done."""
    try:
        while True:
            asked.put(line.recv_bytes())
    except (EOFError, OSError):
        os._exit(1)


def _answer(made: Callable[[Any], Any] | Exception, batch: bytes) -> bytes:
    try:
        if isinstance(made, Exception):
            raise made
        return pickle.dumps((True, made(pickle.loads(batch))), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        if error is not made:
            error.add_note(traceback.format_exc())
        try:
            answer = pickle.dumps((False, error))
            pickle.loads(answer)
            return answer
        except Exception:
            return pickle.dumps((False, RuntimeError("".join(traceback.format_exception(error)))))
