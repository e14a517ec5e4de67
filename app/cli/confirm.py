"""The question before a command takes something away, and the option that answers it."""

from __future__ import annotations

import argparse
import sys


def add_yes_argument(parser: argparse.ArgumentParser) -> None:
    """Add --yes."""
    parser.add_argument("--yes", action="store_true", help="do not ask")


def confirm(args: argparse.Namespace, question: str) -> bool:
    """Ask on the terminal; --yes is the answer yes.

    Returns:
        Whether the answer is yes.

    Raises:
        RequestError: There is no terminal to ask on, and no --yes.
    """
    from ares.errors import RequestError

    if args.yes:
        return True
    if not sys.stdin.isatty():
        raise RequestError("nothing was done, as there is no terminal to ask on", "give --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
