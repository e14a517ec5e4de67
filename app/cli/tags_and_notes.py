"""`ares tag` and `ares note`: what people say of episodes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ares.console import count_of
from ares_app.cli.arguments import (
    add_selection_arguments,
    add_workspace_arguments,
    describe_pending,
    is_pending,
    open_workspace,
    parse_selection,
)
from ares_app.cli.output import answer, answer_results

if TYPE_CHECKING:
    from ares.jobs import EpisodeSelection
    from ares.workspace import Workspace


def add_tag_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_tag)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="add a tag to episodes")
    remove = actions.add_parser("remove", help="remove a tag from episodes, or from all that have it")
    for action in (add, remove):
        action.add_argument("tag", metavar="TAG")
        add_selection_arguments(action)
    listing = actions.add_parser("list", help="all tags, with who changed each last")
    for action in (add, remove, listing):
        add_workspace_arguments(action, rows=action is listing)


def run_tag(args: argparse.Namespace) -> int:
    """Do the action that the arguments name."""
    workspace = open_workspace(args)
    if args.action == "list":
        answer_results(args, workspace.tags)
    else:
        _change_tag(workspace, args)
    return 0


def _change_tag(workspace: Workspace, args: argparse.Namespace) -> None:
    from ares.curation import add_tag, remove_tag, select_episodes

    stores, change = workspace.stores, add_tag if args.action == "add" else remove_tag
    with select_episodes(stores, _tag_selection(workspace, args)) as selected:
        action = change(stores, args.tag, selected)
    pending = is_pending(workspace, action)
    verb = "added to" if args.action == "add" else "removed from"
    episodes = count_of(action.count, "episode")
    text = f"tag {args.tag} {verb} {episodes}; `ares undo {action.number}` takes it back{describe_pending(pending)}"
    answer(args, {**action.to_json(), "pending": pending}, lambda: text)


def _tag_selection(workspace: Workspace, args: argparse.Namespace) -> EpisodeSelection:
    """The selection that the arguments name; without one a tag is removed from all episodes that have it."""
    from ares.curation import list_tags
    from ares.errors import RequestError
    from ares.jobs import EpisodeSelection
    from ares.store import quote_literal

    selection = parse_selection(args)
    if not selection.is_empty:
        return selection
    if args.action == "add":
        raise RequestError("no episodes are named", "give ids, a file of ids or --where")
    tags = [use.tag for use in list_tags(workspace.stores)]
    if args.tag not in tags:
        raise RequestError(
            f"no episode has the tag {args.tag!r}", f"there are: {', '.join(tags) or 'none yet'}"
        )
    return EpisodeSelection(where=f"tagged({quote_literal(args.tag)})")


def add_note_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_note)
    parser.add_argument("text", metavar="TEXT", help="the note")
    add_selection_arguments(parser)
    add_workspace_arguments(parser)


def run_note(args: argparse.Namespace) -> int:
    """Write the note."""
    from ares.curation import add_note, select_episodes
    from ares.errors import RequestError

    workspace, selection = open_workspace(args), parse_selection(args)
    if selection.is_empty:
        raise RequestError("no episodes are named", "give ids, a file of ids or --where")
    with select_episodes(workspace.stores, selection) as selected:
        action = add_note(workspace.stores, args.text, selected)
    pending = is_pending(workspace, action)
    text = f"noted of {count_of(action.count, 'episode')}; `ares undo {action.number}` takes it back"
    answer(args, {**action.to_json(), "pending": pending}, lambda: f"{text}{describe_pending(pending)}")
    return 0
