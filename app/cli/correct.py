"""`ares correct`: what a person says in place of an instruction, a caption or an outcome."""

from __future__ import annotations

import argparse
from pathlib import Path

from ares.console import count_of
from ares.errors import RequestError
from ares_app.cli.arguments import add_workspace_arguments, open_workspace, parse_user_path
from ares_app.cli.output import answer

_FIELDS = {
    "instruction": "say what the robot is to do",
    "caption": "say what the robot does",
    "outcome": "say how it ended: success, failure, partial, aborted or unsure; 'partial 0.6' with its share",
}


def add_correct_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_correct)
    parser.add_argument(
        "episode",
        metavar="EPISODE|FILE",
        help="id or key of an episode, or a CSV file with the columns episode, instruction, caption, outcome",
    )
    for name, meaning in _FIELDS.items():
        parser.add_argument(f"--{name}", default="", metavar="TEXT", help=meaning)
    add_workspace_arguments(parser)


def run_correct(args: argparse.Namespace) -> int:
    """Store what the person says. Returns 1 where a row of the file could not be used."""
    fields = {name: getattr(args, name) for name in _FIELDS}
    workspace, is_file = open_workspace(args), args.episode.endswith(".csv")
    if is_file and any(fields.values()):
        raise RequestError("a file says all itself", "leave out --instruction, --caption and --outcome")
    if is_file:
        report = workspace.correct_file(Path(parse_user_path(args.episode)))
    else:
        report = workspace.correct(args.episode, **fields)
    lines = [f"stored: {count_of(report.stored, 'answer')}"]
    if report.ids and not is_file:
        lines.append(f"`ares undo ID` takes one back: {', '.join(report.ids)}")
    if report.bad_rows:
        lines += [f"not used: {count_of(report.bad_rows, 'row')}", *report.bad]
    answer(args, report.to_json(), lambda: tuple(lines))
    return int(report.bad_rows > 0)
