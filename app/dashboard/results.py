"""Results: the episodes of a view in their order, a page at a time, and the neighbours of one of them."""

from __future__ import annotations

from dataclasses import dataclass

from app.dashboard import handles
from app.dashboard.state import PAGE, View, where_sql
from ares.curate.choose import ORDER
from ares.search.query import Hit

# A ranking has no natural end; what comes after this is no answer any more.
RANKED = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One page of a view.

    Attributes:
        ids: Episodes of the page, in order.
        hits: The moments that were found, by episode; empty without a search.
        first: Place of the first one in the whole list, from 0.
        shown: Length of the whole list.
        matching: Episodes that the filters leave.
        total: Episodes in the workspace.
    """

    ids: list[str]
    hits: dict[str, Hit]
    first: int
    shown: int
    matching: int
    total: int

    @property
    def pages(self) -> int:
        """Number of pages, at least 1."""
        return max(1, -(-self.shown // PAGE))


def results(view: View) -> Results:
    """The page of a view; a page past the end is the last one. Raises RequestError for a filter that cannot be read."""
    where = where_sql(view, handles.columns())
    matching = handles.count(where)
    hits = handles.ranked(where, RANKED, **view.asked) if view.ranked and matching else []
    shown = len(hits) if view.ranked else matching
    first = PAGE * (min(view.page, max(1, -(-shown // PAGE))) - 1)
    if view.ranked:
        ids = [hit.episode_id for hit in hits[first : first + PAGE]]
    else:
        ids = handles.ids_between(where, _order(view), first, PAGE)
    return Results(
        ids=ids,
        hits={hit.episode_id: hit for hit in hits},
        first=first,
        shown=shown,
        matching=matching,
        total=handles.count(""),
    )


def neighbour(view: View, at: int, step: int) -> tuple[str, float | None] | None:
    """The episode `step` places from place `at` in a view's list with its second, or None past the ends."""
    wanted = at + step
    if wanted < 0:
        return None
    where = where_sql(view, handles.columns())
    if view.ranked:
        hits = handles.ranked(where, RANKED, **view.asked)
        return (hits[wanted].episode_id, hits[wanted].seconds) if wanted < len(hits) else None
    ids = handles.ids_between(where, _order(view), wanted, 1)
    return (ids[0], None) if ids else None


def sort_columns(columns: dict[str, str]) -> list[str]:
    """Columns that can order the episodes."""
    return [name for name, kind in columns.items() if not kind.startswith("list") and name != "content_hash"]


def _order(view: View) -> str:
    return f"{view.sort} {'DESC' if view.descending else 'ASC'}" if view.sort else ORDER
