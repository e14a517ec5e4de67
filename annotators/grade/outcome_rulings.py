"""Rules on a caption by the outcome that is recorded or stored of its episode."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ares.rubric import (
    COMPLETED,
    NOT_COMPLETED,
    NOT_VISIBLE,
    PEOPLE_SAY_SO,
    SOURCE_SAYS_SO,
    VERBS,
    Criterion,
    Ruling,
    SlotName,
    SlotValues,
    Verdict,
    find_verb_base_form,
    normalize_caption,
    normalize_value,
)
from ares_annotators.base import Work
from ares_annotators.success import StoredOutcome

_OUTCOME_SLOT: SlotName = "outcome"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text that claims to describe an episode, or a segment of it.

    Attributes:
        work: The episode with the frames that the judge selects.
        text: The text.
        slots: What it states.
        outcome: The stored outcome of the episode; None where the judge decides on it.
        is_control: Whether it is a false text, which the judge itself has to refuse: no check by code reads it before.
    """

    work: Work
    text: str
    slots: SlotValues
    outcome: StoredOutcome | None = None
    is_control: bool = False


def rule_by_outcome(criterion: Criterion, text: Text) -> Ruling | None:
    """The ruling on a stated outcome that a recorded or a stored one gives; None where neither says anything of it.

    Both are about the whole episode and its task: they say nothing of a segment, nor of frames that were changed.

    Args:
        criterion: The criterion.
        text: The caption.
    """
    work, claimed = text.work, text.slots.get(_OUTCOME_SLOT, "")
    if criterion.slot != _OUTCOME_SLOT or claimed not in (COMPLETED, NOT_COMPLETED):
        return None
    if not work.subject.is_whole_episode or work.frames.is_changed:
        return None
    recorded = work.episode.success
    if recorded is not None:
        observed = COMPLETED if recorded else NOT_COMPLETED
        reason = PEOPLE_SAY_SO if "success" in work.episode.recorded else SOURCE_SAYS_SO
        return _stored_ruling(criterion, claimed, observed, reason, 1.0)
    if text.outcome is None or not _is_same_action(text, text.outcome.task):
        return None
    return _model_ruling(criterion, claimed, text.outcome)


def _stored_ruling(criterion: Criterion, claimed: str, observed: str, reason: str, margin: float) -> Ruling:
    return Ruling(
        criterion=criterion.id,
        verdict=Verdict.MET if claimed == observed else Verdict.UNMET,
        source="stored",
        slot=_OUTCOME_SLOT,
        claimed=claimed,
        observed=observed,
        reason=reason,
        margin=margin,
    )


def _model_ruling(criterion: Criterion, claimed: str, outcome: StoredOutcome) -> Ruling:
    """The ruling by a success that a model has judged without captions."""
    observed = {"success": COMPLETED, "failure": NOT_COMPLETED}.get(outcome.verdict, NOT_VISIBLE)
    fits = (
        "the stored success fits the caption" if claimed == observed else "the stored success says otherwise"
    )
    is_open, margin = observed == NOT_VISIBLE, max(outcome.probability, round(1.0 - outcome.probability, 4))
    ruling = _stored_ruling(criterion, claimed, observed, fits, margin)
    return replace(
        ruling,
        verdict=Verdict.UNSURE if is_open else ruling.verdict,
        reason="the stored success is unsure" if is_open else fits,
        evidence=outcome.frames,
        judge=outcome.judge,
    )


def _is_same_action(text: Text, task: str) -> bool:
    """Whether a text says a task and no other action: all its words in their order, and between them no verb."""
    claimed, of_task = normalize_caption(text.text), normalize_caption(task)
    if not of_task.phrase:
        return False
    left, needed = list[str](), normalize_value(of_task.phrase).split()
    for word in normalize_value(claimed.phrase).split():
        if needed and word == needed[0]:
            needed = needed[1:]
        else:
            left.append(word)
    return not needed and not any(find_verb_base_form(word) in VERBS for word in left)
