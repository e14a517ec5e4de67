"""The `ares` command, also as `python -m ares`: a module of the user that hides one of ours is an error."""

from __future__ import annotations

import sys
from typing import cast

from ares.console import write_stderr
from ares.early_stop import answer_early_signals
from ares.errors import AresError
from ares.imports import PACKAGES, refuse_shadowing
from ares.registry import operations


def main() -> int:
    """Run a command. Returns its exit status; 2 when a module of the user hides a package of ARES."""
    answer_early_signals()
    try:
        for package in PACKAGES:
            refuse_shadowing(package)
        command = operations.get("command")
    except AresError as error:
        write_stderr(f"ares: {error}")
        return 2
    return cast("int", command())


if __name__ == "__main__":
    sys.exit(main())
