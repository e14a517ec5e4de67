"""What is stored of the controls of a caption."""

from __future__ import annotations

from collections.abc import Sequence

from annotators.base import PaidFailure
from annotators.grade.controls.plan import Control
from annotators.grade.grading import GradedText, GradeOutcome
from ares.episode import Json


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
        return {"grade": result.value["grade"], "verdicts": verdicts}
    error = result.error if isinstance(result, PaidFailure) else result
    return {"grade": "error", "reason": str(error)}
