"""How a command ends: each exception or signal becomes one line of error and an exit status."""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import FrameType

from ares.console import discard, is_verbose, write_stderr
from ares.errors import AresError, NotTried, ServerError, shorten, storage_error
from ares.imports import PACKAGES
from ares_app.cli.output import OutputLostError, print_error
from ares_app.stop_signals import SIGNAL_STATUS, SignalWatch, signal_cause

# SIGTERM comes from Slurm, `docker stop` and init systems; SIGHUP from a closed ssh session.
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_ROOT = Path(__file__).resolve().parents[2]


class StoppedBySignal(KeyboardInterrupt):
    """The process was asked to end.

    Args:
        number: Number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_status(self) -> int:
        """128 and the number of the signal, as shells have it."""
        return SIGNAL_STATUS + self.number

    @property
    def cause(self) -> str:
        """For example "Ctrl-C" or "SIGTERM"."""
        return signal_cause(self.number)


@dataclass
class StopRequest:
    """Whether a signal has asked this process to end. A library may lose the exception, or turn it into another.

    Attributes:
        watch: Answers the signals while the main thread is busy.
        is_open: Whether a signal raises an exception; before and after the command that would be a traceback.
    """

    watch: SignalWatch
    is_open: bool = False

    @property
    def signal_received(self) -> StoppedBySignal | None:
        """The first signal, or None."""
        return None if self.watch.received is None else StoppedBySignal(self.watch.received)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handler of signals. Raises StoppedBySignal once, for the first."""
        self.watch.received = self.watch.received or number
        if self.is_open:
            self.is_open = False
            raise StoppedBySignal(self.watch.received)


@contextmanager
def stop_on_signals(command: str = "", kept: str = "") -> Iterator[StopRequest]:
    """Raise StoppedBySignal in the main thread at the first of these signals.

    Whatever the main thread does, the signal is answered by a line, and the process ends within ten seconds; the second
    signal ends it at once. A signal that is ignored stays ignored, such as SIGHUP under nohup. In another thread
    nothing is changed.

    Args:
        command: Name of the command, for messages.
        kept: What became of its work where it could not say so itself.
    """
    request = StopRequest(SignalWatch(f"ares {command}".strip(), kept))
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    handled = {number: handler for number, handler in previous.items() if _is_replaceable(handler)}
    for number in handled:
        signal.signal(number, request.handle)
    try:
        with request.watch.watching(tuple(handled)):
            request.is_open = True
            yield request
    finally:
        request.is_open = False
        for number, handler in handled.items():
            signal.signal(number, handler)


def _is_replaceable(handler: object) -> bool:
    # None is a handler that was not installed from Python, such as that of a program that embeds it.
    return handler is not None and handler is not signal.SIG_IGN


class ExitStatus(IntEnum):
    """Exit statuses of `ares`, beside 128 and the number of a signal."""

    DONE = 0
    """Everything was done."""
    ITEMS_FAILED = 1
    """The command ended, but some items failed, or `doctor` found something broken."""
    REFUSED = 2
    """The command could not be carried out: one line says why."""
    BUDGET_SPENT = 3
    """The budget was spent before all was done; what was not reached is open, and has not failed."""
    SERVER_FAILED = 4
    """A model server was given up; what was not tried is open, and has not failed."""
    BUG = 70
    """An error of ARES itself; EX_SOFTWARE of sysexits.h."""


# The statuses of runs that something ended before all was done, by the word that their reports have for it.
END_STATUSES = {"budget": ExitStatus.BUDGET_SPENT, "server": ExitStatus.SERVER_FAILED}
_STATUSES = {ServerError: ExitStatus.SERVER_FAILED, NotTried: ExitStatus.BUDGET_SPENT}


