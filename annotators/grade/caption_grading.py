"""Grades captions as they are stored: what each of them states, and the annotation that its grade becomes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Producer
from ares.episode import Json
from ares.rubric import GRADE_TIME_COLUMN
from ares_annotators.base import Outcome, PaidFailure, Result, Work, find_outcome_cost, new_annotation
from ares_annotators.grade.battery import SeenCaption, see_caption
from ares_annotators.grade.grading import GradedText, GradeOutcome, Grader, grade_texts
from ares_annotators.grade.outcome_rulings import Text
from ares_annotators.grade.slot_values import ReadSlots, SentenceSlots, read_stored_slots
from ares_annotators.models import model_family_error
from ares_annotators.motion import DISAGREEMENTS, MOTION_DISAGREEMENT, find_disagreements

if TYPE_CHECKING:
    from ares.errors import AresError
    from ares.store import Stores
    from ares_annotators.motion import DatasetMeanings
    from ares_annotators.success import StoredOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionResult:
    """What came of a caption.

    Attributes:
        result: The grade as an annotation, or the failure.
        seen: The caption as controls are made of it; None without a grade.
    """

    result: Outcome
    seen: SeenCaption | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionGrader:
    """Grades the captions of one annotator.

    Attributes:
        grader: The judge with its rubric.
        stores: Stores of the workspace.
        captions: The annotator of the captions.
        sentences: Fills the slots of captions that are a sentence alone.
        meanings: What the signals of a dataset mean, against which observations are set.
    """

    grader: Grader
    stores: Stores
    captions: str
    sentences: SentenceSlots
    meanings: DatasetMeanings

    def captioners(self) -> dict[str, Producer]:
        """The producers of the captions so far, by their id."""
        producers = self.stores.annotations.producers()
        return {key: item for key, item in producers.items() if item.annotator == self.captions}

    def grade(self, works: Sequence[Work]) -> list[CaptionResult]:
        """The grade of each work about a caption; no control is among them."""
        captioners, outcomes, reads = self.captioners(), self.grader.outcomes.read(works), self._read(works)
        texts = [
            self._make_text(work, read, captioners, outcomes) for work, read in zip(works, reads, strict=True)
        ]
        graded = iter(grade_texts(self.grader, [text for text in texts if isinstance(text, Text)]))
        return [
            self._make_result(text, read, next(graded))
            if isinstance(text, Text) and isinstance(read, ReadSlots)
            else CaptionResult(result=text)  # type: ignore[arg-type]  # only a text has slots
            for text, read in zip(texts, reads, strict=True)
        ]

    def _read(self, works: Sequence[Work]) -> list[ReadSlots | PaidFailure]:
        """What captions state; sentences without slots are asked about at once."""
        captions = [_caption_of(work) for work in works]
        stored = [read_stored_slots(caption) for caption in captions]
        sentences = [
            (work.episode.dataset, str(caption.value["text"]))
            for work, caption, slots in zip(works, captions, stored, strict=True)
            if slots is None
        ]
        filled = iter(self.sentences.read(sentences))
        return [slots or next(filled) for slots in stored]

    def _make_text(
        self,
        work: Work,
        read: ReadSlots | PaidFailure,
        captioners: Mapping[str, Producer],
        outcomes: Mapping[str, StoredOutcome],
    ) -> Text | PaidFailure | AresError:
        """A caption as it is graded; why it is not, where it cannot be read or is by kin of the judge."""
        grader, caption = self.grader, _caption_of(work)
        captioner = captioners.get(caption.maker_id)
        if captioner and (
            error := model_family_error(grader.producer, captioner, grader.outcomes.families_file)
        ):
            return error
        if isinstance(read, PaidFailure):
            return read
        outcome = outcomes.get(work.episode.episode_id) if grader.outcomes.may_judge(captioner) else None
        return Text(work=work, text=str(caption.value["text"]), slots=read.slots, outcome=outcome)

    def _make_result(self, text: Text, read: ReadSlots, outcome: GradeOutcome) -> CaptionResult:
        """What came of a caption; a failure with what reading its slots has cost."""
        if isinstance(outcome, GradedText):
            result = self._make_annotations(text, read, outcome)
            return CaptionResult(result=result, seen=see_caption(text, outcome))
        error = outcome.error if isinstance(outcome, PaidFailure) else outcome
        paid = find_outcome_cost(outcome) + read.paid
        return CaptionResult(result=PaidFailure(error, paid) if paid.calls else error)

    def _make_annotations(self, text: Text, read: ReadSlots, graded: GradedText) -> Result:
        """The grade as an annotation, and what was observed for it."""
        rubric, judge, work, outcome = self.grader.rubric, self.grader.judge, text.work, text.outcome
        value: dict[str, Json] = {
            **graded.value,
            GRADE_TIME_COLUMN: time.time(),
            "rubric": rubric.id,
            "rubric_version": rubric.version,
            "rubric_hash": rubric.hash,
            **({"success_id": outcome.annotation_id} if outcome else {}),
        }
        judgement = graded.judgement
        seen = [
            (slot, part.value, part.seconds[0])
            for observation in judgement.seen
            for slot in ("action", "hand")
            if (part := observation.parts[slot]).is_visible
        ]
        if seen and (disagreements := find_disagreements(seen, work, self.meanings.find(work))):
            value[DISAGREEMENTS] = list[Json](disagreements)
            value[MOTION_DISAGREEMENT.name] = [str(item["text"]) for item in disagreements]
        seconds = sorted({second for ruling in graded.rulings for second in ruling.evidence})
        cameras = list(judge.select_frames(work.subject))
        camera = cameras[0] if len(cameras) == 1 else ""
        cost = judgement.cost + read.cost
        annotation = new_annotation(
            work, self.grader.producer, value, camera=camera, frames=seconds, cost=cost
        )
        observations = {item.annotation_id: item for item in judgement.observations}
        paid = judgement.paid + read.paid
        return Result(annotations=[annotation, *observations.values()], paid=paid)


def _caption_of(work: Work) -> Annotation:
    if work.subject.annotation is None:
        raise ValueError(f"a grade needs a caption, but work {work.subject.id} has none")
    return work.subject.annotation
