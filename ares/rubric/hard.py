"""Hard checks: what code can rule on a caption without a model; they fail only what is surely wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ares.rubric import words
from ares.rubric.slots import Slots
from ares.rubric.verdict import Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Signal, Trajectory

_LONGEST_WORDS = 30
# A signal that moves less than this share of its own size, or this much in its own unit, has not moved.
_STILL = 1e-3


class Found(NamedTuple):
    """What a check found; `verdict` is None where the check does not apply."""

    verdict: Verdict | None
    reason: str = ""
    observed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What the checks look at."""

    text: str
    slots: Slots
    trajectory: Trajectory | None


INAPPLICABLE = Found(None)

_PITFALLS: tuple[tuple[str, str], ...] = (
    ("markup or a delimiter", r"[<>{}\[\]`|\\]|\"\"\"|'''|&[a-z#0-9]+;|https?:|^\s*#|\*\*|---|:\s*[\"']"),
    (
        "control or invisible character",
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]",
    ),
    (
        "text addressed to the judge",
        r"\b(judges?|graders?|rubrics?|criteri(?:on|a)|verdicts?|evaluat\w+|instructions?|prompts?|ignore|disregard|"
        r"assistant|(?:un)?acceptable|approved?|json|you|your|must be|(?:this|the|above|following) caption|captions?)\b"
        r"|\b(?-i:MET|UNMET|NA|UNSURE)\b",
    ),
    (
        "hedged alternative",
        r"\b(or|maybe|perhaps|possibly|probably|likely|might|may|could|either|appears?|seems?|seemingly|apparently|"
        r"unclear|unsure|something|some kind)\b",
    ),
    (
        "talk about the frames",
        r"\b(?:in|of|across|throughout) (?:the|this|these|all|each) (?:\w+ )?"
        r"(?:images?|frames?|videos?|tiles?|photos?|clips?)\b"
        r"|\b(?:images?|frames?|videos?|cameras?|tiles?|photos?) (?:shows?|depicts?)\b"
        r"|\b(?:depict(?:s|ed)|(?:as|is) shown)\b",
    ),
    ("invisible intent", r"\b(in order to|so that|wants?|intend\w*|because|hop(?:es|ing))\b"),
    ("no words", r"^[\W_]*$"),
)


def pitfalls(subject: Subject) -> Found:
    """No markup, no hedging, no frame talk, nothing said to the judge."""
    for reason, pattern in _PITFALLS:
        hit = re.search(pattern, subject.text, re.IGNORECASE)
        if hit:
            return Found(Verdict.UNMET, reason, repr(hit.group(0)))
    return Found(Verdict.MET)


def form(subject: Subject) -> Found:
    """One imperative sentence of at most 30 words."""
    text = subject.text.strip()
    first = text.split(maxsplit=1)[0].lower() if text else ""
    if re.search(r"[.!?;\n]\s*\S", text):
        return Found(Verdict.UNMET, "more than one sentence", text[:80])
    if len(text.split()) > _LONGEST_WORDS:
        return Found(Verdict.UNMET, "too long", f"{len(text.split())} words")
    if (
        first in words.DETERMINERS
        or first in {"robot", "arm", "gripper", "it", "there"}
        or first.endswith("ing")
    ):
        return Found(Verdict.UNMET, "not imperative", first)
    return Found(Verdict.MET)


def no_action(subject: Subject) -> Found:
    """A caption without any word names no action."""
    return INAPPLICABLE if subject.slots.events else Found(Verdict.UNMET, "no action is named")


def grasp_without_close(subject: Subject) -> Found:
    """Something was held, but the gripper never moved."""
    signals = [signal for signal in _signals(subject.trajectory) if signal.shape[0] > 1]
    grasps = words.GRASP_VERBS.intersection(subject.slots.verbs)
    if not grasps or subject.slots.outcome != "success" or not signals:
        return INAPPLICABLE
    if all(_still(signal) for signal in signals):
        return Found(Verdict.UNMET, "gripper never moves", f"claimed: {', '.join(sorted(grasps))}")
    return INAPPLICABLE


def still_arm(subject: Subject) -> Found:
    """Something was done, but nothing of the robot moved."""
    trajectory = subject.trajectory
    if trajectory is None or trajectory.state is None or len(trajectory.timestamps) < 2:
        return INAPPLICABLE
    if subject.slots.outcome == "success" and _still(trajectory.state.values):
        return Found(Verdict.UNMET, "robot never moves", f"over {len(trajectory.timestamps)} steps")
    return INAPPLICABLE


def _signals(trajectory: Trajectory | None) -> list[NDArray[np.float32]]:
    """Columns of state and action whose name says gripper; (T,) each."""
    if trajectory is None:
        return []
    return [column for signal in (trajectory.state, trajectory.action) for column in _grippers(signal)]


def _grippers(signal: Signal | None) -> list[NDArray[np.float32]]:
    if signal is None:
        return []
    return [signal.values[:, index] for index, name in enumerate(signal.names) if "grip" in name.lower()]


def _still(values: NDArray[np.float32]) -> bool:
    import numpy as np

    if not np.isfinite(values).all():
        return False
    spread = np.ptp(values, axis=0)
    return bool(np.all(spread <= _STILL * np.maximum(1.0, np.abs(values).max(axis=0))))


CHECKS: Mapping[str, Callable[[Subject], Found]] = {
    "form": form,
    "pitfalls": pitfalls,
    "no_action": no_action,
    "grasp_without_close": grasp_without_close,
    "still_arm": still_arm,
}
