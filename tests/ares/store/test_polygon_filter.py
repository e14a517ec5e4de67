"""`in_polygon` selects the rows that a plain ray casting selects, whatever the polygon."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ares.errors import FilterError
from ares.store.filters import MAX_CORNERS, check_filter, parse_polygon

_COLUMNS = {"map_x": "float64", "map_y": "float64", "name": "string"}
# Edges and points meet on a coarse grid, so that both lie on corners and edges often.
_GRID = st.integers(-8, 8).map(lambda number: number / 2)
_ANY = st.one_of(_GRID, st.floats(-10, 10).map(lambda number: round(number, 6)))
_CORNERS = st.lists(st.tuples(_ANY, _ANY), min_size=3, max_size=24)
_Corners = list[tuple[float, float]]


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    """A grid, random points between, and rows without a place."""
    grid = np.array([(x / 2, y / 2) for x in range(-9, 10) for y in range(-9, 10)])
    random = np.random.default_rng(37).uniform(-10, 10, (400, 2))
    odd = np.array([(np.nan, 0.0), (0.0, np.nan), (np.nan, np.nan), (np.inf, 0.0), (0.0, -np.inf)])
    x, y = np.concatenate([grid, random, odd]).T
    table = pa.table(
        {"map_x": pa.array([*x, None]), "map_y": pa.array([*y, 0.0]), "name": ["a"] * (len(x) + 1)}
    )
    return lance.write_dataset(table, str(tmp_path_factory.mktemp("points") / "t.lance"))


def _is_inside(place: tuple[float | None, ...], corners: _Corners) -> bool:
    """Count the edges that a ray to the right crosses."""
    x, y = place
    if x is None or y is None or not np.isfinite([x, y]).all():
        return False
    crossed = 0
    for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
        if (ay > y) != (by > y):
            low, high = sorted([(ay, ax), (by, bx)])
            crossed += x < low[1] + (y - low[0]) * ((high[1] - low[1]) / (high[0] - low[0]))
    return crossed % 2 == 1


def _write(corners: _Corners) -> str:
    return ", ".join(f"{x!r} {y!r}" for x, y in corners)


def _selected(points: lance.LanceDataset, where: str) -> list[int]:
    rows = points.to_table(columns=["map_x"], filter=check_filter(where, _COLUMNS), with_row_id=True)
    return sorted(rows["_rowid"].to_pylist())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(corners=_CORNERS)
def test_rows_are_those_of_ray_casting(points: lance.LanceDataset, corners: _Corners) -> None:
    where = f"in_polygon(map_x, map_y, '{_write(corners)}')"
    places = zip(*(points.to_table()[name].to_pylist() for name in ("map_x", "map_y")), strict=True)
    expected = [row for row, place in enumerate(places) if _is_inside(place, corners)]
    assert _selected(points, where) == expected


def test_it_stands_in_longer_filters_and_beside_texts_that_name_it(points: lance.LanceDataset) -> None:
    square = "in_polygon(map_x, MAP_Y, '-1 -1, 1 -1, 1 1, -1 1')"
    inside, outside = _selected(points, square), _selected(points, f"NOT {square}")
    assert inside and not set(inside) & set(outside)
    assert (
        _selected(
            points,
            "name <> 'in_polygon(map_x, map_y, 1)' AND IN_POLYGON ( `map_x`,map_y , '-1 -1, 1 -1, 1 1, -1 1' )",
        )
        == inside
    )
    assert _selected(points, f"{square} OR {square}") == inside
    assert _selected(points, f"{square} AND NOT {square}") == []


_TRIANGLE = "'0 0, 1 0, 1 1'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("map_x, map_y, '0 0, 1 0'", f"3 to {MAX_CORNERS} corners, not 2"),
        (f"map_x, map_y, '{', '.join(['0 0'] * 65)}'", f"3 to {MAX_CORNERS} corners, not 65"),
        ("map_x, map_y, ''", "two numbers each"),
        ("map_x, map_y, '0 0, 1 0, 1'", "two numbers each"),
        ("map_x, map_y, '0 0, 1 0, 1 x); DROP'", "two numbers each"),
        ("map_x, map_y, '0 0, 1 0, 1 ''1'", "two numbers each"),
        ("map_x, map_y, 'nan 0, 1 0, 1 1'", "finite"),
        ("map_x, map_y, '0 0, 1 0, 1 -inf'", "finite"),
        ("map_x, map_y, '0 0, 1 0, 1 1e300'", "finite"),
        (f"map_x + 1, map_y, {_TRIANGLE}", "two columns"),
        (f"1, map_y, {_TRIANGLE}", "two columns"),
        (f"name, map_y, {_TRIANGLE}", "name is text, not a number"),
        ("map_x, map_y, name", "a text in quotes"),
        ("map_x, map_y, 3", "a text in quotes"),
        ("map_x, map_y", "but got 2 arguments"),
        (f"map_x, map_z, {_TRIANGLE}", "no column named 'map_z'"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(arguments: str, message: str) -> None:
    with pytest.raises(FilterError, match="the filter cannot be read") as raised:
        check_filter(f"in_polygon({arguments})", _COLUMNS)
    assert message in str(raised.value) and "\n" not in str(raised.value)


@settings(max_examples=200)
@given(text=st.text(alphabet="0123456789.,- eE'x_\n\x00", max_size=60))
def test_hostile_corners_are_read_or_refused(text: str) -> None:
    quoted = text.replace("'", "''")
    try:
        check_filter(f"in_polygon(map_x, map_y, '{quoted}')", _COLUMNS)
    except FilterError:
        return
    assert len(parse_polygon(text)) >= 3
