"""Entry point of `ares`: the table of commands, of which only the selected one is imported."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from ares.console import report_long_steps, timed, verbosity
from ares.errors import AresError, RequestError
from ares.settings import (
    drop_current_folder_from_path,
    name_ignored_config,
    selected_config,
)
from ares_app.cli.arguments import add_shared_options, refuse_output_format, refuse_output_urls
from ares_app.cli.errors import ExitStatus, StopRequest, refusal_status, run_command, stop_on_signals
from ares_app.cli.output import answer_refusal
from ares_app.cli.parser import CommandParser
from ares_app.stop_signals import end_process

# The commands in `ares --help`, by what they are for.
COMMAND_GROUPS = {
    "data": ("ingest", "check", "fix", "audit", "show", "statistics"),
    "annotation and people": ("annotate", "use", "rubric", "review", "correct", "tag", "note"),
    "selection": ("search", "set", "evaluate", "remove", "undo"),
    "out and upkeep": ("export", "app", "status", "failures", "index", "doctor", "demo"),
}
EXAMPLES = (
    "ares ingest ~/data/bridge_dataset -w ~/curation",
    "ares annotate embed caption grade -w ~/curation",
    "ares search 'put the mug on the shelf' -w ~/curation",
    "ares set create good --where 'acceptable AND success' -w ~/curation",
    "ares export good ~/train/good --format lerobot -w ~/curation",
)
# These build no DataFrame; as programs they skip the import of pandas, which takes a second.
_WITHOUT_PANDAS = ("check", "doctor", "fix", "index", "ingest", "set", "show", "status", "use")
# Commands that change nothing: all that can be said of them when they are stopped.
_READING = ("search", "show", "rubric", "status")
_NOTHING_CHANGED = "nothing was changed"
_STORED_STAYS = "what was stored until then stays; run the same command again"
_KEPT = dict.fromkeys(_READING, _NOTHING_CHANGED)
# Options that may stand before the command and have a value.
_VALUE_OPTIONS = ("-w", "--workspace", "--output", "--config")


class CommandEntry(NamedTuple):
    """Where a command is defined, and its help.

    Attributes:
        module: Module with `add_NAME_arguments(parser)`, which also sets `run(args) -> exit status` of the parser, and
            `describe_stop(args) -> str` where something is kept when the command is stopped.
        help: One line for `ares --help`.
        examples: What `ares COMMAND --help` shows at its end.
    """

    module: str
    help: str
    examples: tuple[str, ...] = ()


COMMANDS = {
    "ingest": CommandEntry(
        "ares_app.cli.ingest",
        "read datasets into the workspace",
        (
            "ares ingest ~/data/bridge_dataset -w ~/curation",
            "ares ingest s3://datasets/bridge --dataset bridge --limit 100",
            "ares ingest ~/videos --cameras '{episode}_{camera}.mp4' --rate 10",
        ),
    ),
    "check": CommandEntry(
        "ares_app.cli.check",
        "check the signals of datasets where they lie",
        ("ares check ~/data/bridge_dataset", "ares check ~/data --limit 1000 --json"),
    ),
    "fix": CommandEntry(
        "ares_app.cli.fix",
        "correct what the data alone decide, in a copy of a dataset",
        ("ares fix ~/data/so101 ~/data/so101-corrected --dry-run",),
    ),
    "audit": CommandEntry(
        "ares_app.cli.audit",
        "find instructions that do not fit, and near duplicates",
        ("ares audit instructions", "ares audit duplicates bridge_dataset"),
    ),
    "annotate": CommandEntry(
        "ares_app.cli.annotate",
        "run annotators over the episodes that lack them",
        (
            "ares annotate embed caption grade -w ~/curation",
            "ares annotate caption --model openai:qwen@http://localhost:8000/v1 --dry-run",
            "ares annotate motion --where 'num_steps > 50' --limit 1000",
        ),
    ),
    "search": CommandEntry(
        "ares_app.cli.search",
        "find moments by text, image or episode",
        (
            "ares search 'put the mug on the shelf'",
            "ares search drawer --where 'success' --by captions --output csv",
            "ares search --like 42b13cbc --limit 5",
        ),
    ),
    "show": CommandEntry(
        "ares_app.cli.show",
        "everything known of one episode, or what is believed of a dataset",
        ("ares show 42b13cbcbaa01293", "ares show 42b1 --json", "ares show bridge_dataset"),
    ),
    "set": CommandEntry(
        "ares_app.cli.set",
        "make, list, show, compare and change frozen sets",
        (
            "ares set create accepted --where 'acceptable AND success'",
            "ares set list --output csv",
            "ares set show accepted@2",
        ),
    ),
    "evaluate": CommandEntry(
        "ares_app.cli.evaluate",
        "add results of trained policies, and compare two of them",
        ("ares evaluate add results.csv", "ares evaluate compare act-clean act-all --difference .2"),
    ),
    "tag": CommandEntry(
        "ares_app.cli.tags_and_notes",
        "add, remove and list tags of episodes",
        (
            "ares tag add blurred 42b13cbcbaa01293",
            "ares tag remove blurred 42b1",
            "ares tag list",
        ),
    ),
    "note": CommandEntry(
        "ares_app.cli.tags_and_notes",
        "write a note to episodes",
        ("ares note 'the gripper slips' 42b13cbcbaa01293", "ares note 'dark' --where \"dataset = 'bridge'\""),
    ),
    "correct": CommandEntry(
        "ares_app.cli.correct",
        "write what a person says in place of an instruction, a caption or an outcome",
        (
            "ares correct 42b1 --instruction 'put the mug on the shelf' --outcome failure",
            "ares correct corrections.csv",
        ),
    ),
    "review": CommandEntry(
        "ares_app.cli.review",
        "ask people what is true, and keep what they say",
        (
            "ares review create lids --question acceptable --random 60",
            "ares review next lids",
            "ares review export answers.csv lids",
        ),
    ),
    "remove": CommandEntry(
        "ares_app.cli.remove",
        "take episodes out of the workspace",
        (
            "ares remove 42b13cbcbaa01293",
            "ares remove --where 'num_steps < 20' --note 'too short'",
            "ares remove --purge withdrawn.txt",
        ),
    ),
    "undo": CommandEntry(
        "ares_app.cli.undo",
        "take back a removal, a tag or a change of a set",
        ("ares undo", "ares undo --list", "ares undo 3"),
    ),
    "use": CommandEntry(
        "ares_app.cli.status",
        "choose the producers whose values fill the columns",
        ("ares use", "ares use caption=42b1 grade=newest"),
    ),
    "export": CommandEntry(
        "ares_app.cli.export",
        "write a set as a training dataset",
        ("ares export accepted ~/train/accepted --format lerobot",),
    ),
    "rubric": CommandEntry(
        "ares_app.cli.rubric",
        "show rubrics, attack their judge, and compare producers",
        (
            "ares rubric show caption",
            "ares rubric attack --budget 5 -w ~/curation",
        ),
    ),
    "status": CommandEntry(
        "ares_app.cli.status", "what the workspace holds", ("ares status -w ~/curation --json",)
    ),
    "statistics": CommandEntry(
        "ares_app.cli.status",
        "hours, outcomes and accepted captions by task, robot, operator or day",
        ("ares statistics task", "ares statistics operator --where \"dataset = 'lids'\" --output csv"),
    ),
    "index": CommandEntry(
        "ares_app.cli.status",
        "index vectors, so that searches stay fast",
        ("ares index -w ~/curation",),
    ),
    "failures": CommandEntry(
        "ares_app.cli.failures",
        "list and accept logged failures",
        (
            "ares failures list --annotator caption",
            "ares failures accept --annotator ingest clip7.mp4",
        ),
    ),
    "doctor": CommandEntry(
        "ares_app.cli.status",
        "check the stores against each other, and repair them",
        (
            "ares doctor",
            "ares doctor --repair",
            "ares doctor --rebuild",
            "ares doctor --relocate /mnt/old=/mnt/new",
        ),
    ),
    "app": CommandEntry(
        "ares_app.cli.app",
        "open the dashboard",
        ("ares app -w ~/curation", "ares app --port 0 --no-browser"),
    ),
    "demo": CommandEntry(
        "ares_app.cli.app", "the whole job on the sample episodes", ("ares demo --no-serve",)
    ),
}


__all__ = ["COMMANDS", "build_parser", "main"]


def build_parser(selected: str = "") -> CommandParser:
    """Return the parser of all commands.

    Args:
        selected: Command whose arguments are added. The modules of the other commands are not imported.
    """
    from ares import __version__

    usage = "ares [OPTION ...] COMMAND ...\n       ares COMMAND --help"
    parser = CommandParser(prog="ares", usage=usage, description="Curate robot episodes for training.")
    parser.set_examples(*EXAMPLES)
    subparsers = parser.add_subparsers(
        prog="ares", dest="command", metavar="COMMAND", required=True, help=argparse.SUPPRESS
    )
    for title, names in COMMAND_GROUPS.items():
        group = parser.add_argument_group(title)
        for name in names:
            entry = COMMANDS[name]
            description = f"{entry.help[0].upper()}{entry.help[1:]}."
            command = subparsers.add_parser(name, help=entry.help, description=description)
            group._group_actions.append(subparsers._choices_actions[-1])
            if name == selected:
                command.set_examples(*entry.examples)
                command.set_defaults(describe_stop=lambda args: _KEPT.get(args.command, _STORED_STAYS))
                getattr(import_module(entry.module), f"add_{name}_arguments")(command)
    add_shared_options(parser)
    parser.add_argument("--version", action="version", version=f"ares {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns an `ExitStatus`, or 128 and the number of the signal that stopped it."""
    if argv is None:
        drop_current_folder_from_path()
        _prepare_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    command = find_selected_command(arguments)
    with (
        report_long_steps(f"ares {command}".strip()),
        ExitStack() as stack,
        stop_on_signals(command, _KEPT.get(command, _STORED_STAYS)) as request,
    ):
        invocation = _Invocation(arguments, stack, request, is_program=argv is None)
        status = run_command(command, invocation.run, invocation.describe_stop, request)
        if argv is None and request.signal_received:
            end_process(status)
        return status


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
        self.command = find_selected_command(arguments)
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
        self._stack.enter_context(selected_config(args.config))
        name_ignored_config()
        refuse_output_format(args)
        refuse_output_urls(args)
        args.is_program = self._is_program
        if self._is_program and self.command in _WITHOUT_PANDAS:
            from ares.process_tuning import hide_pandas_from_pyarrow

            hide_pandas_from_pyarrow()
        try:
            with timed(f"ares {self.command}"):
                status = int(args.run(args))
            # What a command has read of tables that lack something, as a line has said, is not all that there is.
            workspace = getattr(args, "workspace_handle", None)
            has_lag = workspace and workspace.is_open and workspace.stores.lag
            return status or (ExitStatus.ITEMS_FAILED if has_lag else 0)
        except BaseException as error:
            if isinstance(error, AresError) and not self._request.signal_received:
                answer_refusal(args, error, refusal_status(error))
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


def find_selected_command(arguments: Sequence[str]) -> str:
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
