"""`ares remove`: take episodes out of the workspace, and delete them for good."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ares.console import count_of, write_stderr
from ares_app.cli.arguments import (
    add_selection_arguments,
    add_workspace_arguments,
    add_yes_argument,
    ask_for_confirmation,
    describe_pending,
    is_pending,
    open_workspace,
    parse_selection,
)
from ares_app.cli.output import answer

if TYPE_CHECKING:
    from ares.curation import PurgeReport, RemovalPreview, SelectedEpisodes
    from ares.jobs import EpisodeSelection
    from ares.store import Action
    from ares.workspace import Workspace


def add_remove_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_remove, describe_stop=describe_remove_stop)
    add_selection_arguments(parser)
    parser.add_argument(
        "--dataset", default="", metavar="NAME", help="take only the episodes of this dataset"
    )
    parser.add_argument(
        "--note", default="", metavar="TEXT", help="say why they go, which `ares undo --list` shows"
    )
    parser.add_argument(
        "--purge",
        action="store_true",
        help="delete them for good: log, vectors, copies and caches; cannot be taken back",
    )
    add_yes_argument(parser)
    add_workspace_arguments(parser)


def run_remove(args: argparse.Namespace) -> int:
    """Say what goes, ask, and remove it. Returns 1 when the answer is no."""
    from ares.curation import SelectedEpisodes, preview_removal, purgeable_ids, selected_ids
    from ares.errors import RequestError

    selection = parse_selection(args)
    if selection.is_empty:
        raise RequestError("no episodes are named", "give ids, a file of ids, --where or --dataset")
    workspace = open_workspace(args)
    was_done = _was_purged_before if args.purge else _was_completed
    if was_done(workspace, args, selection):
        return 0
    select = purgeable_ids if args.purge else selected_ids
    with SelectedEpisodes(selection, select(workspace.stores, selection)) as selected:
        if not selected.count:
            raise RequestError("no episode is selected", "nothing was removed")
        preview = preview_removal(workspace.stores, selected)
        if not args.yes:
            write_stderr(*_preview_lines(preview, args.purge))
        question = "delete them for good?" if args.purge else "remove them?"
        if not ask_for_confirmation(args, question):
            write_stderr("nothing was removed")
            return 1
        (_purge_selection if args.purge else _remove_selection)(workspace, args, selected, preview)
    return 0


def _was_completed(workspace: Workspace, args: argparse.Namespace, selection: EpisodeSelection) -> bool:
    """Whether the same removal was interrupted before and was completed now; then it is the answer."""
    from ares.curation import completed_removal, preview_removal
    from ares.store import StagedIds, read_action_members

    action = completed_removal(workspace.stores, selection, args.note)
    if action is None:
        return False
    blocks = read_action_members(workspace.stores.annotations, action)
    with StagedIds(episode_id for block in blocks for episode_id in block) as ids:
        _answer_removal(workspace, args, action, preview_removal(workspace.stores, ids))
    return True


def _was_purged_before(workspace: Workspace, args: argparse.Namespace, selection: EpisodeSelection) -> bool:
    """Whether the same purge was done, and nothing has come since that it selects; then it is the answer."""
    from ares.curation import find_same_purge, purgeable_ids

    action = find_same_purge(workspace.stores, selection)
    if action is None or (not selection.ids and any(purgeable_ids(workspace.stores, selection))):
        return False
    text = f"already done: action {action.number} deleted {count_of(action.count, 'episode')} for good"
    answer(args, {"action": action.number, "episodes": action.count, "already": True}, lambda: text)
    return True


def describe_remove_stop(args: argparse.Namespace) -> str:
    """What was kept when a signal stopped the command, and how to go on."""
    if args.purge:
        return "a purge that was begun is completed by the next command"
    return "`ares undo --list` shows whether the removal was recorded; the next command completes it"


def _preview_lines(preview: RemovalPreview, is_purge: bool) -> list[str]:
    log = "deleted with them" if is_purge else "they stay in the log"
    return [
        count_of(preview.episodes, "episode"),
        *(f"  dataset {name}: {count}" for name, count in preview.datasets.items()),
        *(
            f"  annotations of {name}: {count_of(count, 'episode')}, {log}"
            for name, count in preview.annotations.items()
        ),
        *(f"  set {label} has {count} of them" for label, count in preview.sets.items()),
        *(f"  export {path} has {count} of them" for path, count in preview.exports.items()),
        "sources are not touched"
        + (
            "; exports that were written before are not touched either"
            if is_purge
            else "; `ares undo` brings them back"
        ),
    ]


def _remove_selection(
    workspace: Workspace, args: argparse.Namespace, selected: SelectedEpisodes, preview: RemovalPreview
) -> None:
    from ares.curation import remove_episodes

    action = remove_episodes(workspace.stores, selected, note=args.note)
    _answer_removal(workspace, args, action, preview)


def _answer_removal(
    workspace: Workspace, args: argparse.Namespace, action: Action, preview: RemovalPreview
) -> None:
    pending = is_pending(workspace, action)
    document = {"action": action.to_json(), "pending": pending, **preview.to_json()}
    text = f"removed {count_of(action.count, 'episode')}; `ares undo {action.number}` brings them back"
    answer(args, document, lambda: f"{text}{describe_pending(pending)}")


def _purge_selection(
    workspace: Workspace, args: argparse.Namespace, selected: SelectedEpisodes, preview: RemovalPreview
) -> None:
    from ares.curation import purge_episodes

    report = purge_episodes(workspace.stores, selected, note=args.note)
    answer(args, {**preview.to_json(), **report.to_json()}, lambda: _purge_lines(report, preview))


def _purge_lines(report: PurgeReport, preview: RemovalPreview) -> list[str]:
    """What was deleted, and each set and export that held some of it: what is shared is not called back."""
    return [
        f"deleted {count_of(report.episodes, 'episode')} for good: {count_of(report.annotations, 'annotation')}, "
        f"{count_of(report.rows, 'row')} of tables, {count_of(report.files, 'folder')} of videos; "
        "a hash of each identity is kept, so that it is refused when it comes again",
        *(f"  set {label} had {count} of them" for label, count in preview.sets.items()),
        *(f"  export {path} has {count} of them" for path, count in preview.exports.items()),
    ]
