"""`ares failures`: list, clear and accept logged failures."""

from __future__ import annotations

import argparse
from itertools import islice
from typing import TYPE_CHECKING

from app.cli.arguments import (
    add_workspace_arguments,
    add_yes_argument,
    ask_for_confirmation,
    episode_count,
    open_workspace,
)
from app.cli.output import Columns, answer, answer_list
from ares.console import count_of, write_stderr
from ares.errors import RequestError

if TYPE_CHECKING:
    from ares.workspace import Workspace


def add_failures_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_failures)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="logged failures with their reasons")
    listing.add_argument(
        "--limit", type=episode_count, default=50, metavar="N", help="at most N failures (default: 50)"
    )
    clear = actions.add_parser("clear", help="clear failures, until the same work fails again")
    accept = actions.add_parser(
        "accept", help="accept failures as known: a run in which nothing else fails ends with exit status 0"
    )
    for action in (clear, accept):
        add_yes_argument(action)
        action.add_argument(
            "name",
            nargs="*",
            metavar="NAME",
            help="only failures of this subject, or with this text in their detail, such as a file",
        )
    for action in (listing, clear, accept):
        action.add_argument(
            "--annotator",
            default="",
            metavar="NAME",
            help='only failures of this annotator, of "ingest", or of "incomplete" episodes',
        )
        action.add_argument(
            "--reason", default="", metavar="TEXT", help="only failures whose reason contains this text"
        )
        action.add_argument(
            "--where", default="", metavar="SQL", help="only failures about episodes that fulfil this filter"
        )
        add_workspace_arguments(action, rows=action is listing)


def run_failures(args: argparse.Namespace) -> int:
    """List, clear or accept failures. Returns 1 when the answer to the question is no."""
    workspace = open_workspace(args)
    if args.action == "list":
        _list_failures(workspace, args)
        return 0
    return _act_on_failures(workspace, args)


def _list_failures(workspace: Workspace, args: argparse.Namespace) -> None:
    from ares.curation import FailureSelection, list_failures

    selection = FailureSelection(work=args.annotator, reason=args.reason, where=args.where)
    failures = list(islice(list_failures(workspace.stores, selection), args.limit))
    answer_list(args, failures, _FAILURE_COLUMNS, "no failures")


_FAILURE_COLUMNS: Columns = {
    "work": lambda failure: failure.work,
    "subject": lambda failure: failure.subject,
    "reason": lambda failure: failure.reason,
    "detail": lambda failure: failure.detail,
    "when": lambda failure: failure.created,
    "accepted": lambda failure: "yes" if failure.is_accepted else "",
}


def _act_on_failures(workspace: Workspace, args: argparse.Namespace) -> int:
    from ares.curation import FailureSelection, accept_failures, clear_failures, list_failures

    selection = FailureSelection(work=args.annotator, reason=args.reason, where=args.where, names=args.name)
    count = sum(1 for _ in list_failures(workspace.stores, selection))
    if not count:
        raise RequestError("no failure matches", "`ares failures list` shows them")
    done, act = ("cleared", clear_failures) if args.action == "clear" else ("accepted", accept_failures)
    if not ask_for_confirmation(
        args, f"{args.action} {count_of(count, 'failure')}? what failed stays undone"
    ):
        write_stderr(f"nothing was {done}")
        return 1
    action = act(workspace.stores, selection)
    back = "brings them back" if args.action == "clear" else "takes that back"
    text = f"{done} {count_of(action.count, 'failure')}; `ares undo {action.number}` {back}"
    answer(args, action.to_json(), lambda: text)
    return 0
