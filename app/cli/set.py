"""`ares set`: make, list, show, compare, rename and delete frozen sets."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.arguments import (
    COLUMNS_OPTION,
    add_min_score_argument,
    add_query_arguments,
    add_trust_argument,
    add_workspace_arguments,
    add_yes_argument,
    answer_members,
    ask_for_confirmation,
    describe_uncounted,
    episode_count,
    open_workspace,
    seed_number,
)
from app.cli.errors import ExitStatus
from app.cli.output import Block, OutputTable, answer
from ares.console import count_are, count_of, visible, write_stderr
from ares.episode import Span
from ares.errors import RequestError
from ares.rubric import count_trust_states

if TYPE_CHECKING:
    from ares.curation import ComposedSelection, Controls, SetOperation, SplitPlan
    from ares.episode import Json
    from ares.store import Action
    from ares.workspace import StoredSet, Workspace

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_set_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
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
        help="the export that is to be made again (default: the newest one of the set that is still there)",
    )
    rebuild = actions.add_parser("rebuild", help="make the set of a card, and its export, in a new workspace")
    rebuild.add_argument("file", metavar="CARD")
    rebuild.add_argument(
        "--sources", nargs="+", required=True, metavar="FOLDER", help="where its sources lie, at any depth"
    )
    rebuild.add_argument("--export", default="", metavar="DEST", help="write the export of the card, too")
    add_trust_argument(rebuild)
    diff = actions.add_parser("diff", help="what two sets have and have not in common")
    diff.add_argument("a", metavar="A")
    diff.add_argument("b", metavar="B")
    changes = [*add_composition_actions(actions), *_add_change_actions(actions)]
    for action in (create, listing, show, lock, rebuild, diff, *changes):
        add_workspace_arguments(action, rows=action in (listing, show))


def _add_change_actions(actions: Subparsers) -> list[argparse.ArgumentParser]:
    delete = actions.add_parser("delete", help="delete a set, or one version of it; its episodes stay")
    delete.add_argument("name", metavar="NAME", help="all versions; NAME@VERSION is one")
    add_yes_argument(delete)
    rename = actions.add_parser("rename", help="give all versions of a set another name")
    rename.add_argument("name", metavar="NAME")
    rename.add_argument("new_name", metavar="NEW_NAME")
    note = actions.add_parser("note", help="write a note to a set")
    note.add_argument("name", metavar="NAME")
    note.add_argument("text", metavar="TEXT", help='the note; "" takes it away')
    return [delete, rename, note]


def _add_create_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--where", default="", metavar="SQL", help="episodes that fulfil this filter")
    parser.add_argument(
        "--segments",
        action="store_true",
        help="members are the spans of segments; --where is then over the columns of segments, --search over texts",
    )
    parser.add_argument(
        "--search", default="", metavar="TEXT", help="the best --limit episodes for this text"
    )
    add_query_arguments(parser)
    parser.add_argument("--set", default="", metavar="SET", help="the members of another set")
    parser.add_argument("--ids", default="", metavar="FILE", help="episode ids, one a line")
    parser.add_argument(
        "--limit", type=episode_count, metavar="N", help="at most N episodes (of a search: 100)"
    )
    add_min_score_argument(parser)
    parser.add_argument(
        "--min-precision",
        type=float,
        metavar="P",
        help="accepted captions of --where above a cut at which people's answers certify this share of true ones",
    )
    add_composition_options(parser)


def run_set(args: argparse.Namespace) -> int:
    """Do the action that the arguments name."""
    actions = {
        "create": _create_set,
        "list": _list_sets,
        "show": _show_set,
        "diff": _compare_sets,
        "lock": _write_set_lock,
        "rebuild": _rebuild_set,
        "delete": _delete_set,
        "rename": _rename_set,
        "note": _note_set,
        "split": split_set,
        "union": combine_sets_of,
        "intersection": combine_sets_of,
        "difference": combine_sets_of,
        "overlap": show_overlap,
        "controls": make_controls,
    }
    is_new = args.action == "rebuild"
    return actions[args.action](open_workspace(args, create=is_new), args) or ExitStatus.DONE


def _create_set(workspace: Workspace, args: argparse.Namespace) -> None:
    composed = None
    if composes_set(args):
        episode_set, composed = compose_set(workspace, args)
    else:
        episode_set = _freeze_spans(workspace, args) if args.segments else _freeze_episodes(workspace, args)
    clashes = workspace.sets.clashes(episode_set)
    for clash in clashes:
        write_stderr(f"ares set create: warning: {clash}; {clash.remedy}")
    trust = count_trust_states(workspace.stores.tables, episode_set.ids())
    document = {
        **episode_set.to_json(),
        "clashes": [clash.to_json() for clash in clashes],
        "grade_trust": dict(trust),
    }
    certificate = episode_set.certificate
    if certificate:
        document["certificate"] = certificate
    rests = ", ".join(f"{count} {state}" for state, count in trust.items())
    more = f"; the judge of their captions is: {rests}" if trust else ""
    more += f"; {certificate['says']}" if certificate else ""
    more += describe_composition(composed) if composed else ""
    answer(args, document, lambda: f"set {episode_set.label}: {_describe_size(episode_set)}{more}")


def _describe_size(episode_set: StoredSet) -> str:
    """For example "9 episodes", or "12 spans of 5 episodes"."""
    spans = "" if episode_set.num_spans is None else f"{count_of(episode_set.num_spans, 'span')} of "
    return f"{spans}{count_of(episode_set.episodes, 'episode')}"


def _freeze_episodes(workspace: Workspace, args: argparse.Namespace) -> StoredSet:
    """The set of the arguments, with a certificate where one is asked for."""
    if args.min_precision is not None:
        others = ("ids", "set", "search", "like", "image", "limit", "min_score")
        if options := [name for name in others if getattr(args, name)]:
            raise RequestError(
                "a certificate speaks of all accepted captions of a filter",
                f"give --where without {', '.join('--' + name.replace('_', '-') for name in options)}",
            )
        return workspace.sets.create_certified(args.name, args.min_precision, where=args.where)
    return workspace.sets.create(
        args.name,
        Path(args.ids) if args.ids else (),
        where=args.where,
        set=args.set,
        search=args.search,
        like=args.like,
        image=args.image,
        by=args.by,
        limit=args.limit,
        min_score=args.min_score,
    )


def _freeze_spans(workspace: Workspace, args: argparse.Namespace) -> StoredSet:
    """Freeze the spans of segments. Raises RequestError for ways to compare, as `ares search --segments` does."""
    ways = [name for name in ("image", "like", "by", "min_score", "ids", "set") if getattr(args, name)]
    if ways:
        option = f"--{ways[0].replace('_', '-')}"
        raise RequestError("segments are found by words and --where", f"leave out {option}, or --segments")
    return workspace.sets.create_spans(args.name, where=args.where, search=args.search, limit=args.limit)


def _list_sets(workspace: Workspace, args: argparse.Namespace) -> None:
    from ares.curation import count_removed_members

    sets = [workspace.sets[name] for name in workspace.sets]
    removed = count_removed_members(workspace.stores, sets)
    rows = [
        (
            episode_set.name,
            episode_set.version,
            episode_set.episodes,
            episode_set.created,
            _describe_row(episode_set, removed[episode_set.label]),
        )
        for episode_set in sets
    ]
    documents = [{**episode_set.to_json(), "removed": removed[episode_set.label]} for episode_set in sets]
    header = ("set", "version", "episodes", "created", "note")
    answer(args, documents, lambda: OutputTable(rows, header), documents)


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
    certificate = episode_set.certificate
    if certificate and args.output == "table":
        write_stderr(f"ares set show: {_describe_certificate(certificate)}")
    if episode_set.num_spans is not None:
        _show_spans(args, episode_set, removed)
        return
    document = {
        **episode_set.to_json(),
        "removed": removed,
        **({"certificate": certificate} if certificate else {}),
        "episode_ids": episode_set.ids(),
    }
    answer_members(args, document, ({"episode_id": id} for id in episode_set.ids()), episode_set.ids)


def _show_spans(args: argparse.Namespace, episode_set: StoredSet, removed: int) -> None:
    """Print the spans of a set, one a line."""
    spans = (span.to_json() for span in episode_set.spans)
    document = {**episode_set.to_json(), "removed": removed, "members": spans}
    lines = (
        f"{span.episode_id} {span.start_seconds:.3f} {span.stop_seconds:.3f} {' '.join(span.text.split())}".rstrip()
        for span in episode_set.spans
    )
    answer_members(args, document, (span.to_json() for span in episode_set.spans), lambda: lines)


def _describe_certificate(certificate: Mapping[str, Json]) -> str:
    """A certificate for people, with why it holds no more."""
    void = certificate["void"]
    reasons = f"; VOID: {'; '.join(map(str, void))}" if isinstance(void, list) and void else ""
    return f"certified: {certificate['says']}{reasons}"


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
        args.file, args.sources, args.export, trust_answers_of=args.trust_answers_of
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
    if report.differences and report.versions[0] != report.versions[1]:
        lines.append(f"the card is of ARES {report.versions[0]}, this is {report.versions[1]}")
    answer(args, report.to_json(), lambda: lines)
    return ExitStatus.ITEMS_FAILED if report.differences else ExitStatus.DONE


def _delete_set(workspace: Workspace, args: argparse.Namespace) -> None:
    labels = [selection.label for selection in workspace.sets.select(args.name)]
    if ask_for_confirmation(args, f"delete {', '.join(labels)}? its episodes stay"):
        action = workspace.sets.delete(args.name)
        _answer_action(args, action, f"deleted {', '.join(labels)}")


def _rename_set(workspace: Workspace, args: argparse.Namespace) -> None:
    action = workspace.sets.rename(args.name, args.new_name)
    labels = ", ".join(selection.label for selection in workspace.sets.versions(args.new_name))
    _answer_action(args, action, f"renamed {args.name} to {labels}")


def _note_set(workspace: Workspace, args: argparse.Namespace) -> None:
    action = workspace.sets.note(args.name, args.text)
    _answer_action(args, action, f"noted of {workspace.sets[args.name].label}: {args.text}")


def _answer_action(args: argparse.Namespace, action: Action, text: str) -> None:
    answer(args, action.to_json(), lambda: f"{text}; `ares undo {action.number}` takes it back")


# Options of `create` that make it a composition.
_RULES = ("dedupe", "balance", "floor", "cap", "share")
_PARTS = ("train", "val", "test")
# Copies that are printed for people; JSON has all of them.
_SHOWN_COPIES = 10


def add_composition_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `ares set create` that decide who of a selection stays."""
    group = parser.add_argument_group("composition of the selected episodes")
    group.add_argument(
        "--dedupe",
        action="store_true",
        help="leave out copies but the best of each group, by frames and signals",
    )
    group.add_argument(
        "--balance",
        type=_parse_names,
        default=(),
        metavar="NAMES",
        help="kinds of episodes by these values, such as task,robot; for --floor and --cap",
    )
    group.add_argument("--floor", type=int, metavar="N", help="leave out kinds with fewer episodes")
    group.add_argument("--cap", type=int, metavar="N", help="at most N episodes of a kind, drawn by --seed")
    group.add_argument(
        "--share",
        type=_parse_shares,
        default={},
        metavar="SHARES",
        help="shares of datasets, such as bridge=.6,droid=.4: as many as the scarcest allows",
    )
    _add_seed_option(group)
    group.add_argument(
        "--reasons", default="", metavar="FILE", help="write why each episode is kept or left out, as CSV"
    )


