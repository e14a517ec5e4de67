"""Whether a caption is of its segment or of a neighbour: its slots against what was seen in each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ares.annotation import Annotation
from ares.rubric import SLOTS, SlotName, SlotValues, Verdict
from ares_annotators.base import Subject, Work, make_annotation_subject
from ares_annotators.grade.observation import Observation, ObservedPart

# By what a text is told from that of a neighbour; how a segment ends is no part of it.
_COMPARED: tuple[SlotName, ...] = tuple(slot for slot in SLOTS if slot != "outcome")
# A text that fits a neighbour by so much more is one of it. The lead counts a slot of the same value as 1 and one of
# another as -1, so a slot that two spans differ in counts 2.
_CLEAR_LEAD = 3
# The lead of a ruling that nothing could turn.
_FULL_LEAD = 4
# Two spans of which the shorter lies so far in the other are no neighbours: they show the same.
_MOST_OVERLAP = 0.5

# Whether two values of a slot mean the same, as far as it is known.
SameValue = Callable[[SlotName, str, str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRuling:
    """What code says of the span of a text.

    Attributes:
        verdict: The verdict.
        reason: Why, in a few words.
        seen: What was seen of the slot that decides, where one does.
        margin: How clear it is, 0 to 1.
    """

    verdict: Verdict
    reason: str
    seen: ObservedPart | None = None
    margin: float = 1.0


def find_neighbours(subject: Subject) -> list[Subject]:
    """The captions right before and right after that of a subject, of the same segmenter and arm; at most two."""
    annotation = subject.annotation
    if annotation is None or annotation.subject_kind != "segment":
        return []
    others = [
        other
        for other in subject.siblings
        if other.annotation_id != annotation.annotation_id and _cut_of(other) == _cut_of(annotation)
        if not _show_the_same(annotation, other)
    ]
    middle = _middle_of(annotation)
    before = [other for other in others if _middle_of(other) < middle]
    after = [other for other in others if _middle_of(other) > middle]
    nearest = [*sorted(before, key=_middle_of)[-1:], *sorted(after, key=_middle_of)[:1]]
    return [make_annotation_subject(subject.episode, caption) for caption in nearest]


def _cut_of(caption: Annotation) -> tuple[object, ...]:
    """What made the segment of a caption: segments of different arms or segmenters overlap."""
    segment = caption.value.get("segment")
    cut = segment if isinstance(segment, dict) else {}
    return caption.maker_id, cut.get("annotator"), cut.get("maker_id"), cut.get("arm")


def _middle_of(caption: Annotation) -> float:
    return (caption.start_seconds + caption.stop_seconds) / 2


def _show_the_same(first: Annotation, second: Annotation) -> bool:
    shared = min(first.stop_seconds, second.stop_seconds) - max(first.start_seconds, second.start_seconds)
    shorter = min(item.stop_seconds - item.start_seconds for item in (first, second))
    return shared > _MOST_OVERLAP * shorter


def list_neighbours(work: Work) -> list[Work]:
    """The works about the segments before and after that of a caption, of the same frames; none on changed frames."""
    if work.frames.is_changed:
        return []
    return [replace(work, subject=neighbour) for neighbour in find_neighbours(work.subject)]


def rule_on_span(
    claimed: SlotValues, observed: Observation, neighbours: Sequence[Observation], is_same: SameValue
) -> FitRuling:
    """Whether a text is of this span, and not of a neighbour that it fits clearly better.

    Where they fit alike, as in a repeated action, what the text says of each slot decides.

    Args:
        claimed: What the text states.
        observed: What was seen in its segment.
        neighbours: What was seen before and after.
        is_same: Whether two values mean the same, as far as it is known.
    """
    fit = _fit_slots(claimed, observed, is_same)
    others = [_fit_slots(claimed, other, is_same) for other in neighbours]
    if not any(others):
        return FitRuling(verdict=Verdict.NA, reason="no neighbour was seen")
    best = max(others, key=_score_of)
    lead = _score_of(fit) - _score_of(best)
    margin = min(1.0, abs(lead) / _FULL_LEAD)
    better = [slot for slot in _COMPARED if best.get(slot) and fit.get(slot) is False]
    # One slot that was seen wrongly would make a repeated action another one.
    if lead <= -_CLEAR_LEAD and better:
        return FitRuling(
            verdict=Verdict.UNMET,
            reason="a neighbouring segment fits the text, and this one does not",
            seen=observed.parts[better[0]],
            margin=margin,
        )
    return FitRuling(
        verdict=Verdict.MET, reason="no neighbouring segment fits the text clearly better", margin=margin
    )


def _fit_slots(claimed: SlotValues, seen: Observation, is_same: SameValue) -> Mapping[SlotName, bool]:
    """Whether each stated slot that was seen has the value that was seen."""
    return {
        slot: is_same(slot, claimed[slot], seen.parts[slot].value)
        for slot in _COMPARED
        if claimed.get(slot) and seen.parts[slot].is_visible
    }


def _score_of(fit: Mapping[SlotName, bool]) -> int:
    return sum(1 if fits else -1 for fits in fit.values())
