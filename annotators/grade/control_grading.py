"""Grades false texts as captions are graded, but past the checks by code, and keeps what came of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from annotators.base import PaidFailure, Work, new_annotation
from annotators.grade.battery import Control
from annotators.grade.grading import GradedText, GradeOutcome, Grader, grade_texts
from ares.annotation import Annotation, Cost
from ares.episode import Json
from ares.rubric import CONTROL


def grade_controls(
    grader: Grader, battery: Sequence[Control], single: Sequence[Control] = ()
) -> tuple[list[Annotation], Cost]:
    """Put false texts to a judge.

    Args:
        grader: The judge with its rubric.
        battery: Texts of a battery.
        single: Texts beside one.

    Returns:
        An annotation for each episode, with the gradings of its texts, and what all has cost now.
    """
    controls = [*battery, *single]
    graded = grade_texts(grader, [control.text for control in controls]) if controls else []
    rows: dict[str, list[dict[str, Json]]] = {}
    for number, (control, outcome) in enumerate(zip(controls, graded, strict=True)):
        row = _control_row(control, outcome, is_of_battery=number < len(battery))
        rows.setdefault(control.text.work.subject.id, []).append(row)
    works = {control.text.work.subject.id: control.text.work for control in controls}
    now = time.time()
    annotations = [_make_annotation(grader, works[key], gradings, now) for key, gradings in rows.items()]
    return annotations, sum(map(_paid_for, graded), Cost())


def _control_row(control: Control, outcome: GradeOutcome, *, is_of_battery: bool) -> dict[str, Json]:
    """What came of one text, as `ares.rubric.tripwire.read_controls` reads it."""
    row: dict[str, Json] = {"kind": control.kind, "text": control.text.text, "battery": is_of_battery}
    if isinstance(outcome, GradedText):
        return {**row, "grade": outcome.value["grade"], "calls": outcome.judgement.paid.calls}
    error = outcome.error if isinstance(outcome, PaidFailure) else outcome
    return {**row, "grade": "error", "reason": str(error)}


def _make_annotation(
    grader: Grader, work: Work, gradings: Sequence[dict[str, Json]], now: float
) -> Annotation:
    """The controls of a caption: a fact about the judge, kept with the episode."""
    label = grader.judge.settings.get("label", "")
    value: dict[str, Json] = {"gradings": list(gradings), "time": now, **({"label": label} if label else {})}
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
    return outcome.cost if isinstance(outcome, PaidFailure) else Cost()
