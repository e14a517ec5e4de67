"""What a captioner is told of a caption that was refused: the criteria that failed, and the frames that show it."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.prompts import read_prompt
from ares.rubric import GATES

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.rubric import Rubric

_PACKAGE = "annotators.revise"
_MOST_SECONDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCriterion:
    """A criterion that a caption does not meet.

    Attributes:
        id: Its id.
        text: Its condition, as the rubric words it.
        seconds: Seconds of the frames that the ruling rests on.
        is_gate: Whether it alone makes the caption not acceptable.
    """

    id: str
    text: str
    seconds: tuple[float, ...]
    is_gate: bool


def failed_criteria(
    grade: Annotation, rubric: Rubric, hidden: Collection[str]
) -> tuple[FailedCriterion, ...]:
    """The criteria that a grade names as failed; none where no gate is among them.

    Nothing of what the judge saw or replied is in them: a captioner that gets the answer learns to repeat it.

    Args:
        grade: The grade, with its rulings.
        rubric: Its rubric.
        hidden: Criteria that the captioner must not learn of.
    """
    rulings = grade.value["rulings"]
    assert isinstance(rulings, list)
    failed = {
        str(item["criterion"]): item
        for item in rulings
        if isinstance(item, dict) and item["verdict"] == "UNMET"
    }
    criteria = tuple(
        FailedCriterion(
            id=criterion.id,
            text=criterion.text,
            seconds=tuple(failed[criterion.id]["evidence"]),
            is_gate=criterion.category in GATES,
        )
        for criterion in rubric.criteria
        if criterion.id in failed and criterion.id not in hidden
    )
    return criteria if any(criterion.is_gate for criterion in criteria) else ()


def evidence_seconds(criteria: Sequence[FailedCriterion]) -> list[float]:
    """Seconds of the frames that show the failures: all, or eight evenly spread over them."""
    seconds = sorted({second for criterion in criteria for second in criterion.seconds})
    if len(seconds) <= _MOST_SECONDS:
        return seconds
    step = (len(seconds) - 1) / (_MOST_SECONDS - 1)
    return [seconds[round(step * position)] for position in range(_MOST_SECONDS)]


def revision_prompt(
    prompt: str, caption: str, criteria: Sequence[FailedCriterion], evidence: Sequence[float]
) -> str:
    """What a captioner is asked.

    Args:
        prompt: What it was asked for the caption.
        caption: The caption.
        criteria: What it does not meet; without any the captioner is asked again, and told nothing.
        evidence: Seconds of the frames that follow those of `prompt`.
    """
    failures = ""
    if criteria:
        lines = "\n".join(_line(criterion, evidence) for criterion in criteria)
        failures = (
            read_prompt(_PACKAGE, "failures").format(criteria=lines, evidence=_legend(evidence)).rstrip()
        )
    text = read_prompt(_PACKAGE, "revise").format(caption=json.dumps(caption), failures=failures)
    return prompt + text


def _line(criterion: FailedCriterion, evidence: Sequence[float]) -> str:
    shown = [f"{second:.2f} s" for second in criterion.seconds if second in evidence]
    return f"- {criterion.text}" + (f" (see {', '.join(shown)})" if shown else "")


def _legend(evidence: Sequence[float]) -> str:
    if not evidence:
        return ""
    times = ", ".join(f"{second:.2f} s" for second in evidence)
    return f"The last {len(evidence)} images are the frames that this rests on, at {times}."
