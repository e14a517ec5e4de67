"""Columns that an annotator declares are filters and facets of their type, from its first run on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from annotators.base import Annotator, Options, Result, Work, new_annotation
from app.dashboard.view_state import ColumnFilter, ViewState, view_filter_sql
from ares.annotation import Column, ColumnType, Producer
from ares.episode import Json
from ares.errors import AresError, RequestError
from ares.registry import annotators
from ares.search import compute_facets
from ares.settings import settings_from_environment
from ares.store import Stores
from ares.workspace import Workspace, open_workspace
from tests.annotators.runs import annotate
from tests.ingesting import ingest_paths

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
def ws(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    annotators.add("scene", _make_scene_annotator)
    workspace = open_workspace(str(tmp_path_factory.mktemp("columns") / "ws"), settings_from_environment({}))
    ingest_paths(workspace.stores, [str(demo_samples / "video")], quiet=True)
    annotate(workspace.stores, ["scene"], Options(settings=workspace.settings), quiet=True)
    yield workspace
    workspace.close()


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


def test_a_value_that_does_not_fit_its_column_fails_its_episode(ws: Workspace) -> None:
    producer = replace(_PRODUCER, version="2")

    def process(works: Sequence[Work]) -> list[Result | AresError]:
        lights = ["broken" if "drawer" in work.episode.key else "dark" for work in works]
        return [
            Result(annotations=[new_annotation(work, producer, {"light": light})])
            for work, light in zip(works, lights, strict=True)
        ]

    annotators.add(
        "lights", lambda options, stores: SimpleNamespace(producer=producer, process=process, batch_size=4)
    )
    try:
        (report,) = annotate(ws.stores, ["lights"], Options(settings=ws.settings), where="moving", quiet=True)
    finally:
        annotators.remove("lights")
    assert (report.kept, report.failed) == (0, 2)
    assert "'light' is one of bright, dim, dark, but got 'broken'" in report.failures[0].example
    assert ws.sync() == 0


def test_a_list_that_is_compared_with_a_text_is_told(ws: Workspace) -> None:
    with pytest.raises(RequestError, match="the filter cannot be read"):
        ws.stores.tables.episodes.count("objects = 'mug'")
