"""`ares undo`: take back the last action or any other, or list what was done."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from app.cli.common import add_workspace_arguments, episode_count, open_workspace
from app.cli.output import OutputTable, answer

if TYPE_CHECKING:
    from ares.curation import UndoReport
    from ares.store.actions import Action, ActionHistory
    from ares.workspace import Workspace

_VERBS = {
    "remove": "removed {count} episodes",
    "tag": "tagged {count} episodes {tag}",
    "untag": "took the tag {tag} from {count} episodes",
    "note": "noted of {count} episodes: {note}",
    "view_save": "saved the view {name}",
    "view_delete": "deleted the view {name}",
    "set_delete": "deleted {labels}",
    "set_rename": "renamed {labels} to {name}",
    "set_note": "noted of {labels}: {note}",
    "clear_failures": "cleared {count} failures",
    "undo": "took back {undoes}",
    "purge": "deleted {count} episodes for good",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "number",
        nargs="?",
        type=_action_number,
        metavar="NUMBER",
        help="the action (default: your last that counts)",
    )
    parser.add_argument("--list", action="store_true", help="show the last actions: who, when, what")
    parser.add_argument(
        "--limit", type=episode_count, default=20, metavar="N", help="of the list, the last N (default: 20)"
    )
    add_workspace_arguments(parser)


def _action_number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the number of an action; `ares undo --list` shows them"
        )
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Take back an action, or list the actions."""
    from ares.curation import undo

    workspace = open_workspace(args)
    if args.list:
        _list(workspace, args)
        return 0
    report = undo(workspace.stores, args.number)
    answer(args, report.to_json(), lambda: _text(report))
    return 0


def _text(report: UndoReport) -> str:
    undone = report.undone
    purged = f"; {undone.purged} of them were deleted for good and stay away" if undone.purged else ""
    absent = f"; the rows of {report.absent} are lost, ingest their source again" if report.absent else ""
    later = "; the job that writes now will show it when it ends" if report.pending else ""
    again = f"`ares undo {report.action.number}` does it again"
    what = f"took back action {undone.number} of {undone.person} ({describe_action(undone)})"
    return f"{what}{purged}{absent}{later}; {again}"


def describe_action(action: Action) -> str:
    """What was done, in a few words."""
    labels = action.details.get("labels")
    return _VERBS[action.kind].format(
        count=action.count,
        tag=action.tag,
        labels=", ".join(map(str, labels)) if isinstance(labels, list) else "",
        name=action.details.get("name", ""),
        note=action.details.get("note", ""),
        undoes=f"action {action.undoes}",
    )


def _list(workspace: Workspace, args: argparse.Namespace) -> None:
    from ares.store.actions import read_history

    history = read_history(workspace.stores.annotations)
    actions = history.actions[max(0, len(history.actions) - args.limit) :][::-1]
    rows = [
        (action.number, action.created, action.person, describe_action(action), _state(history, action))
        for action in actions
    ]
    answer(
        args,
        [{**action.to_json(), "counts": history.is_effective(action)} for action in actions],
        lambda: (
            OutputTable(rows, ("action", "when", "who", "what", "state")) if rows else "nothing was done yet"
        ),
    )


def _state(history: ActionHistory, action: Action) -> str:
    if not history.is_effective(action):
        return "taken back"
    return "final" if action.kind == "purge" else ""
