"""A trial of another maker changes nothing that is curated, until it covers what is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ares.annotation import Annotation, Maker
from ares.episode import Record
from ares.store import pin_makers, read_pins
from ares.store.lance_tables import Tables
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.store.sync.apply import apply_log
from tests.ares.grade_makers import CAPTIONER, JUDGE

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


def test_148_accepted_captions_stay_accepted_after_a_stopped_trial_of_another_rubric(
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

    def grade(members: Sequence[Annotation], judge: Maker, decision: bool) -> None:
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

    for maker in (CAPTIONER, JUDGE, TRIAL):
        sqlite.add_maker(maker)
    sqlite.append(captions)
    grade(captions, JUDGE, True)
    assert tables.episodes.count("acceptable_unproven") == ACCEPTED
    grade(captions[:10], TRIAL, False)
    assert tables.episodes.count("acceptable_unproven") == ACCEPTED, "the trial has 10 of them"
    assert tables.episodes.count("grade_stale") == 0
    pin_makers(sqlite, {"grade": TRIAL.maker_id})
    apply_log(tables, sqlite)
    assert tables.episodes.count("acceptable_unproven = false") == 10, "asked for by name"
    pin_makers(sqlite, {"grade": "newest"})
    apply_log(tables, sqlite)
    assert (read_pins(sqlite), tables.episodes.count("acceptable_unproven")) == ({}, ACCEPTED)
    grade(captions[10:], TRIAL, False)
    assert tables.episodes.count("acceptable_unproven = false") == ACCEPTED, "now it covers them all"
