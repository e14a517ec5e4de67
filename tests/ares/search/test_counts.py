"""Facets equal a count in plain Python, whatever was written, deleted or compacted before."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ares.errors import RequestError
from ares.search import Facet, compute_facets, facet_codes
from ares.search.encoded_columns import bin_edges
from ares.search.facet_codes import BinnedEncoding, ListEncoding, TooManyValues
from ares.settings import Settings
from ares.store import lance_tables as tables
from ares.workspace import Workspace, open_workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes
from tests.ares.store.random_filters import RandomFilter, filters

Row = Mapping[str, Any]
Step = tuple[str, Sequence[Row]]

_MANY = 600

_TEXTS = ["", "mug", "it's", '"', "\n", "é", "e\u0301", "\x00", "~missing", "😀", "a" * 300, "Mug", " mug"]
_texts = st.none() | st.sampled_from(_TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
_values = st.fixed_dictionaries(
    {
        "word": _texts,
        "real": st.none() | st.floats() | st.sampled_from([0.0, 0.1, 0.30000000000000004, -0.0, 1e300]),
        "whole": st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 30),
        "flag": st.none() | st.booleans(),
        "things": st.none() | st.lists(_texts, max_size=4),
        "seen": st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    }
)
_TYPES = {
    "word": pa.string(),
    "real": pa.float64(),
    "whole": pa.int64(),
    "flag": pa.bool_(),
    "things": pa.list_(pa.string()),
    "seen": pa.timestamp("us", "UTC"),
}
_CONDITIONS = filters(
    {
        "word": ["it's", "mug"], "real": [0.1, 1e300], "whole": [5, -3], "flag": [True], "grade": ["a", "b"],
        "num_steps": [100, 200, 300], "seen": [datetime(2000, 1, 1, tzinfo=UTC)],
    },
    leaves=4,
)  # fmt: skip
_steps = st.tuples(
    st.sampled_from(["add", "update", "delete", "compact"]), st.lists(_values, min_size=1, max_size=25)
)


@pytest.fixture(params=["whole lists", "items"])
def few_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows have an index, too; once as if there were too many different lists to keep them whole."""

    def refuse(*_: object) -> None:
        raise TooManyValues

    monkeypatch.setattr(tables, "_MIN_INDEXED_ROWS", 1)
    if request.param == "items":
        monkeypatch.setattr(ListEncoding, "encode", refuse)


@pytest.mark.slow
@pytest.mark.usefixtures("few_rows")
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(
    steps=st.lists(_steps, min_size=1, max_size=4), conditions=st.lists(_CONDITIONS, min_size=1, max_size=3)
)
def test_facets_equal_a_count_by_hand_after_every_change(
    steps: Sequence[Step], conditions: Sequence[RandomFilter]
) -> None:
    # As a page joins its filters; one of them alone is asked too, and remembered.
    where = " AND ".join(f"({condition.sql})" for condition in conditions)
    with tempfile.TemporaryDirectory() as folder:
        reader, writer = (open_workspace(folder, Settings()) for _ in range(2))
        add_synthetic_episodes(writer, 20)
        _update(writer, [dict.fromkeys(_TYPES)])
        for number, step in enumerate(steps):
            _do(writer, number, *step)
            _check(reader, where, conditions)
            _check(reader, conditions[-1].sql, conditions[-1:])
            _check(reader, "", [])


def _do(ws: Workspace, number: int, action: str, rows: Sequence[Row]) -> None:
    if action == "add":
        add_synthetic_episodes(ws, 20 + 7 * (number + 1))
    elif action == "update":
        _update(ws, rows)
    elif action == "delete":
        table = ws.stores.tables.connection.open_table("episodes")
        assert table is not None
        table.delete(f"num_steps % 5 = {number}")
    else:
        ws.stores.tables.optimize(["episodes"])


def _update(ws: Workspace, rows: Sequence[Row]) -> None:
    """Give the first episodes these values."""
    ids = sorted(ws.stores.tables.episodes.ids())[: len(rows)]
    columns = {name: pa.array([row[name] for row in rows][: len(ids)], kind) for name, kind in _TYPES.items()}
    grades = pa.array([("a", "b", "c", None)[number % 4] for number in range(len(ids))], pa.string())
    ws.stores.tables.episodes.set_values(pa.table({"episode_id": pa.array(ids), **columns, "grade": grades}))


