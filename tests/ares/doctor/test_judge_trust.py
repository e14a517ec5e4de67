"""Grades follow from the controls of their judge; where they do not, a rebuild makes them from the log again."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ares.curation import purge_episodes
from ares.doctor import run_checks
from ares.episode import Json
from ares.rubric import JUDGE_TRUST, GradeProjection
from ares.store import ProducerCatalog, StagedIds
from ares.workspace import Workspace
from tests.ares.grade_producers import CAPTIONER, JUDGE, graded_caption


@pytest.fixture
def ws(video_ws: Workspace) -> Workspace:
    """A workspace graded by a judge that accepts all false captions, too."""
    stores = video_ws.stores
    for producer in (CAPTIONER, JUDGE):
        stores.annotations.add_producer(producer)
    for episode in sorted(stores.tables.episodes.ids()):
        stores.annotations.append(graded_caption(episode))
    stores.sync()
    return video_ws


def shown(ws: Workspace) -> set[tuple[Any, ...]]:
    columns = ["grade", "acceptable", "grade_trust"]
    rows = (
        ws.stores.tables.episodes.read_columns(columns).to_pylist()
        + ws.stores.tables.segments.scan(columns, "grade_maker IS NOT NULL").to_pylist()
    )
    return {tuple(row[name] for name in columns) for row in rows}


def test_what_controls_say_is_counted_from_them(ws: Workspace) -> None:
    """A document that says otherwise makes the grades of an untrusted judge decisions."""
    ((key, document),) = ws.stores.annotations.find_documents(JUDGE_TRUST)
    assert isinstance(document, dict)
    wrong: dict[str, Json] = {key: {**document, "content": "trusted"}, "gone/set": document}
    ws.stores.annotations.put_documents(JUDGE_TRUST, wrong)
    GradeProjection().refresh(
        ws.stores.tables, ws.stores.annotations, ProducerCatalog(ws.stores.annotations.producers())
    )
    assert shown(ws) == {("acceptable", True, "trusted")}
    (finding,) = run_checks(ws.stores, repair=True)
    assert (finding.check, finding.count, finding.remedy) == (
        "what is kept of judges follows from their controls",
        2,
        "ares doctor --rebuild",
    )
    assert finding.example in (key, "gone/set")
    assert run_checks(ws.stores, rebuild=True) == [] and shown(ws) == {("acceptable", None, "untrusted")}


@pytest.mark.slow
def test_controls_of_removed_episodes_are_counted_no_more_at_once(ws: Workspace) -> None:
    ids = sorted(ws.stores.tables.episodes.ids())
    assert shown(ws) == {("acceptable", None, "untrusted")} and run_checks(ws.stores) == []
    for act, episodes in ((lambda: ws.remove(ids=ids[1:]), 1), (ws.undo, len(ids))):
        act()
        ws.sync()
        ((_, document),) = ws.stores.annotations.find_documents(JUDGE_TRUST)
        assert isinstance(document, dict) and document["kinds"]["foreign"]["total"] == 5 * episodes
        assert run_checks(ws.stores) == []


def test_a_grade_that_does_not_follow_from_the_controls_is_found_and_rebuilt(ws: Workspace) -> None:
    first, second, *_ = sorted(ws.stores.tables.episodes.ids())
    wrong = {"episode_id": [first, second], "acceptable": [True, None], "grade": [None, "unsure"]}
    ws.stores.tables.episodes.set_values(pa.table(wrong))
    (finding,) = run_checks(ws.stores, repair=True)
    assert (finding.check, finding.count, finding.remedy) == (
        "each grade follows from the controls of its judge",
        2,
        "ares doctor --rebuild",
    )
    # The first in the order of rows, which is that in which they were read.
    assert finding.example in [f"episode {id}: its judge is untrusted" for id in (first, second)]
    assert run_checks(ws.stores, rebuild=True) == [] and shown(ws) == {("acceptable", None, "untrusted")}


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0, 5])
def test_a_purge_leaves_no_controls_of_what_is_gone(ws: Workspace, kept: int) -> None:
    """What is kept of a judge follows from the episodes that are left, without a repair."""
    ids = sorted(ws.stores.tables.episodes.ids())
    with StagedIds(ids[kept:]) as staged:
        purge_episodes(ws.stores, staged, person="Ann")
    assert run_checks(ws.stores) == []
    trust = dict(ws.stores.annotations.find_documents(JUDGE_TRUST))
    assert len(trust) == (1 if kept else 0)
    assert not [key for key in trust if any(gone in str(trust[key]) for gone in ids[kept:])]
