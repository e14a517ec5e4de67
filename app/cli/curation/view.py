"""`ares view`: save, list and delete views of the dashboard."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode, urlsplit

from app.cli.common import add_workspace_arguments, open_workspace
from app.cli.output import OutputTable, answer

if TYPE_CHECKING:
    from ares.workspace import Workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="all saved views")
    save = actions.add_parser("save", help="save the view of an address of the dashboard")
    save.add_argument("name", metavar="NAME")
    save.add_argument("address", metavar="ADDRESS", help="its address, or what stands behind the '?' in it")
    delete = actions.add_parser("delete", help="delete a saved view; episodes stay")
    delete.add_argument("name", metavar="NAME")
    for action in (listing, save, delete):
        add_workspace_arguments(action, rows=action is listing)


def run(args: argparse.Namespace) -> int:
    """Do the action that the arguments name."""
    from ares.curation import delete_view, save_view

    workspace = open_workspace(args)
    if args.action == "list":
        _list(workspace, args)
        return 0
    if args.action == "save":
        query = parse_qs(urlsplit(args.address).query or args.address)
        action, verb = save_view(workspace.stores, args.name, query), "saved"
    else:
        action, verb = delete_view(workspace.stores, args.name), "deleted"
    text = f"{verb} the view {args.name}; `ares undo {action.number}` takes it back"
    answer(args, action.to_json(), lambda: text)
    return 0


def _list(workspace: Workspace, args: argparse.Namespace) -> None:
    from ares.curation import list_views

    views = list_views(workspace.stores)
    rows = [(view.name, urlencode(view.query, doseq=True), view.person, view.created) for view in views]
    documents, header = [view.to_json() for view in views], ("view", "address", "person", "saved")
    answer(args, documents, lambda: OutputTable(rows, header) if rows else "no views", documents)
