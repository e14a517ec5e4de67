"""The annotator `caption`: slots and a sentence per segment, by a vision-language model that gets only frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from ares.annotation import Column, Cost, Producer, short_hash
from ares.episode import Json
from ares.errors import AresError, MediaError, RequestError
from ares.rubric import SLOT_COLUMNS, SLOT_LIST_COLUMNS, read_verbs, slots_to_json
from ares_annotators.base import (
    Options,
    Outcome,
    PaidFailure,
    Preflight,
    Result,
    Subject,
    Work,
    new_annotation,
)
from ares_annotators.caption.captioner import (
    CaptionedKind,
    Captioner,
    WrittenCaption,
    agreement_column,
    caption_prompt,
    captioner_hash,
    choose_layout,
    choose_writing,
    parse_caption_reply,
    write_captions,
)
from ares_annotators.caption.episode_text import EpisodeWriter, episode_prompt_hash
from ares_annotators.caption.frame_plan import CaptionLayout, plan_test_frames
from ares_annotators.caption.sample_vote import SAMPLE_TEMPERATURE
from ares_annotators.caption.stated_phrases import read_phrases
from ares_annotators.examples import ExampleOptions, ShownExamples, find_examples, read_confirmed_captions
from ares_annotators.models import (
    Capability,
    ReadableImages,
    Vlm,
    VlmReply,
    VlmRequest,
    call_limit,
    estimate_image_tokens,
    estimate_worker_resources,
    grey_frames,
    load_vlm,
    make_test_call,
    price_usd,
    require_capabilities,
)
from ares_annotators.options import takes_options

if TYPE_CHECKING:
    from ares.settings import Price
    from ares.store import Stores
    from ares_annotators.base import CameraSeconds


_VERSION = "2"
_MAX_NEW_TOKENS = 300
_TEST_SIDE = 256
# For estimates only: tokens of a caption with slots, and of a sentence; characters of a prompt that are one token.
_TYPED_TOKENS, _SENTENCE_TOKENS, _CHARACTERS_PER_TOKEN = 105, 20, 4.0
_COLUMNS = (
    Column(name="caption", type="string", meaning="Caption of the whole episode."),
    Column(
        name="caption_success",
        type="bool",
        meaning="Whether the caption says that the task was done; empty if it leaves that open.",
        is_outcome=True,
    ),
    *SLOT_COLUMNS,
    *SLOT_LIST_COLUMNS,
)
# Captions of segments, and the annotators whose segments get one.
SEGMENT_CAPTION = "segment_caption"
SEGMENTERS = ("segment", "source_subtask")
_SEGMENT_COLUMNS = (*SLOT_COLUMNS, *(replace(column, rollup="union") for column in SLOT_LIST_COLUMNS))
# What a segment is, where whoever made it does not say so.
_USUAL_STYLE = "subtask"


class CaptionOptions(ExampleOptions):
    """Options of the captioner."""

    # What the files say is part of the producer, not where they are.
    not_in_producer: ClassVar[frozenset[str]] = ExampleOptions.not_in_producer | {
        "verbs",
        "phrases",
        "per",
        "text_from",
        "samples",
    }

    per: CaptionedKind = Field(
        default="episode",
        description="what gets a caption: episode, or segment (each segment that `segment` made or the source names a "
        "subtask; the model also gets a sheet of what comes before and after)",
    )
    text_from: Literal["frames", "segments"] = Field(
        default="frames",
        description="what the caption of an episode is made from: frames, or segments (the accepted captions of its "
        "segments, by one call without images; a single one as it is)",
    )
    layout: CaptionLayout = Field(
        default="auto",
        description="frames that the captioner gets: auto (one in 2 seconds of each good camera, at most 60), sheets "
        "(the same as contact sheets, for a model that takes few images), or tiles (the first, middle and last frame "
        "of one camera)",
    )
    camera: str = Field(
        default="",
        description="camera that the captioner gets (default: all good ones, for tiles the best view)",
    )
    verbs: str = Field(
        default="",
        description="YAML file of the verbs that an action may be, each with its meaning (default: those of "
        "manipulation)",
    )
    phrases: str = Field(
        default="",
        description="YAML file of sentences with their slots, for a captioner that writes no other sentences",
    )

    samples: int = Field(
        default=1,
        ge=1,
        le=15,
        description="captions of the same frames, each made without the others; the one is kept whose slots agree most "
        "with the others, and the column caption_agreement says how far, from 0 to 1",
    )

    @model_validator(mode="after")
    def _check_source(self) -> CaptionOptions:
        if self.examples and (self.per == "segment" or self.text_from == "segments"):
            raise ValueError("examples are for captions of episodes from frames")
        if self.per == "segment" and self.text_from == "segments":
            raise ValueError("captions of segments are made from frames; text_from: segments is for episodes")
        return self


def load_captioner(options: Options, stores: Stores) -> Captioner:
    """The model of a run with its settings. Raises as `CaptionAnnotator` does."""
    caption_options = options.parse(CaptionOptions)
    samples = caption_options.samples
    verbs, phrases = read_verbs(caption_options.verbs), read_phrases(caption_options.phrases)
    vlm = load_vlm(_model_spec(options), options, _MAX_NEW_TOKENS, stores)
    if caption_options.text_from == "segments" and choose_writing(vlm) == "sentence":
        raise RequestError(
            "this model cannot sum up captions", f"{vlm.name} writes captions of frames and reads no question"
        )
    files: dict[str, Json] = {"verbs_hash": short_hash(dict(verbs))}
    examples = caption_options.load_examples(stores, read_confirmed_captions)
    if examples:
        require_capabilities(vlm, frozenset({"schema"}), "captions by examples")
    if samples > 1:
        needed: frozenset[Capability] = frozenset({"schema", "samples", "seed"})
        require_capabilities(vlm, needed, f"captions of {samples} samples")
        if choose_writing(vlm) == "sentence":
            raise RequestError("this model has no slots to vote on", f"{vlm.name} writes sentences alone")
        files |= {"samples": samples, "sample_temperature": SAMPLE_TEMPERATURE}
    if phrases:
        files["phrases_hash"] = short_hash({text: slots_to_json(slots) for text, slots in phrases.items()})
    prompt_hash = captioner_hash(choose_writing(vlm), verbs, caption_options.per)
    if caption_options.text_from == "segments":
        files["text_from"] = caption_options.text_from
        prompt_hash = short_hash([prompt_hash, episode_prompt_hash(verbs)])
    return Captioner(
        vlm=vlm,
        producer=_caption_producer(vlm, caption_options, files, prompt_hash),
        layout=caption_options.layout,
        camera=caption_options.camera,
        verbs=verbs,
        phrases=phrases,
        per=caption_options.per,
        samples=samples,
        examples=examples,
    )


def _model_spec(options: Options) -> str:
    return options.model or options.settings.caption_model


def _caption_producer(
    vlm: Vlm, caption_options: CaptionOptions, files: dict[str, Json], prompt_hash: str
) -> Producer:
    settings: dict[str, Json] = {
        **caption_options.producer_settings(),
        **files,
        **vlm.settings,
        "writing": choose_writing(vlm),
        "max_new_tokens": _MAX_NEW_TOKENS,
        "temperature": 0,
        "family": vlm.family,
    }
    is_per_segment = caption_options.per == "segment"
    columns = _SEGMENT_COLUMNS if is_per_segment else _COLUMNS
    agreement = Column(
        name=agreement_column(caption_options.per),
        type="float64",
        meaning="Mean share of the samples asked for that agree with the caption, over its slots.",
        rollup="min" if is_per_segment else "",
    )
    return Producer(
        annotator=SEGMENT_CAPTION if is_per_segment else "caption",
        version=_VERSION,
        model=vlm.name,
        prompt_hash=prompt_hash,
        settings=settings,
        columns=(*columns, agreement) if caption_options.samples > 1 else columns,
        kind="model",
        subject_kind=caption_options.per,
        after=SEGMENTERS if is_per_segment else (),
        fills_segments=True,
    )


def _test_request(captioner: Captioner) -> VlmRequest:
    """What the model is asked once before a run."""
    layout = choose_layout(captioner.layout, captioner.writing)
    plan = plan_test_frames(layout, _TEST_SIDE, _TEST_SIDE)
    images = plan.arrange(lambda camera, seconds: grey_frames(len(seconds)))
    return captioner.request(images, captioner.prompt(plan))


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionQuestion:
    """What a captioner is asked about a work.

    Attributes:
        work: The work, with its frames decoded.
        more: What follows the prompt.
        examples: Captions of other episodes that it is shown.
    """

    work: Work
    more: str = ""
    examples: ShownExamples = field(default_factory=ShownExamples)


def ask_captioner(captioner: Captioner, questions: Sequence[CaptionQuestion]) -> list[Outcome]:
    """One caption per question, in order; all are asked for at once."""
    requests = [_caption_request(question, captioner) for question in questions]
    sent = [request for request in requests if isinstance(request, VlmRequest)]
    written = iter(write_captions(captioner, sent))
    return [
        _caption_result(question, captioner, next(written)) if isinstance(request, VlmRequest) else request
        for question, request in zip(questions, requests, strict=True)
    ]


def _caption_request(question: CaptionQuestion, captioner: Captioner) -> VlmRequest | AresError:
    work, plan = question.work, captioner.plan(question.work.subject)
    if not plan.views:
        return MediaError("episode has no such camera", f"{captioner.camera or 'any'!r}")
    try:
        images = ReadableImages(lambda: plan.arrange(work.frames.at), work.release_frames)
    except MediaError as error:
        return error
    return question.examples.add_to(captioner.request(images, captioner.prompt(plan) + question.more))


def _caption_result(
    question: CaptionQuestion, captioner: Captioner, written: WrittenCaption | PaidFailure
) -> Outcome:
    if isinstance(written, PaidFailure):
        return written
    work, plan = question.work, captioner.plan(question.work.subject)
    value = {**written.value, **_describe_segment(work.subject, captioner)}
    described = work.subject.annotation
    if described and described.value.get("arm") and not value.get("arm"):
        # The column has the words of the caption; where they name no hand, the arm whose signals were cut.
        value["arm"] = described.value["arm"]
    if question.examples.episode_ids:
        value["examples"] = [*question.examples.episode_ids]
    annotation = new_annotation(
        work, captioner.producer, value, camera=plan.camera, frames=plan.seconds, cost=written.cost
    )
    return Result(annotations=[annotation], paid=written.paid)


def _describe_segment(subject: Subject, captioner: Captioner) -> dict[str, Json]:
    """What the caption of a segment says beside its words: style and origin of the segment, and who wrote it."""
    if captioner.per == "episode":
        return {}
    described = subject.annotation
    of_segment = described.value if described else {}
    segment: dict[str, Json] = {"arm": of_segment.get("arm") or ""}
    if described:
        segment |= {"annotator": described.name, "maker_id": described.maker_id}
    style = of_segment.get("style") or _USUAL_STYLE
    return {"style": style, "author": captioner.vlm.name, "segment": segment}


def count_prompt_tokens(prompt: str) -> int:
    """Tokens of the words of a prompt, for an estimate; the real number depends on the tokenizer of the model."""
    return math.ceil(len(prompt) / _CHARACTERS_PER_TOKEN)


def _estimate_caption_cost(captioner: Captioner, subject: Subject, spec: str, price: Price | None) -> Cost:
    """What one caption will cost: images and words of its prompt."""
    plan = captioner.plan(subject)
    name = str(captioner.vlm.settings.get("served_from") or captioner.vlm.name)
    prompt = caption_prompt(captioner.writing, plan.legend() if plan.views else "", captioner.verbs)
    tokens_out = _TYPED_TOKENS if captioner.writing == "typed" else _SENTENCE_TOKENS
    image_tokens = estimate_image_tokens(name, plan.image_sizes())
    if captioner.examples:
        image_tokens += captioner.examples.expect_tokens(name, subject)
    tokens_out *= captioner.samples
    return _expect_cost([prompt], image_tokens, tokens_out, spec, price)


def _expect_cost(
    prompts: Sequence[str], image_tokens: int, tokens_out: int, spec: str, price: Price | None
) -> Cost:
    """The cost of calls with these prompts."""
    tokens_in = image_tokens + sum(map(count_prompt_tokens, prompts))
    usd = price_usd(price, tokens_in, tokens_out) if spec.startswith("openai:") else 0.0
    return Cost(calls=len(prompts), tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)


@takes_options(CaptionOptions)
class CaptionAnnotator:
    """Captions segments, by default whole episodes; the model never gets the instruction.

    Attributes:
        captioner: The model with its settings.

    Raises:
        RequestError: The layout, a file of verbs or phrases, or the model spec cannot be read.
        ModelError: The model cannot be loaded.
    """

    charges_budget = True
    warnings: Sequence[str] = ()

    def __init__(self, options: Options, stores: Stores) -> None:
        self.captioner = load_captioner(options, stores)
        self._spec, self._price = _model_spec(options), options.settings.price
        self._vlm = vlm = self.captioner.vlm
        self.producer = self.captioner.producer
        self.batch_size, self.workers, self.call_limit = vlm.batch_size, vlm.workers, call_limit(vlm)
        self.needs = estimate_worker_resources(self._spec)
        is_from_segments = options.parse(CaptionOptions).text_from == "segments"
        self._writer = EpisodeWriter(self.captioner, stores, SEGMENT_CAPTION) if is_from_segments else None

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of a subject that the model gets; none where it gets captions of segments."""
        return {} if self._writer else self.captioner.select_frames(subject)

    def preflight(self, producers: Sequence[Producer]) -> Preflight:
        """Ask the model once, about grey frames or made-up captions of segments."""
        request = self._writer.test_request() if self._writer else _test_request(self.captioner)
        return make_test_call(self._vlm, request, self._reply_problem)

    def _reply_problem(self, reply: VlmReply) -> str:
        """What is wrong with the form of a reply; an empty caption of grey frames is none."""
        read = parse_caption_reply(reply.text, self.captioner.writing, self.captioner.verbs)
        return read if isinstance(read, str) and reply.text.strip(" \n\"'") else ""

    def estimate(self, subject: Subject) -> Cost:
        """One call with the images of a subject, or one about the captions of its segments."""
        if self._writer:
            prompts = self._writer.expect_prompts(subject)
            return _expect_cost(prompts, 0, _TYPED_TOKENS * len(prompts), self._spec, self._price)
        return _estimate_caption_cost(self.captioner, subject, self._spec, self._price)

    def process(self, works: Sequence[Work]) -> list[Outcome]:
        """One caption per work; all are asked for at once."""
        if self._writer:
            return self._writer.process(works)
        shown = find_examples(self.captioner.examples, works)
        questions = [
            CaptionQuestion(work=work, examples=item) for work, item in zip(works, shown, strict=True)
        ]
        return ask_captioner(self.captioner, questions)
