"""The annotator `success`: whether the task of an episode was done at its end, with what that rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from ares.annotation import Annotation, Column, Cost, Producer, short_hash
from ares.errors import AresError, RequestError
from ares.rubric import normalize_caption
from ares.store import ProducerCatalog, read_pins, select_shown
from ares_annotators.base import (
    CameraSeconds,
    Options,
    Outcome,
    PaidFailure,
    Preflight,
    Result,
    Subject,
    Work,
    new_annotation,
)
from ares_annotators.examples import ExampleOptions, read_confirmed_outcomes
from ares_annotators.models import estimate_worker_resources
from ares_annotators.options import takes_options
from ares_annotators.success.combination import (
    FAILURE_BELOW,
    SUCCESS_FROM,
    Attempt,
    OutcomeParts,
    compute_contributions,
    compute_success_probability,
    decide_success,
)

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores
    from ares_annotators.success.model_judge import ModelOutcomeJudge


_VERSION = "2"
# What earlier versions called the weights of `combination.py` in the settings of their producer, which stays the same.
_COMBINATION: Mapping[str, Json] = {"combination": "model 1.0.0", "combination_hash": "b3e3dd584c545b0b"}
_CAPTIONER = "caption"
_NO_TASK = "the episode has no instruction and no caption"
COLUMNS = (
    Column(
        name="success_probability",
        type="float64",
        meaning="Probability that the task was done at the end of the episode.",
    ),
    Column(
        name="success_verdict",
        type="string",
        meaning="Whether the task was done at the end; unsure between the two thresholds.",
        choices=("success", "failure", "unsure"),
        needs_current_maker=True,
    ),
    Column(
        name="success_gaps",
        type="list<string>",
        meaning="Why success was not judged.",
        is_gap_reason=True,
    ),
)


class SuccessOptions(ExampleOptions):
    """Options of success."""

    votes: int = Field(default=1, ge=1, le=15, description="answers of a vision-language model per episode")
    camera: str = Field(default="", description="camera that the judge gets (default: every good one)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessJudge:
    """A judge, and the producer of what it says.

    Attributes:
        judge: The judge.
        producer: The producer.
        captioners: Producers of captions by id.
        pins: Pinned producer by annotator.
    """

    judge: ModelOutcomeJudge
    producer: Producer
    captioners: Mapping[str, Producer]
    pins: Mapping[str, str]


def _with_producer(judge: ModelOutcomeJudge, success_options: SuccessOptions, stores: Stores) -> SuccessJudge:
    captioners = {
        key: producer
        for key, producer in stores.annotations.producers().items()
        if producer.annotator == _CAPTIONER
    }
    pins = {name: pinned for name, pinned in read_pins(stores.annotations).items() if name == _CAPTIONER}
    settings: dict[str, Json] = {
        **success_options.producer_settings(),
        **judge.settings,
        **_COMBINATION,
        "success_from": SUCCESS_FROM,
        "failure_below": FAILURE_BELOW,
        "family": judge.family,
        # Another captioner gives other values.
        "captions": short_hash([*sorted(captioners), pins]) if captioners else "",
    }
    producer = Producer(
        annotator="success",
        version=_VERSION,
        model=judge.name,
        prompt_hash=judge.prompt_hash,
        settings=settings,
        columns=COLUMNS,
        kind="model",
    )
    return SuccessJudge(judge=judge, producer=producer, captioners=captioners, pins=pins)


def _load_judge(
    spec: str, options: Options, success_options: SuccessOptions, stores: Stores
) -> ModelOutcomeJudge:
    from ares_annotators.models import load_vlm
    from ares_annotators.success.model_judge import MAX_NEW_TOKENS, ModelOutcomeJudge

    vlm, price = load_vlm(spec, options, MAX_NEW_TOKENS, stores), options.settings.price
    examples = success_options.load_examples(stores, read_confirmed_outcomes)
    return ModelOutcomeJudge(vlm, stores, success_options.camera, success_options.votes, price, examples)


def _success_warnings(success: SuccessJudge) -> list[str]:
    warnings = [
        *success.judge.warnings,
        "the probability of success was fitted to no labels: it is not calibrated",
    ]
    if not success.captioners:
        warnings.append("the workspace has no captions: success rests on frames")
    return warnings


def _judge_episodes(works: Sequence[Work], success: SuccessJudge, stores: Stores) -> list[Outcome]:
    captions = _shown_captions(works, success, stores)
    tasks = [_task_text(work, captions.get(work.episode.episode_id)) for work in works]
    attempts = [Attempt(work=work, task=task) for work, task in zip(works, tasks, strict=True) if task]
    judged = iter(success.judge.judge(attempts))
    return [
        _success_result(work, task, captions.get(work.episode.episode_id), next(judged), success)
        if task
        else Result(annotations=[new_annotation(work, success.producer, {"success_gaps": [_NO_TASK]})])
        for work, task in zip(works, tasks, strict=True)
    ]


def _shown_captions(works: Sequence[Work], success: SuccessJudge, stores: Stores) -> dict[str, Annotation]:
    """The caption of each episode that is shown, and not one that a later captioner writes meanwhile."""
    if not success.captioners:
        return {}
    ids = [work.episode.episode_id for work in works]
    annotations = stores.annotations.find_annotations(ids, [_CAPTIONER], maker_ids=list(success.captioners))
    by_episode: dict[str, list[Annotation]] = {}
    for annotation in annotations:
        by_episode.setdefault(annotation.episode_id, []).append(annotation)
    catalog = ProducerCatalog(success.captioners, success.pins)
    shown = {
        episode_id: select_shown(candidates, catalog, [_CAPTIONER])[_CAPTIONER]
        for episode_id, candidates in by_episode.items()
    }
    return {episode_id: captions[0] for episode_id, captions in shown.items() if captions}


def _task_text(work: Work, caption: Annotation | None) -> str:
    """The instruction, else the action of the caption, else ""."""
    if work.episode.instruction.strip():
        return work.episode.instruction.strip()
    return normalize_caption(str(caption.value["text"])).phrase if caption else ""


def _caption_parts(caption: Annotation | None) -> dict[str, float]:
    outcome = normalize_caption(str(caption.value["text"])).outcome if caption else ""
    values = {"success": 1.0, "failure": -1.0}
    return {"caption_outcome": values[outcome]} if outcome in values else {}


def _success_result(
    work: Work,
    task: str,
    caption: Annotation | None,
    judged: OutcomeParts | PaidFailure | AresError,
    success: SuccessJudge,
) -> Outcome:
    if not isinstance(judged, OutcomeParts):
        return judged
    parts = {**judged.parts, **_caption_parts(caption)}
    contributions = compute_contributions(parts)
    value: dict[str, Json] = {
        "success_probability": round(compute_success_probability(contributions), 4),
        "success_verdict": decide_success(contributions),
        "task": task,
        "parts": {name: round(part, 5) for name, part in parts.items()},
        "contributions": {name: round(odds, 4) for name, odds in contributions.items()},
        "evidence": [{"camera": camera, "second": second} for camera, second in judged.evidence],
        **judged.details,
    }
    if caption is not None:
        value["caption_id"] = caption.annotation_id
    cameras = {camera for camera, _ in judged.evidence}
    annotation = new_annotation(
        work,
        success.producer,
        value,
        camera=cameras.pop() if len(cameras) == 1 else "",
        frames=sorted({second for _, second in judged.evidence}),
        cost=judged.cost,
    )
    return Result(annotations=[annotation], paid=judged.paid)


@takes_options(SuccessOptions)
class SuccessAnnotator:
    """Judges success by the frames and the caption that is shown.

    Raises:
        RequestError: The judge's spec cannot be read, or the model cannot do what is asked of it.
        ModelError: The judge cannot be loaded.
    """

    charges_budget = True

    def __init__(self, options: Options, stores: Stores) -> None:
        success_options, spec = options.parse(SuccessOptions), options.model or options.settings.judge_model
        self._stores, self._judge = stores, _load_judge(spec, options, success_options, stores)
        self._success = _with_producer(self._judge, success_options, stores)
        self.producer, self.warnings = self._success.producer, _success_warnings(self._success)
        self.batch_size, self.workers = self._judge.batch_size, self._judge.workers
        self.call_limit, self.needs = self._judge.call_limit, estimate_worker_resources(spec)

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of an episode that its judge gets."""
        return self._judge.select_frames(subject)

    def estimate(self, subject: Subject) -> Cost:
        """What its judge costs."""
        return self._judge.estimate(subject)

    def preflight(self, producers: Sequence[Producer]) -> Preflight:
        """Raises RequestError where the run makes captions: which of them are stored in time would be chance."""
        if any(producer.annotator == _CAPTIONER for producer in producers):
            raise RequestError(
                "success reads captions that are stored",
                "caption and success in one command; run ares annotate caption first",
            )
        return self._judge.preflight()

    def process(self, works: Sequence[Work]) -> list[Outcome]:
        """One probability per work with a task; one without has a gap."""
        return _judge_episodes(works, self._success, self._stores)