def _check(ws: Workspace, where: str, conditions: Sequence[RandomFilter]) -> None:
    names = [*_TYPES, "grade", "dataset", "num_steps"]
    rows = ws.stores.tables.episodes.read_columns(names)
    columns = {name: rows[name].to_pylist() for name in names}
    matching = np.ones(len(rows), bool)
    for condition in conditions:
        matching &= condition.matches(columns)
    for facet in compute_facets(ws.stores, where, names):
        values = columns[facet.column]
        _is_count_of(facet, [value for value, is_in in zip(values, matching, strict=True) if is_in])
    # What was remembered of the filter says the same.
    assert ws.stores.tables.episodes.count(where) == matching.sum()


def _is_count_of(facet: Facet, values: Sequence[Any]) -> None:
    present = [value for value in values if value is not None]
    assert facet.missing == len(values) - len(present), facet.column
    if facet.type in ("int64", "float64", "timestamp"):
        _same_histogram(facet, [_real(value) for value in present])
    else:
        _same_counts(facet, present)


def _real(value: float | datetime) -> float:
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    return float(value)


def _same_counts(facet: Facet, values: Sequence[Any]) -> None:
    items = [set(value) - {None} if isinstance(value, list) else {value} for value in values]
    counts = Counter(item for row_items in items for item in row_items)
    assert facet.counts == tuple(sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))[:50])
    assert facet.distinct == len(counts)


def _same_histogram(facet: Facet, values: Sequence[float]) -> None:
    finite = [value for value in values if math.isfinite(value)]
    edges = facet.edges
    assert facet.unreal == len(values) - len(finite)
    if not edges:
        assert not finite and not facet.histogram
        return
    assert facet.below == sum(value < edges[0] for value in finite)
    assert facet.above == sum(value > edges[-1] for value in finite)
    counts = [0] * (len(edges) - 1)
    for value in finite:
        if edges[0] <= value <= edges[-1]:
            counts[max(index for index in range(len(counts)) if edges[index] <= value)] += 1
    assert list(facet.histogram) == counts


