"""What a captioner is told of its refused caption: the criteria that failed, without those that stay hidden."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ares.annotation import short_hash
from ares.rubric import GATES
from ares.store import read_rulings
from ares_annotators.prompting import read_prompt

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.rubric import Criterion, Rubric


_HIDDEN_SHARE = 0.33


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
    failed = _failed_rulings(grade)
    failures = [item for item in rubric.criteria if item.id in failed and item.id not in hidden]
    return failures if any(item.category in GATES for item in failures) else []


def _failed_rulings(grade: Annotation) -> dict[str, Any]:
    rulings = read_rulings(grade.value)
    return {str(ruling["criterion"]): ruling for ruling in rulings if ruling["verdict"] == "UNMET"}


def read_critique_form() -> str:
    """The text of a critique, with places for the caption and for what it does not meet."""
    return read_prompt("ares_annotators.revise", "revise")


def build_critique(caption: str, grade: Annotation, criteria: Sequence[Criterion]) -> str:
    """What a captioner is told after the prompt of its caption: what failed, and the seconds of the frames for it.

    Nothing of what the judge saw or replied is in it: a captioner that gets the answer learns to repeat it.

    Args:
        caption: The caption.
        grade: Its grade.
        criteria: What it does not meet.
    """
    rulings = _failed_rulings(grade)
    lines = [f"- {criterion.text}{_describe_seconds(rulings[criterion.id])}" for criterion in criteria]
    return read_critique_form().format(caption=json.dumps(caption), criteria="\n".join(lines))


def _describe_seconds(ruling: Mapping[str, Any]) -> str:
    seconds = ", ".join(f"{second:.2f} s" for second in ruling["evidence"])
    return f" (see {seconds})" if seconds else ""
