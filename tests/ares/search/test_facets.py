"""Facets: what is counted equals what Python counts, for any values, of columns that the source or an annotator has."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.errors import RequestError
from ares.search import codes
from ares.search.bins import bins
from ares.search.facets import Facet, facets
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from benchmarks.grow import grow

_MANY = 3_000


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Three thousand episodes with columns of every type, some values missing, NaN or infinite."""
    made = open_workspace(str(tmp_path_factory.mktemp("facets") / "ws"), Settings())
    grow(made, _MANY)
    ids = pa.array(sorted(made.tables.episodes.ids()))
    chance = np.random.default_rng(0)
    odd = chance.normal(size=_MANY)
    odd[:3] = np.nan, np.inf, -np.inf
    odd[3:5] = 1e12, -1e12
    missing = chance.random(_MANY) < 0.1
    columns = {
        "odd": pa.array(odd, mask=missing),
        "words": pa.array([f"it's {number // 2}" for number in range(_MANY)]),
        "objects": pa.array([["mug"] * (number % 3) + ["pot"] * (number % 2) for number in range(_MANY)]),
        "flag": pa.array([(True, False, None)[number % 3] for number in range(_MANY)]),
        "nothing": pa.array([None] * _MANY, pa.string()),
        "never": pa.array([None] * _MANY, pa.float64()),
    }
    made.tables.episodes.set_values(pa.table({"episode_id": ids, **columns}))
    return made


@pytest.mark.parametrize(
    "where", ["", "success", "num_steps > 300 AND dataset <> 'dataset_3'", "num_steps < 0"]
)
def test_every_facet_equals_a_count_by_hand(ws: Workspace, where: str) -> None:
    found = facets(ws, where)
    rows = ws.frame([facet.column for facet in found], where)
    assert {"dataset", "ingested", "objects", "odd", "words", "nothing", "never"} <= {
        one.column for one in found
    }
    for facet in found:
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
    wanted = sorted(items.items(), key=lambda pair: (-pair[1], str(pair[0])))
    assert facet.counts == tuple(wanted[:50])
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


@pytest.mark.parametrize("limit", ["_MOST_VALUES", "_MOST_BYTES"])
def test_columns_of_too_many_values_are_streamed(
    ws: Workspace, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codes, limit, 200)
    fresh = open_workspace(ws.path, Settings())
    found = {facet.column: facet for facet in facets(fresh, "num_steps > 100")}
    rows = ws.frame(["words", "objects", "dataset"], "num_steps > 100")
    _same_counts(found["objects"], rows["objects"].to_pylist())
    _same_counts(found["dataset"], rows["dataset"].to_pylist())
    words = Counter(rows["words"].to_pylist())
    assert len(found["words"].counts) == 50
    assert all(words[value] == count for value, count in found["words"].counts)
    assert found["words"].distinct == pytest.approx(len(words), rel=0.1)


def test_lists_of_too_many_items_are_streamed(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "_MOST_VALUES", 5)
    monkeypatch.setattr(codes, "_MOST_ITEMS", 0)
    (found,) = facets(open_workspace(ws.path, Settings()), "num_steps > 100", ["objects"])
    _same_counts(found, ws.frame(["objects"], "num_steps > 100")["objects"].to_pylist())


def test_a_hundred_columns_without_values(tmp_path: Path) -> None:
    made = open_workspace(str(tmp_path / "ws"), Settings())
    grow(made, 5)
    made.tables.episodes.declare(pa.schema([(f"empty_{number}", pa.string()) for number in range(100)]))
    found = facets(made, "num_steps > 0")
    assert sum(facet.missing == 5 for facet in found if facet.column.startswith("empty")) == 100


def test_threads_that_ask_at_once_get_the_same_answer(ws: Workspace) -> None:
    fresh = open_workspace(ws.path, Settings())
    wheres = ["", "success", "num_steps > 200", "flag", "odd > 0"] * 3
    with ThreadPoolExecutor(5) as threads:
        found = list(threads.map(lambda where: facets(fresh, where), wheres))
    assert found == [facets(ws, where) for where in wheres]


def test_outliers_do_not_make_one_bar_of_all_others(ws: Workspace) -> None:
    (odd,) = facets(ws, columns=["odd"])
    assert -10 < odd.edges[0] < odd.edges[-1] < 10
    assert sum(count > 0 for count in odd.histogram) > 5
    assert odd.below + odd.above in (1, 2)


def test_edges_stay_when_the_filter_changes_and_follow_the_table(ws: Workspace) -> None:
    (whole,) = facets(ws, columns=["num_steps"])
    (part,) = facets(ws, "num_steps > 390", ["num_steps"])
    assert part.edges == whole.edges
    one = ws.frame(["episode_id"], limit=1)["episode_id"]
    ws.tables.episodes.set_values(pa.table({"episode_id": one, "weight": pa.array([2.5])}))
    (weight,) = facets(ws, columns=["weight"])
    assert (weight.histogram, weight.missing) == ((1,), _MANY - 1)
    ws.tables.episodes.set_values(pa.table({"episode_id": one, "weight": pa.array([7.5])}))
    assert facets(ws, columns=["weight"])[0].edges == (7.5, 7.5)


def test_of_an_empty_workspace_and_of_what_is_not_there(tmp_path: Path, ws: Workspace) -> None:
    empty = facets(open_workspace(str(tmp_path / "ws"), Settings()))
    assert {facet.missing for facet in empty} == {0}
    assert not any(facet.counts or facet.histogram for facet in empty)
    with pytest.raises(RequestError, match="no column 'nope'"):
        facets(ws, columns=["nope"])
    with pytest.raises(RequestError, match="cannot be read"):
        facets(ws, "1 / (num_steps - num_steps) > 0")


_real = st.floats(-1e12, 1e12)


@given(values=st.lists(_real, min_size=1, max_size=50), whole=st.booleans())
def test_bins_are_few_and_rising_and_hold_most_of_the_values(values: list[float], whole: bool) -> None:
    numbers = np.floor(values) if whole else np.array(values)
    low, high = (float(edge) for edge in np.quantile(numbers, [0.005, 0.995]))
    made = bins(float(numbers.min()), float(numbers.max()), low, high, whole)
    assert 2 <= len(made) <= 23
    assert list(made) == sorted(set(made)) or len(made) == 2
    inside = np.count_nonzero((numbers >= made[0]) & (numbers <= made[-1]))
    assert inside >= 0.9 * len(numbers) - 1
