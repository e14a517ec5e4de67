"""The annotator `grade`: captions judged by each criterion of a rubric, shipped or the user's."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from annotators.base import (
    CameraSeconds,
    Options,
    Outcome,
    PaidFailure,
    Preflight,
    Result,
    Subject,
    Work,
    find_outcome_cost,
    merge_frame_requests,
    new_annotation,
)
from annotators.caption import SEGMENT_CAPTION, CaptionedKind
from annotators.grade.additions import DatasetWords, word_lists_hash
from annotators.grade.battery import Control, SeenCaption, see_caption
from annotators.grade.control_grading import grade_controls
from annotators.grade.control_schedule import ControlSchedule
from annotators.grade.grade_options import GradeOptions
from annotators.grade.grading import (
    GradedText,
    Grader,
    grade_texts,
)
from annotators.grade.judge import Judge
from annotators.grade.judge_families import model_family_error, model_family_warnings
from annotators.grade.judge_loading import (
    list_judge_specs,
    load_judges,
    sum_judge_resources,
    warn_of_missing_schema,
)
from annotators.grade.outcome_rulings import Text
from annotators.grade.outcome_source import StoredOutcomeSource, open_outcome_source
from annotators.grade.segment_fit import find_neighbours, neighbour_subject
from annotators.grade.slot_values import ReadSlots, SentenceSlots, read_stored_slots
from annotators.grade.vote import PanelJudge, split_criteria
from annotators.models import price_usd
from annotators.options import takes_options
from ares.annotation import Annotation, Cost, Producer, short_hash
from ares.episode import Json
from ares.errors import AresError, RequestError
from ares.registry import did_you_mean
from ares.rubric import (
    GRADE_COLUMNS,
    GRADE_TIME_COLUMN,
    PANEL_COLUMNS,
    Rubric,
    read_controls,
    read_verbs,
)

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from ares.store import Stores


def load_rubric(name: str) -> Rubric:
    """A shipped rubric by name, or one in a YAML file. Raises RequestError for an unknown name or a wrong file."""
    from ares.rubric import read_rubric

    if name.endswith((".yaml", ".yml")):
        return read_rubric(Path(name))
    names = list_shipped_rubrics()
    if name not in names:
        raise RequestError(
            f"no rubric {name!r}",
            f"{did_you_mean(name, names)}there are: {', '.join(names)}; or give a YAML file",
        )
    with as_file(_rubric_folder().joinpath(f"{name}.yaml")) as path:
        return read_rubric(path)


def list_shipped_rubrics() -> list[str]:
    """Names of the rubrics that come with ARES, sorted."""
    return sorted(file.name[:-5] for file in _rubric_folder().iterdir() if file.name.endswith(".yaml"))


def _rubric_folder() -> Traversable:
    return files("annotators.grade").joinpath("rubrics")


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
    is_panel = isinstance(judge, PanelJudge)
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
            **outcomes.producer_settings,
            **judge.settings,
        },
        columns=(*GRADE_COLUMNS, *rubric.verdict_columns, *(PANEL_COLUMNS if is_panel else ())),
        kind="model",
        subject_kind="annotation",
        after=(captions,),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Caption:
    """A caption to grade.

    Attributes:
        annotation: The caption.
        read: What it states.
        text: The caption as it is graded.
    """

    annotation: Annotation
    read: ReadSlots
    text: Text

    @property
    def work(self) -> Work:
        """The work about it."""
        return self.text.work


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionResult:
    """What came of a caption.

    Attributes:
        dataset: Its dataset.
        result: The grade as an annotation, or the failure.
        seen: The caption as controls are made of it; None without a grade.
    """

    dataset: str
    result: Outcome
    seen: SeenCaption | None = None

    @property
    def paid(self) -> Cost:
        """What was paid for it now."""
        return find_outcome_cost(self.result)


def _sentence_of(subject: Subject) -> tuple[str, str]:
    """Dataset and text of a caption."""
    return subject.episode.dataset, str(subject.annotation.value["text"] if subject.annotation else "")


def _caption_of(work: Work) -> Annotation:
    if work.subject.annotation is None:
        raise ValueError(f"a grade needs a caption, but work {work.subject.id} has none")
    return work.subject.annotation


def _grading_result(caption: _Caption, graded: GradedText, grader: Grader) -> Result:
    rubric, work, outcome = grader.rubric, caption.work, caption.text.outcome
    value: dict[str, Json] = {
        **graded.value,
        GRADE_TIME_COLUMN: time.time(),
        "slots": caption.read.source if grader.judge.reads_slots else "phrases",
        "rubric": rubric.id,
        "rubric_version": rubric.version,
        "rubric_hash": rubric.hash,
        "caption_id": caption.annotation.annotation_id,
        **({"success_id": outcome.annotation_id} if outcome else {}),
    }
    if graded.judgement.observation_ids:
        value["observation_ids"] = list[Json](graded.judgement.observation_ids)
    if isinstance(grader.judge, PanelJudge):
        value["grade_split"] = list[Json](split_criteria(graded.rulings))
    seconds = sorted({second for ruling in graded.rulings for second in ruling.evidence})
    cameras = list(grader.judge.select_frames(work.subject))
    camera = cameras[0] if len(cameras) == 1 else ""
    cost = graded.judgement.cost + caption.read.cost
    annotation = new_annotation(work, grader.producer, value, camera=camera, frames=seconds, cost=cost)
    observations = {item.annotation_id: item for item in graded.judgement.observations}
    paid = graded.judgement.paid + caption.read.paid
    return Result(annotations=[annotation, *observations.values()], paid=paid)


def _grading_failure(caption: _Caption, failure: PaidFailure | AresError) -> PaidFailure | AresError:
    """The failure of a caption, with what reading its slots has cost."""
    if isinstance(failure, PaidFailure):
        return PaidFailure(failure.error, failure.cost + caption.read.paid)
    return PaidFailure(failure, caption.read.paid) if caption.read.paid.calls else failure


def _load_run_rubric(grade_options: GradeOptions) -> Rubric:
    """The rubric of a run: for segments that of segments, if no other is named."""
    is_usual = grade_options.per == "segment" and grade_options.rubric == _USUAL_RUBRIC
    return load_rubric(_SEGMENT_RUBRIC if is_usual else grade_options.rubric)


def _caption_producers(stores: Stores, captions: str) -> dict[str, Producer]:
    """The producers of the captions that are graded, by the name of their annotator."""
    return {
        key: producer
        for key, producer in stores.annotations.producers().items()
        if producer.annotator == captions
    }


@takes_options(GradeOptions)
class GradeAnnotator:
    """Grades captions by a rubric.

    Args:
        options: The judge and its options.
        stores: Stores of the workspace.

    Raises:
        RequestError: The rubric or the judge's spec cannot be read, or all captioners are of the judge's model family.
        ModelError: The judge cannot be loaded.
    """

    needs_signals = True
    charges_budget = True
    reads_stored = ("success",)

    def __init__(self, options: Options, stores: Stores) -> None:
        grade_options = options.parse(GradeOptions)
        rubric, specs = _load_run_rubric(grade_options), list_judge_specs(options, grade_options)
        self._captions, verbs = _GRADED[grade_options.per][0], read_verbs(grade_options.verbs)
        self.verbs = verbs
        words = DatasetWords(stores, verbs)
        judge = load_judges(specs, options, grade_options, stores, rubric, words)
        families_file = options.settings.model_families
        captioners = _caption_producers(stores, self._captions).values()
        errors = [model_family_error(judge, producer, families_file) for producer in captioners]
        if errors and errors[0] and all(errors):
            raise errors[0]
        outcomes = open_outcome_source(stores, rubric, families_file)
        self.producer = _grade_producer(grade_options, rubric, judge, outcomes)
        self._grader = Grader(
            rubric=rubric,
            judge=judge,
            producer=self.producer,
            families_file=families_file,
            outcomes=outcomes,
            verbs=verbs,
        )
        self._sentences = SentenceSlots(judge.text_vlm, stores, verbs, words)
        self._stores, self._price = stores, options.settings.price
        self._is_remote = any(spec.startswith("openai:") for spec in (*specs, grade_options.text_model))
        self._schedule = ControlSchedule(stores, self.producer, self.select_frames, verbs)
        self.batch_size, self.workers, self.call_limit = judge.batch_size, judge.workers, judge.call_limit
        self.warnings, self.needs = warn_of_missing_schema(judge), sum_judge_resources(specs)
        self.side_producers = judge.observation_producers
        self.side_names = [producer.annotator for producer in self.side_producers]

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of a caption that its judge gets, and of a segment those of its neighbours."""
        around = [neighbour_subject(subject, caption) for caption in find_neighbours(subject)]
        selected = [self._grader.judge.select_frames(item) for item in (subject, *around)]
        return merge_frame_requests(selected) if around else selected[0]

    def preflight(self, producers: Sequence[Producer]) -> Preflight:
        """Raises RequestError where the run makes captions by kin of the judge."""
        grader = self._grader
        new = [producer for producer in producers if producer.annotator == self._captions]
        for producer in new:
            error = model_family_error(grader.judge, producer, grader.families_file)
            if error:
                raise error
        captioners = [*_caption_producers(self._stores, self._captions).values(), *new]
        checked = grader.judge.preflight()
        related = model_family_warnings(grader.judge, captioners, grader.families_file)
        outcomes = grader.outcomes.warnings(grader.rubric, captioners)
        return replace(checked, warnings=[*checked.warnings, *related, *outcomes])

    def estimate(self, subject: Subject) -> Cost:
        """The expected cost of a caption, before any was graded."""
        rubric = self._grader.rubric
        questions = sum(criterion.claim and criterion.slot is None for criterion in rubric.criteria)
        cost = self._grader.judge.expect_cost(subject, questions)
        usd = price_usd(self._price, cost.tokens_in, cost.tokens_out) if self._is_remote else 0.0
        return replace(cost, usd=usd)

    def process(self, works: Sequence[Work]) -> list[Outcome]:
        """One grade per work about a caption; then false texts are graded, where some are due."""
        graded = self.grade_captions(works)
        seen: dict[str, list[SeenCaption]] = {}
        for item in graded:
            if item.seen:
                seen.setdefault(item.dataset, []).append(item.seen)
        paid = Cost()
        for dataset, captions in seen.items():
            paid += self._put_controls(dataset, *self._schedule.take(dataset, captions))
        results = [item.result for item in graded]
        return _add_paid(results, paid) if paid.calls else results

    def grade_captions(self, works: Sequence[Work]) -> list[CaptionResult]:
        """The grade of each work about a caption, without controls."""
        prepared = self._prepare(works)
        texts = [item.text for item in prepared if isinstance(item, _Caption)]
        outcomes = iter(grade_texts(self._grader, texts))
        graded: list[CaptionResult] = []
        for work, caption in zip(works, prepared, strict=True):
            dataset = work.episode.dataset
            if not isinstance(caption, _Caption):
                graded.append(CaptionResult(dataset=dataset, result=caption))
                continue
            outcome = next(outcomes)
            if isinstance(outcome, GradedText):
                result = _grading_result(caption, outcome, self._grader)
                graded.append(
                    CaptionResult(dataset=dataset, result=result, seen=see_caption(caption.text, outcome))
                )
            else:
                graded.append(CaptionResult(dataset=dataset, result=_grading_failure(caption, outcome)))
        return graded

    def try_controls(self, controls: Sequence[Control]) -> tuple[list[Annotation], Cost]:
        """Grade false texts of a battery: what came of them by episode, not stored, and what it has cost."""
        return grade_controls(self._grader, controls)

    def finish(self) -> Cost:
        """Grade the batteries of datasets of which the run has graded few captions; what they have cost."""
        batteries = self._schedule.finish().items()
        return sum((self._put_controls(dataset, battery, []) for dataset, battery in batteries), Cost())

    def _put_controls(self, dataset: str, battery: Sequence[Control], single: Sequence[Control]) -> Cost:
        """Grade false texts, and keep what came of them with their episodes; what they have cost."""
        if not battery and not single:
            return Cost()
        annotations, paid = grade_controls(self._grader, battery, single)
        self._stores.annotations.append(annotations)
        rows = read_controls(annotation.value for annotation in annotations)
        if 2 * sum(row.is_of_battery for row in rows) < len(battery):
            self._schedule.give_back(dataset)
        return paid

    def _prepare(self, works: Sequence[Work]) -> list[_Caption | PaidFailure | AresError]:
        """The captions that this judge may rule on, with what they state."""
        grader, captioners = self._grader, _caption_producers(self._stores, self._captions)
        outcomes, reads = grader.outcomes.read(works), self._read_captions(works)
        prepared: list[_Caption | PaidFailure | AresError] = []
        for work, read in zip(works, reads, strict=True):
            annotation = _caption_of(work)
            producer = captioners.get(annotation.maker_id)
            error = model_family_error(grader.judge, producer, grader.families_file) if producer else None
            if error or not isinstance(read, ReadSlots):
                prepared.append(error or read)  # type: ignore[arg-type]  # one of them is a failure
                continue
            stored = outcomes.get(work.episode.episode_id) if grader.outcomes.may_judge(producer) else None
            text = Text(work=work, text=str(annotation.value["text"]), slots=read.slots, outcome=stored)
            prepared.append(_Caption(annotation=annotation, read=read, text=text))
        return prepared

    def _read_captions(self, works: Sequence[Work]) -> list[ReadSlots | PaidFailure | AresError]:
        """What captions state; sentences without slots are asked about at once."""
        stored = [read_stored_slots(_caption_of(work)) for work in works]
        texts = [
            _sentence_of(work.subject) for work, slots in zip(works, stored, strict=True) if slots is None
        ]
        filled = iter(self._sentences.read(texts))
        return [slots or next(filled) for slots in stored]


def _add_paid(results: Sequence[Outcome], paid: Cost) -> list[Outcome]:
    """Results of which the first one bears what the controls have cost."""
    first = next(number for number, result in enumerate(results) if isinstance(result, Result))
    return [
        replace(result, paid=result.cost + paid) if number == first and isinstance(result, Result) else result
        for number, result in enumerate(results)
    ]
