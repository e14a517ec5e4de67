"""`ares failures`: list logged failures, and clear old ones."""

from __future__ import annotations

import argparse
import sys
from itertools import islice
from typing import TYPE_CHECKING

from app.cli.common import add_workspace_arguments, episode_count, open_workspace
from app.cli.confirm import add_yes_argument, confirm
from app.cli.output import OutputTable, answer

if TYPE_CHECKING:
    from ares.workspace import Workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="logged failures with their reasons")
    listing.add_argument(
        "--limit", type=episode_count, default=50, metavar="N", help="at most N failures (default: 50)"
    )
    clear = actions.add_parser("clear", help="clear failures, until the same work fails again")
    add_yes_argument(clear)
    for action in (listing, clear):
        action.add_argument(
            "--annotator", default="", metavar="NAME", help='only failures of this annotator, or of "ingest"'
        )
        action.add_argument(
            "--reason", default="", metavar="TEXT", help="only failures whose reason contains this text"
        )
        action.add_argument(
            "--where", default="", metavar="SQL", help="only failures about episodes that fulfil this filter"
        )
        add_workspace_arguments(action, rows=action is listing)


def run(args: argparse.Namespace) -> int:
    """List or clear failures. Returns 1 when the answer to the question is no."""
    workspace = open_workspace(args)
    if args.action == "list":
        _list(workspace, args)
        return 0
    return _clear(workspace, args)


def _list(workspace: Workspace, args: argparse.Namespace) -> None:
    from ares.curation import list_failures

    failures = list_failures(workspace.stores, work=args.annotator, reason=args.reason, where=args.where)
    listed = list(islice(failures, args.limit))
    rows = [(item.work, item.subject, item.reason, item.detail, item.created) for item in listed]
    documents, header = [item.to_json() for item in listed], ("work", "subject", "reason", "detail", "when")
    answer(args, documents, lambda: OutputTable(rows, header) if rows else "no failures", documents)


def _clear(workspace: Workspace, args: argparse.Namespace) -> int:
    from ares.curation import clear_failures, list_failures
    from ares.errors import RequestError

    conditions = {"work": args.annotator, "reason": args.reason, "where": args.where}
    count = sum(1 for _ in list_failures(workspace.stores, **conditions))
    if not count:
        raise RequestError("no failure matches", "`ares failures list` shows them")
    if not confirm(args, f"clear {count} failures? what failed stays undone"):
        print("nothing was cleared", file=sys.stderr)
        return 1
    action = clear_failures(workspace.stores, **conditions)
    text = f"cleared {action.count} failures; `ares undo {action.number}` brings them back"
    answer(args, action.to_json(), lambda: text)
    return 0
