"""How many calls controls take: they are drawn as a run draws them, and answered as by a judge without errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from annotators.base import Frames, Subject, Work
from annotators.grade.control_plan import Control, ControlPlan
from annotators.grade.rates import ControlCalls
from annotators.grade.settlement import QUESTION_ORDER
from annotators.grade.slot_values import read_stored_slots
from ares.rubric import (
    COMPLETED,
    NOT_COMPLETED,
    Rubric,
    SlotName,
    SlotValues,
    is_same_value,
    parse_known_text,
)

# Pairs of values of one call, as they were counted; the rest of a call's room stays empty.
_PAIRS_IN_A_CALL = 9.0
# Of an episode that nobody has told what to do.
_USUAL_CAPTION = "put the green cup on the wooden table"
# The controls of a wrong caption fail by one choice, that of its own error.
_SHARE_OF_CHOICES = 0.9


@dataclass(frozen=True, slots=True)
class _Contest:
    """A choice among values that a control asks for."""

    segment: tuple[str, float, float]
    slot: SlotName
    claimed: str


def expect_control_calls(
    plan: ControlPlan, subjects: Sequence[Subject], rubric: Rubric, *, slot_by_slot: bool
) -> ControlCalls:
    """The calls of the controls of captions, where the judge sees what each caption says.

    A false text is refused by one choice, in the first slot that differs; equal choices are asked once. Grey frames are
    the same for all captions, and shuffled ones are observed. Code refuses the caption of a neighbour.

    Args:
        plan: The controls of the run.
        subjects: The captions, or episodes that are captioned before.
        rubric: The rubric; controls of a caption without an outcome criterion are not refuted by labels.
        slot_by_slot: Whether the judge reads slots, see `ControlPlan.draw`.
    """
    has_outcome = any(criterion.slot == "outcome" for criterion in rubric.criteria)
    controls = 0
    shuffled: set[tuple[str, float, float]] = set()
    contests: set[_Contest] = set()
    pairs: set[tuple[SlotName, str, str]] = set()
    for subject in subjects:
        own, text = _expected_caption(subject, plan.verbs)
        span = (subject.episode.episode_id, subject.start_seconds, subject.stop_seconds)
        work = Work(subject=subject, frames=Frames(subject.episode, []), trajectory=None)
        for control in plan.draw(work, own, text, slot_by_slot=slot_by_slot):
            controls += 1
            shuffled |= {span} if control.kind == "scrambled" else set()
            if control.kind in ("blank", "scrambled", "neighbour") or (
                has_outcome and _is_refuted(control, subject)
            ):
                continue
            different = _different_slots(control.slots, own)
            contests |= {_Contest(span, slot, control.slots[slot]) for slot in different[:1]}
            pairs |= {
                (slot, control.slots[slot], own.get(slot, "")) for slot in different if slot != "outcome"
            }
    return ControlCalls(
        controls=controls,
        observations=len(shuffled),
        choices=len(contests) * _SHARE_OF_CHOICES,
        comparisons=len(pairs) / _PAIRS_IN_A_CALL,
    )


def _expected_caption(subject: Subject, verbs: Mapping[str, str]) -> tuple[SlotValues, str]:
    """What a caption states, and its sentence; of one that is yet to be made what the episode was told to do."""
    caption = subject.annotation
    text = str(caption.value["text"]) if caption else next(iter(subject.episode.instructions), _USUAL_CAPTION)
    stored = read_stored_slots(caption) if caption else None
    return (stored.slots if stored else parse_known_text(text, verbs).slots), text


def _is_refuted(control: Control, subject: Subject) -> bool:
    """Whether the recorded outcome says otherwise than a control, so that nothing is asked about it."""
    recorded, claimed = subject.episode.success, control.slots.get("outcome")
    if recorded is None or control.hides_label or not subject.is_whole_episode:
        return False
    return claimed == (NOT_COMPLETED if recorded else COMPLETED)


def _different_slots(claimed: SlotValues, seen: SlotValues) -> list[SlotName]:
    """Slots of a control in which it differs from what is seen; the outcome comes last, as it is asked about last."""
    return [
        slot
        for slot in QUESTION_ORDER
        if slot in claimed and not is_same_value(slot, claimed[slot], seen.get(slot, ""))
    ]
