"""What is stored of the controls of a caption."""

from __future__ import annotations

from collections.abc import Sequence

from annotators.base import PaidFailure
from annotators.grade.controls.plan import Control
from annotators.grade.grading import GradedText, GradeOutcome
from ares.episode import Json
from ares.rubric import GATES, MAX_FALSE_FAILS_OF_CODE, VERDICTS_COLUMN, Rubric, grade_values


def control_value(
    own: GradedText, controls: Sequence[Control], graded: Sequence[GradeOutcome], rubric: Rubric, label: str
) -> dict[str, Json]:
    """The gradings of a caption and of its controls, and the gates, as `ares.rubric.judge_controls` reads them.

    Args:
        own: The caption, graded.
        controls: Its controls.
        graded: What each came to.
        rubric: The rubric.
        label: What has to stand beside all numbers of the judge, or "".
    """
    rows: list[Json] = [{"kind": "own", "grade": own.value["grade"], "gates": own.value[VERDICTS_COLUMN]}]
    for control, result in zip(controls, graded, strict=True):
        rows.append(
            {
                "kind": control.kind,
                "text": control.text,
                "known_false": control.known_false,
                "known_outcome": control.work.episode.success is not None,
                **_result(result),
            }
        )
    return {"gradings": rows, "gates": _gates(rubric), **({"label": label} if label else {})}


def _gates(rubric: Rubric) -> list[Json]:
    """The gates of a rubric with the bounds of their false fails: those of code, and those of the judge."""
    gates: list[Json] = []
    for criterion in rubric.criteria:
        if criterion.category not in GATES:
            continue
        if criterion.hard:
            gates.append({"gate": f"{criterion.id}(code)", "limit": MAX_FALSE_FAILS_OF_CODE})
        if criterion.slot or criterion.claim:
            needs_outcome = criterion.slot == "outcome"
            limit = rubric.max_false_fails
            gates.append({"gate": criterion.id, "limit": limit, "needs_outcome": needs_outcome})
    return gates


def _result(result: GradeOutcome) -> dict[str, Json]:
    if isinstance(result, GradedText):
        verdicts: dict[str, Json] = {ruling.criterion: ruling.verdict.value for ruling in result.rulings}
        grades = _grades_by_judge(result)
        return {
            "grade": result.value["grade"],
            "gates": result.value[VERDICTS_COLUMN],
            "verdicts": verdicts,
            **({"grades": grades} if grades else {}),
        }
    error = result.error if isinstance(result, PaidFailure) else result
    return {"grade": "error", "reason": str(error)}


def _grades_by_judge(result: GradedText) -> dict[str, Json]:
    """The grade that each judge of a panel would have given alone; {} where no panel has voted."""
    voted = {ruling.criterion: ruling.votes for ruling in result.rulings if ruling.votes}
    judges = [vote.judge for vote in next(iter(voted.values()), ())]
    stored = result.value["rulings"]
    rulings = [ruling for ruling in stored if isinstance(ruling, dict)] if isinstance(stored, list) else []
    grades: dict[str, Json] = {}
    for number, judge in enumerate(judges):
        own = {name: votes[number].verdict.value for name, votes in voted.items()}
        own_rulings = [
            {**ruling, "verdict": own.get(str(ruling["criterion"]), ruling["verdict"])} for ruling in rulings
        ]
        grades[judge] = grade_values(own_rulings)["grade"]
    return grades