def test_the_largest_float_is_in_the_last_bin() -> None:
    largest = 1.7976931348623157e308
    encoding = BinnedEncoding((0.0, largest))
    assert encoding.encode(pa.array([-1.0, 0.0, largest, math.inf, None])).tolist() == [0, 1, 1, 3, 4]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Episodes with columns of many values, some missing, NaN or infinite, and without any; no test changes them."""
    workspace = open_workspace(str(tmp_path_factory.mktemp("facets") / "ws"), Settings())
    add_synthetic_episodes(workspace, _MANY)
    ids = pa.array(sorted(workspace.stores.tables.episodes.ids()))
    rng = np.random.default_rng(0)
    values = np.concatenate([[np.nan, np.inf, -np.inf, 1e12, -1e12], rng.normal(size=_MANY - 5)])
    columns = {
        "odd": pa.array(values, mask=rng.random(_MANY) < 0.1),
        "words": pa.array([f"it's {number // 2}" for number in range(_MANY)]),
        "objects": pa.array([["mug"] * (number % 3) + ["pot"] * (number % 2) for number in range(_MANY)]),
        "nothing": pa.array([None] * _MANY, pa.string()),
        "never": pa.array([None] * _MANY, pa.float64()),
    }
    workspace.stores.tables.episodes.set_values(pa.table({"episode_id": ids, **columns}))
    return workspace


def test_every_column_that_can_be_counted_has_a_facet(odd: Workspace) -> None:
    facets = compute_facets(odd.stores, "num_steps > 300")
    columns = {facet.column for facet in facets}
    assert {"dataset", "ingested", "objects", "odd", "words", "nothing", "never"} <= columns
    assert not {"episode_id", "source_stamp", "camera_stamps"} & columns
    rows = odd.stores.tables.episodes.read_columns(sorted(columns), "num_steps > 300")
    for facet in facets:
        _is_count_of(facet, rows[facet.column].to_pylist())


@pytest.mark.parametrize(
    "limits", [{"_MAX_VALUES": 200}, {"_MAX_BYTES": 200}, {"_MAX_VALUES": 5, "_MAX_ITEMS": 0}]
)
def test_columns_of_too_many_values_are_streamed(
    odd: Workspace, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in limits.items():
        monkeypatch.setattr(facet_codes, name, limit)
    fresh, columns = open_workspace(odd.path, Settings()), ["words", "objects", "dataset"]
    rows = odd.stores.tables.episodes.read_columns(columns, "num_steps > 100")
    for facet in compute_facets(fresh.stores, "num_steps > 100", columns):
        if facet.column != "words":
            _is_count_of(facet, rows[facet.column].to_pylist())
            continue
        counts = Counter(rows["words"].to_pylist())
        assert len(facet.counts) == 50
        assert all(counts[value] == count for value, count in facet.counts)
        assert facet.distinct == pytest.approx(len(counts), rel=0.1)


def test_a_hundred_columns_without_values(ws: Workspace) -> None:
    add_synthetic_episodes(ws, 5)
    empty = pa.schema([(f"empty_{number}", pa.string()) for number in range(100)])
    ws.stores.tables.episodes.add_missing_columns(empty)
    facets = compute_facets(ws.stores, "num_steps > 0")
    assert sum(facet.missing == 5 for facet in facets if facet.column.startswith("empty")) == 100


def test_threads_that_ask_at_once_get_the_same_answer(odd: Workspace) -> None:
    fresh, wheres = open_workspace(odd.path, Settings()), ["", "success", "num_steps > 200", "odd > 0"] * 3
    with ThreadPoolExecutor(5) as threads:
        results = list(threads.map(lambda where: compute_facets(fresh.stores, where), wheres))
    assert results == [compute_facets(odd.stores, where) for where in wheres]


def test_outliers_do_not_make_one_bar_of_all_others(odd: Workspace) -> None:
    (facet,) = compute_facets(odd.stores, columns=["odd"])
    assert -10 < facet.edges[0] < facet.edges[-1] < 10
    assert sum(count > 0 for count in facet.histogram) > 5
    assert facet.below + facet.above in (1, 2)


def test_edges_stay_when_the_filter_changes_and_follow_the_table(ws: Workspace) -> None:
    add_synthetic_episodes(ws, 50)
    (unfiltered,), (filtered,) = (
        compute_facets(ws.stores, where, ["num_steps"]) for where in ("", "num_steps > 300")
    )
    assert filtered.edges == unfiltered.edges
    episode_id = ws.stores.tables.episodes.read_columns(["episode_id"], limit=1)["episode_id"]
    for weight in (2.5, 7.5):
        ws.stores.tables.episodes.set_values(
            pa.table({"episode_id": episode_id, "weight": pa.array([weight])})
        )
        (facet,) = compute_facets(ws.stores, columns=["weight"])
        assert (facet.edges, facet.histogram, facet.missing) == ((weight, weight), (1,), 49)


def test_of_an_empty_workspace_and_of_what_is_not_there(ws: Workspace, odd: Workspace) -> None:
    empty = compute_facets(ws.stores)
    assert {facet.missing for facet in empty} == {0}
    assert not any(facet.counts or facet.histogram for facet in empty)
    with pytest.raises(RequestError, match="no column 'nope'"):
        compute_facets(odd.stores, columns=["nope"])
    with pytest.raises(RequestError, match="cannot be read"):
        compute_facets(odd.stores, "1 / (num_steps - num_steps) > 0")


@given(values=st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=50), integers=st.booleans())
def test_bins_are_few_and_rising_and_hold_most_of_the_values(values: list[float], integers: bool) -> None:
    numbers = np.floor(values) if integers else np.array(values)
    low, high = (float(edge) for edge in np.quantile(numbers, [0.005, 0.995]))
    edges = bin_edges(float(numbers.min()), float(numbers.max()), low, high, integers)
    assert 2 <= len(edges) <= 23
    assert list(edges) == sorted(set(edges)) or len(edges) == 2
    inside = np.count_nonzero((numbers >= edges[0]) & (numbers <= edges[-1]))
    assert inside >= 0.9 * len(numbers) - 1
