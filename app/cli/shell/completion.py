"""`ares completion`: print the tab completion of a shell."""

from __future__ import annotations

import argparse
import sys

from app.cli.common import add_verbosity_options
from app.cli.shell.scripts import SCRIPTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "shell", choices=list(SCRIPTS), metavar="SHELL", help=f"the shell: {', '.join(SCRIPTS)}"
    )
    # The scripts call this command with the words of the command line.
    parser.add_argument("--words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    add_verbosity_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print the script of a shell, or the words that may follow those on its command line."""
    if args.words is None:
        print(SCRIPTS[args.shell], end="")
        return 0
    from app.cli.shell.candidates import complete

    # Words behind the name of the program; the last is the word that is being typed, perhaps empty.
    for candidate in complete(args.words[1:]):
        separator = "" if args.shell == "bash" or not candidate.help else "\t"
        sys.stdout.write(f"{candidate.text}{separator}{candidate.help if separator else ''}\n")
    return 0
