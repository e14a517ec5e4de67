"""A trial of another producer is shown for the episodes that it has, for no others; a pin shows one producer alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ares.annotation import Annotation, Producer
from ares.episode import Record
from ares.store import pin_producers, read_pins
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


def test_a_stopped_trial_of_another_rubric_changes_the_episodes_that_it_has_and_no_others(
    tables: Tables,
    sqlite: SqliteAnnotationStore,
    make_record: Callable[..., Record],
    make_annotation: MakeAnnotation,
) -> None:
    records = [make_record(number) for number in range(ACCEPTED)]
    tables.episodes.add(records)
    text = {"caption": "lift", "text": "lift"}
    captions = [
        make_annotation(record.episode.episode_id, maker_id=CAPTIONER.maker_id, value=text)
        for record in records
    ]

    def grade(members: Sequence[Annotation], judge: Producer, decision: bool) -> None:
        value, maker_id = _grade_value(decision), judge.maker_id
        sqlite.append(
            [
                make_annotation(
                    item.episode_id, name="grade", maker_id=maker_id, subject=item.annotation_id, value=value
                )
                for item in members
            ]
        )
        apply_log(tables, sqlite)

    for producer in (CAPTIONER, JUDGE, TRIAL):
        sqlite.add_producer(producer)
    sqlite.append(captions)
    grade(captions, JUDGE, True)
    assert tables.episodes.count("acceptable_unproven") == ACCEPTED
    grade(captions[:10], TRIAL, False)
    assert tables.episodes.count("acceptable_unproven") == ACCEPTED - 10, "the others are as they were"
    assert tables.episodes.count("acceptable_unproven = false") == 10
    pin_producers(sqlite, {"grade": JUDGE.maker_id})
    apply_log(tables, sqlite)
    assert tables.episodes.count("acceptable_unproven") == ACCEPTED, "the trial is not shown"
    pin_producers(sqlite, {"grade": TRIAL.maker_id})
    apply_log(tables, sqlite)
    assert tables.episodes.count("acceptable_unproven = false") == 10, "asked for by name"
    assert tables.episodes.count("acceptable_unproven IS NULL") == ACCEPTED - 10
    pin_producers(sqlite, {"grade": "newest"})
    apply_log(tables, sqlite)
    assert (read_pins(sqlite), tables.episodes.count("acceptable_unproven")) == ({}, ACCEPTED - 10)


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
