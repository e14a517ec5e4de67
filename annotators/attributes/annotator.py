"""The annotator `attributes`: typed fields of each episode, or segment, answered by a model or by CLIP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from ares.annotation import ATTRIBUTE_PREFIX, Column, Cost, Producer, Rollup, short_hash
from ares.errors import RequestError
from ares_annotators.attributes.answers import AnsweredFields
from ares_annotators.attributes.clip_answers import ClipAnswers
from ares_annotators.attributes.fields import AttributeField, read_fields
from ares_annotators.attributes.model_answers import ModelAnswers
from ares_annotators.base import Options, Outcome, Preflight, Result, Subject, Work, new_annotation
from ares_annotators.caption import SEGMENTERS, CaptionedKind, CaptionLayout
from ares_annotators.examples import ExampleOptions, read_confirmed_attributes
from ares_annotators.models import estimate_worker_resources, load_encoder_for, load_vlm
from ares_annotators.options import takes_options

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores
    from ares_annotators.base import CameraSeconds


_MAX_NEW_TOKENS = 4_000
_VERSION = "1"


class AttributesOptions(ExampleOptions):
    """Options of attributes."""

    # What the file says is part of the producer, not where it is.
    not_in_producer: ClassVar[frozenset[str]] = ExampleOptions.not_in_producer | {"fields"}

    fields: str = Field(
        default="", description="YAML file of the questions (default: those of the original ARES)"
    )
    by: Literal["model", "clip"] = Field(
        default="model",
        description="who answers: model (a vision-language model), or clip (CLIP compares frames with the choices of "
        "enums, and answers nothing else)",
    )
    per: CaptionedKind = Field(
        default="episode",
        description="what is asked about: episode (fields about episode, first_frame and instruction), or segment "
        "(fields about segment, for each segment that `segment` made or the source names a subtask)",
    )
    layout: CaptionLayout = Field(default="auto", description="frames that the model gets, as for caption")
    camera: str = Field(default="", description="camera that the model gets (default: all good ones)")

    @model_validator(mode="after")
    def _check_way(self) -> AttributesOptions:
        if self.by == "clip" and (self.per == "segment" or self.examples):
            raise ValueError("clip answers about whole episodes, without examples")
        return self


def _select_fields(options: AttributesOptions) -> list[AttributeField]:
    """The fields of the file that are asked. Raises RequestError where there are none."""
    subjects = {"segment": {"segment"}, "episode": {"episode", "first_frame", "instruction"}}[options.per]
    fields = [item for item in read_fields(options.fields) if item.about in subjects]
    if options.by == "clip":
        fields = [item for item in fields if item.type == "enum" and item.about != "instruction"]
    if not fields:
        kind = "enum about frames" if options.by == "clip" else f"field about {options.per}s"
        raise RequestError("there is nothing to ask", f"{options.fields or 'fields.yaml'} has no {kind}")
    return fields


def _attributes_producer(
    options: AttributesOptions, fields: Sequence[AttributeField], source: ModelAnswers | ClipAnswers
) -> Producer:
    is_per_segment = options.per == "segment"
    name = "segment_attributes" if is_per_segment else "attributes"
    rollup: Rollup = "union" if is_per_segment else ""
    unknown = Column(
        name=f"{name}_unknown",
        type="list<string>",
        meaning="Fields whose answer cannot be told.",
        rollup=rollup,
        needs_current_maker=True,
    )
    meaning = "Fields without an answer that can be used, and why."
    gaps = replace(unknown, name=f"{name}_gaps", meaning=meaning, is_gap_reason=True)
    documents: list[Json] = [item.model_dump(mode="json") for item in fields]
    return Producer(
        annotator=name,
        version=_VERSION,
        model=source.name,
        prompt_hash=source.prompt_hash,
        settings={**options.producer_settings(), **source.settings, "fields_hash": short_hash(documents)},
        columns=(*(item.describe_column() for item in fields), unknown, gaps),
        kind="model",
        subject_kind=options.per,
        after=SEGMENTERS if is_per_segment else (),
        fills_segments=is_per_segment,
    )


@takes_options(AttributesOptions)
class AttributesAnnotator:
    """Answers typed questions by frames; a field without a usable answer costs that field.

    Raises:
        RequestError: The file of fields is wrong, has nothing to ask, or the model cannot answer by a schema.
        ModelError: The model cannot be loaded.
    """

    charges_budget = True

    def __init__(self, options: Options, stores: Stores) -> None:
        own = options.parse(AttributesOptions)
        fields = _select_fields(own)
        self._source: ModelAnswers | ClipAnswers
        if own.by == "clip":
            spec = options.model or options.settings.embed_model
            self._source = ClipAnswers(load_encoder_for(spec, options, stores), fields, own.camera)
        else:
            spec = options.model or options.settings.caption_model
            vlm, price = load_vlm(spec, options, _MAX_NEW_TOKENS, stores), options.settings.price
            examples = own.load_examples(stores, read_confirmed_attributes)
            self._source = ModelAnswers(vlm, fields, (own.layout, own.camera), price, examples)
        self.producer = _attributes_producer(own, fields, self._source)
        self.batch_size, self.workers = self._source.batch_size, self._source.workers
        self.call_limit = self._source.call_limit
        self.needs = estimate_worker_resources(spec)

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of a subject that are looked at."""
        return self._source.select_frames(subject)

    def preflight(self, producers: Sequence[Producer]) -> Preflight:
        """Ask the model once, about grey frames."""
        return self._source.preflight()

    def estimate(self, subject: Subject) -> Cost:
        """One call with the images of a subject and all fields."""
        return self._source.estimate(subject)

    def process(self, works: Sequence[Work]) -> list[Outcome]:
        """One annotation per work, with a column for each answer."""
        return [
            self._result(work, answered) if isinstance(answered, AnsweredFields) else answered
            for work, answered in zip(works, self._source.answer(works), strict=True)
        ]

    def _result(self, work: Work, answered: AnsweredFields) -> Result:
        name = self.producer.annotator
        answers = answered.answers
        value: dict[str, Json] = {
            ATTRIBUTE_PREFIX + field: answer.value
            for field, answer in answers.items()
            if answer.value is not None
        }
        value[f"{name}_unknown"] = [field for field, answer in answers.items() if answer.value is None]
        if answered.problems:
            value[f"{name}_gaps"] = [f"{field}: {problem}" for field, problem in answered.problems.items()]
        if answered.examples:
            value["examples"] = [*answered.examples]
        value["answers"] = {field: answer.to_json() for field, answer in answers.items()}
        requested = self.select_frames(work.subject)
        annotation = new_annotation(
            work,
            self.producer,
            value,
            camera=next(iter(requested)) if len(requested) == 1 else "",
            frames=sorted({second for seconds in requested.values() for second in seconds}),
            cost=answered.cost,
        )
        return Result(annotations=[annotation], paid=answered.paid)
