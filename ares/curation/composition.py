"""Composes a selection: copies, the size of each kind and the shares of datasets decide who stays, and why."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, get_args

from ares.curation.copies import choose_kept, find_copies, read_rows
from ares.curation.sets import CurationSet, Sets
from ares.episode import Span
from ares.errors import RequestError
from ares.registry import did_you_mean, suggest_column

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import AnnotationStore, Stores


# Where the value of a name is: columns of episodes or keys of their metadata, the first that there is.
GROUP_SOURCES = {
    "task": ("instruction",),
    "scene": ("scene", "scene_id", "environment"),
    "operator": ("operator", "teleoperator", "collector"),
    "day": ("day", "date", "recorded_at", "timestamp"),
}
DAY_CHARACTERS = len("2026-11-27")
_SHARE_TOLERANCE = 1e-6
KEPT = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositionRules:
    """What a selection is to consist of; the rules apply in the order of the fields.

    Attributes:
        dedupe: Whether copies are left out but the best of each group, see `choose_kept`.
        balance: Names whose values together are the kinds of episodes, such as "task" and "robot".
        floor: Kinds with fewer episodes are left out.
        cap: Most episodes of a kind; which ones is drawn.
        shares: Share of each dataset, which sum to 1; other datasets are left out.
        seed: Of what is drawn.

    Raises:
        RequestError: Numbers or names that cannot be obeyed.
    """

    dedupe: bool = False
    balance: Sequence[str] = ()
    floor: int | None = None
    cap: int | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.balance and (self.floor is not None or self.cap is not None):
            raise RequestError(
                "a floor and a cap are for kinds of episodes", "give balance, such as task,robot"
            )
        if self.balance and self.floor is None and self.cap is None:
            raise RequestError(
                "a balance needs a floor or a cap", "give the least or the most episodes of a kind"
            )
        for name, count in (("floor", self.floor), ("cap", self.cap)):
            if count is not None and count < 1:
                raise RequestError(f"a {name} is a number of episodes from 1 on", f"got {count}")
        if self.floor is not None and self.cap is not None and self.floor > self.cap:
            raise RequestError("the floor is above the cap", f"got {self.floor} and {self.cap}")
        check_shares(self.shares, "dataset", "bridge=.6,droid=.4")

    def describe(self) -> dict[str, Json]:
        """The rules that are set, for the recipe of the set."""
        rules: dict[str, Json] = {}
        if self.dedupe:
            rules["dedupe"] = True
        if self.balance:
            rules |= {"balance": list(self.balance), "floor": self.floor, "cap": self.cap}
        if self.shares:
            rules["shares"] = dict(self.shares)
        return {**rules, "seed": self.seed} if rules else {}


def parse_shares(text: str) -> dict[str, float]:
    """Return shares by name of a text such as "bridge=.6,droid=.4". Raises RequestError for any other text."""
    shares: dict[str, float] = {}
    for pair in text.split(","):
        name, _, number = pair.rpartition("=")
        try:
            share = float(number)
        except ValueError:
            share = -1.0
        if not name.strip() or not 0 < share <= 1 or name.strip() in shares:
            raise RequestError(f"{text[:100]!r} are no shares", "give for example bridge=.6,droid=.4")
        shares[name.strip()] = share
    return shares


def check_shares(shares: Mapping[str, float], what: str, example: str) -> None:
    """Raise RequestError for shares that are not above 0, or do not sum to 1."""
    for name, share in shares.items():
        if not 0 < share <= 1:
            raise RequestError(f"the share of a {what} is above 0 and at most 1", f"got {name}={share:g}")
    total = sum(shares.values())
    if shares and abs(total - 1) > _SHARE_TOLERANCE:
        raise RequestError(f"the shares sum to {total:g}, not to 1", f"give for example {example}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedSelection:
    """What the rules decided of each selected episode.

    Attributes:
        reasons: By id, sorted: "kept", or why the episode is left out.
        details: Counts of the copies, where they were looked for.
    """

    reasons: Mapping[str, str]
    details: Mapping[str, Json] = field(default_factory=dict)

    @property
    def kept(self) -> list[str]:
        """Ids of the members, sorted."""
        return [episode_id for episode_id, reason in self.reasons.items() if reason == KEPT]

    def counts(self) -> dict[str, int]:
        """Number of episodes by reason without what stands in brackets, "kept" first."""
        counts = Counter(reason.partition(" (")[0] for reason in self.reasons.values())
        return {KEPT: counts.pop(KEPT, 0), **dict(sorted(counts.items()))}


def compose_selection(stores: Stores, ids: Collection[str], rules: CompositionRules) -> ComposedSelection:
    """Decide of each episode by the rules, in their order; the same seed decides the same.

    Args:
        stores: Stores of the workspace.
        ids: Ids of the selected episodes.
        rules: What the selection is to consist of.

    Raises:
        RequestError: A name, a column or a dataset does not exist, or nothing is left.
    """
    reasons = dict.fromkeys(sorted(set(ids)), KEPT)
    details: dict[str, Json] = {}
    if rules.dedupe:
        copies = find_copies(stores, reasons)
        details = copies.to_json()
        for episode_id, (kept, pair) in choose_kept(stores, copies).items():
            original = kept if kept in (pair.first, pair.second) else f"the group of {kept}"
            reasons[episode_id] = f"near duplicate (of {original}, by {pair.way} {pair.score:g})"
    if rules.balance:
        _balance_kinds(stores, reasons, rules)
    if rules.shares:
        _mix_datasets(stores, reasons, rules)
    if KEPT not in reasons.values():
        counts = Counter(reason.partition(" (")[0] for reason in reasons.values())
        summary = ", ".join(f"{count} {reason}" for reason, count in counts.items())
        raise RequestError(
            "the set would be empty", f"the rules leave no episode: {summary or 'none was selected'}"
        )
    return ComposedSelection(reasons=reasons, details=details)


def _balance_kinds(stores: Stores, reasons: dict[str, str], rules: CompositionRules) -> None:
    """Leave out kinds below the floor, and what is drawn beyond the cap."""
    remaining = [episode_id for episode_id, reason in reasons.items() if reason == KEPT]
    values = read_group_values(stores, remaining, rules.balance)
    kinds: dict[tuple[str | None, ...], list[str]] = {}
    for episode_id, kind in zip(remaining, zip(*values.values(), strict=True), strict=True):
        kinds.setdefault(kind, []).append(episode_id)
    for kind, members in kinds.items():
        label = ", ".join(f"{name} {value!r}" for name, value in zip(rules.balance, kind, strict=True))
        if rules.floor is not None and len(members) < rules.floor:
            reason = f"below the floor ({label} has {len(members)}, floor {rules.floor})"
            reasons.update(dict.fromkeys(members, reason))
        elif rules.cap is not None and len(members) > rules.cap:
            reason = f"above the cap ({label} has {len(members)}, cap {rules.cap})"
            reasons.update(dict.fromkeys(draw_order(members, rules.seed)[rules.cap :], reason))


def _mix_datasets(stores: Stores, reasons: dict[str, str], rules: CompositionRules) -> None:
    """Leave out what is beyond the shares: as many stay as the scarcest dataset allows."""
    remaining = [episode_id for episode_id, reason in reasons.items() if reason == KEPT]
    by_dataset: dict[str, list[str]] = {}
    for row in read_rows(stores, remaining, ["dataset"]).to_pylist():
        by_dataset.setdefault(row["dataset"], []).append(row["episode_id"])
    for dataset in rules.shares:
        if dataset not in by_dataset:
            raise RequestError(
                f"no selected episode is of dataset {dataset!r}",
                f"{did_you_mean(dataset, by_dataset)}there are: {', '.join(sorted(by_dataset)) or 'none'}",
            )
    total = int(min(len(by_dataset[dataset]) / share + 1e-9 for dataset, share in rules.shares.items()))
    counts = round_shares(rules.shares, total)
    for dataset, members in by_dataset.items():
        if dataset not in counts:
            reasons.update(dict.fromkeys(members, f"no share (dataset {dataset!r})"))
            continue
        reason = f"above the share ({rules.shares[dataset]:g} of {total} for dataset {dataset!r})"
        reasons.update(dict.fromkeys(draw_order(members, rules.seed)[counts[dataset] :], reason))


def round_shares(shares: Mapping[str, float], total: int) -> dict[str, int]:
    """Whole numbers that sum to `total`, nearest to the shares of it (largest remainders)."""
    counts = {name: int(share * total + 1e-9) for name, share in shares.items()}
    rests = sorted(shares, key=lambda name: (counts[name] - shares[name] * total, name))
    for name in rests[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def draw_order(ids: Iterable[str], seed: int) -> list[str]:
    """The ids in an order that a seed draws, the same with every version of every library and in whatever set."""
    return sorted(ids, key=lambda id: hashlib.blake2b(f"{seed} {id}".encode(), digest_size=8).digest())


def read_group_values(
    stores: Stores, ids: Sequence[str], names: Sequence[str]
) -> dict[str, list[str | None]]:
    """For each name the value of each episode as text, None where it has none.

    A name is "task" (the instruction), a column of episodes, or a key of their metadata. "scene", "operator" and "day"
    also stand under common other keys; a day is the first ten characters of a time.

    Args:
        stores: Stores of the workspace.
        ids: Sorted ids of episodes of the workspace.
        names: Names.

    Raises:
        RequestError: No episode has a value for a name, or no name is given twice.
    """
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise RequestError("a name is given twice", repeated[0])
    columns = stores.tables.episodes.columns()
    in_table = {name: find_group_column(name, columns) for name in names}
    rows = read_rows(stores, ids, [*filter(None, in_table.values()), "metadata"])
    metadata: list[dict[str, Any]] = [json.loads(text) for text in rows["metadata"].to_pylist()]
    values = {}
    for name in names:
        column = in_table[name]
        cells = rows[column].to_pylist() if column else _metadata_values(metadata, name)
        values[name] = [_value_text(value, name) for value in cells]
        if ids and not any(value is not None for value in values[name]):
            known = [*GROUP_SOURCES, *columns, *{key for document in metadata[:1_000] for key in document}]
            raise RequestError(
                f"no episode has a {name!r}",
                f"{suggest_column(name, known)}a name is task, a column or a key of the metadata",
            )
    return values


def find_group_column(name: str, columns: Collection[str]) -> str:
    """The column of episodes with the values of a name, or "" where they stand in the metadata."""
    return next((source for source in GROUP_SOURCES.get(name, (name,)) if source in columns), "")


def _metadata_values(metadata: Sequence[Mapping[str, Any]], name: str) -> list[object]:
    key = name.removeprefix("metadata.")
    sources = GROUP_SOURCES.get(key, (key,))
    return [next((doc[key] for key in sources if doc.get(key) is not None), None) for doc in metadata]


def _value_text(value: object, name: str) -> str | None:
    """The text of a value; None for one that says nothing."""
    if value is None or value == "":
        return None
    text = value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=True)
    return text[:DAY_CHARACTERS] if name == "day" else text


SetOperation = Literal["union", "intersection", "difference"]
SET_OPERATIONS: tuple[SetOperation, ...] = get_args(SetOperation)
# Whether a member stays, by the positions of the sets that have it, rising, and the number of sets.
_STAYS: dict[SetOperation, Callable[[list[int], int], bool]] = {
    "union": lambda owners, total: True,
    "intersection": lambda owners, total: len(owners) == total,
    "difference": lambda owners, total: owners == [0],
}


def combine_sets(
    annotations: AnnotationStore, name: str, operation: SetOperation, labels: Sequence[str]
) -> CurationSet:
    """Freeze the members that all of some sets have together, share, or that only the first has.

    Members are read side by side; no set is held in memory. Spans are equal where episode, start and end are; the
    text of the first set stays.

    Args:
        annotations: The log.
        name: Name of the new set; its next version has the members.
        operation: "union", "intersection", or "difference": the members of the first set that no other has.
        labels: Names of at least two sets, "name" or "name@version".

    Raises:
        RequestError: There are fewer than two sets, one does not exist, or some have spans and some episodes; or no
            member remains.
    """
    sets = Sets(annotations)
    if len(labels) < 2:
        raise RequestError(f"a {operation} is of at least two sets", f"got {', '.join(labels) or 'none'}")
    selections = [sets[label] for label in labels]
    kinds = {selection.num_spans is None for selection in selections}
    if len(kinds) > 1:
        sizes = ", ".join(f"{selection.label} has {selection.size}" for selection in selections)
        raise RequestError("sets of spans and of episodes cannot be combined", sizes)
    recipe: dict[str, Json] = {
        "operation": operation,
        "sets": [selection.label for selection in selections],
        "ids_hashes": [selection.ids_hash for selection in selections],
    }
    members = combine_members(sets, selections, operation)
    if kinds == {True}:
        return sets.create(name, members, recipe)
    return sets.create_spans(name, map(Span.parse, members), recipe)


def combine_members(sets: Sets, selections: Sequence[CurationSet], operation: SetOperation) -> Iterator[str]:
    """The lines of the members that stay, sorted."""
    numbered = [_numbered_members(sets, selection, number) for number, selection in enumerate(selections)]
    stays = _STAYS[operation]
    for _, same in groupby(heapq.merge(*numbered), key=lambda entry: entry[0]):
        entries = list(same)
        if stays(sorted({number for _, number, _ in entries}), len(selections)):
            yield min(entries, key=lambda entry: entry[1])[2]


def _numbered_members(
    sets: Sets, selection: CurationSet, number: int
) -> Iterator[tuple[tuple[str, ...], int, str]]:
    """What tells a member from others, the number of its set, and its line; sorted as its lines are."""
    for line in sets.members(selection):
        yield tuple(line.split(" ", 3)[:3]), number, line
