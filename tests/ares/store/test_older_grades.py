"""A workspace whose grades have the columns of earlier versions is opened: these go, and the grades count."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from ares.annotation import Column
from ares.doctor import run_checks
from ares.episode import Json
from ares.errors import FilterError
from ares.registry import GONE_COLUMNS
from ares.rubric import GRADE_COLUMNS, describe_tripwire
from ares.store import producer_from_text, producer_to_text
from ares.store.sync.apply import _StateTable
from ares.workspace import Workspace
from tests.ares.grade_producers import CAPTIONER, JUDGE, graded_caption
from tests.workspaces import CommandResult

# As the version before tripwires declared them, in its order.
_OLDER = (
    Column(name="acceptable", type="bool", meaning="By a judge that is trusted.", needs_current_maker=True),
    Column(name="acceptable_unproven", type="bool", meaning="By any judge.", needs_current_maker=True),
    Column(name="grade", type="string", meaning="What the rubric makes of the caption."),
    Column(name="grade_trust", type="string", meaning="Trusted, unproven or untrusted."),
    Column(name="grade_verdicts", type="string", meaning="Verdicts."),
)
_JUDGE = replace(JUDGE, columns=(*_OLDER, JUDGE.columns[-1]))


@pytest.fixture
def older(video_ws: Workspace) -> Workspace:
    """Two episodes with a grade by a judge that was unproven, in a workspace as an earlier version left it."""
    stores, tables = video_ws.stores, video_ws.stores.tables
    for producer in (CAPTIONER, _JUDGE):
        stores.annotations.add_producer(producer)
    for episode in sorted(tables.episodes.ids())[:2]:
        caption, grade, controls = graded_caption(episode)
        value = {name: part for name, part in grade.value.items() if name != "grade_time"}
        gradings: list[Json] = [{"kind": "foreign", "grade": "acceptable", "known_false": True}] * 9
        stores.annotations.append([caption, replace(grade, value=value)])
        stores.annotations.append([replace(controls, value={"gradings": gradings, "gates": []})])
    stores.annotations.put_documents("judge_trust", {f"{_JUDGE.maker_id}/video": {"state": "unproven"}})
    stores.sync()
    for name in ("grade_refuted", "grade_time"):
        tables.episodes.replace_column(name, None)
        tables.segments.drop_column(name)
    graded = tables.episodes.read_columns(["episode_id"], "grade IS NOT NULL")
    values = {"acceptable": pa.nulls(2, pa.bool_()), "acceptable_unproven": pa.array([True, True])}
    values |= {"grade_trust": pa.array(["unproven"] * 2), "certified": pa.nulls(2, pa.float64())}
    tables.episodes.set_values(pa.table({"episode_id": graded["episode_id"], **values}))
    texts = tables.segments.scan(["annotation_id"], "grade IS NOT NULL")
    tables.segments.set_values(pa.table({"annotation_id": texts["annotation_id"], **values}))
    state, last = _StateTable(tables), stores.annotations.last_sequence()
    newer = dict.fromkeys((name for name in state.load() if name.startswith(("views", "counted"))), 0)
    state.save({**newer, "views3": last, "counted2/grades": last})
    return video_ws


def test_the_columns_go_and_grades_count(older: Workspace, run_ares: Callable[..., CommandResult]) -> None:
    assert run_ares("status", "-w", older.path).status == 0
    shown = json.loads(run_ares("search", "--where", "grade IS NOT NULL", "--json", "-w", older.path).out)
    assert [(hit["grade"], hit["acceptable"], hit["grade_refuted"]) for hit in shown] == [
        ("acceptable", True, None)
    ] * 2
    older.sync()
    tables = older.stores.tables
    assert not GONE_COLUMNS.keys() & {*tables.episodes.columns(), *tables.segments.columns()}
    assert tables.segments.count("acceptable AND grade_refuted IS NULL AND grade_time IS NULL") == 2
    (document,) = older.status().judge_tripwire.values()
    assert isinstance(document, dict) and document["state"] == "not tested"
    assert run_checks(older.stores) == [] and run_checks(older.stores, rebuild=True) == []
    assert tables.episodes.count("acceptable") == 2
    with pytest.raises(FilterError, match=r"'certified': it is gone: use --min-precision"):
        len(older.episodes.where("certified > 0.9"))
    older.sets.create("kept", where="acceptable")


def test_a_column_of_a_person_keeps_its_name(older: Workspace) -> None:
    ids = sorted(older.stores.tables.episodes.ids())
    older.sync()
    older.set_values("certified", dict.fromkeys(ids, "by Ann"))
    older.stores.annotations.add_producer(replace(JUDGE, version="3"))
    older.sync()
    assert len(older.episodes.where("certified = 'by Ann'")) == len(ids)


def test_producers_are_read_with_the_columns_of_today() -> None:
    read = producer_from_text(producer_to_text(_JUDGE))
    names = [column.name for column in read.columns]
    assert names == ["acceptable", "grade_time", "grade", "grade_refuted", "grade_verdicts", "grade_verb"]
    by_name = {column.name: column for column in GRADE_COLUMNS}
    replaced = ("acceptable", "grade_time", "grade_refuted")
    assert {name: by_name[name] for name in replaced} == {
        column.name: column for column in read.columns if column.name in replaced
    }
    assert read.maker_id == _JUDGE.maker_id and producer_from_text(producer_to_text(JUDGE)) == JUDGE


def test_a_judge_that_was_untrusted_counts_no_more_than_before(older: Workspace) -> None:
    older.stores.annotations.put_documents(
        "judge_trust", {f"{_JUDGE.maker_id}/video": {"state": "untrusted"}}
    )
    older.sync()
    tables = older.stores.tables
    assert (tables.episodes.count("acceptable"), tables.episodes.count("grade_refuted")) == (0, 2)
    (document,) = older.status().judge_tripwire.values()
    assert isinstance(document, dict)
    assert describe_tripwire(document).startswith(
        "REFUTED: accepts too many false texts of an earlier version"
    )
