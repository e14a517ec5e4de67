"""Which episodes an action or a set is about: the ids that a selection selects, read once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from ares.annotation import canonical_json
from ares.console import count_are
from ares.curation.sets import CurationSet, Sets
from ares.episode import Json, Span
from ares.errors import RequestError
from ares.jobs import EpisodeSelection
from ares.names import check_name
from ares.search import EncodedQuery, Query, score_episodes, search as search_episodes
from ares.store import StagedIds, batched, conjunction, ids_filter, quote_literal

if TYPE_CHECKING:
    from ares.curation.composition import ComposedSelection, CompositionRules
    from ares.store import StoredSegment, Stores


# The order of episodes in their source, independent of the order of ingestion.
SOURCE_ORDER = "dataset, version, split, key"
# Number of episodes of a search without a limit: a ranking has no natural end.
_DEFAULT_SEARCH_LIMIT = 100
# Longest list of ids in one filter condition. Also the size of batches.
_ID_BATCH = 10_000
# A shorter id is the start of one; in a longer list than a batch ids are given in full.
ID_DIGITS = 16


class SelectedEpisodes(StagedIds):
    """The distinct ids of a selection, read once; a context manager that deletes them at its end.

    Args:
        selection: How they were selected.
        ids: Their ids.
    """

    def __init__(self, selection: EpisodeSelection, ids: Iterable[str]) -> None:
        super().__init__(ids)
        self._selection = selection

    @property
    def recipe(self) -> dict[str, Json]:
        """How they were selected, for the log."""
        return self._selection.describe()

    @property
    def request_hash(self) -> str:
        """Hash of how they were selected, the listed ids included; see `hash_request`."""
        return hash_request(self._selection)

    def __enter__(self) -> SelectedEpisodes:
        return self


def hash_request(selection: EpisodeSelection) -> str:
    """32 hex digits of a selection as it was asked for, by which the same command is known when it comes again."""
    listed = sorted(set(selection.ids))
    request = canonical_json({**selection.describe(), "listed": list[Json](listed)})
    return hashlib.blake2b(request.encode(), digest_size=16).hexdigest()


def select_episodes(stores: Stores, selection: EpisodeSelection) -> SelectedEpisodes:
    """The episodes of a selection for an action on them; errors are those of `selected_ids`."""
    return SelectedEpisodes(selection, selected_ids(stores, selection))


def create_set(
    stores: Stores,
    name: str,
    selection: EpisodeSelection,
    keep: Callable[[Iterable[str]], Iterable[str]] | None = None,
    more_recipe: Mapping[str, Json] | None = None,
) -> CurationSet:
    """Freeze a selection as the next version of a name; the same episodes again give the same version.

    The recipe of the set has the number also for the least score "auto".

    Args:
        stores: Stores of the workspace.
        name: Name of the set.
        selection: The selection.
        keep: Which of the selected ids are members; None for all.
        more_recipe: What `keep` goes by, for the recipe.

    Raises:
        RequestError: The name is not plain, no episode is selected, or as `selected_ids`.
    """
    stores.require_current()
    ids, resolved = _select_and_resolve(stores, selection)
    recipe = {**_make_recipe(resolved), **(more_recipe or {})}
    return Sets(stores.annotations).create(name, keep(ids) if keep else ids, recipe)


def create_composed_set(
    stores: Stores, name: str, selection: EpisodeSelection, rules: CompositionRules
) -> tuple[CurationSet, ComposedSelection]:
    """Freeze what rules leave of a selection; the recipe has the rules and the number of episodes by reason.

    Raises:
        RequestError: As `create_set` and `compose_selection`.
    """
    from ares.curation.composition import compose_selection

    stores.require_current()
    sets = Sets(stores.annotations)
    check_name("set", name, lambda: sets)
    ids, resolved = _select_and_resolve(stores, selection)
    composed = compose_selection(stores, list(ids), rules)
    decided: dict[str, Json] = {
        "reasons": dict(composed.counts()),
        **({"near_duplicates": dict(composed.details)} if composed.details else {}),
    }
    recipe = {**_make_recipe(resolved), **rules.describe(), **decided}
    return sets.create(name, composed.kept, recipe), composed


def _make_recipe(resolved: EpisodeSelection) -> dict[str, Json]:
    """How episodes were selected, to repeat it."""
    fields: dict[str, Json] = {"where": resolved.where, "search": resolved.search, "ids": len(resolved.ids)}
    return {**fields, "limit": resolved.limit, **resolved.describe()}


_SPAN_COLUMNS = ("episode_id", "start_seconds", "stop_seconds", "annotation_id", "text")


def create_set_of_spans(
    stores: Stores, name: str, *, where: str = "", search: str = "", limit: int | None = None
) -> CurationSet:
    """Freeze the spans of segments as the next version of a name; the same spans again give the same version.

    Args:
        stores: Stores of the workspace.
        name: Name of the set.
        where: SQL filter over the columns of segments.
        search: Words; the `limit` segments that share most with them, 100 without a limit.
        limit: Most segments; of a filter the first by episode and time.

    Raises:
        RequestError: The name is not plain, there is neither a filter nor a text, or no segment matches.
    """
    if not where.strip() and not search.strip():
        raise RequestError("a set of segments needs words or a filter", "give a text or a filter")
    stores.require_current()
    stores.catch_up()
    segments = stores.tables.segments
    spans: Iterable[Span]
    if search.strip() or limit is not None:
        spans = map(span_of_segment, segments.find(search, where, limit or _DEFAULT_SEARCH_LIMIT))
    else:
        rows = segments.scan(_SPAN_COLUMNS, where)
        spans = (_make_span(row) for batch in rows.to_batches() for row in batch.to_pylist())
    recipe: dict[str, Json] = {"segments": True, "where": where, "search": search, "limit": limit}
    return Sets(stores.annotations).create_spans(name, spans, recipe)


def span_of_segment(segment: StoredSegment) -> Span:
    """The span of a segment, which stays when the segment is gone."""
    return _make_span({column: getattr(segment, column) for column in _SPAN_COLUMNS})


def _make_span(row: Mapping[str, Any]) -> Span:
    return Span(**{**row, "text": row["text"] or ""})


def selected_ids(stores: Stores, selection: EpisodeSelection) -> Iterator[str]:
    """Ids of the selected episodes, read as they are iterated; members of a set that are no episodes are left out.

    Ids of a search come best first, and ids of a list in the order of the list. A `limit` on a filter selects the
    first episodes in source order; without a limit their order is undefined.

    Raises:
        RequestError: The filter is invalid, the set or the dataset does not exist, or a listed id is no episode that
            fulfils the filter. Filters and lists are checked when the first id is read.
    """
    return _select_and_resolve(stores, selection)[0]


def _select_and_resolve(
    stores: Stores, selection: EpisodeSelection
) -> tuple[Iterator[str], EpisodeSelection]:
    """The ids, and the selection with the least score as a number."""
    stores.catch_up()
    check_selection(stores, selection)
    if selection.set:
        return _selected_members(stores, selection), selection
    if selection.is_search:
        return _select_by_search(stores, selection)
    if selection.ids:
        return _select_listed(stores, selection.ids, selection.condition, selection.limit), selection
    # The order matters only where a limit selects the first episodes.
    order = SOURCE_ORDER if selection.limit is not None else ""
    batches = stores.tables.episodes.scan(
        ["episode_id"], where=selection.condition, limit=selection.limit, order_by=order
    )
    ids = (str(value) for batch in batches for value in batch.column("episode_id").to_pylist())
    return ids, selection


def _select_by_search(stores: Stores, selection: EpisodeSelection) -> tuple[Iterator[str], EpisodeSelection]:
    """The best episodes of a search, or those that reach its least score, best first."""
    query = _selection_query(selection)
    if query.min_score is None:
        return iter([hit.episode_id for hit in search_episodes(stores, query)]), selection
    scores = score_episodes(stores, EncodedQuery(stores, query))
    cut = scores.resolve_cut(query.min_score)
    ids = scores.ranked_ids(cut, query.where, limit=selection.limit)[0]
    return iter(ids), replace(selection, min_score=cut)


def _selection_query(selection: EpisodeSelection) -> Query:
    """The search that selects them. Raises RequestError for one that cannot be made."""
    return Query(
        text=selection.search,
        like=selection.like,
        image=selection.image,
        by=selection.by,
        where=selection.condition,
        limit=selection.limit or _DEFAULT_SEARCH_LIMIT,
        min_score=selection.min_score,
    )


def _select_listed(stores: Stores, ids: Collection[str], where: str, limit: int | None) -> Iterator[str]:
    """The first distinct ids in list order. Raises RequestError when an episode does not match the filter."""
    episodes = stores.tables.episodes
    # The filter is checked by itself, so that an error points into the filter and not into the ids.
    episodes.check(where)
    is_short = len(ids) <= _ID_BATCH
    listed = dict.fromkeys(_full_ids(stores, ids) if is_short else ids)
    matching = episodes.ids(conjunction([where, ids_filter(listed)]) if is_short else where)
    if unknown := [id for id in listed if id not in matching]:
        raise RequestError(
            f"{count_are(len(unknown), 'id')} not among the episodes", f"first: {unknown[0]!r}"
        )
    yield from islice(listed, limit)


def _full_ids(stores: Stores, ids: Collection[str]) -> list[str]:
    """The ids, shortened ones in full. Raises RequestError for the first that is unknown or ambiguous."""
    episodes = stores.tables.episodes
    return [id if len(id) >= ID_DIGITS else episodes.resolve_id(id) for id in ids]


def check_selection(stores: Stores, selection: EpisodeSelection) -> None:
    """Raise RequestError for a filter that is invalid, and for a dataset of which no episode is stored."""
    # By itself, so that an error points into the filter and not into what is added to it.
    if selection.dataset or selection.set:
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


def purgeable_ids(stores: Stores, selection: EpisodeSelection) -> Iterator[str]:
    """Ids of the selected episodes, those that were removed before included.

    Raises:
        RequestError: The selection cannot be made; see `selected_ids`.
    """
    removed = stores.tables.removed
    if not removed.count() or selection.is_search:
        yield from selected_ids(stores, selection)
        return
    if selection.set:
        sets = Sets(stores.annotations)
        members = sets.ids(sets[selection.set])
    else:
        members = (id if len(id) >= ID_DIGITS else _find_purgeable(stores, id) for id in selection.ids)
    stores.tables.episodes.check(selection.where)
    dataset = f"dataset = {quote_literal(selection.dataset)}" if selection.dataset else ""
    if not dataset or not len(removed.ids(dataset)):
        check_selection(stores, selection)
    condition = conjunction([selection.where, dataset])
    if not selection.ids and not selection.set:
        for ids in stores.tables.episodes.id_batches(condition):
            yield from ids
        yield from removed.ids(condition).to_pylist()
        return
    for chunk in batched(members, _ID_BATCH):
        where = conjunction([condition, ids_filter(chunk)])
        matching = stores.tables.episodes.ids(where).union(removed.ids(where).to_pylist())
        if selection.ids and len(matching) < len(set(chunk)):
            first = next(id for id in chunk if id not in matching)
            raise RequestError("an id is no episode that matches", f"{first!r}; nothing was deleted")
        yield from sorted(matching)


def _find_purgeable(stores: Stores, id: str) -> str:
    """The id that begins so. Raises RequestError where it is no single episode's."""
    where = f"starts_with(episode_id, {quote_literal(id)})"
    matching = stores.tables.episodes.ids(where).union(stores.tables.removed.ids(where).to_pylist())
    if len(matching) != 1:
        why = "several episodes begin so" if matching else "no episode begins so"
        raise RequestError("an id is no episode that matches", f"{id!r}: {why}; nothing was deleted")
    return next(iter(matching))
