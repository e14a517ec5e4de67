"""What a set has in common with another set or a dataset: the same episodes, and copies of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ares.curation.copies import Copies, CopyPair, find_copies
from ares.curation.sets import CurationSet, Sets
from ares.errors import RequestError
from ares.store import quote_literal

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOverlap:
    """What a set has in common with another set, or with a dataset.

    Attributes:
        label: The set.
        against: The other set, or the dataset.
        sizes: Number of episodes of both.
        shared: Ids that both have, sorted.
        copies: Pairs of a member that is not shared, first, and a copy of it or what moves alike.
        near: What was looked for.
    """

    label: str
    against: str
    sizes: tuple[int, int]
    shared: Sequence[str]
    copies: Sequence[CopyPair]
    near: Copies

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
                {
                    "member": pair.first,
                    "copy": pair.second,
                    "way": pair.way,
                    "score": pair.score,
                    "is_copy": pair.is_copy,
                }
                for pair in self.copies
            ],
        }


def find_overlap(stores: Stores, selection: CurationSet, against: str) -> SetOverlap:
    """The episodes that a set shares with another set or a dataset, and copies between both.

    Args:
        stores: Stores of the workspace.
        selection: The set; of a set of spans its episodes.
        against: Name of a set, "name" or "name@version", or of a dataset; a set comes first.

    Raises:
        RequestError: There is neither such a set nor such a dataset.
    """
    label, others = _read_other_side(stores, against)
    members = set(Sets(stores.annotations).ids(selection))
    near = find_copies(stores, members | others)
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


def _pairs_between(near: Copies, members: Collection[str], others: Collection[str]) -> Iterator[CopyPair]:
    """Pairs of a member that the other side does not have, and an episode that it has."""
    for pair in near.linked:
        for first, second in ((pair.first, pair.second), (pair.second, pair.first)):
            if first in members and first not in others and second in others:
                yield replace(pair, first=first, second=second)
