"""What a captioner is told of its refused caption: the criteria that failed, without those that stay hidden."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.prompting import read_prompt
from ares.annotation import short_hash
from ares.rubric import GATES

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.rubric import Rubric


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCriterion:
    """A criterion that a caption does not meet.

    Attributes:
        id: Its id.
        text: Its condition, as the rubric words it.
        seconds: Seconds of the frames that the ruling rests on.
    """

    id: str
    text: str
    seconds: tuple[float, ...]


def find_failed_criteria(grade: Annotation, rubric: Rubric, hidden: Collection[str]) -> list[FailedCriterion]:
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
    failures = [item for item in rubric.criteria if item.id in failed and item.id not in hidden]
    if not any(item.category in GATES for item in failures):
        return []
    return [
        FailedCriterion(id=item.id, text=item.text, seconds=tuple(failed[item.id]["evidence"]))
        for item in failures
    ]


def choose_evidence_seconds(criteria: Sequence[FailedCriterion]) -> list[float]:
    """Seconds of the frames that show the failures: all, or eight evenly spread over them."""
    seconds = sorted({second for criterion in criteria for second in criterion.seconds})
    if len(seconds) <= _MOST_SECONDS:
        return seconds
    step = (len(seconds) - 1) / (_MOST_SECONDS - 1)
    return [seconds[round(step * position)] for position in range(_MOST_SECONDS)]


def read_critique_form() -> str:
    """The text of a critique, with places for the caption and for what it does not meet."""
    return read_prompt("annotators.revise", "revise")


def build_critique(caption: str, criteria: Sequence[FailedCriterion], evidence: Sequence[float]) -> str:
    """What a captioner is told after the prompt of its caption.

    Args:
        caption: The caption.
        criteria: What it does not meet.
        evidence: Seconds of the frames that follow those of the prompt.
    """
    lines = [_criterion_line(criterion, evidence) for criterion in criteria]
    if evidence:
        times = ", ".join(f"{second:.2f} s" for second in evidence)
        lines.append(f"The last {len(evidence)} images are the frames that this rests on, at {times}.")
    return read_critique_form().format(caption=json.dumps(caption), criteria="\n".join(lines))


def _criterion_line(criterion: FailedCriterion, evidence: Sequence[float]) -> str:
    shown = [f"{second:.2f} s" for second in criterion.seconds if second in evidence]
    return f"- {criterion.text}" + (f" (see {', '.join(shown)})" if shown else "")
