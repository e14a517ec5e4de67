"""Benchmarks 9 and 18: facets against DuckDB on the same columns in memory, and the table reads of pages, by size."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import ares
from ares.curation import SOURCE_ORDER
from ares.search import NUMERIC_TYPES, Facet, compute_facets as count_facets
from ares.store import EpisodeTable
from ares.workspace import Workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes, set_annotator_columns
from benchmarks.timing import BenchmarkResult, time_alternately

_SIZES = (10_000, 100_000, 1_000_000)
# Columns with a different text in nearly every episode; pages draw no counts of them.
_UNDRAWN_COLUMNS = ("instruction", "instructions", "caption")
_FILTER, _ALL = "success AND num_steps > 100", "num_steps > 25"
_FILTERED = "after a filter change"
_NUM_ATTRIBUTES = 20
_filter_numbers = itertools.count()


def benchmark_facets(sizes: Sequence[int] = _SIZES, rounds: int = 7) -> Iterator[BenchmarkResult]:
    """Time every count and histogram that the page draws, after a change of the table and after one of the filter."""
    seconds: dict[str, list[float]] = {}
    for size, ws in _synthetic_workspaces(sizes):
        for label, count_with_ares, filter_text in _facet_calls(ws):
            ares_seconds, peer_seconds = time_alternately(
                count_with_ares, _duckdb_counts(ws, filter_text), rounds
            )
            seconds.setdefault(label, []).append(ares_seconds)
            yield BenchmarkResult(
                number=9,
                work=f"facets {label}, {size:,} episodes{_growth_note(seconds[label])}",
                ours_seconds=ares_seconds,
                peer="DuckDB grouping sets in memory",
                peer_seconds=peer_seconds,
                target="<= 5x, below 0.1 s" if label == _FILTERED else "<= 5x",
            )
    yield from _benchmark_attributes(min(100_000, max(sizes)), rounds)


def _benchmark_attributes(size: int, rounds: int) -> Iterator[BenchmarkResult]:
    """Time what Browse reads after a filter of typed attributes: all counts, the number of episodes and a page."""
    for _, ws in _synthetic_workspaces([size]):
        _set_attributes(ws)
        where = "attr_0 = 'b' AND attr_12 AND success IS NOT TRUE"
        read_browse = partial(_read_browse, ws, where, _drawn_columns(ws))
        read_browse()
        ours, peer = time_alternately(read_browse, _duckdb_counts(ws, where), rounds)
        yield BenchmarkResult(
            number=9,
            work=f"counts, number and page of a filter of two of {_NUM_ATTRIBUTES} attributes, {size:,} episodes",
            ours_seconds=ours,
            peer="DuckDB grouping sets in memory",
            peer_seconds=peer,
            target="below 0.3 s",
        )


def _read_browse(ws: Workspace, where: str, columns: Sequence[str]) -> None:
    """Read what Browse shows of a filter that is new."""
    text, table = _uncached(where), ws.stores.tables.episodes
    count_facets(ws.stores, text, columns)
    table.count(text)
    list(table.scan(["episode_id"], where=text, limit=24, order_by=SOURCE_ORDER))


def _set_attributes(ws: Workspace) -> None:
    """Set columns as of `ares annotate attributes`: twelve enums, four bools, four numbers; a tenth is unknown."""
    import numpy as np
    import pyarrow as pa

    ids, rng = ws.stores.tables.episodes.read_columns(["episode_id"])["episode_id"], np.random.default_rng(9)
    count, arrays = len(ids), {}
    for number in range(_NUM_ATTRIBUTES):
        values = (
            rng.choice(np.array(list("abcdefgh"), object), count)
            if number < 12
            else rng.random(count) < 0.5
            if number < 16
            else rng.integers(0, 12, count)
        )
        arrays[f"attr_{number}"] = pa.array(values, mask=rng.random(count) < 0.1)
    ws.stores.tables.episodes.set_values(pa.table({"episode_id": ids, **arrays}))
    ws.stores.tables.optimize()


def _facet_calls(ws: Workspace) -> Iterator[tuple[str, Callable[[], object], str]]:
    columns = _drawn_columns(ws)

    def count_in_new_workspace(where: str = "") -> None:
        # The caches of a newly opened workspace are as empty as after a change of the table.
        fresh = ares.open(ws.path)
        count_facets(fresh.stores, where, columns)
        fresh.close()

    yield "of all, first call after a change of the table", count_in_new_workspace, ""
    yield (
        "of a filter, first call after a change of the table",
        lambda: count_in_new_workspace(_FILTER),
        _FILTER,
    )
    yield _FILTERED, lambda: count_facets(ws.stores, _uncached(_FILTER), columns), _FILTER
    yield (
        "after a filter change that keeps nearly all",
        lambda: count_facets(ws.stores, _uncached(_ALL), columns),
        _ALL,
    )


def _uncached(where: str) -> str:
    """The filter with a text that was never used before: matches of recent filters are cached by their text."""
    return where + " " * next(_filter_numbers)


def benchmark_table_operations(sizes: Sequence[int] = _SIZES, rounds: int = 5) -> Iterator[BenchmarkResult]:
    """Time the table reads of the first page, a deep page and a set, against reading all ids."""
    seconds: dict[str, list[float]] = {}
    for size, ws in _synthetic_workspaces(sizes):
        for label, work in _operations(ws, size).items():
            ours, peer = time_alternately(work, ws.stores.tables.episodes.ids, min(rounds, 5))
            seconds.setdefault(label, []).append(ours)
            yield BenchmarkResult(
                number=18,
                work=f"{label}, {size:,} episodes{_growth_note(seconds[label])}",
                ours_seconds=ours,
                peer="every id into Python",
                peer_seconds=peer,
                target="linear or better",
            )


def _operations(ws: Workspace, size: int) -> dict[str, Callable[[], object]]:
    table = ws.stores.tables.episodes

    def read_page(offset: int, where: str = "", episode_table: EpisodeTable = table) -> list[object]:
        return list(
            episode_table.scan(["episode_id"], where=where, limit=24, offset=offset, order_by=SOURCE_ORDER)
        )

    def read_page_after_change(offset: int) -> None:
        # A newly opened workspace has no cached sort order, as after a change of the table.
        fresh = ares.open(ws.path)
        read_page(offset, episode_table=fresh.stores.tables.episodes)
        fresh.close()

    def create_set() -> object:
        return ws.sets.create("good", where="success")

    return {
        "count a filter": lambda: table.count(_uncached("dataset = 'dataset_3'")),
        "first page after a change": lambda: read_page_after_change(0),
        "page at 90% after a change": lambda: read_page_after_change(size * 9 // 10),
        "first page again": lambda: read_page(0),
        "page at 90% again": lambda: read_page(size * 9 // 10),
        "page of a filter": lambda: read_page(0, _uncached("dataset = 'dataset_3'")),
        "set of 60%": create_set,
        "mark duplicates": table.mark_duplicates,
    }


def _synthetic_workspaces(sizes: Sequence[int]) -> Iterator[tuple[int, Workspace]]:
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder, ares.open(f"{folder}/workspace", create=True) as ws:
            add_synthetic_episodes(ws, size)
            set_annotator_columns(ws)
            yield size, ws


def _drawn_columns(ws: Workspace) -> list[str]:
    return [
        facet.column for facet in count_facets(ws.stores, "false") if facet.column not in _UNDRAWN_COLUMNS
    ]


def _duckdb_counts(ws: Workspace, where: str) -> Callable[[], object]:
    """The same counts by plain SQL, each column grouped separately, over an Arrow table in memory."""
    import duckdb

    drawn_facets = count_facets(ws.stores, columns=_drawn_columns(ws))
    rows = ws.stores.tables.episodes.read_columns(
        sorted({*(facet.column for facet in drawn_facets), "success", "num_steps"})
    )
    connection = duckdb.connect()
    connection.register("episodes", rows)
    keys = ", ".join(f"{_group_key(facet)} AS g{number}" for number, facet in enumerate(drawn_facets))
    sets = ", ".join(f"(g{number})" for number in range(len(drawn_facets)))
    query = (
        f"SELECT count(*), {sets.replace('(', '').replace(')', '')} "
        f"FROM (SELECT {keys} FROM episodes WHERE {where or 'true'}) GROUP BY GROUPING SETS ({sets})"
    )
    return lambda: connection.execute(query).fetchall()


def _group_key(facet: Facet) -> str:
    """SQL expression by which DuckDB groups a column: the value, or the number of its bin."""
    if facet.type not in NUMERIC_TYPES:
        return facet.column
    if not facet.edges:
        return f"({facet.column} IS NULL)::TINYINT"
    real = f"epoch_us({facet.column}) / 1e6" if facet.type == "timestamp" else f"{facet.column}::DOUBLE"
    first, last = facet.edges[0], facet.edges[-1]
    slope = len(facet.histogram) / (last - first) if last > first else 1.0
    bin_number = f"floor(({real} - {first}::DOUBLE) * {slope}::DOUBLE)"
    inside = f"least(greatest({bin_number}, -1.0::DOUBLE), {len(facet.histogram)}::DOUBLE)"
    return f"CASE WHEN isfinite({real}) THEN {inside} WHEN {real} IS NOT NULL THEN -2 END::TINYINT"


def _growth_note(seconds: Sequence[float]) -> str:
    """A note on the exponent with which the time grows from the previous size, a tenth of this one."""
    return f" (grows with size^{math.log10(seconds[-1] / seconds[-2]):.2f})" if len(seconds) > 1 else ""
