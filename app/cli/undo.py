"""`ares undo`: take actions back, and list them."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from app.cli.arguments import (
    add_workspace_arguments,
    episode_count,
    open_workspace,
)
from app.cli.output import Columns, answer, make_table
from ares.console import count_of

if TYPE_CHECKING:
    from ares.curation import UndoReport
    from ares.store import Action, ActionHistory
    from ares.workspace import Workspace


_ANSWER_ID = re.compile(r"[0-9a-f]{16}")
_VERBS = {
    "remove": "removed {episodes}",
    "tag": "tagged {episodes} {tag}",
    "untag": "took the tag {tag} from {episodes}",
    "note": "noted of {episodes}: {note}",
    "set_values": "set {column} of {episodes}",
    "view_save": "saved the view {name}",
    "view_delete": "deleted the view {name}",
    "set_delete": "deleted {labels}",
    "set_rename": "renamed {labels} to {name}",
    "set_note": "noted of {labels}: {note}",
    "clear_failures": "cleared {failures}",
    "accept_failures": "accepted {failures}",
    "trust_answers": "let {answers} of {people} in {origin} count",
    "undo": "took back {undoes}",
    "purge": "deleted {episodes} for good",
}


def add_undo_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_undo)
    parser.add_argument(
        "number",
        nargs="?",
        type=_action_number,
        metavar="NUMBER",
        help="the action (default: your last that counts), or the id of an answer of a review",
    )
    parser.add_argument("--list", action="store_true", help="show the last actions: who, when, what")
    parser.add_argument(
        "--limit", type=episode_count, default=20, metavar="N", help="of the list, the last N (default: 20)"
    )
    parser.add_argument(
        "--person", default="", metavar="NAME", help="of an answer: whose it is (default: the user)"
    )
    add_workspace_arguments(parser)


def _action_number(text: str) -> int | str:
    if _ANSWER_ID.fullmatch(text):
        return text
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the number of an action; `ares undo --list` shows them"
        )
    return int(text)


def run_undo(args: argparse.Namespace) -> int:
    """Take back an action, or list the actions."""
    workspace = open_workspace(args)
    if args.list:
        _list_actions(workspace, args)
        return 0
    if isinstance(args.number, str):
        workspace.review.withdraw(args.number, args.person)
        text = f"took back answer {args.number}; `ares review list` shows what counts"
        answer(args, {"answer_id": args.number, "withdrawn": True}, lambda: text)
        return 0
    report = workspace.undo(args.number)
    answer(args, report.to_json(), lambda: _undo_summary(report))
    return 0


def _undo_summary(report: UndoReport) -> str:
    undone = report.undone
    purged = f"; {undone.purged} of them were deleted for good and stay away" if undone.purged else ""
    absent = f"; the rows of {report.absent} are lost, ingest their source again" if report.absent else ""
    later = "; the job that writes now will show it when it ends" if report.pending else ""
    again = f"`ares undo {report.action.number}` does it again"
    done = "already done: an earlier undo took back" if report.already else "took back"
    what = f"{done} action {undone.number} of {undone.person} ({describe_action(undone)})"
    return f"{what}{purged}{absent}{later}; {again}"


def describe_action(action: Action) -> str:
    """What was done, in a few words."""
    labels, people = action.details.get("labels"), action.details.get("of")
    return _VERBS[action.kind].format(
        episodes=count_of(action.count, "episode"),
        failures=count_of(action.count, "failure"),
        answers=count_of(action.count, "answer"),
        people=", ".join(map(str, people)) if isinstance(people, list) else "",
        origin=action.details.get("origin", ""),
        tag=action.tag,
        labels=", ".join(map(str, labels)) if isinstance(labels, list) else "",
        name=action.details.get("name", ""),
        column=action.details.get("column", ""),
        note=action.details.get("note", ""),
        undoes=f"action {action.undoes}",
    )


def _list_actions(workspace: Workspace, args: argparse.Namespace) -> None:
    from ares.store import read_history

    history = read_history(workspace.stores.annotations)
    actions = history.actions[max(0, len(history.actions) - args.limit) :][::-1]
    columns: Columns = {
        "action": lambda action: action.number,
        "when": lambda action: action.created,
        "who": lambda action: action.person,
        "what": describe_action,
        "state": lambda action: _action_state(history, action),
    }
    documents = [{**action.to_json(), "counts": history.is_effective(action)} for action in actions]
    answer(args, documents, lambda: make_table(columns, actions) if actions else "nothing was done yet")


def _action_state(history: ActionHistory, action: Action) -> str:
    if not history.is_effective(action):
        return "taken back"
    return "final" if action.kind == "purge" else ""
