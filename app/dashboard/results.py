"""Pages of the episodes that a view selects, and the neighbours of one episode in that list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ares.curation import SOURCE_ORDER
from ares.search import Hit, Query
from ares_app.dashboard import cached_reads
from ares_app.dashboard.column_words import column_rank
from ares_app.dashboard.user_limits import search_image
from ares_app.dashboard.view_state import PAGE_SIZE, ColumnFilter, ViewState, check_column, view_filter_sql

# How far an episode may have moved in its list since the list was drawn, by exclusions and new episodes.
_MOST_MOVED = 48
# So many values of a filter are looked up: an address may have thousands.
_MOST_VALUES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """One page of a view.

    Attributes:
        ids: Episodes of the page, in order.
        hits: The moments that a search returned, by episode id; empty without a search.
        first: Position of the first episode in the whole list, from 0.
        shown: Length of the whole list.
        matching: Number of episodes that match the filters.
        total: Number of episodes in the workspace.
        cut: Least score of the list, 0 to 1; 0 without a search.
    """

    ids: list[str]
    hits: dict[str, Hit]
    first: int
    shown: int
    matching: int
    total: int
    cut: float = 0.0

    @property
    def pages(self) -> int:
        """Number of pages, at least 1."""
        return max(1, -(-self.shown // PAGE_SIZE))


def read_shown_filter(view: ViewState, leave_out: str = "") -> str:
    """Return the SQL filter of the episodes that a view shows: of each content one, or all.

    Args:
        view: The view.
        leave_out: Column whose filter is not applied.

    Raises:
        RequestError: A filter cannot be parsed.
        QueryTimeout: A query took longer than the limit.
    """
    where = view_filter_sql(view, cached_reads.filter_columns(), leave_out)
    return where if view.copies else cached_reads.leave_out_copies(where)


def read_page(view: ViewState) -> ResultPage:
    """Return the page of a view; a page past the end is the last one.

    Raises:
        RequestError: A filter cannot be parsed, or the column to sort by does not exist.
        QueryTimeout: A query took longer than the limit.
    """
    where, shown = read_shown_filter(view), _count_shown(view)
    first, hits, cut = PAGE_SIZE * (min(view.page, max(1, -(-shown // PAGE_SIZE))) - 1), list[Hit](), 0.0
    if view.is_search:
        scores, cut = cached_reads.read_search_scores(view.query), search_threshold(view)
        ranked, values = cached_reads.limited(lambda: scores.ranked_ids(cut, where, first, PAGE_SIZE), where)
        ids = list(ranked)
        hits = cached_reads.find_best_moments(view.query, ids, values.tolist())
    else:
        ids = cached_reads.read_ids(where, _order_by(view), first, PAGE_SIZE)
    return ResultPage(
        ids=ids,
        hits={hit.episode_id: hit for hit in hits},
        first=first,
        shown=shown,
        matching=cached_reads.count_episodes(where),
        total=cached_reads.count_episodes(""),
        cut=cut,
    )


def search_threshold(view: ViewState) -> float:
    """Return the least score of the episodes that a search selects: that of the view, or where relevance ends."""
    return cached_reads.read_search_scores(view.query).cut if view.cut is None else view.cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """The episodes around one in the list of a view.

    Attributes:
        position: Where the episode is in the list, from 0; where it was, if it is no longer there; -1 without a list.
        before: Ids and positions of episodes before it, the nearest last.
        after: Those of episodes behind it, the nearest first.
        begins: Whether the first of these begins the list.
        ends: Whether the last of these ends the list.
        count: Length of the whole list.
        is_listed: Whether the episode is in the list near that place.
    """

    position: int = -1
    before: tuple[tuple[str, int], ...] = ()
    after: tuple[tuple[str, int], ...] = ()
    begins: bool = True
    ends: bool = True
    count: int = 0
    is_listed: bool = True


def find_neighbours(view: ViewState, episode_id: str, position: int) -> Neighbourhood:
    """Return the episodes around an episode in the list of a view.

    Args:
        view: The view.
        episode_id: The episode. Where it is no longer in the list, its neighbours are those that it had.
        position: Where it was in the list, from 0; it may have moved by a few, where others were excluded.
    """
    first = max(0, position - _MOST_MOVED)
    ids = _read_part(view, first, 2 * _MOST_MOVED + 2)
    is_listed = episode_id in ids
    index = ids.index(episode_id) if is_listed else min(position - first, len(ids))
    numbered = list(zip(ids, range(first, first + len(ids)), strict=True))
    return Neighbourhood(
        position=first + index,
        before=tuple(numbered[:index]),
        after=tuple(numbered[index + is_listed :]),
        begins=first == 0,
        ends=len(ids) < 2 * _MOST_MOVED + 2,
        count=_count_shown(view),
        is_listed=is_listed,
    )


def _count_shown(view: ViewState) -> int:
    """Length of the whole list of a view."""
    where = read_shown_filter(view)
    if not view.is_search:
        return cached_reads.count_episodes(where)
    scores, cut = cached_reads.read_search_scores(view.query), search_threshold(view)
    return cached_reads.limited(lambda: scores.count(cut, where), where)


def find_best_second(view: ViewState, episode_id: str) -> float | None:
    """Return the second of an episode that a search matches best; None without a search."""
    if not view.is_search:
        return None
    hits = cached_reads.find_best_moments(view.query, [episode_id], [1.0])
    return hits[0].seconds if hits else None


def _read_part(view: ViewState, first: int, count: int) -> list[str]:
    """The ids of a part of the list of a view."""
    where = read_shown_filter(view)
    if not view.is_search:
        return cached_reads.read_ids(where, _order_by(view), first, count)
    scores = cached_reads.read_search_scores(view.query)
    ranked, _ = cached_reads.limited(
        lambda: scores.ranked_ids(search_threshold(view), where, first, count), where
    )
    return list(ranked)


def list_sort_columns(columns: dict[str, str]) -> list[str]:
    """Return the columns that can order the episodes: the usual ones first, then by group and label."""
    names = [name for name, kind in columns.items() if not kind.startswith("list") and name != "content_hash"]
    return sorted(names, key=column_rank)


def list_table_columns(view: ViewState) -> list[str]:
    """Return the columns of the table of a view, beside the record; those that the workspace lacks are left out."""
    known, outcome = cached_reads.filter_columns(), cached_reads.outcome_column()
    usual = ("instruction", "caption", "dataset", outcome, "grade", "duration_seconds")
    return [name for name in view.columns or usual if name in known]


def check_view(view: ViewState, columns: Mapping[str, str]) -> None:
    """Raise RequestError for a part of a view that names what this workspace does not have.

    Args:
        view: The view.
        columns: The columns of the episodes table, with their types.
    """
    view_filter_sql(view, columns)
    _order_by(view)
    for name in view.columns:
        check_column("columns", name, columns, " to show")
    stores = cached_reads.workspace().stores
    search_image(view.image)
    if view.by:
        # Rankers of any search: that of the address may have been removed.
        Query(text="any", like="0000", image="0000/any@0", by=view.by)
    if view.like:
        cached_reads.limited(lambda: stores.tables.episodes.resolve_id(view.like))


def unknown_values(view: ViewState) -> list[str]:
    """Say of each value of a filter that no episode of the workspace has, which ones there are."""
    return [
        _unknown_text(column_filter.column, value)
        for column_filter in view.filters.values()
        for value in column_filter.values[:_MOST_VALUES]
        if not cached_reads.count_episodes(_only_value(column_filter.column, value))
    ]


def _only_value(column: str, value: str) -> str:
    view = ViewState(filters={column: ColumnFilter(column=column, values=(value,))})
    return view_filter_sql(view, cached_reads.filter_columns())


def _unknown_text(column: str, value: str) -> str:
    (facet,) = cached_reads.read_facets("", column)
    known = ", ".join(str(name).lower() if facet.type == "bool" else str(name) for name, _ in facet.counts)
    return f"No episode has {column} {value[:100]!r}; there are: {known[:300] or 'no values yet'}"


def _order_by(view: ViewState) -> str:
    if not view.sort:
        return SOURCE_ORDER
    check_column("sort", view.sort, list_sort_columns(cached_reads.filter_columns()), " to sort by")
    return f"{view.sort} {'DESC' if view.descending else 'ASC'}"
