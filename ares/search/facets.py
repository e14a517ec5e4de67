"""Facets: how often each value of each column occurs after a filter, in one pass over the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.workspace import Workspace

_TOP_VALUES = 50
_BINS = 20
# Columns that identify or locate an episode: every value is different, nobody filters by counting them.
_IDENTITY = ("episode_id", "key", "source", "content_hash", "duplicate_of", "ingested")
_NESTED = ("metadata", "cameras", "instructions", "state_names", "action_names")
_NOT_FACETS = frozenset(_IDENTITY + _NESTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """The values of one column among the episodes that a filter leaves.

    Attributes:
        column: Column name.
        type: "string", "bool", "int64" or "float64".
        meaning: One line, from the annotator that declared it; "" for the columns that every episode has.
        unit: Physical unit, or "".
        counts: (value, number of episodes), most frequent first, at most 50; for text and bool columns.
        edges: Bin edges of the histogram, length B + 1; empty for text and bool columns.
        histogram: Episodes per bin, length B.
        missing: Episodes without a value.
    """

    column: str
    type: str
    meaning: str = ""
    unit: str = ""
    counts: tuple[tuple[str | bool, int], ...] = ()
    edges: tuple[float, ...] = ()
    histogram: tuple[int, ...] = ()
    missing: int = 0


def facets(ws: Workspace, where: str = "") -> list[Facet]:
    """Counts of text and bool columns and histograms of numbers, of the episodes that `where` leaves.

    Raises RequestError for a filter that cannot be read.
    """
    columns = {name: kind for name, kind in ws.tables.episodes.columns().items() if name not in _NOT_FACETS}
    texts = [name for name, kind in columns.items() if kind in ("string", "bool")]
    numbers = [name for name, kind in columns.items() if kind in ("int64", "float64")]
    rows = ws.frame([*texts, *numbers], where)
    declared = {column.name: column for maker in ws.annotations.makers().values() for column in maker.columns}
    found = {**_counted(rows, texts), **_histograms(rows, numbers)}
    return [
        Facet(
            column=name,
            type=kind,
            meaning=declared[name].meaning if name in declared else "",
            unit=declared[name].unit if name in declared else "",
            **found[name],
        )
        for name, kind in columns.items()
    ]


def _counted(rows: pa.Table, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    import pyarrow.compute as pc

    found: dict[str, dict[str, Any]] = {}
    for name in names:
        pairs = [(pair["values"], pair["counts"]) for pair in pc.value_counts(rows[name]).to_pylist()]
        known = sorted(
            (pair for pair in pairs if pair[0] is not None), key=lambda pair: (-pair[1], str(pair[0]))
        )
        found[name] = {"counts": tuple(known[:_TOP_VALUES]), "missing": rows[name].null_count}
    return found


def _histograms(rows: pa.Table, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    import numpy as np

    found: dict[str, dict[str, Any]] = {}
    for name in names:
        values = rows[name].drop_null().to_numpy()
        histogram, edges = np.histogram(values, bins=_BINS) if len(values) else (np.array([]), np.array([]))
        found[name] = {
            "edges": tuple(float(edge) for edge in edges),
            "histogram": tuple(int(count) for count in histogram),
            "missing": rows[name].null_count,
        }
    return found
