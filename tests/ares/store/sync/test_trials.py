"""A trial of another producer is shown for the episodes that it has, for no others; a pin shows one producer alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ares.annotation import Annotation
from ares.episode import Record
from ares.store.lance_tables import Tables
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.store.sync import apply as progress
from ares.store.sync.apply import apply_log
from tests.ares.grade_producers import CAPTIONER, JUDGE

MakeAnnotation = Callable[..., Annotation]
TRIAL = replace(JUDGE, prompt_hash="another rubric")
ACCEPTED = 148


def _grade_value(decision: bool) -> dict[str, Any]:
    return {
        "grade": "acceptable" if decision else "not_acceptable",
        "acceptable": decision,
        "acceptable_unproven": decision,
        "grade_score": 1.0,
        "grade_verdicts": "VERB=MET" if decision else "VERB=UNMET",
    }


def test_what_an_earlier_version_chose_is_chosen_again_by_the_rule_of_today(
    tables: Tables,
    sqlite: SqliteAnnotationStore,
    make_record: Callable[..., Record],
    make_annotation: MakeAnnotation,
) -> None:
    """Tables that show an older judge, as its successor had not graded all that it had, and say what is stale."""
    tables.episodes.add([make_record(0)])
    episode_id = make_record(0).episode.episode_id
    for producer in (CAPTIONER, JUDGE, TRIAL):
        sqlite.add_producer(producer)
    text = {"caption": "lift", "text": "lift"}
    caption = make_annotation(episode_id, maker_id=CAPTIONER.maker_id, value=text)
    graded = {"name": "grade", "subject": caption.annotation_id}
    grades = [
        make_annotation(episode_id, maker_id=judge.maker_id, value=_grade_value(judge is JUDGE), **graded)
        for judge in (JUDGE, TRIAL)
    ]
    sqlite.append([caption, *grades])
    apply_log(tables, sqlite)
    old = {"episode_id": [episode_id], "acceptable_unproven": [True], "grade_maker": [JUDGE.maker_id]}
    tables.episodes.set_values(pa.table({**old, "grade_stale": [False]}))
    progress._StateTable(tables).save(
        {f"covering/grade/{JUDGE.maker_id}": 1, "mixed/grade": 1, "views2": 3, "views3": 0}
    )
    apply_log(tables, sqlite)
    assert tables.episodes.count(f"acceptable_unproven = false AND grade_maker = '{TRIAL.maker_id}'") == 1
    assert "grade_stale" not in tables.episodes.columns()
    assert not [key for key in tables.applied_numbers() if key.startswith(("covering/", "mixed/"))]
