"""The `ares` command, also as `python -m ares`: a module of the user that hides one of ours is an error."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import cast

from ares.console import write_stderr
from ares.errors import AresError
from ares.imports import PACKAGES, refuse_shadowing
from ares.registry import operations


def main() -> int:
    """Run a command. Returns its exit status; 2 when a module of the user hides a package of ARES."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end_before_the_command)
    try:
        for package in PACKAGES:
            refuse_shadowing(package)
        command = operations.get("command")
    except AresError as error:
        write_stderr(f"ares: {error}")
        return 2
    return cast("int", command())


def _end_before_the_command(number: int, frame: FrameType | None) -> None:
    """End the process where a signal comes before the command has begun, or when it has ended."""
    os.write(2, f"ares: stopped by {signal.Signals(number).name}\n".encode())
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
