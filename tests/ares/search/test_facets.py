"""Facets equal the counts of plain Python, for columns of every type."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from ares.errors import RequestError
from ares.search import Facet, compute_facets, facet_codes as encodings
from ares.search.facets import bin_edges
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes

_MANY = 3_000


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Three thousand episodes with columns of every type, some values missing, NaN or infinite."""
    workspace = open_workspace(str(tmp_path_factory.mktemp("facets") / "ws"), Settings())
    add_synthetic_episodes(workspace, _MANY)
    ids = pa.array(sorted(workspace.stores.tables.episodes.ids()))
    rng = np.random.default_rng(0)
    values = rng.normal(size=_MANY)
    values[:3] = np.nan, np.inf, -np.inf
    values[3:5] = 1e12, -1e12
    missing = rng.random(_MANY) < 0.1
    columns = {
        "odd": pa.array(values, mask=missing),
        "words": pa.array([f"it's {number // 2}" for number in range(_MANY)]),
        "objects": pa.array([["mug"] * (number % 3) + ["pot"] * (number % 2) for number in range(_MANY)]),
        "flag": pa.array([(True, False, None)[number % 3] for number in range(_MANY)]),
        "nothing": pa.array([None] * _MANY, pa.string()),
        "never": pa.array([None] * _MANY, pa.float64()),
    }
    workspace.stores.tables.episodes.set_values(pa.table({"episode_id": ids, **columns}))
    return workspace


@pytest.mark.parametrize(
    "where", ["", "success", "num_steps > 300 AND dataset <> 'dataset_3'", "num_steps < 0"]
)
def test_every_facet_equals_a_count_by_hand(ws: Workspace, where: str) -> None:
    facets = compute_facets(ws.stores, where)
    rows = ws.stores.tables.episodes.read_columns([facet.column for facet in facets], where)
    assert {"dataset", "ingested", "objects", "odd", "words", "nothing", "never"} <= {
        facet.column for facet in facets
    }
    for facet in facets:
        values = rows[facet.column].to_pylist()
        assert facet.missing == values.count(None), facet.column
        if facet.type in ("int64", "float64", "timestamp"):
            _same_histogram(facet, [value for value in values if value is not None])
        else:
            _same_counts(facet, [value for value in values if value is not None])


def _same_counts(facet: Facet, values: list[Any]) -> None:
    items = Counter(
        item for value in values for item in (set(value) if isinstance(value, list) else (value,))
    )
    expected = sorted(items.items(), key=lambda pair: (-pair[1], str(pair[0])))
    assert facet.counts == tuple(expected[:50])
    assert facet.distinct == len(items)


def _same_histogram(facet: Facet, values: list[Any]) -> None:
    numbers = np.array([value.timestamp() if facet.type == "timestamp" else value for value in values], float)
    finite = numbers[np.isfinite(numbers)]
    assert facet.unreal == len(numbers) - len(finite)
    if not facet.edges:
        assert not len(finite) and not facet.histogram
        return
    assert len(facet.edges) == len(facet.histogram) + 1 <= 23
    assert facet.below == np.count_nonzero(finite < facet.edges[0])
    assert facet.above == np.count_nonzero(finite > facet.edges[-1])
    if facet.edges[0] < facet.edges[-1]:
        assert list(facet.histogram) == np.histogram(finite, bins=facet.edges)[0].tolist()
    else:
        assert facet.histogram == (len(finite),)


@pytest.mark.parametrize("limit", ["_MAX_VALUES", "_MAX_BYTES"])
def test_columns_of_too_many_values_are_streamed(
    ws: Workspace, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encodings, limit, 200)
    fresh = open_workspace(ws.path, Settings())
    facets = {facet.column: facet for facet in compute_facets(fresh.stores, "num_steps > 100")}
    rows = ws.stores.tables.episodes.read_columns(["words", "objects", "dataset"], "num_steps > 100")
    _same_counts(facets["objects"], rows["objects"].to_pylist())
    _same_counts(facets["dataset"], rows["dataset"].to_pylist())
    word_counts = Counter(rows["words"].to_pylist())
    assert len(facets["words"].counts) == 50
    assert all(word_counts[value] == count for value, count in facets["words"].counts)
    assert facets["words"].distinct == pytest.approx(len(word_counts), rel=0.1)


