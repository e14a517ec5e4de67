"""How many calls controls take: they are drawn as a run draws them, and answered as by a judge without errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from annotators.base import Frames, Subject, Work
from annotators.grade.control_plan import Control, ControlPlan
from annotators.grade.judge import Judge
from annotators.grade.outcome_rulings import is_refuted_by_label
from annotators.grade.questions import make_pair
from annotators.grade.rates import CallTotals, ControlCalls
from annotators.grade.settlement import QUESTION_ORDER, without_values
from annotators.grade.slot_values import read_stored_slots
from ares.annotation import short_hash
from ares.episode import Json
from ares.rubric import (
    COMPLETED,
    NOT_COMPLETED,
    Rubric,
    SlotName,
    SlotValues,
    is_same_value,
    parse_known_text,
)
from ares.store import batched

# Of an episode that nobody has told what to do.
_USUAL_CAPTION = "put the green cup on the wooden table"
# What an episode has none of where its caption does not state it; a hand or a colour is left out by the caption alone.
_OFTEN_NONE = frozenset[SlotName](("from", "to", "count"))
# The controls of a wrong caption fail by one choice, that of its error.
_SHARE_OF_CHOICES = 0.9


class _ContestCounts:
    """Calls that set values of controls against what is seen, by kind of control; equal ones are made once."""

    def __init__(self) -> None:
        self._counts, self._counted_calls = Counter[str](), set[tuple[object, ...]]()

    def add(self, span: tuple[str, float, float], control: Control, slots: Sequence[SlotName]) -> None:
        """Count the first call about slots of a control that differ."""
        call = (span, *((slot, control.slots[slot]) for slot in slots))
        self._counts[control.kind] += bool(slots) and call not in self._counted_calls
        self._counted_calls.add(call)

    def expected(self) -> dict[str, float]:
        """The share of them that is made."""
        return {kind: count * _SHARE_OF_CHOICES for kind, count in self._counts.items()}


class TextExpectation(NamedTuple):
    """A caption as it is expected to be seen, and its controls."""

    subject: Subject
    slots: SlotValues
    controls: Sequence[Control]


def draw_expected_controls(
    plan: ControlPlan, subjects: Sequence[Subject], *, slot_by_slot: bool
) -> list[TextExpectation]:
    """The captions with the controls that a run draws for them.

    Args:
        plan: The controls of the run.
        subjects: The captions, or episodes that are captioned before.
        slot_by_slot: Whether the judge reads slots, see `ControlPlan.draw`.
    """
    texts = []
    for subject in subjects:
        slots, text = _expected_caption(subject, plan.verbs)
        work = Work(subject=subject, frames=Frames(subject.episode, []), trajectory=None)
        texts.append(TextExpectation(subject, slots, plan.draw(work, slots, text, slot_by_slot=slot_by_slot)))
    return texts


def expect_control_calls(texts: Sequence[TextExpectation], rubric: Rubric, judge: Judge) -> ControlCalls:
    """The calls of the controls of captions of one dataset, where the judge sees what each caption says.

    A false text is refused by one call, about the first slot that differs or about few that do; equal calls are made
    once. Frames without content are observed once where they are as many at the same seconds, and shuffled ones always.
    Code refuses the caption of a neighbour.

    Args:
        texts: The captions, in the order of the run.
        rubric: The rubric; controls of a caption without an outcome criterion are not refuted by labels.
        judge: The judge.
    """
    controls, choices, unstated = Counter[str](), _ContestCounts(), _ContestCounts()
    blank_frames, scrambled = set[str](), set[tuple[str, float, float]]()
    # Nothing is asked about their captions, so their controls pay for what is seen.
    refuted: dict[tuple[str, float, float], int] = {}
    for subject, slots, drawn in texts:
        span = (subject.episode.episode_id, subject.start_seconds, subject.stop_seconds)
        for control in drawn:
            controls[control.kind] += 1
            if control.kind == "blank":
                blank_frames.add(blank_frames_key(subject, judge))
            if control.kind == "scrambled":
                scrambled.add(span)
            differing = _differing_slots(control, subject, slots, rubric)
            choices.add(span, control, differing)
            # What a judge that calls all values the same is left to choose among.
            uncompared = [
                slot for slot in differing if slot == "outcome" or slot in _OFTEN_NONE - slots.keys()
            ]
            unstated.add(span, control, uncompared)
            if control.kind == "near_miss" and span not in refuted and is_refuted_by_label(subject, rubric):
                refuted[span] = judge.count_open_observations(subject)
    return ControlCalls(
        controls=controls,
        choices=choices.expected(),
        unstated=unstated.expected(),
        observations={"scrambled": len(scrambled), "near_miss": sum(refuted.values())},
        blank_frames=blank_frames,
        comparisons=_count_comparisons(texts, rubric, judge),
    )


def blank_frames_key(subject: Subject, judge: Judge) -> str:
    """The same for captions whose frames without content are the same: as many at the same seconds."""
    return short_hash([list[Json](seconds) for seconds in judge.select_frames(subject).values()])


def _count_comparisons(texts: Sequence[TextExpectation], rubric: Rubric, judge: Judge) -> float:
    """Calls that compare values, in batches as the judge takes them."""
    if not texts:
        return 0.0
    batches = [
        [
            [(make_pair(slot, *rest), rest[0]) for slot, rest in _compared_values(control, item, rubric)]
            for item in batch
            for control in item.controls
        ]
        for batch in batched(texts, judge.batch_size)
    ]
    subject = texts[0].subject
    open_texts = [text for text in texts if not is_refuted_by_label(text.subject, rubric)]
    of_captions = judge.expect_calls(subject).get("comparison", CallTotals()).calls * len(open_texts)
    return of_captions + judge.count_comparisons(batches, subject.episode.dataset)


def _compared_values(
    control: Control, text: TextExpectation, rubric: Rubric
) -> list[tuple[SlotName, tuple[str, str]]]:
    """The values of a control that differ from what is seen, each with that."""
    values: list[tuple[SlotName, tuple[str, str]]] = []
    for slot in _differing_slots(control, text.subject, text.slots, rubric):
        claimed, seen = control.slots[slot], text.slots.get(slot, "")
        if slot == "attributes":
            claimed, seen = without_values(claimed, seen), without_values(seen, claimed)
        if slot != "outcome" and claimed and seen:
            values.append((slot, (claimed, seen)))
    return values


def _differing_slots(control: Control, subject: Subject, seen: SlotValues, rubric: Rubric) -> list[SlotName]:
    """Slots of a control that the judge is asked about; none where the frames, code or a label decide."""
    has_outcome = any(criterion.slot == "outcome" for criterion in rubric.criteria)
    if control.kind in ("blank", "scrambled", "neighbour"):
        return []
    recorded = subject.episode.success if has_outcome and subject.is_whole_episode else None
    if recorded is None:
        return _different_slots(control.slots, seen)
    outcome = COMPLETED if recorded else NOT_COMPLETED
    if not control.hides_label and control.slots.get("outcome", outcome) != outcome:
        return []
    # What the caption says of the outcome is not what is seen.
    return _different_slots(control.slots, {**seen, "outcome": outcome})


def _expected_caption(subject: Subject, verbs: Mapping[str, str]) -> tuple[SlotValues, str]:
    """What a caption states, and its sentence; of one that is yet to be made what the episode was told to do."""
    caption = subject.annotation
    text = str(caption.value["text"]) if caption else next(iter(subject.episode.instructions), _USUAL_CAPTION)
    stored = read_stored_slots(caption) if caption else None
    return (stored.slots if stored else parse_known_text(text, verbs).slots), text


def _different_slots(claimed: SlotValues, seen: SlotValues) -> list[SlotName]:
    """Slots of a control in which it differs from what is seen; the outcome comes last, as it is asked about last."""
    return [
        slot
        for slot in QUESTION_ORDER
        if slot in claimed and not is_same_value(slot, claimed[slot], seen.get(slot, ""))
    ]
