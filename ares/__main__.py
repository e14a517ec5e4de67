"""The `ares` command, also as `python -m ares`."""

from __future__ import annotations

import sys
from typing import cast

from ares.console import write_stderr
from ares.early_stop import answer_early_signals
from ares.errors import AresError
from ares.registry import operations


def main() -> int:
    """Run a command. Returns its exit status; 2 when the package of commands cannot be imported."""
    answer_early_signals()
    try:
        command = operations.get("command")
    except AresError as error:
        write_stderr(f"ares: {error}")
        return 2
    return cast("int", command())


if __name__ == "__main__":
    sys.exit(main())
