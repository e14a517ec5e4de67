"""Which episodes an action is about, as ids and as a recipe that describes how they were selected."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.curation.sets import Sets
from ares.episode import Json
from ares.errors import RequestError
from ares.search import MinScore, Query, score_episodes, search as search_moments
from ares.store import TempDatabase, batched, conjunction, ids_filter, quote_literal

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store import Stores


# The order of episodes in their source, independent of the order of ingestion.
SOURCE_ORDER = "dataset, version, split, key"
# Number of episodes of a search without a limit: a ranking has no natural end.
_DEFAULT_SEARCH_LIMIT = 100
# Longest list of ids in one filter condition; a longer list is joined with all episodes. Also the size of batches.
_ID_BATCH = 10_000
# A shorter id is the start of one; in a longer list than a batch ids are given in full.
_ID_DIGITS = 16


def select_episodes(
    stores: Stores,
    *,
    where: str = "",
    search: str = "",
    like: str = "",
    image: str = "",
    by: str = "",
    ids: Collection[str] = (),
    limit: int | None = None,
    min_score: MinScore | None = None,
) -> tuple[Iterator[str], dict[str, Json]]:
    """Select episodes. Returns their ids, read when they are iterated, and the recipe to store with the set.

    Ids of a search come best first, and ids of a list in the order of the list. A `limit` on a filter selects the
    first episodes in source order; without a limit their order is undefined.

    Args:
        stores: Stores of the workspace.
        where: SQL filter; also applies to a search and to a list of ids.
        search: Text; selects the best `limit` episodes for it, 100 without a limit.
        like: Id of a similar episode; `like`, `image` and `by` are those of `Query`.
        image: Image to search by.
        by: Rankers with weights.
        ids: Episode ids, instead of a search.
        limit: Maximum number of episodes.
        min_score: Selects all episodes that a search scores so high, not the best 100; see `Query`. The recipe has
            the number also for "auto".

    Raises:
        RequestError: The filter is invalid, there is a least score without a search, or a listed id is not among the
            episodes that match the filter. Filters and lists are checked when the first id is read.
    """
    recipe: dict[str, Json] = {"where": where, "search": search, "ids": len(ids), "limit": limit}
    if min_score is not None and not (search or like or image):
        raise RequestError(
            "a least score belongs to a search", f"got {min_score}; give search, like or image"
        )
    if search or like or image:
        query = Query(
            text=search,
            like=like,
            image=image,
            by=by,
            where=where,
            limit=limit or _DEFAULT_SEARCH_LIMIT,
            min_score=min_score,
        )
        options = {"like": like, "image": image, "by": by}
        recipe.update((name, text) for name, text in options.items() if text)
        if min_score is not None:
            return _select_passing(stores, query, limit, recipe), recipe
        return iter([hit.episode_id for hit in search_moments(stores, query)]), recipe
    if ids:
        return _select_listed(stores, ids, where, limit), recipe
    # The order matters only where a limit selects the first episodes.
    order = SOURCE_ORDER if limit is not None else ""
    batches = stores.tables.episodes.scan(["episode_id"], where=where, limit=limit, order_by=order)
    return (str(value) for batch in batches for value in batch.column("episode_id").to_pylist()), recipe


def _select_passing(
    stores: Stores, query: Query, limit: int | None, recipe: dict[str, Json]
) -> Iterator[str]:
    """The episodes that reach the least score of a query, best first; writes the score into the recipe."""
    scores = score_episodes(stores, query)
    recipe["min_score"] = cut = scores.resolve_cut(query.min_score)
    return iter(scores.ranked_ids(cut, query.where, limit=limit)[0])


def _select_listed(stores: Stores, ids: Collection[str], where: str, limit: int | None) -> Iterator[str]:
    """The first distinct ids in list order. Raises RequestError when an episode does not match the filter."""
    import pyarrow as pa

    # The filter is checked by itself, so that an error points into the filter and not into the ids.
    stores.tables.episodes.check(where)
    if len(ids) <= _ID_BATCH:
        ids = _full_ids(stores, ids)
    condition = conjunction([where, ids_filter(ids) if len(ids) <= _ID_BATCH else ""])
    with TempDatabase() as database:
        schema = pa.schema([("episode_id", pa.string()), ("position", pa.int64())])
        database.insert("listed", schema, _numbered_batches(ids, schema))
        database.insert(
            "matching",
            stores.tables.episodes.schema(["episode_id"]),
            stores.tables.episodes.scan(["episode_id"], condition),
        )
        database.create_table_as(
            "unknown", "SELECT episode_id, position FROM listed ANTI JOIN matching USING (episode_id)"
        )
        unknown = database.query("SELECT count(*) AS n, arg_min(episode_id, position) AS first FROM unknown")
        count, first = unknown["n"][0].as_py(), unknown["first"][0].as_py()
        if count:
            raise RequestError(f"{count} ids are not among the episodes", f"first: {first!r}")
        limit_clause = f"LIMIT {limit}" if limit is not None else ""
        distinct = f"SELECT episode_id FROM listed GROUP BY episode_id ORDER BY min(position) {limit_clause}"
        for batch in database.stream(distinct):
            yield from batch["episode_id"].to_pylist()


def _full_ids(stores: Stores, ids: Collection[str]) -> list[str]:
    """The ids, shortened ones in full. Raises RequestError for the first that is unknown or ambiguous."""
    episodes = stores.tables.episodes
    return [id if len(id) >= _ID_DIGITS else episodes.resolve_id(id) for id in ids]


def _numbered_batches(ids: Collection[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for number, chunk in enumerate(batched(ids, _ID_BATCH)):
        start = number * _ID_BATCH
        positions = pa.array(range(start, start + len(chunk)), pa.int64())
        yield pa.record_batch([pa.array(chunk, pa.string()), positions], schema=schema)


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
    _check_selection(stores, selection)
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


def _check_selection(stores: Stores, selection: EpisodeSelection) -> None:
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
