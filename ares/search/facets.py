"""Counts the values, or bins the numbers, of every column among the episodes that match a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ares.search.encoded_columns import NUMERIC_TYPES, EncodedColumns
from ares.search.facet_codes import (
    FacetCounts,
)
from ares.store import declared_columns

if TYPE_CHECKING:
    from ares.annotation import Column
    from ares.episode import Json
    from ares.store import EpisodeSnapshot, EpisodeTable, SelectedRows, Stores


FACET_TYPES = ("string", "bool", "list<string>", *NUMERIC_TYPES)


# Columns that identify or locate an episode: nearly every value is distinct, and counts of them are useless.
IDENTITY_COLUMNS = frozenset(
    (
        "episode_id",
        "key",
        "source",
        "source_stamp",
        "camera_stamps",
        "label_stamp",
        "content_hash",
        "duplicate_of",
    )
)

# Encoded columns, and with them the histogram edges, are cached until the table changes.
_cache: WeakKeyDictionary[EpisodeTable, EncodedColumns] = WeakKeyDictionary()
_lock = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """The values of one column among the episodes that match a filter.

    Attributes:
        column: Column name.
        type: "string", "bool", "list<string>", "int64", "float64" or "timestamp".
        meaning: One line from the annotator that declared the column; "" for the columns that every episode has.
        unit: Physical unit, or "".
        counts: (value, number of episodes), most frequent first, at most 50; for text, bool and lists of text, whose
            items are counted. For more than 65,000 distinct values an approximate method selects the most frequent,
            which are then counted exactly.
        distinct: Number of distinct values; approximate above 65,000.
        edges: Bin edges of the histogram, length B + 1, independent of the filter; seconds since 1970 for a
            timestamp; empty for other types and for a column without values.
        histogram: Episodes per bin, length B.
        below: Episodes below the first edge: if the bins covered outliers, one bin would hold nearly all episodes.
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

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return asdict(self)


def compute_facets(
    stores: Stores, where: str = "", columns: Sequence[str] = (), rows: SelectedRows | None = None
) -> list[Facet]:
    """Count the values of text, bool and list columns, and compute histograms of numbers and times.

    Args:
        stores: Stores of the workspace.
        where: SQL filter over the episode columns; "" is all.
        columns: Columns to count; by default all but those that identify or locate an episode.
        rows: Only these episodes, in addition to the filter, such as those that pass the cut of a search.

    Raises:
        RequestError: The filter is invalid, or a column does not exist.
    """
    encoded = _encoded_columns(stores.tables.episodes)
    if rows is not None and rows.episodes.version != encoded.version:
        # Rare: the table has changed since the rows were selected.
        encoded = EncodedColumns(rows.episodes)
    types = _facet_types(encoded.episodes, columns)
    counts = encoded.count(where, types, None if rows is None else rows.row_mask)
    declared = {column.name: column for column in declared_columns(stores.annotations.producers().values())}
    return [
        _to_facet(name, types[name], counts[name], encoded.edges(name), declared.get(name)) for name in types
    ]


def _encoded_columns(episodes: EpisodeTable) -> EncodedColumns:
    snapshot = episodes.snapshot()
    with _lock:
        encoded = _cache.get(episodes)
        if encoded is None or encoded.version != snapshot.version:
            _cache[episodes] = encoded = EncodedColumns(snapshot)
        return encoded


def _facet_types(episodes: EpisodeSnapshot, columns: Sequence[str]) -> dict[str, str]:
    """The columns to count with their types; columns of other types are left out."""
    types = episodes.columns()
    episodes.schema(columns)  # raises for a column that does not exist
    names = columns or [name for name in types if name not in IDENTITY_COLUMNS]
    return {name: types[name] for name in names if types.get(name) in FACET_TYPES}


def _to_facet(
    name: str, type_name: str, counts: FacetCounts, edges: tuple[float, ...], declared: Column | None
) -> Facet:
    return Facet(
        column=name,
        type=type_name,
        meaning=declared.meaning if declared else "",
        unit=declared.unit if declared else "s since 1970" if type_name == "timestamp" else "",
        edges=edges,
        **asdict(counts),
    )