def add_composition_actions(actions: Subparsers) -> list[argparse.ArgumentParser]:
    """Declare split, union, intersection, difference, overlap and controls."""
    split = actions.add_parser("split", help="parts of a set that share no group and no copy that was found")
    split.add_argument("name", metavar="NAME")
    for part in _PARTS:
        split.add_argument(
            f"--{part}", type=float, default=0.0, metavar="SHARE", help=f"share of NAME-{part}"
        )
    split.add_argument(
        "--by",
        type=_parse_names,
        default=(),
        metavar="NAMES",
        help="no value of these is in two parts: task, scene, operator, day, columns or keys of the metadata",
    )
    _add_seed_option(split)
    combinations = []
    for operation, what in _OPERATIONS.items():
        combination = actions.add_parser(operation, help=f"freeze the members {what}")
        combination.add_argument("name", metavar="NAME", help="the new set")
        combination.add_argument("sets", nargs="+", metavar="SET", help="NAME or NAME@VERSION")
        combinations.append(combination)
    overlap = actions.add_parser("overlap", help="ids and copies that a set shares with another or a dataset")
    overlap.add_argument("name", metavar="NAME")
    overlap.add_argument("--against", required=True, metavar="SET|DATASET")
    controls = actions.add_parser(
        "controls", help="two control sets: at random, and alike but for the selection"
    )
    controls.add_argument("name", metavar="NAME")
    controls.add_argument("--where", default="", metavar="SQL", help="episodes to draw from (default: all)")
    _add_seed_option(controls)
    return [split, *combinations, overlap, controls]


