"""The episodes that an action is about: by filter, list, set, dataset or search, or several of these."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.curation.select import select_episodes
from ares.curation.sets import Sets
from ares.episode import Json
from ares.errors import RequestError
from ares.search import MinScore
from ares.store.filters import batched, conjunction, ids_filter, quote_literal

if TYPE_CHECKING:
    from ares.store import Stores

_ID_BATCH = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSelection:
    """Which episodes: those that fulfil every condition that is set.

    Attributes:
        where: SQL filter.
        ids: Episode ids.
        set: A set, as `Sets[...]` takes it.
        dataset: Name of a dataset.
        search: Text; the best `limit` episodes for it, 100 without a limit.
        limit: Maximum number of episodes, or None.
        min_score: Least score of an episode for the text, as for `select_episodes`.
    """

    where: str = ""
    ids: Collection[str] = ()
    set: str = ""
    dataset: str = ""
    search: str = ""
    limit: int | None = None
    min_score: MinScore | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no condition is set, so that every episode would be selected."""
        return not (self.where.strip() or len(self.ids) or self.set or self.dataset or self.search.strip())

    @property
    def condition(self) -> str:
        """The filter, with the dataset in it. Raises FilterError for a filter that cannot be parsed."""
        dataset = f"dataset = {quote_literal(self.dataset)}" if self.dataset else ""
        return conjunction([self.where, dataset]) if dataset else self.where

    def to_json(self) -> dict[str, Json]:
        """The conditions that are set, for the log; ids as their number."""
        fields: dict[str, Json] = {
            "where": self.where,
            "ids": len(self.ids),
            "set": self.set,
            "dataset": self.dataset,
            "search": self.search,
            "limit": self.limit,
            "min_score": self.min_score,
        }
        return {
            name: value for name, value in fields.items() if value or (name == "min_score" and value == 0)
        }


def selected_ids(stores: Stores, selection: EpisodeSelection) -> Iterator[str]:
    """Ids of the selected episodes, read as they are iterated; members of a set that are no episodes are left out.

    Raises:
        RequestError: The filter is invalid, the set or the dataset does not exist, a listed id is no episode that
            fulfils the filter, or a set is combined with a list or a search.
    """
    _check(stores, selection)
    if selection.set:
        return _selected_members(stores, selection)
    ids, _ = select_episodes(
        stores,
        where=selection.condition,
        search=selection.search,
        ids=selection.ids,
        limit=selection.limit,
        min_score=selection.min_score,
    )
    return ids


def _check(stores: Stores, selection: EpisodeSelection) -> None:
    if selection.set and (len(selection.ids) or selection.search or selection.limit is not None):
        raise RequestError("a set is selected as a whole", "give a set, or ids, or a search with a limit")
    stores.tables.episodes.check(selection.where)
    if selection.dataset and not stores.tables.episodes.count(
        f"dataset = {quote_literal(selection.dataset)}"
    ):
        names = sorted(
            {
                name
                for batch in stores.tables.episodes.scan(["dataset"])
                for name in batch["dataset"].unique().to_pylist()
            }
        )
        raise RequestError(f"no dataset {selection.dataset!r}", f"there are: {', '.join(names) or 'none'}")


def _selected_members(stores: Stores, selection: EpisodeSelection) -> Iterator[str]:
    sets = Sets(stores.annotations)
    for chunk in batched(sets.ids(sets[selection.set]), _ID_BATCH):
        where = conjunction([selection.condition, ids_filter(chunk)])
        yield from sorted(stores.tables.episodes.ids(where))
