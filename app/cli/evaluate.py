"""`ares evaluate`: results of rollouts of trained policies, and which of two policies is better."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.evaluation import PLANNED_DIFFERENCE
from ares_app.cli.arguments import add_workspace_arguments, open_workspace, parse_user_path
from ares_app.cli.errors import ExitStatus
from ares_app.cli.output import Block, OutputTable, answer, paragraphs

if TYPE_CHECKING:
    from ares.evaluation import Comparison, SetDifference

# Bad rows that are named, and values of a column by which two sets differ that are listed, those of most episodes.
_NAMED_ROWS, _LISTED_VALUES = 20, 8


def add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="add the trials of a file; those that it had before are left out")
    add.add_argument(
        "file",
        metavar="RESULTS",
        help="CSV, JSONL or Parquet with the columns policy, task, success or score (0 to 1), and perhaps "
        "set (NAME@VERSION or the manifest of an export), start, seed",
    )
    add.set_defaults(run=_add_results)
    compare = actions.add_parser("compare", help="which of two policies is better, valid after every look")
    compare.add_argument("policies", nargs=2, metavar="POLICY")
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
    """Add the trials of a file. Returns 1 where a row could not be used."""
    from ares.evaluation import add_results

    added = add_results(open_workspace(args).stores.annotations, parse_user_path(args.file))
    known = f"; {added.known} of this file had been added before" if added.known else ""
    undo = f"; `ares undo {added.action}` takes them back" if added.action else ""
    lines = [f"added: {count_of(added.added, 'trial')}{known}{undo}"]
    if added.bad:
        lines += [f"not used: {count_of(len(added.bad), 'row')}", *added.bad[:_NAMED_ROWS]]
    answer(args, added._asdict(), lambda: tuple(lines))
    return ExitStatus.ITEMS_FAILED if added.bad else ExitStatus.DONE


def _compare_policies(args: argparse.Namespace) -> int:
    """Say which of two policies is better, and what differs between their sets."""
    from ares.evaluation import compare_policies

    compared, sets = compare_policies(open_workspace(args).stores, tuple(args.policies), args.difference)
    document = {**asdict(compared), "verdict": compared.verdict, "sets": sets}
    answer(args, document, lambda: paragraphs(_describe_comparison(compared, sets)))
    return ExitStatus.DONE


def _describe_comparison(compared: Comparison, sets: SetDifference) -> Iterator[Block]:
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
    if not sets:
        yield "what differs between their sets is not known: not both name a set of this workspace"
    for name, values in sets.items():
        listed = [(value or "(none)", *counts) for value, counts in values.items()][:_LISTED_VALUES]
        yield OutputTable(listed, (name, f"only in the set of {first}", f"only in that of {second}"))
