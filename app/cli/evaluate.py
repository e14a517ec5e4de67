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
    from ares.evaluation import AddedResults
    from ares.workspace import PolicyComparison, SetContrast, Workspace

# Values of a name by which two sets differ that are listed, those with the most episodes first.
_LISTED_VALUES = 8


def add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_evaluate)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="add the trials of a table; those that it had before are left out")
    add.add_argument(
        "file",
        metavar="RESULTS",
        help="CSV, JSONL or Parquet with the columns policy, task, success or score (0 to 1), and perhaps "
        "set (NAME@VERSION, or a manifest, card or lock), start, seed",
    )
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
    for action, act in ((add, _add_results), (compare, _compare_policies)):
        action.set_defaults(act=act)
        add_workspace_arguments(action)


def run_evaluate(args: argparse.Namespace) -> int:
    """Do the action that the arguments name. Returns 1 where a row of a table could not be used."""
    status: int = args.act(open_workspace(args), args)
    return status


def _add_results(workspace: Workspace, args: argparse.Namespace) -> int:
    added = workspace.evaluations.add(parse_user_path(args.file))
    answer(args, added.to_json(), lambda: tuple(_describe_added(added)))
    return ExitStatus.ITEMS_FAILED if added.bad_rows else ExitStatus.DONE


def _describe_added(added: AddedResults) -> Iterator[str]:
    known = f"; {count_of(added.known, 'trial')} of this file had been added before" if added.known else ""
    undo = f"; `ares undo {added.action}` takes them back" if added.action else ""
    policies = count_of(len(added.policies), "policy", "policies")
    yield f"added: {count_of(added.added, 'trial')} of {policies}{known}{undo}"
    for number in added.earlier:
        yield f"other trials of this file, added earlier, count as well; `ares undo {number}` takes them back"
    if added.bad_rows:
        yield f"not used: {count_of(added.bad_rows, 'row')}"
        yield from added.bad


def _compare_policies(workspace: Workspace, args: argparse.Namespace) -> int:
    compared = workspace.evaluations.compare(args.first, args.second, difference=args.difference)
    answer(args, compared.to_json(), lambda: paragraphs(_describe_comparison(compared)))
    return ExitStatus.DONE


def _describe_comparison(compared: PolicyComparison) -> Iterator[Block]:
    trials = compared.trials
    first, second = trials.policies
    header = ("task", first, "trials", second, "trials", "pairs", f"{first} - {second}")
    rows = [
        (
            task.task,
            task.success[0],
            task.trials[0],
            task.success[1],
            task.trials[1],
            f"{task.pairs} {'of equal starts' if task.is_by_start else 'in order'}",
            task.difference,
        )
        for task in trials.tasks
    ]
    yield OutputTable(rows, header)
    left = [
        f"{count_of(count, 'trial')} of {name}"
        for count, name in zip(trials.left_out, trials.policies, strict=True)
        if count
    ]
    yield (
        f"{first} - {second}: {trials.difference} over {count_of(trials.pairs, 'pair')}; "
        f"{first} alone better in {trials.only_first}, {second} in {trials.only_second}",
        *([f"without a partner, not compared: {', '.join(left)}"] if left else []),
        trials.verdict,
    )
    if compared.sets is None:
        yield f"what differs between their sets is not known: {compared.sets_unknown}"
    else:
        yield from _describe_contrast(compared.sets)


def _describe_contrast(sets: SetContrast) -> Iterator[Block]:
    first, second = (f"only in {label}" for label in sets.labels)
    yield f"{sets.only_first} episodes {first}, {sets.only_second} {second}, {sets.common} in both"
    for name, values in sets.counts.items():
        if values:
            rows = [(value or "(none)", *counts) for value, counts in values.items()]
            yield OutputTable(rows[:_LISTED_VALUES], (name, first, second))
            if len(rows) > _LISTED_VALUES:
                yield f"{len(rows) - _LISTED_VALUES} more; --json has all"
