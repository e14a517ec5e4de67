"""Splits a set into parts that share no group and no copy that was found; what has a side from before keeps it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from ares.console import count_are, count_of
from ares.curation.composition import check_shares, draw_order, read_group_values
from ares.curation.copies import WHAT_IS_KNOWN, Copies, LinkedItems, find_copies, read_rows
from ares.curation.sets import CurationSet, Sets
from ares.curation.split_tables import (
    SplitRow,
    SplitTable,
    add_brought_sides,
    read_split_table,
    write_split_rows,
)
from ares.errors import RequestError

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRequest:
    """How a set is to be split.

    Attributes:
        shares: Share of each part by its name, which sum to 1.
        by: Names whose values no two parts may share, see `read_group_values`.
        seed: Decides between equally good splits.
        fresh: Whether all sides are drawn again, whatever they were before.
        move: Whether a group that joins two sides moves to the side with the largest share, where no model is
            evaluated; else what joins them is left out.

    Raises:
        RequestError: There are fewer than two parts, the shares do not sum to 1, or `fresh` and `move` are given.
    """

    shares: Mapping[str, float]
    by: Sequence[str] = ()
    seed: int = 0
    fresh: bool = False
    move: bool = False

    @property
    def largest(self) -> str:
        """The part with the largest share; of equal ones the first by name."""
        return min(self.shares, key=lambda name: (-self.shares[name], name))

    def __post_init__(self) -> None:
        if self.fresh and self.move:
            raise RequestError("a fresh split draws all sides, and moves none", "give --fresh or --move")
        check_shares(self.shares, "part", "train .9 and val .1")
        if len(self.shares) < 2:
            raise RequestError("a split has at least two parts", "give for example train .9 and val .1")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """The part of each episode, and what is known of what is on two sides.

    Attributes:
        request: What was asked for.
        parts: Ids of each part, sorted, by its name.
        missing: Members of the set that the workspace does not have any more; they are in no part.
        num_groups: Number of groups that had to stay together.
        largest_group: Episodes of the largest of them.
        unknown: By name of `by` the number of episodes without a value, which it keeps apart from nothing.
        on_two_sides: Values of each name, and pairs of copies as "copies", that are on two sides; all 0.
        copies: What was looked for and found.
        kept: Number of members that have the side that they had before.
        joined: By id of a member that joins two sides, which is in no part, an episode or value of each side.
        moved: By id of a member that moved its side from before.
        rows: The rows of the table that are new or moved.
    """

    request: SplitRequest
    parts: Mapping[str, Sequence[str]]
    missing: int
    num_groups: int
    largest_group: int
    unknown: Mapping[str, int]
    on_two_sides: Mapping[str, int]
    copies: Copies
    kept: int = 0
    joined: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)
    rows: Sequence[SplitRow] = ()

    def to_json(self) -> dict[str, Json]:
        """The report: parts with what was asked and reached, groups, and what is known of both sides."""
        total = sum(map(len, self.parts.values()))
        return {
            "parts": {
                name: {
                    "episodes": len(ids),
                    "share": round(len(ids) / total, 6),
                    "wanted": self.request.shares[name],
                    "off_by_episodes": round(len(ids) - self.request.shares[name] * total, 3),
                }
                for name, ids in self.parts.items()
            },
            "by": list(self.request.by),
            "groups": self.num_groups,
            "largest_group": self.largest_group,
            "on_two_sides": dict(self.on_two_sides),
            "known": WHAT_IS_KNOWN,
            "unknown": dict(self.unknown),
            "near_duplicates": self.copies.to_json(),
            "not_in_workspace": self.missing,
            "kept_sides": self.kept,
            "joins_two_sides": {id: dict(sides) for id, sides in self.joined.items()},
            "moved_from": dict(self.moved),
        }


def plan_split(stores: Stores, selection: CurationSet, request: SplitRequest) -> SplitPlan:
    """Assign the episodes of a set to parts; the same seed assigns the same.

    Episodes hang together when they share a value of any name, are copies or move alike; these are one
    group. What has a side from an earlier split keeps it, and what hangs together with it goes there.

    Raises:
        RequestError: The set has spans, a name has no values, the groups leave a part without an episode, or the
            earlier split was by other names or has a side without a share.
    """
    if selection.num_spans is not None:
        raise RequestError("a set of spans cannot be split", f"{selection.label} has {selection.size}")
    listed = list(Sets(stores.annotations).ids(selection))
    table = SplitTable() if request.fresh else read_split_table(stores.annotations, selection)
    _check_rules(selection, request, table)
    stores.catch_up()
    # Episodes that left the set keep their side too: a copy of them may be new.
    earlier = {row.episode_id for row in table.rows.values()}
    rows = read_rows(stores, [*listed, *earlier.difference(listed)], ["content_hash"]).to_pylist()
    contents = {row["episode_id"]: row["content_hash"] or row["episode_id"] for row in rows}
    if not request.fresh:
        table = add_brought_sides(stores.annotations, table, contents)
    members, ids = set(listed) & contents.keys(), list(contents)
    values = read_group_values(stores, ids, request.by)
    copies = find_copies(stores, ids)
    sides = {id: known for id, content in contents.items() if (known := table.sides_of(content, id))}
    groups = _link_groups(ids, values, copies)
    moved = _move_groups(groups, sides, request.largest) if request.move else {}
    assigned, new_groups, joined = _follow_sides(ids, values, copies, sides, request)
    if lacking := sorted({assigned[id] for id in members & assigned.keys()} - request.shares.keys()):
        raise RequestError(
            f"the split of {selection.name} has a side {lacking[0]!r} without a share",
            f"give --{lacking[0]} a share, or draw all sides again with --fresh",
        )
    settled = {
        name: [id for id, side in assigned.items() if side == name and id in members]
        for name in request.shares
    }
    parts = assign_groups(new_groups, request.shares, request.seed, settled)
    if empty := [name for name, part in parts.items() if not part]:
        raise RequestError(f"the part {empty[0]!r} would be empty", _explain_empty(members, groups, settled))
    return SplitPlan(
        request=request,
        parts=parts,
        missing=len(listed) - len(members),
        num_groups=len(groups),
        largest_group=max(map(len, groups)),
        unknown={
            name: sum(id in members and value is None for id, value in zip(ids, column, strict=True))
            for name, column in values.items()
        },
        on_two_sides=count_shared(parts, ids, values, copies),
        copies=copies,
        kept=sum(id in members and id not in moved and id not in joined for id in sides),
        joined={id: joined[id] for id in sorted(members & joined.keys())},
        moved=moved,
        rows=_make_rows(table, request, parts, contents, moved),
    )


def _explain_empty(
    members: Collection[str], groups: Collection[Sequence[str]], settled: Mapping[str, Collection[str]]
) -> str:
    """Why a part has no episode: all have sides from before, or they are too few groups."""
    counts = {name: len(ids) for name, ids in settled.items() if ids}
    if sum(counts.values()) == len(members):
        sides = ", ".join(f"{count} in {name}" for name, count in counts.items())
        return (
            f"all {count_of(len(members), 'episode')} keep the side from before: {sides}; --fresh draws again"
        )
    largest = max(map(len, groups), default=0)
    return (
        f"{count_are(len(members), 'episode')} {count_of(len(groups), 'group')}, the largest of {largest}: "
        "what shares a value of --by, or is a copy, stays together; split by fewer names, or by none"
    )


def create_split_sets(stores: Stores, selection: CurationSet, plan: SplitPlan) -> dict[str, CurationSet]:
    """Freeze each part as the set NAME-PART, and keep the table of the sides, which the next split starts from.

    The recipe of each part tells the split and what is known of it.
    """
    sets, report = Sets(stores.annotations), plan.to_json()
    recipe: dict[str, Json] = {
        "split_of": selection.label,
        "shares": dict(plan.request.shares),
        "by": list(plan.request.by),
        "seed": plan.request.seed,
        "on_two_sides": report["on_two_sides"],
        "known": WHAT_IS_KNOWN,
        "groups": plan.num_groups,
    }
    with stores.annotations.atomic():
        write_split_rows(stores.annotations, selection.name, plan.rows, fresh=plan.request.fresh)
        return {
            part: sets.create(f"{selection.name}-{part}", ids, {**recipe, "part": part})
            for part, ids in plan.parts.items()
        }


def _check_rules(selection: CurationSet, request: SplitRequest, table: SplitTable) -> None:
    """Raise RequestError where sides were drawn by other names."""
    if table.rules and frozenset(request.by) not in table.rules:
        earlier = " or ".join(",".join(sorted(names)) or "no name" for names in table.rules)
        raise RequestError(
            f"the split of {selection.name} was drawn by {earlier}, not by {','.join(request.by) or 'no name'}",
            "give --by as before, or draw all sides again with --fresh",
        )


def _move_groups(
    groups: Iterable[Sequence[str]], sides: dict[str, frozenset[str]], target: str
) -> dict[str, str]:
    """Put each group that joins two sides on one, in `sides`; returns the side from before of what moved."""
    moved = {}
    for group in groups:
        if len(frozenset[str]().union(*(sides.get(id, ()) for id in group))) > 1:
            for id in filter(sides.__contains__, group):
                if sides[id] != {target}:
                    moved[id] = ",".join(sorted(sides[id]))
                sides[id] = frozenset((target,))
    return moved


def _follow_sides(
    ids: Sequence[str],
    values: Mapping[str, Sequence[str | None]],
    copies: Copies,
    sides: Mapping[str, frozenset[str]],
    request: SplitRequest,
) -> tuple[dict[str, str], list[list[str]], dict[str, dict[str, str]]]:
    """The side of what has one or hangs together with it, the groups without any, and what joins two sides.

    What joins two sides names an episode or a value of each. Of copies with sides from before that are on two, those on
    the side with the smallest share stay: no model was trained on them.

    Raises:
        RequestError: A value of a name is on two sides from before.
    """
    reached: dict[str, dict[str, str]] = {id: dict.fromkeys(sorted(sides.get(id, ())), id) for id in ids}
    links = LinkedItems(ids)
    for pair in copies.linked:
        if (pair.first in sides) == (pair.second in sides):
            links.link(pair.first, pair.second)
    _share_reached(links, reached)
    for pair in copies.linked:
        if (pair.first in sides) != (pair.second in sides):
            old, new = sorted((pair.first, pair.second), key=sides.__contains__, reverse=True)
            reached[new] = reached[old] | reached[new]
    for name, column in values.items():
        _follow_values(name, zip(ids, column, strict=True), sides, links, reached)
    assigned, new_groups, joined = dict[str, str](), list[list[str]](), dict[str, dict[str, str]]()
    for group in _share_reached(links, reached):
        known = reached[group[0]]
        stays = min(known, key=lambda side: (request.shares.get(side, 0.0), side), default="")
        if not known:
            new_groups.append(group)
        for id in group if known else ():
            if len(known) == 1 or sides.get(id) == frozenset((stays,)):
                assigned[id] = stays
            else:
                joined[id] = dict(sorted(known.items()))
    return assigned, new_groups, joined


def _follow_values(
    name: str,
    named: Iterable[tuple[str, str | None]],
    sides: Mapping[str, frozenset[str]],
    links: LinkedItems,
    reached: dict[str, dict[str, str]],
) -> None:
    """Let what has a value of a name reach the side of that value; link what has a value without a side."""
    by_value: dict[str, list[str]] = {}
    for id, value in named:
        if value is not None:
            by_value.setdefault(value, []).append(id)
    for value, group in by_value.items():
        known = {side: id for id in group if len(sides.get(id, ())) == 1 for side in sides[id]}
        if len(known) > 1:
            raise RequestError(
                f"{name} {value!r} is on two sides from before",
                ", ".join(f"{id} in {side}" for side, id in sorted(known.items()))
                + "; leave it out of --by, put all of it on one side with --move, or draw again with --fresh",
            )
        new = [id for id in group if id not in sides]
        for id in new:
            reached[id] = dict.fromkeys(known, f"{name} {value}") | reached[id]
            if not known:
                links.link(new[0], id)


def _share_reached(links: LinkedItems, reached: dict[str, dict[str, str]]) -> list[list[str]]:
    """Let all of a group reach what one of it reaches; returns the groups."""
    groups = links.groups()
    for group in groups:
        known = {side: witness for id in group for side, witness in reached[id].items()}
        reached.update((id, known) for id in group)
    return groups


def _make_rows(
    table: SplitTable,
    request: SplitRequest,
    parts: Mapping[str, Sequence[str]],
    contents: Mapping[str, str],
    moved: Mapping[str, str],
) -> list[SplitRow]:
    """The rows of all members that are in a part, and of what moved without being a member."""
    rows = [replace(row, side=request.largest) for row in table.rows.values() if row.episode_id in moved]
    for side, ids in parts.items():
        for id in ids:
            row = table.rows.get(contents[id])
            new = SplitRow(
                content_hash=contents[id], side=side, by=tuple(request.by), seed=request.seed, episode_id=id
            )
            rows.append(row if row and row.side == side else new)
    return rows


def _link_groups(
    ids: Sequence[str], values: Mapping[str, Sequence[str | None]], copies: Copies
) -> list[list[str]]:
    """What hangs together by equal values, as copies, or by equal motion."""
    links = LinkedItems(ids)
    for column in values.values():
        first_by_value: dict[str, str] = {}
        for episode_id, value in zip(ids, column, strict=True):
            if value is not None:
                links.link(first_by_value.setdefault(value, episode_id), episode_id)
    for pair in copies.linked:
        links.link(pair.first, pair.second)
    return links.groups()


def assign_groups(
    groups: Sequence[Sequence[str]],
    shares: Mapping[str, float],
    seed: int,
    settled: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, list[str]]:
    """Put whole groups into parts, as near to the shares of all members as groups allow.

    The largest group first, each into the part that lacks most of its share; a part that got none gets a small one.

    Args:
        groups: Members that hang together.
        shares: Share of each part by its name.
        seed: Decides between equally good parts.
        settled: Members of each part that are in it already.

    Returns:
        Members of each part, sorted.
    """
    drawn = {group: rank for rank, group in enumerate(draw_order((group[0] for group in groups), seed))}
    ordered = sorted(groups, key=lambda group: (-len(group), drawn[group[0]]))
    kept = {name: settled.get(name, ()) for name in shares}
    total = sum(map(len, ordered)) + sum(map(len, kept.values()))
    lacking = {name: share * total - len(kept[name]) for name, share in shares.items()}
    parts: dict[str, list[Sequence[str]]] = {name: [] for name in shares}
    for group in ordered:
        name = max(lacking, key=lambda part: (lacking[part], part))
        parts[name].append(group)
        lacking[name] -= len(group)
    for name, part in parts.items():
        giver = max(parts, key=lambda other: len(parts[other]))
        if not part and not kept[name] and len(parts[giver]) > (0 if kept[giver] else 1):
            part.append(parts[giver].pop())
    return {
        name: sorted([*kept[name], *(id for group in part for id in group)]) for name, part in parts.items()
    }


def count_shared(
    parts: Mapping[str, Sequence[str]],
    ids: Sequence[str],
    values: Mapping[str, Sequence[str | None]],
    copies: Copies,
) -> dict[str, int]:
    """Values of each name, and pairs of copies, that are on two sides; counted from the parts, not from the groups."""
    part_of = {episode_id: name for name, part in parts.items() for episode_id in part}
    shared = {}
    for name, column in values.items():
        sides: dict[str, set[str]] = {}
        for episode_id, value in zip(ids, column, strict=True):
            if value is not None and episode_id in part_of:
                sides.setdefault(value, set()).add(part_of[episode_id])
        shared[name] = sum(len(names) > 1 for names in sides.values())
    pairs = [(part_of.get(pair.first), part_of.get(pair.second)) for pair in copies.linked]
    return {**shared, "copies": sum(None not in pair and pair[0] != pair[1] for pair in pairs)}
