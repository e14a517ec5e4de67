"""The annotator `grade`: captions judged by each criterion of a rubric, shipped or the user's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    make_annotation_subject,
    make_episode_subject,
    merge_frame_requests,
    new_annotation,
)
from annotators.caption import SEGMENT_CAPTION, CaptionedKind
from annotators.grade.additions import DatasetWords, word_lists_hash
from annotators.grade.control_calls import (
    TextExpectation,
    blank_frames_key,
    draw_expected_controls,
    expect_control_calls,
)
from annotators.grade.control_plan import Control, ControlPlan, make_control_value, plan_controls
from annotators.grade.grade_options import GradeOptions
from annotators.grade.grading import (
    GradedText,
    GradeOutcome,
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
from annotators.grade.outcome_rulings import Text, is_refuted_by_label
from annotators.grade.outcome_source import StoredOutcomeSource, open_outcome_source
from annotators.grade.rates import (
    COMPARISONS,
    SENTENCES,
    TEXT_KINDS,
    CallKind,
    ControlCalls,
    RateMeter,
    RunQuote,
    control_kind,
    text_kind,
)
from annotators.grade.segment_fit import find_neighbours, neighbour_subject
from annotators.grade.slot_values import ReadSlots, SentenceSlots, read_stored_slots
from annotators.grade.vote import PanelJudge, split_criteria
from annotators.options import takes_options
from annotators.success import StoredOutcome
from ares.annotation import Annotation, Cost, Producer, short_hash
from ares.console import count_of
from ares.episode import Json
from ares.errors import AresError, RequestError
from ares.registry import did_you_mean
from ares.rubric import (
    CONTROL,
    GRADE_COLUMNS,
    PANEL_COLUMNS,
    VERDICTS_COLUMN,
    Rubric,
    add_tables_word,
    parser_hash,
    read_verbs,
)
from ares.store import quote_literal

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from ares.episode import Episode
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


# 7: code reads numbers, abbreviations, joiners and opposite places of a caption correctly.
_VERSION = "7"
# By what is captioned the annotator whose captions are graded, and the name of their grades: those of segments are no
# grades by another judge of episodes.
_GRADED: Mapping[CaptionedKind, tuple[str, str]] = {
    "episode": ("caption", "grade"),
    "segment": (SEGMENT_CAPTION, "segment_grade"),
}
_USUAL_RUBRIC, _SEGMENT_RUBRIC = "caption", "segment"
# Episodes from whose controls a calibration is estimated.
_SAMPLE = 200


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
        prompt_hash=short_hash([rubric.hash, judge.prompt_hash, word_lists_hash(), parser_hash(), verbs]),
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
    """A caption to grade, with its controls.

    Attributes:
        annotation: The caption.
        work: The work about it.
        read: What it states.
        controls: Its controls; most captions have none.
        texts: The caption, then its controls. Controls are judged by the stored outcome as the caption is, also those
            on changed frames: these test what the judge decides itself.
    """

    annotation: Annotation
    work: Work
    read: ReadSlots
    controls: Sequence[Control]
    texts: Sequence[Text]


def _join_texts(
    work: Work,
    read: ReadSlots,
    controls: Sequence[Control],
    outcome: StoredOutcome | None,
) -> _Caption:
    caption = _caption_of(work)
    caption_text = Text(work=work, text=str(caption.value["text"]), slots=read.slots, outcome=outcome)
    texts = [
        Text(
            work=control.work,
            text=control.text,
            slots=control.slots,
            outcome=None if control.hides_label else outcome,
            hides_label=control.hides_label,
            only=control.only,
        )
        for control in controls
    ]
    return _Caption(
        annotation=caption,
        work=work,
        read=read,
        controls=controls,
        texts=[caption_text, *texts],
    )


def _sentence_of(subject: Subject) -> tuple[str, str]:
    """Dataset and text of a caption."""
    return subject.episode.dataset, str(subject.annotation.value["text"] if subject.annotation else "")


def _caption_of(work: Work) -> Annotation:
    if work.subject.annotation is None:
        raise ValueError(f"a grade needs a caption, but work {work.subject.id} has none")
    return work.subject.annotation


def _grading_result(
    caption: _Caption,
    graded_caption: GradedText,
    controls: Sequence[GradeOutcome],
    grader: Grader,
) -> Result:
    rubric, work, outcome = grader.rubric, caption.work, caption.texts[0].outcome
    value: dict[str, Json] = {
        **graded_caption.value,
        "slots": caption.read.source if grader.judge.reads_slots else "phrases",
        "rubric": rubric.id,
        "rubric_version": rubric.version,
        "rubric_hash": rubric.hash,
        "caption_id": caption.annotation.annotation_id,
        **({"success_id": outcome.annotation_id} if outcome else {}),
    }
    if value["slots"] == "tables":
        value[VERDICTS_COLUMN] = add_tables_word(str(graded_caption.value[VERDICTS_COLUMN]))
    if graded_caption.judgement.observation_ids:
        value["observation_ids"] = list[Json](graded_caption.judgement.observation_ids)
    if isinstance(grader.judge, PanelJudge):
        value["grade_split"] = list[Json](split_criteria(graded_caption.rulings))
    seconds = sorted({second for ruling in graded_caption.rulings for second in ruling.evidence})
    cameras = list(grader.judge.select_frames(work.subject))
    camera = cameras[0] if len(cameras) == 1 else ""
    cost = graded_caption.judgement.cost + caption.read.cost
    annotation = new_annotation(work, grader.producer, value, camera=camera, frames=seconds, cost=cost)
    observations = _distinct_observations(graded_caption, controls)
    side = _control_annotations(caption, graded_caption, controls, grader)
    paid = graded_caption.judgement.paid + caption.read.paid + _paid_for_controls(controls)
    return Result(annotations=[annotation, *observations, *side], paid=paid)


def _grading_failure(
    caption: _Caption, failure: PaidFailure | AresError, controls: Sequence[GradeOutcome]
) -> PaidFailure | AresError:
    """The failure of a caption, with what its controls have cost: they are graded again with it."""
    paid = caption.read.paid + _paid_for_controls(controls)
    if isinstance(failure, PaidFailure):
        return PaidFailure(failure.error, failure.cost + paid)
    return PaidFailure(failure, paid) if paid.calls else failure


def _control_annotations(
    caption: _Caption,
    graded_caption: GradedText,
    controls: Sequence[GradeOutcome],
    grader: Grader,
) -> list[Annotation]:
    """The controls of a caption: a fact about the judge, kept with the episode."""
    if not caption.controls:
        return []
    label = str(grader.judge.settings.get("label", ""))
    value = make_control_value(
        graded_caption, caption.controls, controls, grader.rubric, label, slots_from=caption.read.source
    )
    cost = sum((graded.judgement.cost for graded in controls if isinstance(graded, GradedText)), Cost())
    annotation = new_annotation(caption.work, grader.producer, value, cost=cost)
    part, episode_id = caption.annotation.annotation_id, caption.work.episode.episode_id
    return [replace(annotation, name=CONTROL, subject=episode_id, subject_kind="episode", part=part)]


def _paid_for_controls(graded: Sequence[GradeOutcome]) -> Cost:
    """What was paid now for controls, failed ones included."""
    costs = [
        item.judgement.paid if isinstance(item, GradedText) else item.cost
        for item in graded
        if not isinstance(item, AresError)
    ]
    return sum(costs, Cost())


def _distinct_observations(graded_caption: GradedText, controls: Sequence[GradeOutcome]) -> list[Annotation]:
    """What judges saw before they knew the caption or a control of it: facts of the segment, each once."""
    graded = [graded_caption, *(item for item in controls if isinstance(item, GradedText))]
    observations = [annotation for item in graded for annotation in item.judgement.observations]
    return list({annotation.annotation_id: annotation for annotation in observations}.values())


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
        plan: Controls of a trial whose captions are nobody's: it counts nothing for later quotes. None for a run.

    Raises:
        RequestError: The rubric or the judge's spec cannot be read, or all captioners are of the judge's model family.
        ModelError: The judge cannot be loaded.
    """

    needs_signals = True
    charges_budget = True
    reads_stored = ("success",)

    def __init__(self, options: Options, stores: Stores, *, plan: ControlPlan | None = None) -> None:
        grade_options = options.parse(GradeOptions)
        rubric, specs = _load_run_rubric(grade_options), list_judge_specs(options, grade_options)
        self._captions, verbs = _GRADED[grade_options.per][0], read_verbs(grade_options.verbs)
        known_words = DatasetWords(stores, verbs, self._captions).known_words
        judge = load_judges(specs, options, grade_options, stores, rubric, known_words)
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
        self._sentences = SentenceSlots(judge.text_vlm, stores, verbs, known_words)
        self._stores, self._price = stores, options.settings.price
        self._is_remote = any(spec.startswith("openai:") for spec in (*specs, grade_options.text_model))
        self._plan = plan or plan_controls(
            stores,
            options.planned_episodes,
            self._grader.verbs,
            maker_id=self.producer.maker_id,
            calibrate=grade_options.calibrate,
            captions=self._captions,
        )
        self._meter = None if plan else RateMeter(stores, self.producer.maker_id)
        self.batch_size, self.workers, self.call_limit = judge.batch_size, judge.workers, judge.call_limit
        self.warnings, self.needs = warn_of_missing_schema(judge), sum_judge_resources(specs)
        self.side_producers = judge.observation_producers
        self.side_names = (CONTROL, *{producer.annotator for producer in self.side_producers})

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
        prices = [] if grader.judge.is_free else self._describe_calibrations()
        return replace(checked, warnings=[*checked.warnings, *related, *outcomes, *prices])

    def _describe_calibrations(self) -> Iterator[str]:
        """A line for each dataset on which the judge is calibrated in this run: what that costs, once."""
        for name in self._plan.calibrated_datasets:
            episodes = self._stores.tables.episodes.read(f"dataset = {quote_literal(name)}", limit=_SAMPLE)
            quote = RunQuote(self._stores, self._grader.judge, self.producer.maker_id)
            sample = self._read_captioned(list(episodes))
            self._add_controls(quote, sample)
            total = quote.total.scaled(self._plan.datasets[name].episodes / max(1, len(sample)))
            cost = total.to_cost(self._price, self._is_remote)
            usd = "price unknown" if cost.usd is None else f"{cost.usd:.2f} USD"
            calls = count_of(cost.calls, "call", comma=True)
            yield f"calibration of the judge on {name}: about {calls}, {usd}, once"

    def _read_captioned(self, episodes: Sequence[Episode]) -> list[Subject]:
        """The captions of episodes as subjects; an episode without one stands for itself."""
        ids = [item.episode_id for item in episodes]
        stored = self._stores.annotations.find_annotations(ids, [self._captions])
        if self._captions == SEGMENT_CAPTION and stored:
            return _read_segments(episodes, stored)
        captions = {annotation.episode_id: annotation for annotation in stored}
        return [
            replace(make_episode_subject(episode), annotation=captions.get(episode.episode_id))
            for episode in episodes
        ]

    def _add_controls(self, quote: RunQuote, sample: Sequence[Subject]) -> None:
        """Add the controls of captions, and the comparisons of both."""
        by_dataset: dict[str, list[Subject]] = {}
        for subject in sample:
            if not quote.has_tried(subject):
                by_dataset.setdefault(subject.episode.dataset, []).append(subject)
        judge = self._grader.judge
        for subjects in by_dataset.values():
            texts = draw_expected_controls(self._plan, subjects, slot_by_slot=judge.reads_slots)
            calls = self._expect_controls(texts)
            quote.add_comparisons(subjects[0], calls.comparisons)
            left = dict(calls.observations)
            for group in _split_by_kind(texts):
                group_calls = calls if len(group) == len(texts) else self._expect_controls(group)
                # A typed caption and a sentence about one segment share what is seen in it.
                seen = {name: min(count, left[name]) for name, count in group_calls.observations.items()}
                left = {name: count - seen.get(name, 0) for name, count in left.items()}
                quote.add_controls(group[0].subject, replace(group_calls, observations=seen))

    def estimate(self, subject: Subject) -> Cost:
        """The expected cost of a caption, with its share of the controls."""
        return self.estimate_run([subject], 1)

    def estimate_run(self, sample: Sequence[Subject], planned: int) -> Cost:
        """The expected cost of so many captions, of which a sample is like the others.

        Measured rates of this judge on the dataset are used where there are some; an observation that captions share
        is counted once.
        """
        quote = RunQuote(self._stores, self._grader.judge, self.producer.maker_id)
        for subject in sample:
            if not is_refuted_by_label(subject, self._grader.rubric):
                quote.add_caption(subject)
        sentences = [subject for subject in sample if text_kind(subject) == SENTENCES]
        if sentences:
            calls = self._sentences.count_calls(list(map(_sentence_of, sentences)), self.batch_size)
            quote.add_fills(sentences[0], calls)
        self._add_controls(quote, sample)
        return quote.total.scaled(planned / max(len(sample), 1)).to_cost(self._price, self._is_remote)

    def process(self, works: Sequence[Work]) -> list[Outcome]:
        """One grade per work about a caption, with its controls; the texts of all are graded together."""
        prepared = self._prepare(works)
        texts = [text for caption in prepared if isinstance(caption, _Caption) for text in caption.texts]
        expected = self._expect_comparisons(prepared)
        graded = iter(grade_texts(self._grader, texts))
        results: list[Outcome] = []
        for caption in prepared:
            if not isinstance(caption, _Caption):
                results.append(caption)
                continue
            caption_outcome, *controls = [next(graded) for _ in caption.texts]
            self._count_calls(caption, caption_outcome, controls, expected)
            results.append(
                _grading_result(caption, caption_outcome, controls, self._grader)
                if isinstance(caption_outcome, GradedText)
                else _grading_failure(caption, caption_outcome, controls)
            )
        if self._meter:
            self._meter.store()
        return results

    def _prepare(self, works: Sequence[Work]) -> list[_Caption | PaidFailure | AresError]:
        """The captions that this judge may rule on, with what they state and their controls."""
        grader, captioners = self._grader, _caption_producers(self._stores, self._captions)
        outcomes = grader.outcomes.read(works)
        reads = iter(self._read_captions(works))
        prepared: list[_Caption | PaidFailure | AresError] = []
        for work, read in zip(works, reads, strict=True):
            producer = captioners.get(_caption_of(work).maker_id)
            error = model_family_error(grader.judge, producer, grader.families_file) if producer else None
            if error:
                prepared.append(error)
                continue
            if not isinstance(read, ReadSlots):
                prepared.append(read)
                continue
            stored = outcomes.get(work.episode.episode_id) if grader.outcomes.may_judge(producer) else None
            text = str(_caption_of(work).value["text"])
            controls = self._plan.draw(work, read.slots, text, slot_by_slot=grader.judge.reads_slots)
            prepared.append(_join_texts(work, read, controls, stored))
        return prepared

    def _read_captions(self, works: Sequence[Work]) -> list[ReadSlots | PaidFailure | AresError]:
        """What captions state; sentences without slots are asked about at once."""
        stored = [read_stored_slots(_caption_of(work)) for work in works]
        texts = [
            _sentence_of(work.subject) for work, slots in zip(works, stored, strict=True) if slots is None
        ]
        filled = iter(self._sentences.read(texts))
        return [slots or next(filled) for slots in stored]

    def _expect_comparisons(self, prepared: Sequence[_Caption | PaidFailure | AresError]) -> dict[str, float]:
        """By dataset the calls that compare values, as a quote would count them for each caption of a batch.

        The choices that it would count are kept.
        """
        by_dataset: dict[str, list[Subject]] = {}
        for caption in prepared if self._meter else ():
            if isinstance(caption, _Caption):
                by_dataset.setdefault(caption.work.episode.dataset, []).append(caption.work.subject)
        expected = {}
        for name, subjects in by_dataset.items():
            # By tables, as a quote reads the slots of a sentence.
            texts = draw_expected_controls(self._plan, subjects, slot_by_slot=self._grader.judge.reads_slots)
            expected[name] = self._expect_controls(texts).comparisons / len(texts)
            for group in _split_by_kind(texts):
                if self._meter:
                    self._meter.add_expected(group[0].subject, self._expect_controls(group))
        return expected

    def _expect_controls(self, texts: Sequence[TextExpectation]) -> ControlCalls:
        return expect_control_calls(texts, self._grader.rubric, self._grader.judge)

    def _count_calls(
        self,
        caption: _Caption,
        caption_outcome: GradeOutcome,
        controls: Sequence[GradeOutcome],
        expected: Mapping[str, float],
    ) -> None:
        """Count what was paid as a quote will expect it: captions that their labels refute are none of it."""
        meter, subject, dataset = self._meter, caption.work.subject, caption.work.episode.dataset
        if meter is None:
            return
        compared, kind = Cost(), text_kind(subject)
        paid = [
            (kind, _paid_calls(caption_outcome, caption.read.paid)),
            *(
                (control_kind(control.kind, subject), _paid_calls(graded, Cost()))
                for control, graded in zip(caption.controls, controls, strict=True)
            ),
        ]
        is_refuted = is_refuted_by_label(subject, self._grader.rubric)
        for position, (counted, calls) in enumerate(paid):
            compared += calls.pop("comparison", Cost())
            # What reading the slots of a refuted sentence cost is borne by the others, as it shares their calls.
            meter.add(dataset, counted, calls, count=0.0 if is_refuted and not position else 1.0)
        meter.add(dataset, COMPARISONS, {"comparison": compared}, count=expected[dataset])
        if _was_open(caption_outcome) and not is_refuted:
            meter.add_open(dataset, kind)
        self._note_known(caption, caption_outcome, controls, meter)

    def _note_known(
        self,
        caption: _Caption,
        caption_outcome: GradeOutcome,
        controls: Sequence[GradeOutcome],
        meter: RateMeter,
    ) -> None:
        """Note what a quote need not count again."""
        graded = [
            control.kind
            for control, outcome in zip(caption.controls, controls, strict=True)
            if isinstance(outcome, GradedText)
        ]
        subject = caption.work.subject
        seen = [blank_frames_key(subject, self._grader.judge)] if "blank" in graded else []
        # The controls share the observation: where one of them is graded, or more than one call was paid, it is kept.
        has_seen = bool({*graded} - {"blank", "scrambled"}) or (
            isinstance(caption_outcome, PaidFailure) and caption_outcome.cost.calls > 1
        )
        is_tried = has_seen and not isinstance(caption_outcome, GradedText)
        meter.add_known(subject.episode.dataset, blank_frames=seen, tried=subject.id if is_tried else "")