_OPERATIONS: dict[SetOperation, str] = {
    "union": "of all sets",
    "intersection": "that all sets have",
    "difference": "of the first set that no other has",
}


def _add_seed_option(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--seed", type=seed_number, default=0, metavar="N", help="of what is drawn (default: 0)"
    )


def _parse_names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of names; give for example task,robot")
    return names


def _parse_shares(text: str) -> dict[str, float]:
    """Shares by name: "bridge=.6,droid=.4"."""
    shares: dict[str, float] = {}
    for pair in text.split(","):
        name, _, number = pair.rpartition("=")
        try:
            share = float(number)
        except ValueError:
            share = -1.0
        if not name.strip() or not 0 < share <= 1 or name.strip() in shares:
            raise argparse.ArgumentTypeError(f"{text!r} are no shares; give for example bridge=.6,droid=.4")
        shares[name.strip()] = share
    return shares


def composes_set(args: argparse.Namespace) -> bool:
    """Whether `ares set create` has an option that composes. Raises RequestError for one that lacks its rule."""
    has_rules = any(getattr(args, name) not in (None, False, (), {}) for name in _RULES)
    if args.reasons and not has_rules:
        raise RequestError(
            "without rules every selected episode is kept", "give --reasons with a rule, such as --dedupe"
        )
    if has_rules and (args.segments or args.min_precision is not None):
        option = "--segments" if args.segments else "--min-precision"
        raise RequestError(
            "a composition is of whole episodes of a selection", f"leave out {option}, or the rules"
        )
    return has_rules


