"""The annotator `grade`: captions judged by each criterion of a rubric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ares.annotation import Cost, Producer, short_hash
from ares.rubric import GRADE_COLUMNS, Rubric, read_verbs
from ares_annotators.base import (
    CameraSeconds,
    Options,
    Outcome,
    Preflight,
    Result,
    Subject,
    Work,
    merge_frame_requests,
)
from ares_annotators.caption import SEGMENT_CAPTION, CaptionedKind
from ares_annotators.grade.additions import DatasetWords, word_lists_hash
from ares_annotators.grade.caption_grading import CaptionGrader
from ares_annotators.grade.control_schedule import ControlSchedule
from ares_annotators.grade.grade_options import GradeOptions
from ares_annotators.grade.grading import Grader
from ares_annotators.grade.judge import Judge
from ares_annotators.grade.judge_loading import list_judge_specs, load_judges, sum_judge_resources
from ares_annotators.grade.outcome_source import StoredOutcomeSource, open_outcome_source
from ares_annotators.grade.rubric_files import load_rubric
from ares_annotators.grade.segment_fit import find_neighbours
from ares_annotators.grade.slot_values import SentenceSlots
from ares_annotators.models import model_family_error, price_usd
from ares_annotators.motion import MOTION_DISAGREEMENT, DatasetMeanings
from ares_annotators.options import takes_options

if TYPE_CHECKING:
    from ares.store import Stores


# 9: only words that no observation and no instruction has are in doubt; contested slots share one choice; a sentence
# without slots is read by fewer rules.
_VERSION = "9"
# By what is captioned the annotator whose captions are graded, and the name of their grades: those of segments are no
# grades by another judge of episodes.
_GRADED: Mapping[CaptionedKind, tuple[str, str]] = {
    "episode": ("caption", "grade"),
    "segment": (SEGMENT_CAPTION, "segment_grade"),
}
_USUAL_RUBRIC, _SEGMENT_RUBRIC = "caption", "segment"


def _grade_producer(
    grade_options: GradeOptions, rubric: Rubric, judge: Judge, outcomes: StoredOutcomeSource
) -> Producer:
    verbs = dict(read_verbs(grade_options.verbs))
    captions, grades = _GRADED[grade_options.per]
    return Producer(
        annotator=grades,
        version=_VERSION,
        model=judge.name,
        prompt_hash=short_hash([rubric.hash, judge.prompt_hash, word_lists_hash(), verbs]),
        # Rubric, verbs, candidates and models of texts are known by their content or name, not by a path.
        settings={
            **grade_options.producer_settings(),
            "candidates": "",
            "rubric": rubric.id,
            "family": judge.family,
            # Another success gives other grades.
            "success": outcomes.producer.maker_id if outcomes.producer else "",
            **judge.settings,
        },
        columns=(*GRADE_COLUMNS, MOTION_DISAGREEMENT, *rubric.verdict_columns),
        kind="model",
        subject_kind="annotation",
        after=(captions,),
    )


def _load_run_rubric(grade_options: GradeOptions) -> Rubric:
    """The rubric of a run: for segments that of segments, if no other is named."""
    is_usual = grade_options.per == "segment" and grade_options.rubric == _USUAL_RUBRIC
    return load_rubric(_SEGMENT_RUBRIC if is_usual else grade_options.rubric)


@takes_options(GradeOptions)
class GradeAnnotator:
    """Grades captions by a rubric.

    Args:
        options: The judge and its options.
        stores: Stores of the workspace.

    Raises:
        RequestError: The rubric or the judge's spec cannot be read, or all captioners are of the judge's model family.
        ModelError: The judge cannot be loaded.

    Attributes:
        grader: The judge with its rubric.
        captions: Grades captions, and stores nothing.
    """

    needs_signals = True
    charges_budget = True
    reads_stored = ("success",)
    warnings: Sequence[str] = ()

    def __init__(self, options: Options, stores: Stores) -> None:
        grade_options = options.parse(GradeOptions)
        rubric, specs = _load_run_rubric(grade_options), list_judge_specs(options, grade_options)
        verbs = read_verbs(grade_options.verbs)
        words = DatasetWords(stores, verbs)
        judge = load_judges(specs, options, grade_options, stores, rubric, words)
        families_file = options.settings.model_families
        outcomes = open_outcome_source(stores, rubric, families_file)
        self.producer = _grade_producer(grade_options, rubric, judge, outcomes)
        self.grader = Grader(
            rubric=rubric, judge=judge, producer=self.producer, outcomes=outcomes, verbs=verbs
        )
        self.captions = CaptionGrader(
            grader=self.grader,
            stores=stores,
            captions=_GRADED[grade_options.per][0],
            sentences=SentenceSlots(judge.vlm, stores, verbs, words),
            meanings=DatasetMeanings(stores),
        )
        captioners = self.captions.captioners().values()
        errors = [model_family_error(self.producer, captioner, families_file) for captioner in captioners]
        if errors and errors[0] and all(errors):
            raise errors[0]
        self._controls = ControlSchedule(stores, self.grader, self.select_frames)
        self._price = options.settings.price
        self._is_remote = any(spec.startswith("openai:") for spec in specs)
        self.batch_size, self.workers, self.call_limit = judge.batch_size, judge.workers, judge.call_limit
        self.needs = sum_judge_resources(specs)
        self.side_producers = judge.observation_producers
        self.side_names = [producer.annotator for producer in self.side_producers]

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of a caption that its judge gets, and of a segment those of its neighbours."""
        around = find_neighbours(subject)
        selected = [self.grader.judge.select_frames(item) for item in (subject, *around)]
        return merge_frame_requests(selected) if around else selected[0]

    def preflight(self, producers: Sequence[Producer]) -> Preflight:
        """Raises RequestError where the run makes captions by kin of the judge."""
        for producer in producers:
            error = model_family_error(self.producer, producer, self.grader.outcomes.families_file)
            if error and producer.annotator == self.captions.captions:
                raise error
        return self.grader.judge.preflight()

    def estimate(self, subject: Subject) -> Cost:
        """The expected cost of a caption, before any was graded."""
        cost = self.grader.judge.expect_cost(subject)
        usd = price_usd(self._price, cost.tokens_in, cost.tokens_out) if self._is_remote else 0.0
        return replace(cost, usd=usd)

    def process(self, works: Sequence[Work]) -> list[Outcome]:
        """One grade per work about a caption; then false texts are graded, where some are due."""
        graded = self.captions.grade(works)
        results = [item.result for item in graded]
        paid = self._controls.grade_due([item.seen for item in graded if item.seen])
        return _add_paid(results, paid) if paid.calls else results

    def finish(self) -> Cost:
        """Grade the batteries of datasets of which the run has graded few captions; what they have cost."""
        return self._controls.finish()


def _add_paid(results: Sequence[Outcome], paid: Cost) -> list[Outcome]:
    """Results of which the first one bears what the controls have cost."""
    first = next(number for number, result in enumerate(results) if isinstance(result, Result))
    return [
        replace(result, paid=result.cost + paid) if number == first and isinstance(result, Result) else result
        for number, result in enumerate(results)
    ]
