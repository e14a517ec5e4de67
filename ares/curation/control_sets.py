"""Draws control sets for a selection: as many episodes at random, and as many that are alike but for the selection."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from ares.curation.composition import draw_order
from ares.curation.copies import find_copies, read_rows
from ares.curation.sets import CurationSet, Sets
from ares.errors import RequestError

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


_COLUMNS = ("num_steps", "instruction", "success")
# Tasks that the table of balance shows by name; the others are in its largest difference.
_SHOWN_TASKS = 5
RANDOM, MATCHED = "random", "matched"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchCandidate:
    """What is matched of one episode."""

    episode_id: str
    num_steps: int
    task: str
    success: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceRow:
    """How far the controls are from the set in one property.

    Attributes:
        name: "steps", "success", "failure", "unknown outcome", or "task TEXT".
        selection: Mean, or share of the set.
        controls: The same of each control set, by kind.
        differences: Standardised difference of each from the set: of means by the pooled standard deviation, of
            shares p by sqrt(p (1 - p)); 0.1 is small.
    """

    name: str
    selection: float
    controls: Mapping[str, float]
    differences: Mapping[str, float]

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {
            "name": self.name,
            "set": round(self.selection, 4),
            **{kind: round(value, 4) for kind, value in self.controls.items()},
            "differences": {kind: round(value, 4) for kind, value in self.differences.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """Two control sets of a set.

    Attributes:
        members: Ids of each kind, "random" and "matched", sorted.
        pool: Number of episodes that were drawn from.
        copies: Episodes that the matched control leaves out because they are copies of members, or move alike.
        overlap: Members of the set in the random control, which is drawn from all of the pool.
        matched_by: Number of matched episodes by how alike they are: "task and outcome", "task", "outcome", "length".
        balance: How far both are from the set.
    """

    members: Mapping[str, Sequence[str]]
    pool: int
    copies: int
    overlap: int
    matched_by: Mapping[str, int]
    balance: Sequence[BalanceRow]

    def to_json(self) -> dict[str, Json]:
        """Counts and the table of balance."""
        return {
            "pool": self.pool,
            "copies_left_out": self.copies,
            "random_overlap": self.overlap,
            "matched_by": dict(self.matched_by),
            "balance": [row.to_json() for row in self.balance],
        }


def draw_controls(stores: Stores, selection: CurationSet, where: str = "", seed: int = 0) -> Controls:
    """Draw both control sets from the episodes of a filter.

    The random control is drawn from all of them, as a filter that knows nothing would. The matched control has for each
    member another episode that is no member: of its task and outcome where there is one, else of its task, of its
    outcome, or any; of several the one with the nearest number of steps. None of them is a copy of a member, or moves
    as one does.

    Args:
        stores: Stores of the workspace.
        selection: The set, of whole episodes.
        where: SQL filter of the episodes to draw from; "" is all.
        seed: Of what is drawn.

    Raises:
        RequestError: The set has spans, or fewer other episodes than members are there to draw from.
    """
    if selection.num_spans is not None:
        raise RequestError(
            "controls are drawn for a set of episodes", f"{selection.label} has {selection.size}"
        )
    stores.catch_up()
    members = read_candidates(stores, list(Sets(stores.annotations).ids(selection)))
    pool = read_candidates(stores, list(stores.tables.episodes.ids(where)))
    ids = {candidate.episode_id for candidate in members}
    others = [candidate for candidate in pool if candidate.episode_id not in ids]
    num_others = len(others)
    while True:
        if not members or len(others) < len(members):
            raise RequestError(
                f"there are not enough episodes to control {selection.label}",
                f"it has {len(members)}, and {len(others)} others are there; take a smaller set or ingest more",
            )
        matched, matched_by = match_candidates(members, others, seed)
        linked = _find_linked(stores, ids, {candidate.episode_id for candidate in matched})
        if not linked:
            break
        others = [candidate for candidate in others if candidate.episode_id not in linked]
    drawn = set(draw_order((candidate.episode_id for candidate in pool), seed)[: len(members)])
    random = [candidate for candidate in pool if candidate.episode_id in drawn]
    by_kind = {RANDOM: random, MATCHED: matched}
    return Controls(
        members={kind: sorted(item.episode_id for item in items) for kind, items in by_kind.items()},
        pool=len(pool),
        copies=num_others - len(others),
        overlap=sum(candidate.episode_id in ids for candidate in random),
        matched_by=matched_by,
        balance=list(compare_balance(members, by_kind)),
    )


def _find_linked(stores: Stores, members: set[str], matched: set[str]) -> set[str]:
    """Those of the matched episodes that are copies of members, or move as one does."""
    pairs = [{pair.first, pair.second} for pair in find_copies(stores, members | matched).linked]
    return {id for pair in pairs if pair & members for id in pair & matched}


def freeze_controls(
    stores: Stores, selection: CurationSet, controls: Controls, where: str = "", seed: int = 0
) -> dict[str, CurationSet]:
    """Freeze both as the sets NAME-random and NAME-matched."""
    sets = Sets(stores.annotations)
    recipe: dict[str, Json] = {"control_of": selection.label, "where": where, "seed": seed}
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
        )
        for row in read_rows(stores, ids, _COLUMNS).to_pylist()
    ]


class _Drawers:
    """Candidates that are left, by what they share with a member, each list by number of steps."""

    def __init__(self, candidates: Iterable[MatchCandidate], seed: int) -> None:
        by_id = {candidate.episode_id: candidate for candidate in candidates}
        self._lists: dict[object, list[tuple[int, int, MatchCandidate]]] = {}
        for rank, episode_id in enumerate(draw_order(by_id, seed)):
            candidate = by_id[episode_id]
            for key in _match_keys(candidate).values():
                self._lists.setdefault(key, []).append((candidate.num_steps, rank, candidate))
        for entries in self._lists.values():
            entries.sort(key=lambda entry: entry[:2])

    def take(self, key: object, num_steps: int) -> MatchCandidate | None:
        """The candidate of a list with the nearest number of steps, which is taken out; None where none is left."""
        entries = self._lists.get(key, [])
        if not entries:
            return None
        position = bisect.bisect_left(entries, num_steps, key=lambda entry: entry[0])
        near = entries[max(0, position - 1) : position + 1]
        _, rank, candidate = min(near, key=lambda entry: abs(entry[0] - num_steps))
        for list_key in _match_keys(candidate).values():
            drawer = self._lists[list_key]
            del drawer[bisect.bisect_left(drawer, (candidate.num_steps, rank), key=lambda entry: entry[:2])]
        return candidate


def _match_keys(candidate: MatchCandidate) -> dict[str, tuple[object, ...]]:
    """What a match may share with an episode, the most first."""
    return {
        "task and outcome": ("both", candidate.task, candidate.success),
        "task": ("task", candidate.task),
        "outcome": ("outcome", candidate.success),
        "length": ("any",),
    }


def match_candidates(
    members: Sequence[MatchCandidate], others: Sequence[MatchCandidate], seed: int
) -> tuple[list[MatchCandidate], dict[str, int]]:
    """Another episode for each member, each at most once, and their number by what they share with it.

    All members are matched by task and outcome first, then the rest by less, so that no match is lost to a worse one.
    """
    by_id = {member.episode_id: member for member in members}
    waiting, drawers = draw_order(by_id, seed), _Drawers(others, seed)
    matched, counts = [], Counter[str]()
    for level in _match_keys(members[0]):
        unmatched = []
        for episode_id in waiting:
            member = by_id[episode_id]
            match = drawers.take(_match_keys(member)[level], member.num_steps)
            if match is None:
                unmatched.append(episode_id)
            else:
                matched.append(match)
                counts[level] += 1
        waiting = unmatched
    return matched, dict(counts)


def compare_balance(
    members: Sequence[MatchCandidate], controls: Mapping[str, Sequence[MatchCandidate]]
) -> Iterator[BalanceRow]:
    """Rows for lengths, outcomes, the most frequent tasks, and the task with the largest difference."""
    groups = {"": members, **controls}
    yield _compare_means({kind: [item.num_steps for item in items] for kind, items in groups.items()})
    outcomes = {kind: Counter(item.success for item in items) for kind, items in groups.items()}
    for name, outcome in (("success", True), ("failure", False), ("unknown outcome", None)):
        yield _compare_shares(
            name, {kind: count[outcome] / count.total() for kind, count in outcomes.items()}
        )
    tasks = {kind: Counter(item.task for item in items) for kind, items in groups.items()}
    frequent = [task for task, _ in sum(tasks.values(), Counter[str]()).most_common()]
    rows = [
        _compare_shares(
            f"task {task!r}", {kind: count[task] / count.total() for kind, count in tasks.items()}
        )
        for task in frequent
    ]
    yield from rows[:_SHOWN_TASKS]
    if rest := rows[_SHOWN_TASKS:]:
        yield max(rest, key=lambda row: max(map(abs, row.differences.values())))


def _compare_means(values: Mapping[str, Sequence[float]]) -> BalanceRow:
    means = {kind: sum(numbers) / len(numbers) for kind, numbers in values.items()}
    spreads = {
        kind: sum((value - means[kind]) ** 2 for value in numbers) / max(1, len(numbers) - 1)
        for kind, numbers in values.items()
    }
    return _make_row("steps", means, spreads)


def _compare_shares(name: str, shares: Mapping[str, float]) -> BalanceRow:
    return _make_row(name, shares, {kind: share * (1 - share) for kind, share in shares.items()})


def _make_row(name: str, means: Mapping[str, float], spreads: Mapping[str, float]) -> BalanceRow:
    """A row of means and variances by kind, those of the set under ""."""
    kinds = [kind for kind in means if kind]
    pooled = {kind: sqrt((spreads[""] + spreads[kind]) / 2) for kind in kinds}
    differences = {
        kind: (means[kind] - means[""]) / pooled[kind]
        if pooled[kind] > 0
        else float(means[kind] != means[""])
        for kind in kinds
    }
    return BalanceRow(
        name=name,
        selection=means[""],
        controls={kind: means[kind] for kind in kinds},
        differences=differences,
    )
