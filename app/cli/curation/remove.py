"""`ares remove`: take episodes out of the workspace, or delete them for good."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from app.cli.common import add_workspace_arguments, open_workspace
from app.cli.confirm import add_yes_argument, confirm
from app.cli.curation.selection import add_selection_arguments, parse_selection
from app.cli.output import answer

if TYPE_CHECKING:
    from ares.curation import RemovalPreview, StagedIds
    from ares.workspace import Workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_selection_arguments(parser)
    parser.add_argument("--note", default="", metavar="TEXT", help="why, for the log")
    parser.add_argument(
        "--purge",
        action="store_true",
        help="delete them for good: log, vectors, copies and caches; cannot be taken back",
    )
    add_yes_argument(parser)
    add_workspace_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Say what goes, ask, and remove it. Returns 1 when the answer is no."""
    from ares.curation import StagedIds, preview_removal, purgeable_ids, selected_ids
    from ares.errors import RequestError

    selection = parse_selection(args)
    if selection.is_empty:
        raise RequestError("no episodes are named", "give ids, --where, --ids, --set or --dataset")
    workspace = open_workspace(args)
    select = purgeable_ids if args.purge else selected_ids
    with StagedIds(select(workspace.stores, selection)) as ids:
        if not ids.count:
            raise RequestError("no episode is selected", "nothing was removed")
        preview = preview_removal(workspace.stores, ids)
        if not args.yes:
            print(_preview_text(preview, args.purge), file=sys.stderr)
        question = "delete them for good?" if args.purge else "remove them?"
        if not confirm(args, question):
            print("nothing was removed", file=sys.stderr)
            return 1
        (_purge if args.purge else _remove)(workspace, args, ids, preview)
    return 0


def describe_stop(args: argparse.Namespace) -> str:
    """What was kept when a signal stopped the command, and how to go on."""
    if args.purge:
        return "a purge that was begun is completed by `ares doctor --repair`"
    return "`ares undo --list` shows whether the removal was recorded; the next job completes it"


def _preview_text(preview: RemovalPreview, is_purge: bool) -> str:
    log = "deleted with them" if is_purge else "they stay in the log"
    lines = [
        f"{preview.episodes} episodes",
        *(f"  dataset {name}: {count}" for name, count in preview.datasets.items()),
        *(f"  annotations of {name}: {count} episodes, {log}" for name, count in preview.annotations.items()),
        *(f"  set {label} has {count} of them" for label, count in preview.sets.items()),
        "sources are not touched"
        + (
            "; exports that were written before are not touched either"
            if is_purge
            else "; `ares undo` brings them back"
        ),
    ]
    return "\n".join(lines)


def _remove(workspace: Workspace, args: argparse.Namespace, ids: StagedIds, preview: RemovalPreview) -> None:
    from ares.curation import remove_episodes
    from ares.store.sync import applied_action

    action = remove_episodes(workspace.stores, ids, parse_selection(args).to_json(), note=args.note)
    is_pending = applied_action(workspace.stores.tables) < action.number
    later = "; the job that writes now will show it when it ends" if is_pending else ""
    document = {"action": action.to_json(), "pending": is_pending, **preview.to_json()}
    text = f"removed {action.count} episodes; `ares undo {action.number}` brings them back{later}"
    answer(args, document, lambda: text)


def _purge(workspace: Workspace, args: argparse.Namespace, ids: StagedIds, preview: RemovalPreview) -> None:
    from ares.curation import purge_episodes

    report = purge_episodes(workspace.stores, ids, note=args.note)
    text = (
        f"deleted {report.episodes} episodes for good: {report.annotations} annotations, "
        f"{report.rows} rows of tables, {report.files} folders of videos; "
        "a hash of each identity is kept, so that it is refused when it comes again"
    )
    answer(args, {**preview.to_json(), **report.to_json()}, lambda: text)
