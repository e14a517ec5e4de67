"""Judges of revised captions: grades are read from the log where they are there, else made and stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from annotators.base import Annotator, Outcome, Result, Work, outcome_cost
from annotators.parallel import map_batches
from annotators.revise.anchors import ANCHOR_GRADE, anchor_maker, as_anchor
from ares.annotation import Annotation, Cost, Maker

if TYPE_CHECKING:
    from ares.store import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionJudge:
    """A judge of captions before and after.

    Attributes:
        annotator: The annotator `grade` with its judge.
        is_anchor: Whether it is the second judge, of which no captioner is told.
    """

    annotator: Annotator
    is_anchor: bool = False

    @property
    def maker(self) -> Maker:
        """Maker of its grades."""
        return anchor_maker(self.annotator.maker) if self.is_anchor else self.annotator.maker

    @property
    def name(self) -> str:
        """Name of its grades in the log."""
        return ANCHOR_GRADE if self.is_anchor else self.annotator.maker.annotator

    def stored(self, outcome: Result) -> list[Annotation]:
        """The annotations of a grading as they are stored."""
        new = outcome.annotations
        return [as_anchor(item, self.annotator.maker) for item in new] if self.is_anchor else list(new)


@dataclass(slots=True)
class Spent:
    """What a run has paid, and why work failed.

    Attributes:
        cost: What was paid.
        failures: Number of failures by reason.
    """

    cost: Cost = field(default_factory=Cost)
    failures: dict[str, int] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        self.cost = self.cost + outcome_cost(outcome)
        if not isinstance(outcome, Result):
            error = getattr(outcome, "error", outcome)
            reason = str(getattr(error, "reason", error))
            self.failures[reason] = self.failures.get(reason, 0) + 1


def grade_captions(
    stores: Stores,
    judge: RevisionJudge,
    captions: Sequence[Annotation],
    known: Mapping[str, Annotation],
    work_of: Callable[[Annotation], Work],
    spent: Spent,
) -> dict[str, Annotation]:
    """The grades of captions by annotation_id of the caption; one that could not be graded is left out.

    Args:
        stores: Stores of the workspace; new grades are appended to its log.
        judge: The judge.
        captions: The captions, which need not be stored.
        known: Its grades so far, by annotation_id of the caption.
        work_of: The work about a caption, with frames and signals.
        spent: Gets what was paid.
    """
    missing = [caption for caption in captions if caption.annotation_id not in known]
    works = [work_of(caption) for caption in missing]
    annotator = judge.annotator
    outcomes = map_batches(annotator.process, works, annotator.batch_size, annotator.workers)
    grades = {
        caption.annotation_id: known[caption.annotation_id] for caption in captions if caption not in missing
    }
    for outcome in outcomes:
        spent.add(outcome)
        if isinstance(outcome, Result):
            stored = judge.stored(outcome)
            stores.annotations.append(stored)
            grades |= {item.subject: item for item in stored if item.name == judge.name}
    return grades