def test_lists_of_too_many_items_are_streamed(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "_MAX_VALUES", 5)
    monkeypatch.setattr(encodings, "_MAX_ITEMS", 0)
    (facet,) = compute_facets(open_workspace(ws.path, Settings()).stores, "num_steps > 100", ["objects"])
    _same_counts(
        facet, ws.stores.tables.episodes.read_columns(["objects"], "num_steps > 100")["objects"].to_pylist()
    )


def test_a_hundred_columns_without_values(tmp_path: Path) -> None:
    ws = open_workspace(str(tmp_path / "ws"), Settings())
    add_synthetic_episodes(ws, 5)
    ws.stores.tables.episodes.add_missing_columns(
        pa.schema([(f"empty_{number}", pa.string()) for number in range(100)])
    )
    facets = compute_facets(ws.stores, "num_steps > 0")
    assert sum(facet.missing == 5 for facet in facets if facet.column.startswith("empty")) == 100


def test_threads_that_ask_at_once_get_the_same_answer(ws: Workspace) -> None:
    fresh = open_workspace(ws.path, Settings())
    wheres = ["", "success", "num_steps > 200", "flag", "odd > 0"] * 3
    with ThreadPoolExecutor(5) as threads:
        results = list(threads.map(lambda where: compute_facets(fresh.stores, where), wheres))
    assert results == [compute_facets(ws.stores, where) for where in wheres]


def test_outliers_do_not_make_one_bar_of_all_others(ws: Workspace) -> None:
    (facet,) = compute_facets(ws.stores, columns=["odd"])
    assert -10 < facet.edges[0] < facet.edges[-1] < 10
    assert sum(count > 0 for count in facet.histogram) > 5
    assert facet.below + facet.above in (1, 2)


def test_edges_stay_when_the_filter_changes_and_follow_the_table(ws: Workspace) -> None:
    (unfiltered,) = compute_facets(ws.stores, columns=["num_steps"])
    (filtered,) = compute_facets(ws.stores, "num_steps > 390", ["num_steps"])
    assert filtered.edges == unfiltered.edges
    episode_id = ws.stores.tables.episodes.read_columns(["episode_id"], limit=1)["episode_id"]
    ws.stores.tables.episodes.set_values(pa.table({"episode_id": episode_id, "weight": pa.array([2.5])}))
    (weight,) = compute_facets(ws.stores, columns=["weight"])
    assert (weight.histogram, weight.missing) == ((1,), _MANY - 1)
    ws.stores.tables.episodes.set_values(pa.table({"episode_id": episode_id, "weight": pa.array([7.5])}))
    assert compute_facets(ws.stores, columns=["weight"])[0].edges == (7.5, 7.5)


def test_of_an_empty_workspace_and_of_what_is_not_there(tmp_path: Path, ws: Workspace) -> None:
    empty = compute_facets(open_workspace(str(tmp_path / "ws"), Settings()).stores)
    assert {facet.missing for facet in empty} == {0}
    assert not any(facet.counts or facet.histogram for facet in empty)
    with pytest.raises(RequestError, match="no column 'nope'"):
        compute_facets(ws.stores, columns=["nope"])
    with pytest.raises(RequestError, match="cannot be read"):
        compute_facets(ws.stores, "1 / (num_steps - num_steps) > 0")


_real = st.floats(-1e12, 1e12)


@given(values=st.lists(_real, min_size=1, max_size=50), integers=st.booleans())
def test_bins_are_few_and_rising_and_hold_most_of_the_values(values: list[float], integers: bool) -> None:
    numbers = np.floor(values) if integers else np.array(values)
    low, high = (float(edge) for edge in np.quantile(numbers, [0.005, 0.995]))
    edges = bin_edges(float(numbers.min()), float(numbers.max()), low, high, integers)
    assert 2 <= len(edges) <= 23
    assert list(edges) == sorted(set(edges)) or len(edges) == 2
    inside = np.count_nonzero((numbers >= edges[0]) & (numbers <= edges[-1]))
    assert inside >= 0.9 * len(numbers) - 1