def run_command(
    command: str, action: Callable[[], int], describe_stop: Callable[[], str], request: StopRequest
) -> int:
    """Run a command and return its exit status; nothing is raised but the SystemExit of the parser.

    Args:
        command: Name of the command, for messages.
        action: Runs it and returns its exit status.
        describe_stop: Says what was kept, and how to go on, after a signal.
        request: Whether a signal has asked the process to end: whatever is raised after it comes from that.
    """

    def act() -> int:
        try:
            return action()
        except (
            BaseException
        ):  # whatever a library has made of the exception, such as a PanicException of Rust
            if request.signal_received:
                raise request.signal_received from None
            raise

    try:
        if request.watch.received:  # before the command began
            request.handle(request.watch.received, None)
        status = _run_to_exit_status(command, act)
        if status and request.signal_received:
            raise request.signal_received
        return status
    except KeyboardInterrupt as error:
        stopped = error if isinstance(error, StoppedBySignal) else StoppedBySignal(2)
        write_stderr(f"ares {command}: stopped by {stopped.cause}; {describe_stop()}")
        request.watch.has_reported_end = True
        return stopped.exit_status
    finally:
        request.is_open = False


def _run_to_exit_status(command: str, action: Callable[[], int]) -> int:
    try:
        status = action()
        _flush_answer()
        return int(status)
    except SystemExit as error:  # of the parser, after the help or an error
        return _after_parser(command, error)
    except AresError as error:
        _show_traceback()
        print_error(command, error)
        return refusal_status(error)
    except OutputLostError as error:
        return _lost_answer_status(command, error.error)
    except OSError as error:
        if _answer_is_lost():
            return _lost_answer_status(command, error)
        if error.errno is None:
            return _report_bug(command, error)
        _show_traceback()
        return _print_refusal(command, storage_error(error))
    except MemoryError:
        return _print_refusal(
            command, AresError("the memory is exhausted", "give --limit or a narrower --where")
        )
    except Exception as error:
        return _report_bug(command, error)


def refusal_status(error: AresError) -> ExitStatus:
    """The status of a command that an error ended."""
    return next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), ExitStatus.REFUSED)


def _after_parser(command: str, exit_request: SystemExit) -> int:
    """The status of the parser, unless the help could not be written."""
    try:
        _flush_answer()
    except OSError as error:
        return _lost_answer_status(command, error)
    raise exit_request


def _lost_answer_status(command: str, error: OSError) -> int:
    """Status and message when standard output cannot be written."""
    discard(sys.stdout)
    # `| head` has read what it wanted.
    if isinstance(error, BrokenPipeError):
        return ExitStatus.DONE
    return _print_refusal(command, AresError("the answer cannot be written", storage_error(error).detail))


def _print_refusal(command: str, error: AresError) -> int:
    print_error(command, error)
    return ExitStatus.REFUSED


def _report_bug(command: str, error: Exception) -> int:
    """Name type, message and location of an unexpected exception; the traceback follows with `-v`."""
    _show_traceback()
    hint = "" if is_verbose() else "; -v shows the traceback"
    text = shorten(str(error), 500)
    problem = f"{type(error).__name__}: {text}" if text else type(error).__name__
    print_error(command, AresError(f"this is a bug of ARES, {problem} ({_error_location(error)}){hint}"))
    return ExitStatus.BUG


def _error_location(error: BaseException) -> str:
    """File and line of ARES that the exception passed last, else those that raised it."""
    frames = list(traceback.extract_tb(error.__traceback__))
    last = next((frame for frame in reversed(frames) if _ares_path(frame.filename)), frames[-1])
    return f"{_ares_path(last.filename) or last.filename}:{last.lineno}"


def _ares_path(filename: str) -> str:
    """Path of a file of ARES below its installation, or "" for a file of a library."""
    path = Path(filename)
    if not path.is_relative_to(_ROOT) or path.relative_to(_ROOT).parts[0] not in PACKAGES:
        return ""
    return str(path.relative_to(_ROOT))


def _show_traceback() -> None:
    if is_verbose():
        write_stderr(*traceback.format_exc().rstrip().split("\n"))


def _flush_answer() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _answer_is_lost() -> bool:
    """Whether standard output cannot be written: a full disk, or a reader that has gone."""
    try:
        _flush_answer()
    except (OSError, ValueError):
        return True
    return False
