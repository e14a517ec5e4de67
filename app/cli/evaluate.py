"""`ares evaluate`: results of rollouts of trained policies, and which of two policies is better."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.workspace import PLANNED_DIFFERENCE
from ares_app.cli.arguments import add_workspace_arguments, open_workspace, parse_user_path
from ares_app.cli.errors import ExitStatus
from ares_app.cli.output import Block, OutputTable, answer, paragraphs

if TYPE_CHECKING:
    from ares.evaluation import Comparison
    from ares.workspace import Workspace

# Values of a name by which two sets differ that are listed, those with the most episodes first.
_LISTED_VALUES = 8


def add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="add the trials of a table; those that it had before are left out")
    add.add_argument(
        "file",
        metavar="RESULTS",
        help="CSV, JSONL or Parquet with the columns policy, task, success or score (0 to 1), and perhaps "
        "set (NAME@VERSION, or a manifest, card or lock), start, seed",
    )
    add.set_defaults(run=_add_results)
    compare = actions.add_parser("compare", help="which of two policies is better, valid after every look")
    compare.add_argument("first", metavar="A")
    compare.add_argument("second", metavar="B")
    compare.add_argument(
        "--difference",
        type=float,
        default=PLANNED_DIFFERENCE,
        metavar="D",
        help=f"difference of success that further trials are to decide (default: {PLANNED_DIFFERENCE})",
    )
    compare.set_defaults(run=_compare_policies)
    for action in (add, compare):
        add_workspace_arguments(action)


def _add_results(args: argparse.Namespace) -> int:
    """Add the trials of a table. Returns 1 where a row could not be used."""
    added = open_workspace(args).evaluations.add(parse_user_path(args.file))
    known = f"; {added.known} of this table had been added before" if added.known else ""
    undo = f"; `ares undo {added.action}` takes them back" if added.action else ""
    lines = [f"added: {count_of(added.added, 'trial')}{known}{undo}"]
    if added.bad_rows:
        lines += [f"not used: {count_of(added.bad_rows, 'row')}", *added.bad]
    answer(args, added._asdict(), lambda: tuple(lines))
    return ExitStatus.ITEMS_FAILED if added.bad_rows else ExitStatus.DONE


def _compare_policies(args: argparse.Namespace) -> int:
    """Say which of two policies is better."""
    workspace: Workspace = open_workspace(args)
    compared = workspace.evaluations.compare(args.first, args.second, difference=args.difference)
    answer(args, compared.to_json(), lambda: paragraphs(_describe_comparison(compared)))
    return ExitStatus.DONE


def _describe_comparison(compared: Comparison) -> Iterator[Block]:
    first, second = compared.policies
    rows = [
        (task.task, *task.success, f"{task.pairs}{' by start' if task.is_by_start else ''}", task.difference)
        for task in compared.tasks
    ]
    yield OutputTable(rows, ("task", first, second, "pairs", "difference"))
    yield (
        f"{first} - {second}: {compared.difference}; of {count_of(compared.pairs, 'pair')} {first} is better in "
        f"{compared.wins[0]}, {second} in {compared.wins[1]}",
        f"trials without a partner: {compared.left_out[0]} of {first}, {compared.left_out[1]} of {second}",
        compared.verdict,
    )
    if compared.sets is None:
        yield "what differs between their sets is not known: not both name a set of this workspace"
        return
    yield f"{' and '.join(compared.sets.labels)} have {count_of(compared.sets.common, 'episode')} in common"
    header = [f"only in {label}" for label in compared.sets.labels]
    for name, values in compared.sets.counts.items():
        listed = [(value or "(none)", *counts) for value, counts in values.items()][:_LISTED_VALUES]
        yield OutputTable(listed, (name, *header))
