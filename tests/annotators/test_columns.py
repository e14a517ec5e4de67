"""Columns that an annotator declares are filters and facets of their type, from its first run on."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from ares.annotation import Column, ColumnType, Producer
from ares.episode import Json
from ares.errors import AresError
from ares.registry import annotators
from ares.search import compute_facets
from ares.store import Stores
from ares.workspace import Workspace
from ares_annotators.base import Annotator, Options, Result, Work, new_annotation
from ares_app.dashboard.view_state import ColumnFilter, ViewState, view_filter_sql
from tests.annotators.runs import annotate

_LIGHTS = ("bright", "dim", "dark")


def _column(name: str, kind: ColumnType, choices: tuple[str, ...] = ()) -> Column:
    return Column(name=name, type=kind, meaning=f"The {name} of it.", choices=choices)


_PRODUCER = Producer(
    annotator="scene",
    version="1",
    columns=(
        _column("people", "int64"),
        _column("glare", "float64"),
        _column("moving", "bool"),
        _column("surface", "string"),
        _column("light", "string", _LIGHTS),
        _column("objects", "list<string>"),
        _column("filmed", "timestamp"),
        _column("never_set", "list<string>"),
    ),
)


def _make_scene_annotator(options: Options, stores: Stores) -> Annotator:
    def process(works: Sequence[Work]) -> list[Result | AresError]:
        return [
            Result(annotations=[new_annotation(work, _PRODUCER, _scene_values(work.episode.key))])
            for work in works
        ]

    return SimpleNamespace(producer=_PRODUCER, process=process, batch_size=4)


def _scene_values(key: str) -> dict[str, Json]:
    """Values that depend only on the key, so that the counts are known."""
    drawer = "drawer" in key
    return {
        "people": 2 if drawer else 0,
        "glare": 0.5 if drawer else 2,
        "moving": drawer,
        "surface": 'it\'s oak; 100% -- "so" 木' if drawer else "steel",
        "light": "dim" if drawer else None,
        "objects": ["drawer", "handle"] if drawer else ["mug"],
        "filmed": "2026-01-02T03:04:05+02:00" if drawer else "2025-06-07",
    }


@pytest.fixture(scope="module")
def ws(module_ws: Workspace) -> Workspace:
    annotators.add("scene", _make_scene_annotator)
    annotate(module_ws.stores, ["scene"], Options(settings=module_ws.settings), quiet=True)
    return module_ws


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("people = 2", 2),
        ("glare < 1", 2),
        ("glare = 2", 10),
        ("moving", 2),
        ("surface = 'it''s oak; 100% -- \"so\" 木'", 2),
        ("surface LIKE '%100\\%%'", 2),
        ("light = 'dim'", 2),
        ("light IS NULL", 10),
        ("array_has(objects, 'handle')", 2),
        ("filmed = TIMESTAMP '2026-01-02 01:04:05'", 2),
        ("filmed < TIMESTAMP '2025-12-31'", 10),
        ("never_set IS NULL", 12),
    ],
)
def test_a_declared_column_filters_by_its_type(ws: Workspace, where: str, count: int) -> None:
    assert ws.stores.tables.episodes.count(where) == count


def test_a_declared_column_is_a_facet_of_its_type(ws: Workspace) -> None:
    facets = {facet.column: facet for facet in compute_facets(ws.stores)}
    kinds = {column.name: column.type for column in _PRODUCER.columns}
    assert {name: facets[name].type for name in kinds} == kinds
    assert facets["people"].meaning == "The people of it."
    assert dict(facets["objects"].counts) == {"mug": 10, "drawer": 2, "handle": 2}
    assert (facets["light"].counts, facets["light"].missing) == ((("dim", 2),), 10)
    assert (facets["never_set"].counts, facets["never_set"].missing) == ((), 12)
    assert sum(facets["filmed"].histogram) == 12


def test_what_the_dashboard_makes_of_a_click_finds_what_the_facet_counts(ws: Workspace) -> None:
    kinds = ws.stores.tables.episodes.columns()
    for facet in compute_facets(ws.stores, columns=[column.name for column in _PRODUCER.columns]):
        for value, count in facet.counts:
            text = str(value).lower() if facet.type == "bool" else str(value)
            clicked = ViewState(filters={facet.column: ColumnFilter(column=facet.column, values=(text,))})
            assert ws.stores.tables.episodes.count(view_filter_sql(clicked, kinds)) == count
        for index, count in enumerate(facet.histogram[:-1]):
            low, high = facet.edges[index : index + 2]
            dragged = ViewState(filters={facet.column: ColumnFilter(column=facet.column, low=low, high=high)})
            assert ws.stores.tables.episodes.count(view_filter_sql(dragged, kinds)) >= count
