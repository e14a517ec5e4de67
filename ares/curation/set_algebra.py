"""Union, intersection and difference of frozen sets, and what a set shares with another or with a dataset."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal, get_args

from ares.curation.near_duplicates import CopyPair, NearDuplicates, find_near_duplicates
from ares.curation.sets import CurationSet, Sets
from ares.episode import Span
from ares.errors import RequestError
from ares.store import quote_literal

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import AnnotationStore, Stores


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOverlap:
    """What a set has in common with another set, or with a dataset.

    Attributes:
        label: The set.
        against: The other set, or the dataset.
        sizes: Number of episodes of both.
        shared: Ids that both have, sorted.
        copies: Pairs of a member that is not shared, first, and a near copy of it on the other side.
        near: What was looked for.
    """

    label: str
    against: str
    sizes: tuple[int, int]
    shared: Sequence[str]
    copies: Sequence[CopyPair]
    near: NearDuplicates

    def to_json(self) -> dict[str, Json]:
        """Counts, ids and pairs."""
        return {
            "set": self.label,
            "against": self.against,
            "episodes": list(self.sizes),
            "shared": len(self.shared),
            "members_with_copies": len({pair.first for pair in self.copies}),
            "near_duplicates": self.near.to_json(),
            "shared_ids": list(self.shared),
            "copies": [
                {"member": pair.first, "copy": pair.second, "way": pair.way, "score": pair.score}
                for pair in self.copies
            ],
        }


def find_overlap(
    stores: Stores, selection: CurationSet, against: str, ways: Sequence[str] = (), seed: int = 0
) -> SetOverlap:
    """The episodes that a set shares with another set or a dataset, and near copies between both.

    Args:
        stores: Stores of the workspace.
        selection: The set; of a set of spans its episodes.
        against: Name of a set, "name" or "name@version", or of a dataset; a set comes first.
        ways: Ways to find near duplicates, see `find_near_duplicates`.
        seed: Of the search for them.

    Raises:
        RequestError: There is neither such a set nor such a dataset, or a way does not exist.
    """
    label, others = _read_other_side(stores, against)
    members = set(Sets(stores.annotations).ids(selection))
    near = find_near_duplicates(stores, members | others, ways, seed, in_doubt=True)
    copies = list(_pairs_between(near, members, others))
    return SetOverlap(
        label=selection.label,
        against=label,
        sizes=(len(members), len(others)),
        shared=sorted(members & others),
        copies=copies,
        near=near,
    )


def _read_other_side(stores: Stores, against: str) -> tuple[str, set[str]]:
    """Label and episodes of a set or a dataset."""
    sets = Sets(stores.annotations)
    if sets.versions(against.partition("@")[0]):
        return sets[against].label, set(sets.ids(sets[against]))
    stores.catch_up()
    ids = stores.tables.episodes.ids(f"dataset = {quote_literal(against)}")
    if not ids:
        raise RequestError(
            f"no set and no dataset {against!r}",
            f"sets: {', '.join(sets) or 'none'}; `ares status` lists datasets",
        )
    return f"dataset {against}", ids


def _pairs_between(
    near: NearDuplicates, members: Collection[str], others: Collection[str]
) -> Iterator[CopyPair]:
    """Pairs of a member that the other side does not have, and an episode that it has."""
    for pair in near.pairs:
        for first, second in ((pair.first, pair.second), (pair.second, pair.first)):
            if first in members and first not in others and second in others:
                yield CopyPair(first=first, second=second, way=pair.way, score=pair.score)
