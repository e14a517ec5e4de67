"""`ares set`: make, list, show, compare, rename and delete frozen sets."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ares.console import count_are, count_of, visible, write_stderr
from ares.episode import Span
from ares.errors import RequestError
from ares_app.cli.arguments import (
    add_id_arguments,
    add_min_score_argument,
    add_query_arguments,
    add_trust_argument,
    add_workspace_arguments,
    add_yes_argument,
    ask_for_confirmation,
    describe_measured_lines,
    describe_uncounted,
    episode_count,
    open_workspace,
    read_named_ids,
)
from ares_app.cli.episode_columns import COLUMNS_OPTION, answer_members
from ares_app.cli.errors import ExitStatus
from ares_app.cli.output import Columns, answer, answer_list
from ares_app.cli.set_composition import (
    ActionParser,
    Subparsers,
    add_composition_actions,
    add_composition_options,
    compose_set,
    composes_set,
    describe_composition,
    selected_conditions,
)

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Action
    from ares.workspace import StoredSet, Workspace


def add_set_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_set)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser(
        "create", help="freeze the episodes, or with --segments the spans, of a filter, a search or a list"
    )
    _add_create_arguments(create)
    listing = actions.add_parser("list", help="all sets")
    show = actions.add_parser("show", help="one set with its episodes")
    show.add_argument("name", metavar="NAME")
    show.add_argument("--columns", **COLUMNS_OPTION)
    show.add_argument("--ids", action="store_true", help="print ids alone, one a line, for scripts")
    lock = actions.add_parser(
        "lock", help="write a set to a card that proves it, and by which another machine makes it"
    )
    lock.add_argument("name", metavar="NAME")
    lock.add_argument("file", metavar="CARD", help="JSON file; the labels are written beside it")
    lock.add_argument(
        "--export",
        default="",
        metavar="FOLDER",
        help="let the card make this export again (default: the newest one of the set that is still there)",
    )
    rebuild = actions.add_parser("rebuild", help="make the set of a card, and its export, in a new workspace")
    rebuild.add_argument("file", metavar="CARD")
    rebuild.add_argument("sources", nargs="+", metavar="FOLDER", help="where its sources lie, at any depth")
    rebuild.add_argument(
        "--export", default="", metavar="DEST", help="also write its export to this new folder"
    )
    add_trust_argument(rebuild)
    rebuild.add_argument(
        "--accept-texts",
        action="store_true",
        help="make the set although members have other instructions or captions than when the card was written",
    )
    diff = actions.add_parser("diff", help="what two sets have and have not in common")
    diff.add_argument("a", metavar="A")
    diff.add_argument("b", metavar="B")
    acts = (
        (create, _create_set),
        (listing, _list_sets),
        (show, _show_set),
        (lock, _write_set_lock),
        (rebuild, _rebuild_set),
        (diff, _compare_sets),
        *add_composition_actions(actions),
        *_add_change_actions(actions),
    )
    for action, act in acts:
        action.set_defaults(act=act)
        add_workspace_arguments(action, rows=action in (listing, show))


def _add_change_actions(actions: Subparsers) -> list[ActionParser]:
    delete = actions.add_parser("delete", help="delete a set, or one version of it; its episodes stay")
    delete.add_argument("name", metavar="NAME", help="all versions; NAME@VERSION is one")
    add_yes_argument(delete)
    rename = actions.add_parser("rename", help="give all versions of a set another name")
    rename.add_argument("name", metavar="NAME")
    rename.add_argument("new_name", metavar="NEW_NAME")
    note = actions.add_parser("note", help="write a note to a set")
    note.add_argument("name", metavar="NAME")
    note.add_argument("text", metavar="TEXT", help='the note; "" takes it away')
    return [(delete, _delete_set), (rename, _rename_set), (note, _note_set)]


def _add_create_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    add_id_arguments(parser)
    parser.add_argument(
        "--where", default="", metavar="SQL", help="take the episodes that fulfil this filter"
    )
    parser.add_argument(
        "--segments",
        action="store_true",
        help="take spans of segments as members; --where is then over the columns of segments, --search over texts",
    )
    parser.add_argument(
        "--search", default="", metavar="TEXT", help="take the best --limit episodes for this text"
    )
    add_query_arguments(parser)
    parser.add_argument("--set", default="", metavar="SET", help="take only members of another set")
    parser.add_argument(
        "--limit", type=episode_count, metavar="N", help="take at most N episodes (of a search: 100)"
    )
    add_min_score_argument(parser)
    parser.add_argument(
        "--min-precision",
        type=float,
        metavar="P",
        help="take only accepted captions that people have measured, in datasets of which this share is true: "
        "`ares review measure DATASET`",
    )
    add_composition_options(parser)


def run_set(args: argparse.Namespace) -> int:
    """Do the action that the arguments name."""
    workspace = open_workspace(args, create=args.action == "rebuild")
    return args.act(workspace, args) or ExitStatus.DONE


def _create_set(workspace: Workspace, args: argparse.Namespace) -> None:
    composed = None
    if args.min_precision is not None and args.segments:
        raise RequestError("--min-precision is of captions of whole episodes", "leave out --segments")
    if composes_set(args):
        episode_set, composed = compose_set(workspace, args)
    else:
        episode_set = _create_spans(workspace, args) if args.segments else _create_episodes(workspace, args)
    if args.search and not (args.segments or args.limit or args.min_score):
        _warn_of_whole_search(workspace, args.where, episode_set.episodes)
    clashes = workspace.sets.clashes(episode_set)
    for clash in clashes:
        write_stderr(f"ares set create: warning: {clash}; {clash.remedy}")
    document = {**episode_set.to_json(), "clashes": [clash.to_json() for clash in clashes]}
    more = describe_composition(composed) if composed else ""
    answer(args, document, lambda: f"set {episode_set.label}: {_describe_size(episode_set)}{more}")


def _warn_of_whole_search(workspace: Workspace, where: str, count: int) -> None:
    """Say that a search has left nothing out: it ranks every episode, whatever the text."""
    candidates = workspace.episodes.where(where) if where else workspace.episodes
    if count == len(candidates):
        advice = "--min-score auto takes those that are like the text, --limit N the best"
        write_stderr(f"ares set create: warning: the search has left out none of {count}; {advice}")


def _describe_size(episode_set: StoredSet) -> str:
    """For example "9 episodes", or "12 spans of 5 episodes"."""
    spans = "" if episode_set.num_spans is None else f"{count_of(episode_set.num_spans, 'span')} of "
    return f"{spans}{count_of(episode_set.episodes, 'episode')}"


def _create_episodes(workspace: Workspace, args: argparse.Namespace) -> StoredSet:
    return workspace.sets.create(
        args.name,
        read_named_ids(args) or None,
        min_precision=args.min_precision,
        **selected_conditions(args),
    )


def _create_spans(workspace: Workspace, args: argparse.Namespace) -> StoredSet:
    """Freeze the spans of segments. Raises RequestError for ways to compare, as `ares search --segments` does."""
    ways = [name for name in ("image", "like", "by", "min_score", "set") if getattr(args, name)]
    if ways or args.episodes:
        option = f"--{ways[0].replace('_', '-')}" if ways else args.episodes[0]
        raise RequestError("segments are found by words and --where", f"leave out {option}, or --segments")
    return workspace.sets.create_spans(args.name, where=args.where, search=args.search, limit=args.limit)


def _list_sets(workspace: Workspace, args: argparse.Namespace) -> None:
    from ares.curation import count_removed_members

    sets = [workspace.sets[name] for name in workspace.sets]
    removed = count_removed_members(workspace.stores, sets)
    documents = [{**episode_set.to_json(), "removed": removed[episode_set.label]} for episode_set in sets]
    columns: Columns = {
        "set": lambda episode_set: episode_set.name,
        "version": lambda episode_set: episode_set.version,
        "episodes": lambda episode_set: episode_set.episodes,
        "created": lambda episode_set: episode_set.created,
        "note": lambda episode_set: _describe_row(episode_set, removed[episode_set.label]),
    }
    answer_list(args, sets, columns, "no sets", documents)


def _describe_row(episode_set: StoredSet, removed: int) -> str:
    """The last column of the list: its spans, what is gone, and its note."""
    spans = "" if episode_set.num_spans is None else f"{count_of(episode_set.num_spans, 'span')}"
    losses = _describe_losses(removed, episode_set.purged)
    return ", ".join(filter(None, [spans, losses, episode_set.note]))


def _describe_losses(removed: int, purged: int) -> str:
    """What of a set is not in the workspace any more, for people."""
    parts = [
        f"{removed} of them removed" if removed else "",
        f"{purged} more deleted for good" if purged else "",
    ]
    return ", ".join(filter(None, parts))


def _show_set(workspace: Workspace, args: argparse.Namespace) -> None:
    episode_set = workspace.sets[args.name]
    from ares.curation import count_removed_members

    removed = count_removed_members(workspace.stores, [episode_set])[episode_set.label]
    losses = _describe_losses(removed, episode_set.purged)
    if losses and args.output == "table":
        write_stderr(f"ares set show: {episode_set.label}: {_describe_size(episode_set)}, {losses}")
    measured = episode_set.measured
    more = {"measured": measured} if measured else {}
    if args.output == "table":
        write_stderr(*(f"ares set show: {line}" for line in describe_measured_lines(measured)))
    if episode_set.num_spans is not None:
        _show_spans(args, episode_set, {"removed": removed, **more})
        return
    document = {**episode_set.to_json(), "removed": removed, **more, "episode_ids": episode_set.ids()}
    answer_members(args, document, ({"episode_id": id} for id in episode_set.ids()), episode_set.ids)


def _show_spans(args: argparse.Namespace, episode_set: StoredSet, more: Mapping[str, Any]) -> None:
    """Print the spans of a set, one a line."""
    spans = (span.to_json() for span in episode_set.spans)
    document = {**episode_set.to_json(), **more, "members": spans}
    lines = (
        f"{span.episode_id} {span.start_seconds:.3f} {span.stop_seconds:.3f} {' '.join(span.text.split())}".rstrip()
        for span in episode_set.spans
    )
    answer_members(args, document, (span.to_json() for span in episode_set.spans), lambda: lines)


def _compare_sets(workspace: Workspace, args: argparse.Namespace) -> None:
    diff = workspace.sets.diff(args.a, args.b)
    are_spans = workspace.sets[args.a].num_spans is not None
    added, removed = (
        (Span.parse(line).to_json() for line in members) if are_spans else members
        for members in (diff.added_ids(), diff.removed_ids())
    )
    document = {"added": added, "removed": removed, "common": diff.common}
    text = f"{diff.added} only in {args.b}, {diff.removed} only in {args.a}, {diff.common} in both"
    answer(args, document, lambda: text)


def _write_set_lock(workspace: Workspace, args: argparse.Namespace) -> None:
    episode_set = workspace.sets[args.name]
    absent = episode_set.write_lock(args.file, args.export, quiet=False)
    if absent:
        write_stderr(
            f"ares set lock: warning: not where they were read: {', '.join(absent)}; the card proves the set, and "
            "rebuilds it only when they were ingested again from where they lie"
        )
    document: dict[str, Json] = {
        **episode_set.to_json(),
        "file": args.file,
        "absent_sources": [*absent],
    }
    answer(args, document, lambda: f"{episode_set.label} locked in {args.file}")


def _rebuild_set(workspace: Workspace, args: argparse.Namespace) -> int:
    """Make the set of a card. Returns 1 when anything is not as the card says."""
    report = workspace.sets.rebuild(
        args.file,
        args.sources,
        args.export,
        trust_answers_of=args.trust_answers_of,
        accept_texts=args.accept_texts,
    )
    outcome = (
        f"set {report.set}: {count_of(report.episodes, 'episode')}" if report.set else "the set was not made"
    )
    export = f"; {count_are(report.same_files, 'file', report.path)} as in the card" if report.path else ""
    lines = [
        f"{outcome}, {count_of(report.annotations, 'label')}{export}",
        *describe_uncounted(report.uncounted),
        *(f"differs: {visible(str(difference))}" for difference in report.differences),
    ]
    if any(difference.kind == "text" for difference in report.differences):
        lines.append(
            "say which texts it shall have: --trust-answers-of NAME, or --accept-texts for those here"
        )
    if report.differences and report.versions[0] != report.versions[1]:
        lines.append(f"the card is of ARES {report.versions[0]}, this is {report.versions[1]}")
    answer(args, report.to_json(), lambda: lines)
    return ExitStatus.ITEMS_FAILED if report.differences else ExitStatus.DONE


def _delete_set(workspace: Workspace, args: argparse.Namespace) -> int:
    """Delete a set, after a question. Returns 1 where the answer is no, as `ares remove` does."""
    labels = [selection.label for selection in workspace.sets.select(args.name)]
    if not ask_for_confirmation(args, f"delete {', '.join(labels)}? its episodes stay"):
        write_stderr("nothing was deleted")
        return ExitStatus.ITEMS_FAILED
    action = workspace.sets.delete(args.name)
    _answer_action(args, action, f"deleted {', '.join(labels)}")
    return ExitStatus.DONE


def _rename_set(workspace: Workspace, args: argparse.Namespace) -> None:
    action = workspace.sets.rename(args.name, args.new_name)
    labels = ", ".join(selection.label for selection in workspace.sets.versions(args.new_name))
    _answer_action(args, action, f"renamed {args.name} to {labels}")


def _note_set(workspace: Workspace, args: argparse.Namespace) -> None:
    action = workspace.sets.note(args.name, args.text)
    _answer_action(args, action, f"noted of {workspace.sets[args.name].label}: {args.text}")


def _answer_action(args: argparse.Namespace, action: Action, text: str) -> None:
    answer(args, action.to_json(), lambda: f"{text}; `ares undo {action.number}` takes it back")
