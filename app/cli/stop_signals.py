"""SIGTERM and SIGHUP end a command as Ctrl-C does: its locks and processes go, and it says what was kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# SIGTERM comes from Slurm, `docker stop` and init systems; SIGHUP from a closed ssh session.
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_BASE_STATUS = 128


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
        return _BASE_STATUS + self.number

    @property
    def cause(self) -> str:
        """For example "Ctrl-C" or "SIGTERM"."""
        return "Ctrl-C" if self.number == signal.SIGINT else signal.Signals(self.number).name


class StopRequest:
    """Whether a signal has asked this process to end. A library may lose the exception, or turn it into its own."""

    signal_received: StoppedBySignal | None = None


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Raise StoppedBySignal in the main thread at the first of these signals; the second ends the process at once.

    A signal that is ignored stays ignored, such as SIGHUP under nohup. In another thread nothing is changed.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    handled = {number: handler for number, handler in previous.items() if _is_replaceable(handler)}

    def stop(number: int, frame: FrameType | None) -> None:
        for other in handled:
            signal.signal(other, signal.SIG_DFL)
        request.signal_received = StoppedBySignal(number)
        raise request.signal_received

    for number in handled:
        signal.signal(number, stop)
    try:
        yield request
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)


def _is_replaceable(handler: object) -> bool:
    # None is a handler that was not installed from Python, such as that of a program that embeds it.
    return handler is not None and handler is not signal.SIG_IGN
