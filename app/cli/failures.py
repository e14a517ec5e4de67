"""`ares failures`: list and accept logged failures."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ares.console import count_of, write_stderr
from ares.errors import RequestError
from ares_app.cli.arguments import (
    add_workspace_arguments,
    add_yes_argument,
    ask_for_confirmation,
    open_workspace,
)
from ares_app.cli.output import Block, Columns, answer, make_table, paragraphs

if TYPE_CHECKING:
    from ares.curation import Failure
    from ares.workspace import Workspace


def add_failures_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_failures)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="logged failures with their reasons")
    accept = actions.add_parser(
        "accept", help="accept failures as known: a run in which nothing else fails ends with exit status 0"
    )
    add_yes_argument(accept)
    for action in (listing, accept):
        action.add_argument(
            "text",
            nargs="*",
            metavar="TEXT",
            help="only failures with this text in their subject, reason or detail, such as a file",
        )
        action.add_argument(
            "--annotator",
            default="",
            metavar="NAME",
            help='take only failures of this annotator, of "ingest", or of "incomplete" episodes',
        )
        add_workspace_arguments(action, rows=action is listing)


def run_failures(args: argparse.Namespace) -> int:
    """List or accept failures. Returns 1 when the answer to the question is no."""
    workspace = open_workspace(args)
    if args.action == "list":
        _list_failures(workspace, args)
        return 0
    return _accept_failures(workspace, args)


def _list_failures(workspace: Workspace, args: argparse.Namespace) -> None:
    from ares.curation import FailureSelection, list_failures

    selection = FailureSelection(work=args.annotator, texts=args.text)
    failures = list(list_failures(workspace.stores, selection))
    documents = [failure.to_json() for failure in failures]
    answer(args, documents, lambda: paragraphs(_failure_blocks(failures)), documents)


def _failure_blocks(failures: Sequence[Failure]) -> Iterator[Block]:
    yield make_table(_FAILURE_COLUMNS, failures[:_LISTED]) if failures else "no failures"
    if len(failures) > _LISTED:
        yield f"{len(failures) - _LISTED:,} more; --json has all"


# Failures that are listed for people.
_LISTED = 50
_FAILURE_COLUMNS: Columns = {
    "work": lambda failure: failure.work,
    "subject": lambda failure: failure.subject,
    "reason": lambda failure: failure.reason,
    "detail": lambda failure: failure.detail,
    "when": lambda failure: failure.created,
    "accepted": lambda failure: "yes" if failure.is_accepted else "",
}


def _accept_failures(workspace: Workspace, args: argparse.Namespace) -> int:
    from ares.curation import FailureSelection, accept_failures, list_failures

    selection = FailureSelection(work=args.annotator, texts=args.text)
    count = sum(1 for _ in list_failures(workspace.stores, selection))
    if not count:
        raise RequestError("no failure matches", "`ares failures list` shows them")
    if not ask_for_confirmation(args, f"accept {count_of(count, 'failure')}? what failed stays undone"):
        write_stderr("nothing was accepted")
        return 1
    action = accept_failures(workspace.stores, selection)
    text = f"accepted {count_of(action.count, 'failure')}; `ares undo {action.number}` takes that back"
    answer(args, action.to_json(), lambda: text)
    return 0