def compose_set(workspace: Workspace, args: argparse.Namespace) -> tuple[StoredSet, ComposedSelection]:
    """Freeze what the rules of the arguments leave, and write the file of reasons."""
    episode_set, composed = workspace.sets.compose(
        args.name,
        Path(args.ids) if args.ids else (),
        dedupe=args.dedupe,
        balance=args.balance,
        floor=args.floor,
        cap=args.cap,
        shares=args.share,
        seed=args.seed,
        where=args.where,
        set=args.set,
        search=args.search,
        like=args.like,
        image=args.image,
        by=args.by,
        limit=args.limit,
        min_score=args.min_score,
    )
    if args.reasons:
        with Path(args.reasons).expanduser().open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(
                [("episode_id", "reason"), *composed.reasons.items()]
            )
    return episode_set, composed


def describe_composition(composed: ComposedSelection) -> str:
    """For example "; left out: 12 near duplicate, 80 above the cap"."""
    left_out = [f"{count} {reason}" for reason, count in composed.counts().items() if reason != "kept"]
    return f"; left out: {', '.join(left_out)}" if left_out else "; nothing is left out"


def split_set(workspace: Workspace, args: argparse.Namespace) -> None:
    """Freeze the parts of a set and print what is known of them."""
    shares = {part: getattr(args, part) for part in _PARTS if getattr(args, part)}
    parts, plan = workspace.sets.split(args.name, shares, by=args.by, seed=args.seed)
    sets = {part: episode_set.to_json() for part, episode_set in parts.items()}
    answer(args, {**plan.to_json(), "sets": sets}, lambda: _describe_split(parts, plan))


