"""Draws control sets for a selection: as many episodes at random, and for each member one that is alike."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.curation.composition import draw_order
from ares.curation.copies import LinkedItems, find_copies, read_rows
from ares.curation.sets import CurationSet, Sets
from ares.errors import RequestError
from ares.store import in_condition

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


_COLUMNS = ("num_steps", "instruction", "success", "dataset", "content_hash")
# By how much the longer of a member and its match may be longer.
_LARGEST_LENGTH_RATIO = 1.5
RANDOM, MATCHED = "random", "matched"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchCandidate:
    """What is matched of one episode, its dataset, and the hash of its content, or its id where it has none."""

    episode_id: str
    num_steps: int
    task: str
    success: bool | None
    dataset: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """Two control sets of a set.

    Attributes:
        members: Ids of each kind, "random" and "matched", sorted.
        pool: Number of episodes that were drawn from.
        source: Filter of these episodes.
        copies: Episodes that were left out because they are copies of members or of other controls, or move alike.
        overlap: Members of the set in the random control, which is drawn from all of the pool.
        unmatched: Number of members without another episode of the same task, outcome and length.
    """

    members: Mapping[str, Sequence[str]]
    pool: int
    source: str
    copies: int
    overlap: int
    unmatched: int

    def to_json(self) -> dict[str, Json]:
        """The counts."""
        return {
            "pool": self.pool,
            "source": self.source,
            "copies_left_out": self.copies,
            "random_overlap": self.overlap,
            "unmatched": self.unmatched,
        }


def draw_controls(stores: Stores, selection: CurationSet, where: str = "", seed: int = 0) -> Controls:
    """Draw both control sets from the episodes of a filter.

    The random control is drawn from all of them, as a filter that knows nothing would. The matched control has for each
    member another episode that is no member, of the same task, outcome and length: of several the one with the nearest
    number of steps, and at most half as long again. No control is a copy of a member or of another control, or moves
    as one does.

    Args:
        stores: Stores of the workspace.
        selection: The set, of whole episodes.
        where: SQL filter of the episodes to draw from; "" is the datasets of the members.
        seed: Of what is drawn.

    Raises:
        RequestError: The set has spans or no episode, there are fewer episodes than members, or less than half of the
            members have a match.
    """
    if selection.num_spans is not None:
        raise RequestError(
            "controls are drawn for a set of episodes", f"{selection.label} has {selection.size}"
        )
    stores.catch_up()
    members = read_candidates(stores, list(Sets(stores.annotations).ids(selection)))
    ids = {member.episode_id for member in members}
    source = where or in_condition("dataset", sorted({member.dataset for member in members}))
    listed = read_candidates(stores, list(stores.tables.episodes.ids(source)))
    pool = _distinct_contents(members, listed, seed)
    while True:
        if not members or len(pool) < len(members):
            raise RequestError(
                f"there are not enough episodes to control {selection.label}",
                f"it has {len(members)}, and {len(pool)} without a copy are in {source}; "
                "take a smaller set, or draw from more with --where",
            )
        drawn = set(draw_order((candidate.episode_id for candidate in pool), seed)[: len(members)])
        random = [candidate for candidate in pool if candidate.episode_id in drawn]
        matched = match_candidates(members, [item for item in pool if item.episode_id not in ids], seed)
        if 2 * len(matched) < len(members):
            raise RequestError(
                f"less than half of {selection.label} has a match",
                f"{len(matched)} of {count_of(len(members), 'member')}: another episode of the same task, outcome and "
                f"length that is no copy, in {source}; draw from more with --where",
            )
        linked = _find_linked(stores, ids, {item.episode_id for item in [*random, *matched]}, seed)
        if not linked:
            break
        pool = [candidate for candidate in pool if candidate.episode_id not in linked]
    by_kind = {RANDOM: random, MATCHED: matched}
    return Controls(
        members={kind: sorted(item.episode_id for item in items) for kind, items in by_kind.items()},
        pool=len(listed),
        source=source,
        copies=len(listed) - len(pool),
        overlap=sum(candidate.episode_id in ids for candidate in random),
        unmatched=len(members) - len(matched),
    )


def _distinct_contents(
    members: Sequence[MatchCandidate], listed: Sequence[MatchCandidate], seed: int
) -> list[MatchCandidate]:
    """One of the listed episodes for each content: a member where one has it, else one that is drawn."""
    ranks = {id: rank for rank, id in enumerate(draw_order((item.episode_id for item in listed), seed))}
    contents = {member.content: member.episode_id for member in reversed(members)}
    for item in sorted(listed, key=lambda item: ranks[item.episode_id]):
        contents.setdefault(item.content, item.episode_id)
    return [item for item in listed if item.episode_id == contents[item.content]]


def _find_linked(stores: Stores, members: Collection[str], drawn: Collection[str], seed: int) -> set[str]:
    """Of what was drawn the copies, and what moves alike, of members and of what was drawn before."""
    items = {*members, *drawn}
    links = LinkedItems(items)
    for pair in find_copies(stores, items).linked:
        links.link(pair.first, pair.second)
    ranks = {id: (id not in members, rank) for rank, id in enumerate(draw_order(items, seed))}
    groups = links.groups()
    return {id for group in groups for id in group if id in drawn and id != min(group, key=ranks.__getitem__)}


def create_control_sets(
    stores: Stores, selection: CurationSet, controls: Controls, seed: int = 0
) -> dict[str, CurationSet]:
    """Freeze both as the sets NAME-random and NAME-matched."""
    sets = Sets(stores.annotations)
    recipe: dict[str, Json] = {"control_of": selection.label, "where": controls.source, "seed": seed}
    return {
        kind: sets.create(f"{selection.name}-{kind}", ids, {**recipe, "control": kind})
        for kind, ids in controls.members.items()
    }


def read_candidates(stores: Stores, ids: list[str]) -> list[MatchCandidate]:
    """What is matched of those of some episodes that the workspace has, by id."""
    return [
        MatchCandidate(
            episode_id=row["episode_id"],
            num_steps=row["num_steps"],
            task=row["instruction"],
            success=row["success"],
            dataset=row["dataset"],
            content=row["content_hash"] or row["episode_id"],
        )
        for row in read_rows(stores, ids, _COLUMNS).to_pylist()
    ]


def match_candidates(
    members: Sequence[MatchCandidate], others: Sequence[MatchCandidate], seed: int
) -> list[MatchCandidate]:
    """For each member another episode of its task, outcome and length, each at most once; none where none is left."""
    ranks = {id: rank for rank, id in enumerate(draw_order((item.episode_id for item in others), seed))}
    drawers: dict[tuple[str, bool | None], list[MatchCandidate]] = {}
    for other in sorted(others, key=lambda other: (other.num_steps, ranks[other.episode_id])):
        drawers.setdefault((other.task, other.success), []).append(other)
    by_id, matched = {member.episode_id: member for member in members}, []
    for episode_id in draw_order(by_id, seed):
        member = by_id[episode_id]
        drawer = drawers.get((member.task, member.success), [])
        position = bisect.bisect_left(drawer, member.num_steps, key=lambda other: other.num_steps)
        near = range(max(0, position - 1), min(len(drawer), position + 1))
        if near:
            nearest = min(near, key=lambda number: abs(drawer[number].num_steps - member.num_steps))
            shorter, longer = sorted((drawer[nearest].num_steps, member.num_steps))
            if longer <= _LARGEST_LENGTH_RATIO * shorter:
                matched.append(drawer.pop(nearest))
    return matched
