"""`ares undo`: take actions back, and list them."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.errors import RequestError
from ares_app.cli.arguments import add_workspace_arguments, describe_pending, open_workspace
from ares_app.cli.output import Columns, answer, make_table, paragraphs

if TYPE_CHECKING:
    from ares.curation import UndoReport
    from ares.episode import Json
    from ares.store import Action, ActionHistory
    from ares.workspace import Workspace


# Actions that are listed for people, the newest first.
_LISTED_ACTIONS = 20
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
    "evaluate": "added {trials} of {file}",
    "trust_answers": "let {answers} of {people} in {origin} count",
    "undo": "took back {undoes}",
    "purge": "deleted {episodes} for good",
}


def add_undo_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_undo)
    parser.add_argument(
        "numbers",
        nargs="*",
        type=_action_number,
        metavar="NUMBER",
        help="the action (default: your last that counts), or the ids of answers of a review",
    )
    parser.add_argument("--list", action="store_true", help="only show what was done: who, when, what")
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
    ids = [number for number in args.numbers if isinstance(number, str)]
    if len(args.numbers) > max(1, len(ids)):
        raise RequestError("one action is taken back at a time", "several ids of answers may be given")
    if ids:
        for answer_id in ids:
            workspace.review.withdraw(answer_id)
        documents: list[dict[str, Json]] = [{"answer_id": answer_id, "withdrawn": True} for answer_id in ids]
        text = f"took back answer {', '.join(ids)}; `ares review list` shows what counts"
        answer(args, documents[0] if len(ids) == 1 else documents, lambda: text)
        return 0
    report = workspace.undo(*args.numbers)
    answer(args, report.to_json(), lambda: _undo_summary(report))
    return 0


def _undo_summary(report: UndoReport) -> str:
    undone = report.undone
    purged = f"; {undone.purged} of them were deleted for good and stay away" if undone.purged else ""
    absent = f"; the rows of {report.absent} are lost, ingest their source again" if report.absent else ""
    again = f"`ares undo {report.action.number}` does it again"
    done = "already done: an earlier undo took back" if report.already else "took back"
    what = f"{done} action {undone.number} of {undone.person} ({describe_action(undone)})"
    return f"{what}{purged}{absent}{describe_pending(report.pending)}; {again}"


def describe_action(action: Action) -> str:
    """What was done, in a few words."""
    labels, people = action.details.get("labels"), action.details.get("of")
    return _VERBS[action.kind].format(
        episodes=count_of(action.count, "episode"),
        failures=count_of(action.count, "failure"),
        answers=count_of(action.count, "answer"),
        trials=count_of(action.count, "trial"),
        file=action.details.get("file", ""),
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
    actions = history.actions[::-1]
    columns: Columns = {
        "action": lambda action: action.number,
        "when": lambda action: action.created,
        "who": lambda action: action.person,
        "what": describe_action,
        "state": lambda action: _action_state(history, action),
    }
    documents = [{**action.to_json(), "counts": history.is_effective(action)} for action in actions]
    shown = make_table(columns, actions[:_LISTED_ACTIONS]) if actions else "nothing was done yet"
    older = len(actions) - _LISTED_ACTIONS
    lines = [f"{older} before these; --json has all"] if older > 0 else []
    answer(args, documents, lambda: paragraphs([shown, *lines]))


def _action_state(history: ActionHistory, action: Action) -> str:
    if not history.is_effective(action):
        return "taken back"
    return "final" if action.kind == "purge" else ""
