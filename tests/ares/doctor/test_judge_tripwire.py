"""Grades follow from the controls of their judge; where they do not, a rebuild makes them from the log again."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ares.curation import purge_episodes
from ares.doctor import run_checks
from ares.episode import Json
from ares.rubric import JUDGE_TRIPWIRE, GradeProjection
from ares.store import ProducerCatalog, StagedIds
from ares.workspace import Workspace
from tests.ares.grade_producers import CAPTIONER, JUDGE, graded_caption

_REFUTED = {("acceptable", None, True)}


@pytest.fixture
def ws(video_ws: Workspace) -> Workspace:
    """A workspace graded by a judge that accepts captions of other episodes, too."""
    stores = video_ws.stores
    for producer in (CAPTIONER, JUDGE):
        stores.annotations.add_producer(producer)
    for episode in sorted(stores.tables.episodes.ids()):
        stores.annotations.append(graded_caption(episode))
    stores.sync()
    return video_ws


def shown(ws: Workspace) -> set[tuple[Any, ...]]:
    columns = ["grade", "acceptable", "grade_refuted"]
    rows = (
        ws.stores.tables.episodes.read_columns(columns).to_pylist()
        + ws.stores.tables.segments.scan(columns, "grade_maker IS NOT NULL").to_pylist()
    )
    return {tuple(row[name] for name in columns) for row in rows}


def test_what_controls_say_is_counted_from_them(ws: Workspace) -> None:
    """A document that says otherwise makes the grades of a refuted judge decisions."""
    ((key, document),) = ws.stores.annotations.find_documents(JUDGE_TRIPWIRE)
    assert isinstance(document, dict)
    wrong: dict[str, Json] = {key: {**document, "since": None}, "gone/set": document}
    ws.stores.annotations.put_documents(JUDGE_TRIPWIRE, wrong)
    GradeProjection().refresh(
        ws.stores.tables, ws.stores.annotations, ProducerCatalog(ws.stores.annotations.producers())
    )
    assert shown(ws) == {("acceptable", True, None)}
    (finding,) = run_checks(ws.stores, repair=True)
    assert (finding.check, finding.count, finding.remedy) == (
        "what is kept of judges follows from their controls",
        2,
        "ares doctor --rebuild",
    )
    assert finding.example in (key, "gone/set")
    assert run_checks(ws.stores, rebuild=True) == [] and shown(ws) == _REFUTED


def test_a_grade_that_does_not_follow_from_the_controls_is_found_and_rebuilt(ws: Workspace) -> None:
    ids = sorted(ws.stores.tables.episodes.ids())[:2]
    wrong = {"episode_id": ids, "acceptable": [True, None], "grade_refuted": [True, None]}
    ws.stores.tables.episodes.set_values(pa.table(wrong))
    (finding,) = run_checks(ws.stores, repair=True)
    assert (finding.check, finding.count, finding.remedy) == (
        "each grade follows from the controls of its judge",
        2,
        "ares doctor --rebuild",
    )
    assert finding.example in [f"episode {id}: its judge is refuted" for id in ids]
    assert run_checks(ws.stores, rebuild=True) == [] and shown(ws) == _REFUTED


@pytest.mark.slow
def test_controls_count_with_their_episodes(ws: Workspace) -> None:
    """Removed and brought back, and purged: what is kept of a judge follows without a repair."""
    ids = sorted(ws.stores.tables.episodes.ids())
    for act, episodes in ((lambda: ws.remove(ids=ids[1:]), 1), (ws.undo, len(ids))):
        act()
        ws.sync()
        ((_, document),) = ws.stores.annotations.find_documents(JUDGE_TRIPWIRE)
        assert isinstance(document, dict) and document["controls"] == 5 * episodes
        assert run_checks(ws.stores) == []
    with StagedIds(ids) as staged:
        purge_episodes(ws.stores, staged, person="Ann")
    assert run_checks(ws.stores) == [] and not list(ws.stores.annotations.find_documents(JUDGE_TRIPWIRE))
