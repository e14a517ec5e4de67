"""Sets made of sets: `ares set create` with rules, split, union, intersection, difference and controls."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from ares.console import count_are, count_of
from ares.curation import parse_shares
from ares.errors import RequestError
from ares_app.cli.arguments import read_named_ids, seed_number
from ares_app.cli.output import Block, OutputTable, answer

if TYPE_CHECKING:
    from ares.curation import ComposedSelection, Controls, SetOperation, SplitPlan
    from ares.workspace import SelectionOptions, StoredSet, Workspace

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
# The parser of an action, and what does it.
ActionParser: TypeAlias = (
    "tuple[argparse.ArgumentParser, Callable[[Workspace, argparse.Namespace], int | None]]"
)


# Options of `create` that make it a composition.
_RULES = ("dedupe", "balance", "floor", "cap", "share")
_PARTS = ("train", "val", "test")
# Copies, and episodes that move or are left out, that are printed for people; JSON has all of them.
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
        help="tell kinds of episodes by these values, such as task,robot, for --floor and --cap",
    )
    group.add_argument("--floor", type=int, metavar="N", help="leave out kinds with fewer episodes")
    group.add_argument(
        "--cap", type=int, metavar="N", help="keep at most N episodes of a kind, drawn by --seed"
    )
    group.add_argument(
        "--share",
        type=_parse_shares,
        default={},
        metavar="SHARES",
        help="mix datasets by these shares, such as bridge=.6,droid=.4: as many as the scarcest allows",
    )
    _add_seed_option(group)
    group.add_argument(
        "--reasons", default="", metavar="FILE", help="write why each episode is kept or left out, as CSV"
    )


def add_composition_actions(actions: Subparsers) -> list[ActionParser]:
    """Declare split, union, intersection, difference and controls."""
    split = actions.add_parser("split", help="parts of a set that share no group and no copy that was found")
    split.add_argument("name", metavar="NAME")
    for part in _PARTS:
        split.add_argument(
            f"--{part}",
            type=float,
            default=0.0,
            metavar="SHARE",
            help=f"freeze this share of it as NAME-{part}",
        )
    split.add_argument(
        "--by",
        type=_parse_names,
        default=(),
        metavar="NAMES",
        help="let no value of these be in two parts: task, scene, operator, day, columns or keys of the metadata",
    )
    split.add_argument(
        "--fresh", action="store_true", help="draw all sides again (default: what has a side keeps it)"
    )
    split.add_argument(
        "--move",
        action="store_true",
        help="put a group that joins two sides on the one with the largest share, and not leave out what joins them",
    )
    _add_seed_option(split)
    combinations = []
    for operation, what in _OPERATIONS.items():
        combination = actions.add_parser(operation, help=f"freeze the members {what}")
        combination.add_argument("name", metavar="NAME", help="the new set")
        combination.add_argument("sets", nargs="+", metavar="SET", help="NAME or NAME@VERSION")
        combinations.append(combination)
    controls = actions.add_parser(
        "controls", help="two control sets: at random, and alike but for the selection"
    )
    controls.add_argument("name", metavar="NAME")
    return [
        (split, _split_set),
        *((combination, _combine_sets) for combination in combinations),
        (controls, _make_controls),
    ]


_OPERATIONS: dict[SetOperation, str] = {
    "union": "of all sets",
    "intersection": "that all sets have",
    "difference": "of the first set that no other has",
}


def _add_seed_option(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--seed",
        type=seed_number,
        default=0,
        metavar="N",
        help="draw other episodes by another number (default: 0)",
    )


def _parse_names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of names; give for example task,robot")
    return names


def _parse_shares(text: str) -> dict[str, float]:
    try:
        return parse_shares(text)
    except RequestError as error:
        raise argparse.ArgumentTypeError(f"{error.reason}; {error.detail}") from None


def selected_conditions(args: argparse.Namespace) -> SelectionOptions:
    """What the arguments of `ares set create` say of the episodes, beside a list of ids."""
    names = ("where", "set", "search", "like", "image", "by", "limit", "min_score")
    return cast("SelectionOptions", {name: getattr(args, name) for name in names})


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
        read_named_ids(args) or None,
        dedupe=args.dedupe,
        balance=args.balance,
        floor=args.floor,
        cap=args.cap,
        shares=args.share,
        seed=args.seed,
        **selected_conditions(args),
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


def _split_set(workspace: Workspace, args: argparse.Namespace) -> None:
    """Freeze the parts of a set and print what is known of them."""
    shares = {part: getattr(args, part) for part in _PARTS if getattr(args, part)}
    parts, plan = workspace.sets.split(
        args.name, shares, by=args.by, seed=args.seed, fresh=args.fresh, move=args.move
    )
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
    lines += [f"{count_of(plan.kept, 'episode')} kept the side from before"] if plan.kept else []
    lines += [f"moved: {id} (was in {side})" for id, side in [*plan.moved.items()][:_SHOWN_COPIES]]
    lines += [
        f"left out: {id} joins {' and '.join(f'{side} (by {witness})' for side, witness in sides.items())}"
        for id, sides in [*plan.joined.items()][:_SHOWN_COPIES]
    ]
    if plan.joined:
        lines += [
            f"{count_of(len(plan.joined), 'episode')} left out, --json has all: --move puts what hangs together on "
            f"{plan.request.largest}"
        ]
    lines += [f"kept apart from nothing: {unknown}"] if unknown else []
    lines += [f"{count_are(plan.missing, 'member')} not in the workspace any more"] if plan.missing else []
    return [OutputTable(rows, ("set", "episodes", "share", "wanted")), *lines]


def _combine_sets(workspace: Workspace, args: argparse.Namespace) -> None:
    """Freeze a union, an intersection or a difference."""
    episode_set = workspace.sets.combine(args.name, args.action, *args.sets)
    answer(args, episode_set.to_json(), lambda: f"set {episode_set.label}: {episode_set.size}")


def _make_controls(workspace: Workspace, args: argparse.Namespace) -> None:
    """Freeze two control sets and print how they were drawn."""
    frozen, controls = workspace.sets.controls(args.name)
    sets = {kind: episode_set.to_json() for kind, episode_set in frozen.items()}
    answer(args, {**controls.to_json(), "sets": sets}, lambda: _describe_controls(frozen, controls))


def _describe_controls(frozen: Mapping[str, StoredSet], controls: Controls) -> list[Block]:
    sizes = ", ".join(f"{episode_set.label} of {episode_set.size}" for episode_set in frozen.values())
    return [
        f"{sizes}, drawn from {controls.pool} of {controls.source}; "
        f"{controls.overlap} of the random ones are in the set; "
        f"{count_of(controls.unmatched, 'member')} without a match in task, outcome and length"
        + (f"; {count_of(controls.copies, 'copy', 'copies')} left out" if controls.copies else ""),
    ]
