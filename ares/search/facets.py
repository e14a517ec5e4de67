"""Facets: how often each value of each column occurs among the episodes of a filter, and histograms of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ares.search.codes import Counted
from ares.search.counts import KINDS, Columns

if TYPE_CHECKING:
    from ares.annotation import Column
    from ares.store.episodes import EpisodeTable
    from ares.workspace import Workspace

# Columns that identify or locate an episode: every value is different, nobody filters by counting them.
_IDENTITY = frozenset(
    ("episode_id", "key", "source", "source_stamp", "camera_stamps", "content_hash", "duplicate_of")
)

# Kept until the table changes: the codes of the columns, and with them the edges of the histograms.
_kept: WeakKeyDictionary[EpisodeTable, Columns] = WeakKeyDictionary()
_lock = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """The values of one column among the episodes that a filter leaves.

    Attributes:
        column: Column name.
        type: "string", "bool", "list<string>", "int64", "float64" or "timestamp".
        meaning: One line, from the annotator that declared it; "" for the columns that every episode has.
        unit: Physical unit, or "".
        counts: (value, number of episodes), most frequent first, at most 50; for text, bool and lists of text, of
            which every item counts. Of a column with more than 65,000 values the most frequent are found by
            approximation, and then counted exactly.
        distinct: Number of different values; approximate where there are more than 65,000.
        edges: Bin edges of the histogram, length B + 1, the same whatever the filter; seconds since 1970 for a
            timestamp; empty for other types and for a column without values.
        histogram: Episodes per bin, length B.
        below: Episodes below the first edge: outliers would leave one bar for all the others.
        above: Episodes above the last edge.
        unreal: Episodes whose value is NaN or infinite.
        missing: Episodes without a value.
    """

    column: str
    type: str
    meaning: str = ""
    unit: str = ""
    counts: tuple[tuple[str | bool, int], ...] = ()
    distinct: int = 0
    edges: tuple[float, ...] = ()
    histogram: tuple[int, ...] = ()
    below: int = 0
    above: int = 0
    unreal: int = 0
    missing: int = 0


def facets(ws: Workspace, where: str = "", columns: Sequence[str] = ()) -> list[Facet]:
    """Counts of text, bool and list columns and histograms of numbers and times.

    Args:
        ws: The workspace.
        where: SQL filter over the episode columns; "" is all.
        columns: The columns wanted; by default all but those that identify or locate an episode.

    Raises:
        RequestError: The filter cannot be read, or there is no such column.
    """
    kept = _columns(ws.tables.episodes)
    kinds = _kinds(kept.episodes, columns)
    found = kept.count(where, kinds)
    declared = {column.name: column for maker in ws.annotations.makers().values() for column in maker.columns}
    return [_facet(name, kinds[name], found[name], kept.edges(name), declared.get(name)) for name in kinds]


def _columns(episodes: EpisodeTable) -> Columns:
    now = episodes.pinned()
    with _lock:
        kept = _kept.get(episodes)
        if kept is None or kept.version != now.version():
            _kept[episodes] = kept = Columns(now)
        return kept


def _kinds(episodes: EpisodeTable, columns: Sequence[str]) -> dict[str, str]:
    there = episodes.columns()
    episodes.schema(columns)  # says which there are, when one is not
    wanted = columns or [name for name in there if name not in _IDENTITY]
    return {name: there[name] for name in wanted if there.get(name) in KINDS}


def _facet(name: str, kind: str, found: Counted, edges: tuple[float, ...], told: Column | None) -> Facet:
    return Facet(
        column=name,
        type=kind,
        meaning=told.meaning if told else "",
        unit=told.unit if told else "s since 1970" if kind == "timestamp" else "",
        counts=found.values,
        distinct=found.distinct,
        edges=edges,
        histogram=found.histogram,
        below=found.below,
        above=found.above,
        unreal=found.unreal,
        missing=found.missing,
    )