def _read_segments(episodes: Sequence[Episode], captions: Sequence[Annotation]) -> list[Subject]:
    """Captions of segments as subjects, each with those of its episode."""
    by_episode: dict[str, tuple[Annotation, ...]] = {}
    for caption in captions:
        by_episode[caption.episode_id] = (*by_episode.get(caption.episode_id, ()), caption)
    return [
        make_annotation_subject(episode, caption, by_episode[episode.episode_id])
        for episode in episodes
        for caption in by_episode.get(episode.episode_id, ())
    ]


def _split_by_kind(texts: Sequence[TextExpectation]) -> list[list[TextExpectation]]:
    """Typed captions, and sentences without slots."""
    groups = [[text for text in texts if text_kind(text.subject) == kind] for kind in TEXT_KINDS]
    return [group for group in groups if group]


def _was_open(graded: GradeOutcome) -> bool:
    """Whether something beside its slots was asked about a caption, or would have been."""
    if isinstance(graded, GradedText):
        return bool(graded.judgement.calls or graded.judgement.observation_ids)
    return isinstance(graded, PaidFailure)


def _paid_calls(graded: GradeOutcome, for_slots: Cost) -> dict[CallKind, Cost]:
    """What was paid now for one text, by what it was paid for."""
    slots: dict[CallKind, Cost] = {"slots": for_slots} if for_slots.calls else {}
    if isinstance(graded, GradedText):
        return {**slots, **graded.judgement.calls}
    return {**slots, "failed": graded.cost} if isinstance(graded, PaidFailure) else slots
