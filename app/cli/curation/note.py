"""`ares note`: write a note to episodes."""

from __future__ import annotations

import argparse

from app.cli.common import add_workspace_arguments, open_workspace
from app.cli.curation.selection import add_selection_arguments, parse_selection
from app.cli.output import answer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("text", metavar="TEXT", help="the note")
    add_selection_arguments(parser)
    add_workspace_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Write the note."""
    from ares.curation import StagedIds, add_note, selected_ids
    from ares.errors import RequestError

    workspace, selection = open_workspace(args), parse_selection(args)
    if selection.is_empty:
        raise RequestError("no episodes are named", "give ids, --where, --ids, --set or --dataset")
    with StagedIds(selected_ids(workspace.stores, selection)) as ids:
        action = add_note(workspace.stores, args.text, ids, selection.to_json())
    text = f"noted of {action.count} episodes; `ares undo {action.number}` takes it back"
    answer(args, action.to_json(), lambda: text)
    return 0
