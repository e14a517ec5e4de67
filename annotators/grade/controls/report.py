"""What is stored of the controls of a caption."""

from __future__ import annotations

from collections.abc import Sequence

from annotators.base import PaidFailure
from annotators.grade.controls.plan import Control
from annotators.grade.grading import GradedText, GradeOutcome
from ares.episode import Json
from ares.rubric import grade_values


def control_value(
    own: GradedText, controls: Sequence[Control], graded: Sequence[GradeOutcome]
) -> dict[str, Json]:
    """The gradings of a caption and of its controls, as `ares.rubric.count_controls` reads them."""
    rows: list[Json] = [{"kind": "own", "grade": own.value["grade"]}]
    for control, result in zip(controls, graded, strict=True):
        rows.append(
            {
                "kind": control.kind,
                "text": control.text,
                "known_false": control.known_false,
                **_result(result),
            }
        )
    return {"gradings": rows}


def _result(result: GradeOutcome) -> dict[str, Json]:
    if isinstance(result, GradedText):
        verdicts: dict[str, Json] = {ruling.criterion: ruling.verdict.value for ruling in result.rulings}
        grades = _grades_by_judge(result)
        return {
            "grade": result.value["grade"],
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
