"""Grades false texts as captions are graded, but past the checks by code, and keeps what came of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from ares.annotation import Annotation, Cost
from ares.episode import Json
from ares.rubric import CONTROL
from ares_annotators.base import Work, find_outcome_cost, find_outcome_error, new_annotation
from ares_annotators.grade.battery import Control
from ares_annotators.grade.grading import GradedText, GradeOutcome, Grader, grade_texts


def grade_controls(grader: Grader, controls: Sequence[Control]) -> tuple[list[Annotation], Cost]:
    """Put false texts to a judge.

    Args:
        grader: The judge with its rubric.
        controls: The texts.

    Returns:
        An annotation for each episode, with the gradings of its texts, and what all has cost now.
    """
    graded = grade_texts(grader, [control.text for control in controls]) if controls else []
    rows: dict[str, list[dict[str, Json]]] = {}
    for control, outcome in zip(controls, graded, strict=True):
        rows.setdefault(control.text.work.subject.id, []).append(_control_row(control, outcome))
    works = {control.text.work.subject.id: control.text.work for control in controls}
    now = time.time()
    annotations = [_make_annotation(grader, works[key], gradings, now) for key, gradings in rows.items()]
    return annotations, sum(map(_paid_for, graded), Cost())


def _control_row(control: Control, outcome: GradeOutcome) -> dict[str, Json]:
    """What came of one text, as `ares.rubric.tripwire.read_controls` reads it."""
    kind, text, is_of_battery = control
    row: dict[str, Json] = {"kind": kind, "text": text.text, "battery": is_of_battery}
    if isinstance(outcome, GradedText):
        return {**row, "grade": outcome.value["grade"], "calls": outcome.judgement.paid.calls}
    return {**row, "grade": "error", "reason": str(find_outcome_error(outcome))}


def _make_annotation(
    grader: Grader, work: Work, gradings: Sequence[dict[str, Json]], now: float
) -> Annotation:
    """The controls of a caption: a fact about the judge, kept with the episode."""
    value: dict[str, Json] = {"gradings": list(gradings), "time": now}
    # A caption may get several in its life: each has a part of its own.
    return replace(
        new_annotation(work, grader.producer, value),
        name=CONTROL,
        subject=work.episode.episode_id,
        subject_kind="episode",
        part=f"{work.subject.id} {now!r}",
    )


def _paid_for(outcome: GradeOutcome) -> Cost:
    if isinstance(outcome, GradedText):
        return outcome.judgement.paid
    return find_outcome_cost(outcome)