def _describe_split(parts: Mapping[str, StoredSet], plan: SplitPlan) -> list[Block]:
    from ares.curation import WHAT_IS_KNOWN

    total = sum(map(len, plan.parts.values()))
    rows = [
        (parts[part].label, len(ids), len(ids) / total, plan.request.shares[part])
        for part, ids in plan.parts.items()
    ]
    shared = ", ".join(f"{name} {count}" for name, count in plan.on_two_sides.items())
    unknown = ", ".join(f"{count} without {name}" for name, count in plan.unknown.items() if count)
    compared = ", ".join(f"{count} by {way}" for way, count in plan.copies.compared.items())
    pairs, linked = len(plan.copies.pairs), len(plan.copies.linked)
    lines = [
        f"on two sides: {shared} ({WHAT_IS_KNOWN})",
        f"{count_of(plan.num_groups, 'group')} stayed together, "
        f"the largest has {count_of(plan.largest_group, 'episode')}",
        f"copies: {count_of(pairs, 'pair')} in {count_of(len(plan.copies.groups()), 'group')}, and "
        f"{count_of(linked - pairs, 'pair')} that move alike; compared {compared or 'none'}",
    ]
    lines += [f"kept apart from nothing: {unknown}"] if unknown else []
    lines += [f"{count_are(plan.missing, 'member')} not in the workspace any more"] if plan.missing else []
    return [OutputTable(rows, ("set", "episodes", "share", "wanted")), *lines]


def combine_sets_of(workspace: Workspace, args: argparse.Namespace) -> None:
    """Freeze a union, an intersection or a difference."""
    episode_set = workspace.sets.combine(args.name, args.action, *args.sets)
    answer(args, episode_set.to_json(), lambda: f"set {episode_set.label}: {episode_set.size}")


def show_overlap(workspace: Workspace, args: argparse.Namespace) -> None:
    """Print what a set shares with another or with a dataset."""
    overlap = workspace.sets.overlap(args.name, args.against)

    def describe() -> list[Block]:
        sizes = f"{overlap.label} has {count_of(overlap.sizes[0], 'episode')}, {overlap.against} {overlap.sizes[1]}"
        members = len({pair.first for pair in overlap.copies})
        summary = (
            f"{len(overlap.shared)} are the same; {members} more have a copy there, or one that moves alike"
        )
        rows = [
            (pair.first, pair.second, pair.way, pair.score, "copy" if pair.is_copy else "linked")
            for pair in overlap.copies[:_SHOWN_COPIES]
        ]
        return [
            f"{sizes}: {summary}",
            *([OutputTable(rows, ("member", "near", "by", "score", "is"))] if rows else []),
        ]

    answer(args, overlap.to_json(), describe)


def make_controls(workspace: Workspace, args: argparse.Namespace) -> None:
    """Freeze two control sets and print how alike they are."""
    frozen, controls = workspace.sets.controls(args.name, where=args.where, seed=args.seed)
    sets = {kind: episode_set.to_json() for kind, episode_set in frozen.items()}
    answer(args, {**controls.to_json(), "sets": sets}, lambda: _describe_controls(frozen, controls))


def _describe_controls(frozen: Mapping[str, StoredSet], controls: Controls) -> list[Block]:
    sizes = ", ".join(f"{episode_set.label} of {episode_set.size}" for episode_set in frozen.values())
    matched = ", ".join(f"{count} by {level}" for level, count in controls.matched_by.items())
    rows = [
        (
            row.name,
            row.selection,
            *(value for kind in frozen for value in (row.controls[kind], row.differences[kind])),
        )
        for row in controls.balance
    ]
    header = ("", "set", *(name for kind in frozen for name in (kind, "difference")))
    return [
        f"{sizes}, drawn from {controls.pool}; {controls.overlap} of the random ones are in the set; matched {matched}"
        + (f"; {count_of(controls.copies, 'copy', 'copies')} of members left out" if controls.copies else ""),
        OutputTable(rows, header),
    ]
