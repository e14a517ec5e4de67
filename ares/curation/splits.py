"""Splits a set into parts that share no group and no copy that was found, and says what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.console import count_are, count_of
from ares.curation.composition import check_shares, draw_order, read_group_values
from ares.curation.copies import WHAT_IS_KNOWN, Copies, LinkedItems, find_copies, read_rows
from ares.curation.sets import CurationSet, Sets
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

    Raises:
        RequestError: There are fewer than two parts, or the shares do not sum to 1.
    """

    shares: Mapping[str, float]
    by: Sequence[str] = ()
    seed: int = 0

    def __post_init__(self) -> None:
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
    """

    request: SplitRequest
    parts: Mapping[str, Sequence[str]]
    missing: int
    num_groups: int
    largest_group: int
    unknown: Mapping[str, int]
    on_two_sides: Mapping[str, int]
    copies: Copies

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
        }


def plan_split(stores: Stores, selection: CurationSet, request: SplitRequest) -> SplitPlan:
    """Assign the episodes of a set to parts; the same seed assigns the same.

    Episodes hang together when they share a value of any name, are copies or move alike; these are one
    group.

    Raises:
        RequestError: The set has spans, a name has no values, or the groups leave a part without an episode.
    """
    if selection.num_spans is not None:
        raise RequestError("a set of spans cannot be split", f"{selection.label} has {selection.size}")
    members = list(Sets(stores.annotations).ids(selection))
    stores.catch_up()
    ids: list[str] = read_rows(stores, members, [])["episode_id"].to_pylist()
    values = read_group_values(stores, ids, request.by)
    copies = find_copies(stores, ids)
    groups = _link_groups(ids, values, copies)
    parts = assign_groups(groups, request.shares, request.seed)
    if empty := [name for name, part in parts.items() if not part]:
        largest = max(map(len, groups), default=0)
        raise RequestError(
            f"the part {empty[0]!r} would be empty",
            f"{count_are(len(ids), 'episode')} {count_of(len(groups), 'group')}, the largest of {largest}: "
            "what shares a value of --by, or is a copy, stays together; split by fewer names, or by none",
        )
    return SplitPlan(
        request=request,
        parts=parts,
        missing=len(members) - len(ids),
        num_groups=len(groups),
        largest_group=max(map(len, groups)),
        unknown={name: column.count(None) for name, column in values.items()},
        on_two_sides=count_shared(parts, ids, values, copies),
        copies=copies,
    )


def freeze_split(stores: Stores, selection: CurationSet, plan: SplitPlan) -> dict[str, CurationSet]:
    """Freeze each part as the set NAME-PART; the recipe of each tells the split and what is known of it."""
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
    return {
        part: sets.create(f"{selection.name}-{part}", ids, {**recipe, "part": part})
        for part, ids in plan.parts.items()
    }


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
    groups: Sequence[Sequence[str]], shares: Mapping[str, float], seed: int
) -> dict[str, list[str]]:
    """Put whole groups into parts, as near to the shares of all members as groups allow.

    The largest group first, each into the part that lacks most of its share; a part that got none gets a small one.

    Returns:
        Members of each part, sorted.
    """
    drawn = {group: rank for rank, group in enumerate(draw_order((group[0] for group in groups), seed))}
    ordered = sorted(groups, key=lambda group: (-len(group), drawn[group[0]]))
    total = sum(map(len, ordered))
    lacking = {name: share * total for name, share in shares.items()}
    parts: dict[str, list[Sequence[str]]] = {name: [] for name in shares}
    for group in ordered:
        name = max(lacking, key=lambda part: (lacking[part], part))
        parts[name].append(group)
        lacking[name] -= len(group)
    for part in parts.values():
        giver = max(parts.values(), key=len)
        if not part and len(giver) > 1:
            part.append(giver.pop())
    return {name: sorted(id for group in part for id in group) for name, part in parts.items()}


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
            if value is not None:
                sides.setdefault(value, set()).add(part_of[episode_id])
        shared[name] = sum(len(names) > 1 for names in sides.values())
    return {**shared, "copies": sum(part_of[pair.first] != part_of[pair.second] for pair in copies.linked)}
