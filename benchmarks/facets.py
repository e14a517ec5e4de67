"""Benchmarks 9 and 18: facets against DuckDB on the same columns in memory, and what every page asks, by size."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence

import ares
from ares.curate.choose import ORDER, choose
from ares.search.counts import NUMBERS
from ares.search.facets import Facet
from ares.search.facets import facets as count_facets
from ares.store.episodes import EpisodeTable
from ares.workspace import Workspace
from benchmarks.grow import annotate, grow
from benchmarks.timing import Row, in_turn

_SIZES = (10_000, 100_000, 1_000_000)
# Texts of which nearly every episode has its own; a page draws no counts of them.
_NOT_DRAWN = ("instruction", "instructions", "caption")
_FILTER, _ALL = "success AND num_steps > 100", "num_steps > 25"
_FILTERED = "after a filter change"
_asked = itertools.count()


def facets() -> Iterator[Row]:
    """Every count and histogram that the page draws: when the table has changed, and when only the filter has."""
    seconds: dict[str, list[float]] = {}
    for size, ws in _workspaces():
        for what, ours, where in _facets_of(ws):
            mine, peer = in_turn(ours, _in_memory(ws, where))
            seconds.setdefault(what, []).append(mine)
            yield Row(
                number=9,
                work=f"facets {what}, {size:,} episodes{_exponent(seconds[what])}",
                ours_seconds=mine,
                peer="DuckDB grouping sets in memory",
                peer_seconds=peer,
                target="<= 5x, below 0.1 s" if what == _FILTERED else "<= 5x",
            )


def _facets_of(ws: Workspace) -> Iterator[tuple[str, Callable[[], object], str]]:
    drawn = _drawn(ws)

    def first(where: str = "") -> None:
        # A workspace that has just been opened knows as little as one whose table has just changed.
        fresh = ares.open(ws.path)
        count_facets(fresh, where, drawn)
        fresh.close()

    yield "of all, first call after a change of the table", first, ""
    yield "of a filter, first call after a change of the table", lambda: first(_FILTER), _FILTER
    yield _FILTERED, lambda: count_facets(ws, _new(_FILTER), drawn), _FILTER
    yield "after a filter change that keeps nearly all", lambda: count_facets(ws, _new(_ALL), drawn), _ALL


def _new(where: str) -> str:
    """The filter as one that was never asked before: what the last filters left is remembered by their text."""
    return where + " " * next(_asked)


def operations() -> Iterator[Row]:
    """What the first page, a deep page and a set ask of the tables, against reading all ids."""
    seconds: dict[str, list[float]] = {}
    for size, ws in _workspaces():
        for what, work in _operations(ws, size).items():
            ours, peer = in_turn(work, ws.tables.episodes.ids, rounds=5)
            seconds.setdefault(what, []).append(ours)
            yield Row(
                number=18,
                work=f"{what}, {size:,} episodes{_exponent(seconds[what])}",
                ours_seconds=ours,
                peer="every id into Python",
                peer_seconds=peer,
                target="linear or better",
            )


def _operations(ws: Workspace, size: int) -> dict[str, Callable[[], object]]:
    table = ws.tables.episodes

    def page(offset: int, where: str = "", of: EpisodeTable = table) -> list[object]:
        return list(of.scan(["episode_id"], where=where, limit=24, offset=offset, order_by=ORDER))

    def first(offset: int) -> None:
        # A workspace that has just been opened has no order kept, as after a change of the table.
        fresh = ares.open(ws.path)
        page(offset, of=fresh.tables.episodes)
        fresh.close()

    def freeze() -> object:
        ids, recipe = choose(ws, where="success")
        return ws.sets.create("good", ids, recipe)

    return {
        "count a filter": lambda: table.count(_new("dataset = 'dataset_3'")),
        "first page after a change": lambda: first(0),
        "page at 90% after a change": lambda: first(size * 9 // 10),
        "first page again": lambda: page(0),
        "page at 90% again": lambda: page(size * 9 // 10),
        "page of a filter": lambda: page(0, _new("dataset = 'dataset_3'")),
        "set of 60%": freeze,
        "mark duplicates": table.mark_duplicates,
    }


def _workspaces() -> Iterator[tuple[int, Workspace]]:
    for size in _SIZES:
        with tempfile.TemporaryDirectory() as folder:
            ws = ares.open(f"{folder}/workspace")
            grow(ws, size)
            annotate(ws)
            yield size, ws
            ws.close()


def _drawn(ws: Workspace) -> list[str]:
    return [facet.column for facet in count_facets(ws, "false") if facet.column not in _NOT_DRAWN]


def _in_memory(ws: Workspace, where: str) -> Callable[[], object]:
    """The same counts by plain SQL, every column grouped by itself, over an Arrow table that is in memory already."""
    import duckdb

    shown = count_facets(ws, columns=_drawn(ws))
    rows = ws.frame(sorted({*(facet.column for facet in shown), "success", "num_steps"}))
    connection = duckdb.connect()
    connection.register("episodes", rows)
    keys = ", ".join(f"{_group_key(facet)} AS g{place}" for place, facet in enumerate(shown))
    sets = ", ".join(f"(g{place})" for place in range(len(shown)))
    asked = (
        f"SELECT count(*), {sets.replace('(', '').replace(')', '')} "
        f"FROM (SELECT {keys} FROM episodes WHERE {where or 'true'}) GROUP BY GROUPING SETS ({sets})"
    )
    return lambda: connection.execute(asked).fetchall()


def _group_key(facet: Facet) -> str:
    """What the peer groups by: the value itself, or the place of its bin."""
    if facet.type not in NUMBERS:
        return facet.column
    if not facet.edges:
        return f"({facet.column} IS NULL)::TINYINT"
    real = f"epoch_us({facet.column}) / 1e6" if facet.type == "timestamp" else f"{facet.column}::DOUBLE"
    first, last = facet.edges[0], facet.edges[-1]
    slope = len(facet.histogram) / (last - first) if last > first else 1.0
    place = f"floor(({real} - {first}::DOUBLE) * {slope}::DOUBLE)"
    inside = f"least(greatest({place}, -1.0::DOUBLE), {len(facet.histogram)}::DOUBLE)"
    return f"CASE WHEN isfinite({real}) THEN {inside} WHEN {real} IS NOT NULL THEN -2 END::TINYINT"


def _exponent(seconds: Sequence[float]) -> str:
    """The power with which the time grows from the size before, a tenth of this one."""
    return f" (grows with size^{math.log10(seconds[-1] / seconds[-2]):.2f})" if len(seconds) > 1 else ""
