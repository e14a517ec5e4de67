"""Says which signal has ended a command that is imported still, before it can say more."""

from __future__ import annotations

import os
import signal


def answer_early_signals() -> None:
    """Let the signals that end this process print a line; one that is ignored stays ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end_early)


def _end_early(number: int, frame: object) -> None:
    """End the process where a signal comes before the command has begun, or when it has ended."""
    os.write(2, f"ares: stopped by {signal.Signals(number).name}\n".encode())
    os._exit(128 + number)
