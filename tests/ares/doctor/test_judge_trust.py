"""Grades that follow from the controls of their judge are right as they are, and repaired where they are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ares.annotation import Annotation, Column, Maker
from ares.doctor import run_checks
from ares.rubric import CONTROL, GRADE_COLUMNS
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ingest.pipeline import ingest_paths

CAPTION = Maker(
    annotator="caption",
    version="1",
    kind="model",
    columns=(Column(name="caption", type="string", meaning="Caption."),),
    fills_segments=True,
)
JUDGE = Maker(
    annotator="grade",
    version="1",
    kind="model",
    columns=GRADE_COLUMNS,
    subject_kind="annotation",
    after=("caption",),
)
GRADE = {"grade": "acceptable", "acceptable": True, "grade_score": 1.0, "grade_verdicts": "VERB=MET"}
CONTROLS = [
    {"kind": kind, "grade": "acceptable", "known_false": kind == "foreign", "gates": "VERB=MET"}
    for kind in ("own", *["foreign"] * 5, "instruction")
]


def graded_caption(episode: str) -> list[Annotation]:
    """A caption, its grade, and the controls of the grade."""

    def make(name: str, maker: Maker, value: Any, subject: str = episode, part: str = "") -> Annotation:
        return Annotation(
            episode_id=episode,
            subject=subject,
            name=name,
            value=value,
            maker_id=maker.maker_id,
            start_seconds=0.0,
            stop_seconds=1e6,
            created="",
            part=part,
        )

    caption = make("caption", CAPTION, {"text": "open the drawer", "caption": "open the drawer"})
    gates = [{"gate": "VERB", "limit": 0.25, "needs_outcome": False}]
    controls = make(
        CONTROL, JUDGE, {"gradings": CONTROLS, "gates": gates}, caption.annotation_id, caption.annotation_id
    )
    return [caption, make("grade", JUDGE, GRADE, caption.annotation_id), controls]


@pytest.fixture
def ws(tmp_path: Path, demo_samples: Path) -> Iterator[Workspace]:
    """A workspace graded by a judge that accepts all false captions, too."""
    with open_workspace(str(tmp_path / "w"), Settings()) as workspace:
        stores = workspace.stores
        ingest_paths(stores, [str(demo_samples / "video")], quiet=True)
        for maker in (CAPTION, JUDGE):
            stores.annotations.add_maker(maker)
        for episode in sorted(stores.tables.episodes.ids()):
            stores.annotations.append(graded_caption(episode))
        stores.sync()
        yield workspace


def shown(ws: Workspace) -> set[tuple[Any, ...]]:
    columns = ["grade", "acceptable", "grade_trust"]
    rows = (
        ws.stores.tables.episodes.read_columns(columns).to_pylist()
        + ws.stores.tables.segments.scan(columns, "grade_maker IS NOT NULL").to_pylist()
    )
    return {tuple(row[name] for name in columns) for row in rows}


def test_grades_of_an_untrusted_judge_are_as_they_should_be(ws: Workspace) -> None:
    assert shown(ws) == {("acceptable", None, "untrusted")}
    assert run_checks(ws.stores) == []
    assert run_checks(ws.stores, repair=True) == []
    assert shown(ws) == {("acceptable", None, "untrusted")}


def test_a_grade_that_does_not_follow_from_the_controls_is_repaired(ws: Workspace) -> None:
    first, second, *_ = sorted(ws.stores.tables.episodes.ids())
    wrong = {"episode_id": [first, second], "acceptable": [True, None], "grade": [None, "unsure"]}
    ws.stores.tables.episodes.set_values(pa.table(wrong))
    for is_repaired in (False, True):
        (finding,) = run_checks(ws.stores, repair=is_repaired)
        assert (finding.check, finding.count, finding.repaired) == (
            "each grade follows from the controls of its judge",
            2,
            is_repaired,
        )
        assert finding.example == f"episode {first}: its judge is untrusted"
    assert run_checks(ws.stores) == [] and shown(ws) == {("acceptable", None, "untrusted")}
