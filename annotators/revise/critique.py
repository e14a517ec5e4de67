"""What a captioner is told of its refused caption: the criteria that failed, without those that stay hidden."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from annotators.prompting import read_prompt
from ares.annotation import short_hash
from ares.rubric import GATES

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.rubric import Criterion, Rubric


_HIDDEN_SHARE = 0.33
_MOST_SECONDS = 8


def choose_hidden_criteria(rubric: Rubric) -> list[str]:
    """A third of the gates that the judge rules on, of which no captioner is told; always the same of a rubric.

    At least one is hidden, and at least one can be told of; of a single gate none is hidden.
    """
    judged = [item.id for item in rubric.criteria if item.category in GATES and (item.slot or item.claim)]
    count = min(max(1, round(_HIDDEN_SHARE * len(judged))), len(judged) - 1)
    # By a hash of their names: whoever orders a rubric by weight has not chosen what is hidden.
    hidden = sorted(judged, key=lambda name: short_hash([0, name]))[:count]
    return [name for name in judged if name in hidden]


def find_failed_criteria(grade: Annotation, rubric: Rubric, hidden: Collection[str]) -> list[Criterion]:
    """The criteria that a grade names as failed; none where no gate is among them.

    Args:
        grade: The grade, with its rulings.
        rubric: Its rubric.
        hidden: Criteria that the captioner must not learn of.
    """
    failed = {ruling["criterion"] for ruling in _failed_rulings(grade)}
    failures = [item for item in rubric.criteria if item.id in failed and item.id not in hidden]
    return failures if any(item.category in GATES for item in failures) else []


def choose_evidence_seconds(grade: Annotation, criteria: Sequence[Criterion]) -> list[float]:
    """Seconds of the frames that show how criteria fail: all, or eight evenly spread over them."""
    names = [criterion.id for criterion in criteria]
    rulings = [ruling for ruling in _failed_rulings(grade) if ruling["criterion"] in names]
    seconds = sorted({second for ruling in rulings for second in ruling["evidence"]})
    if len(seconds) <= _MOST_SECONDS:
        return seconds
    step = (len(seconds) - 1) / (_MOST_SECONDS - 1)
    return [seconds[round(step * position)] for position in range(_MOST_SECONDS)]


def _failed_rulings(grade: Annotation) -> list[dict[str, Any]]:
    rulings: Any = grade.value["rulings"]
    return [ruling for ruling in rulings if ruling["verdict"] == "UNMET"]


def read_critique_form() -> str:
    """The text of a critique, with places for the caption and for what it does not meet."""
    return read_prompt("annotators.revise", "revise")


def build_critique(caption: str, criteria: Sequence[Criterion], evidence: Sequence[float]) -> str:
    """What a captioner is told after the prompt of its caption.

    Nothing of what the judge saw or replied is in it: a captioner that gets the answer learns to repeat it.

    Args:
        caption: The caption.
        criteria: What it does not meet.
        evidence: Seconds of the frames that follow those of the prompt.
    """
    lines = [f"- {criterion.text}" for criterion in criteria]
    if evidence:
        times = ", ".join(f"{second:.2f} s" for second in evidence)
        lines.append(f"The last {len(evidence)} images are the frames that this rests on, at {times}.")
    return read_critique_form().format(caption=json.dumps(caption), criteria="\n".join(lines))
