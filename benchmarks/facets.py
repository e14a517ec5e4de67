"""Benchmarks 9 and 18: facets against DuckDB on the same columns in memory, and what every page asks, by size."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence

import ares
from ares.curate.choose import ORDER, choose
from ares.search import counts
from ares.search.facets import Facet
from ares.search.facets import facets as count_facets
from ares.workspace import Workspace
from benchmarks.grow import annotate, grow
from benchmarks.timing import Row, in_turn

_SIZES = (10_000, 100_000, 1_000_000)
# Texts of which nearly every episode has its own; a page draws no counts of them.
_NOT_DRAWN = ("instruction", "instructions", "caption")
_FILTER = "success AND num_steps > 100"


def facets() -> Iterator[Row]:
    """Every count and histogram that the page draws, of all episodes and after a filter change."""
    seconds: dict[str, list[float]] = {}
    for size, ws in _workspaces():
        for what, where in (("of all", ""), ("after a filter", _FILTER)):
            ours, peer = in_turn(_ours(ws, where), _in_memory(ws, where))
            seconds.setdefault(what, []).append(ours)
            yield Row(
                number=9,
                work=f"facets {what}, {size:,} episodes{_exponent(seconds[what])}",
                ours_seconds=ours,
                peer="DuckDB grouping sets in memory",
                peer_seconds=peer,
                target="<= 5x, below 0.1 s",
            )


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

    def page(offset: int, where: str = "") -> list[object]:
        return list(table.scan(["episode_id"], where=where, limit=24, offset=offset, order_by=ORDER))

    def freeze() -> object:
        ids, recipe = choose(ws, where="success")
        return ws.sets.create("good", ids, recipe)

    return {
        "count a filter": lambda: table.count("dataset = 'dataset_3'"),
        "first page": lambda: page(0),
        "page at 90%": lambda: page(size * 9 // 10),
        "page of a filter": lambda: page(0, "dataset = 'dataset_3'"),
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


def _ours(ws: Workspace, where: str) -> Callable[[], list[Facet]]:
    drawn = _drawn(ws)
    return lambda: count_facets(ws, where, drawn)


def _drawn(ws: Workspace) -> list[str]:
    return [facet.column for facet in count_facets(ws, "false") if facet.column not in _NOT_DRAWN]


def _in_memory(ws: Workspace, where: str) -> Callable[[], object]:
    """The same counts by plain SQL, every column grouped by itself, over an Arrow table that is in memory already."""
    import duckdb

    names = _drawn(ws)
    kinds = ws.tables.episodes.columns()
    scales = counts.measure(ws.tables.episodes, {name: kinds[name] for name in names})
    rows = ws.frame(sorted({*names, "success", "num_steps"}))
    connection = duckdb.connect()
    connection.register("episodes", rows)
    keys = ", ".join(f"{counts.group_key(scale)} AS g{place}" for place, scale in enumerate(scales.values()))
    sets = ", ".join(f"(g{place})" for place in range(len(scales)))
    asked = (
        f"SELECT count(*), {sets.replace('(', '').replace(')', '')} "
        f"FROM (SELECT {keys} FROM episodes WHERE {where or 'true'}) GROUP BY GROUPING SETS ({sets})"
    )
    return lambda: connection.execute(asked).fetchall()


def _exponent(seconds: Sequence[float]) -> str:
    """The power with which the time grows from the size before, a tenth of this one."""
    return f" (grows with size^{math.log10(seconds[-1] / seconds[-2]):.2f})" if len(seconds) > 1 else ""
