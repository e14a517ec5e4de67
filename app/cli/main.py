"""Entry point of the `ares` command; it imports only the module of the selected command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

from app.cli.commands import COMMANDS, EXAMPLES
from app.cli.common import add_shared_defaults, add_shared_options, refuse_format
from app.cli.faults import run_command
from app.cli.parser import CommandParser
from app.cli.stop_signals import StopRequest, stop_on_signals
from ares.errors import RequestError
from ares.messages import timed, verbosity
from ares.settings import completed_line

__all__ = ["COMMANDS", "build_parser", "main"]

# These build no DataFrame; as programs they skip the import of pandas, which takes a second.
_WITHOUT_PANDAS = ("check", "doctor", "index", "ingest", "set", "show", "status", "use")
# Commands that change nothing: all that can be said of them when they are stopped.
_READING = ("search", "show", "rubric", "models", "status", "completion")
_NOTHING_CHANGED = "nothing was changed"
_STORED_STAYS = "what was stored until then stays; run the same command again"
# Options that may stand before the command and have a value.
_VALUE_OPTIONS = ("-w", "--workspace", "--output")


def build_parser(selected: str = "") -> CommandParser:
    """Return the parser of all commands.

    Args:
        selected: Command whose arguments are added. The modules of the other commands are not imported.
    """
    from ares import __version__

    parser = CommandParser(prog="ares", description="Curate robot episodes for training.")
    parser.set_examples(*EXAMPLES)
    parser.add_argument("--version", action="version", version=f"ares {__version__}")
    add_shared_options(parser)
    add_shared_defaults(parser)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, entry in COMMANDS.items():
        description = f"{entry.help[0].upper()}{entry.help[1:]}."
        command = subparsers.add_parser(name, help=entry.help, description=description)
        if name == selected:
            command.set_examples(*entry.examples)
            module = import_module(entry.module)
            module.add_arguments(command)
            command.set_defaults(
                run=module.run, describe_stop=getattr(module, "describe_stop", _default_kept)
            )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns an `ExitStatus`, or 128 and the number of the signal that stopped it."""
    if argv is None:
        if (line := completed_line()) is not None:
            _answer_shell(line)
        _prepare_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    with stop_on_signals() as request, ExitStack() as stack:
        invocation = _Invocation(arguments, stack, request, is_program=argv is None)
        return run_command(invocation.command, invocation.run, invocation.describe_stop, request)


def _answer_shell(line: str) -> None:
    """Write what may follow a command line to the shell that asks, and end; only the parser of its command is built."""
    from app.cli.shell import answer_shell

    words = line.split()[1:]
    selected = selected_command(words if line.endswith(" ") else words[:-1])
    answer_shell(build_parser(selected), selected)


class _Invocation:
    """One call of the command line: its arguments are parsed when it runs, as that imports the command.

    Args:
        arguments: What was typed behind `ares`.
        stack: Gets what has to be put back after the messages of the command.
        request: Whether a signal has asked the process to end.
        is_program: Whether the process ends with the command.
    """

    def __init__(
        self, arguments: Sequence[str], stack: ExitStack, request: StopRequest, is_program: bool
    ) -> None:
        self.command = selected_command(arguments)
        self._arguments = arguments
        self._stack = stack
        self._request = request
        self._is_program = is_program
        self._kept = _NOTHING_CHANGED

    def run(self) -> int:
        """Parse the arguments, run the command and close its workspace."""
        parser = build_parser(self.command)
        if not self._arguments:
            parser.print_help()
            return 0
        _refuse_undecodable(self._arguments)
        args = parser.parse_args(self._arguments)
        self._stack.enter_context(verbosity(args.verbosity))
        refuse_format(args)
        args.is_program = self._is_program
        if self._is_program and self.command in _WITHOUT_PANDAS:
            from ares.process_tuning import without_pandas

            without_pandas()
        try:
            with timed(f"ares {self.command}"):
                return int(args.run(args))
        except BaseException as error:
            # Before the workspace is closed: what was kept is counted in it.
            if isinstance(error, KeyboardInterrupt) or self._request.signal_received:
                self._kept = _describe_kept(args)
            raise
        finally:
            if "workspace_handle" in args:
                args.workspace_handle.close()

    def describe_stop(self) -> str:
        """What was kept when a signal stopped the command, and how to go on."""
        return self._kept


def selected_command(arguments: Sequence[str]) -> str:
    """The first argument that is no option and no value of an option that may stand before the command; or ""."""
    remaining = iter(arguments)
    for argument in remaining:
        if argument in _VALUE_OPTIONS:
            next(remaining, None)
        elif not argument.startswith("-"):
            return argument
    return ""


def _describe_kept(args: argparse.Namespace) -> str:
    try:
        return str(args.describe_stop(args))
    except Exception:  # what made the command stop may keep the workspace from being read, too
        return _STORED_STAYS


def _default_kept(args: argparse.Namespace) -> str:
    return _NOTHING_CHANGED if args.command in _READING else _STORED_STAYS


def _refuse_undecodable(arguments: Sequence[str]) -> None:
    """Raise RequestError for an argument that is not text: neither the tables nor the log can store it."""
    for argument in arguments:
        if "\0" in argument:
            raise RequestError("an argument has a null byte", repr(argument))
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise RequestError(
                "an argument is not valid UTF-8",
                f"{os.fsencode(argument)!r}; rename the file, or set LC_ALL=C.UTF-8",
            ) from None


def _prepare_streams() -> None:
    """Let a character that the terminal cannot show be printed as an escape, and a closed stream be nowhere."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for the whole process
        else:
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
