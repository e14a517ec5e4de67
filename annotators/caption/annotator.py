"""The annotator `caption`: one imperative sentence per episode, by a vision-language model that gets only frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from annotators.base import Options, Outcome, PaidFailure, Preflight, Result, Subject, Work, new_annotation
from annotators.caption.frame_layout import FrameLayout, LayoutName, parse_frame_layout, select_frame_seconds
from annotators.models import (
    LocalModelOptions,
    ReadableImages,
    Vlm,
    VlmFailure,
    VlmReply,
    VlmRequest,
    call_limit,
    estimate_image_tokens,
    estimate_worker_resources,
    grey_frames,
    load_vlm,
    make_test_call,
    price_usd,
)
from annotators.options import takes_options
from annotators.prompting import read_prompt
from ares.annotation import Column, Cost, Maker, short_hash
from ares.episode import Json
from ares.errors import AresError, MediaError, ModelError
from ares.rubric import parse_caption

if TYPE_CHECKING:
    from annotators.base import CameraSeconds
    from ares.settings import Price
    from ares.store import Stores


_VERSION = "1"
_MAX_NEW_TOKENS = 64
# For estimates only: the prompt, and a sentence.
_PROMPT_TOKENS, _CAPTION_TOKENS = 150, 20
_COLUMNS = (
    Column(name="caption", type="string", meaning="Caption of the whole episode."),
    Column(
        name="caption_success",
        type="bool",
        meaning="Whether the caption says that the task was done; empty if it leaves that open.",
        is_outcome=True,
    ),
)


class CaptionOptions(LocalModelOptions):
    """Options of the captioner."""

    layout: LayoutName = Field(
        default="tiles", description="frames that the captioner gets: tiles, collage or frames:N"
    )
    camera: str = Field(default="", description="camera that the captioner gets (default: the best view)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Captioner:
    """A model with the settings of captioning.

    Attributes:
        vlm: The model.
        maker: Maker of its captions.
        layout: How frames are arranged for it.
        camera: Camera name, or "" for the best one.
    """

    vlm: Vlm
    maker: Maker
    layout: FrameLayout
    camera: str

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of a subject that it gets; none where the episode lacks the camera."""
        return select_frame_seconds(subject, self.camera, self.layout.count)

    def prompt(self, seconds: Sequence[float]) -> str:
        """What it is asked about frames at these seconds."""
        return read_prompt("annotators.caption", "caption").format(legend=self.layout.legend(seconds))


def load_captioner(options: Options, stores: Stores) -> Captioner:
    """The model of a run with its settings. Raises as `CaptionAnnotator` does."""
    own = options.parse(CaptionOptions)
    vlm = load_vlm(_model_spec(options), options, _MAX_NEW_TOKENS, stores)
    return Captioner(
        vlm=vlm, maker=_caption_maker(vlm, own), layout=parse_frame_layout(own.layout), camera=own.camera
    )


def _model_spec(options: Options) -> str:
    return options.model or options.settings.caption_model


def _test_request(layout: FrameLayout) -> VlmRequest:
    """What the model is asked once before a run."""
    seconds = [float(second) for second in range(layout.count)]
    text = read_prompt("annotators.caption", "caption").format(legend=layout.legend(seconds))
    return VlmRequest(images=layout.arrange(grey_frames(layout.count)), prompt=text)


def _caption_maker(vlm: Vlm, own: CaptionOptions) -> Maker:
    settings: dict[str, Json] = {
        **own.maker_settings(),
        **vlm.settings,
        "max_new_tokens": _MAX_NEW_TOKENS,
        "temperature": 0,
        "family": vlm.family,
    }
    return Maker(
        annotator="caption",
        version=_VERSION,
        model=vlm.name,
        prompt_hash=short_hash(read_prompt("annotators.caption", "caption")),
        settings=settings,
        columns=_COLUMNS,
        kind="model",
        fills_segments=True,
    )


def _caption_request(work: Work, captioner: Captioner) -> VlmRequest | AresError:
    seconds = captioner.select_frames(work.subject)
    if not seconds:
        return MediaError("episode has no such camera", f"{captioner.camera or 'any'!r}")
    (camera, camera_seconds), *_ = seconds.items()
    try:
        images = ReadableImages(
            lambda: captioner.layout.arrange(work.frames.at(camera, camera_seconds)), work.release_frames
        )
    except MediaError as error:
        return error
    return VlmRequest(images=images, prompt=captioner.prompt(camera_seconds))


def _caption_result(work: Work, captioner: Captioner, reply: VlmReply | VlmFailure) -> Outcome:
    if isinstance(reply, VlmFailure):
        return PaidFailure(reply.error, reply.cost)
    value = make_caption_value(captioner, reply.text)
    if isinstance(value, ModelError):
        return PaidFailure(value, reply.paid)
    (camera, camera_seconds), *_ = captioner.select_frames(work.subject).items()
    annotation = new_annotation(
        work, captioner.maker, value, camera=camera, frames=camera_seconds, cost=reply.cost
    )
    return Result(annotations=[annotation], paid=reply.paid)


def make_caption_value(captioner: Captioner, reply: str) -> dict[str, Json] | ModelError:
    """The value of a caption from the reply of its model, or why there is none."""
    text = clean_caption_reply(reply)
    if not text:
        return ModelError("caption is empty", f"{captioner.vlm.name} replied {reply[:200]!r}")
    outcome = {"success": True, "failure": False}.get(parse_caption(text).outcome)
    value: dict[str, Json] = {"text": text, "caption": text, "layout": captioner.layout.name}
    if outcome is not None:
        value["caption_success"] = outcome
    if reply != text:
        value["raw"] = reply
    return value


def clean_caption_reply(reply: str) -> str:
    """A reply without line breaks, outer spaces and outer quotes; nothing else is changed."""
    text = " ".join(reply.split())
    for opening, closing in (('"', '"'), ("'", "'"), ("“", "”")):
        if len(text) > 1 and text.startswith(opening) and text.endswith(closing):
            text = text[1:-1].strip()
    return text


def _estimate_caption_cost(captioner: Captioner, subject: Subject, spec: str, price: Price | None) -> Cost:
    sizes = captioner.layout.image_sizes(subject, captioner.camera)
    name = str(captioner.vlm.settings.get("served_from") or captioner.vlm.name)
    tokens_in, tokens_out = estimate_image_tokens(name, sizes) + _PROMPT_TOKENS, _CAPTION_TOKENS
    usd = price_usd(price, tokens_in, tokens_out) if spec.startswith("openai:") else 0.0
    return Cost(calls=1, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)


@takes_options(CaptionOptions)
class CaptionAnnotator:
    """Captions whole episodes; the model never gets the instruction.

    Raises:
        RequestError: The layout or the model spec cannot be read.
        ModelError: The model cannot be loaded.
    """

    charges_budget = True
    warnings: Sequence[str] = ()

    def __init__(self, options: Options, stores: Stores) -> None:
        self._captioner = load_captioner(options, stores)
        self._spec, self._price = _model_spec(options), options.settings.price
        self._vlm = vlm = self._captioner.vlm
        self.maker = self._captioner.maker
        self.batch_size, self.workers, self.call_limit = vlm.batch_size, vlm.workers, call_limit(vlm)
        self.needs = estimate_worker_resources("caption", self._spec)

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of a subject that the model gets."""
        return self._captioner.select_frames(subject)

    def preflight(self, makers: Sequence[Maker]) -> Preflight:
        """Ask the model once about grey frames."""
        return make_test_call(self._vlm, _test_request(self._captioner.layout))

    def estimate(self, subject: Subject) -> Cost:
        """One call with the images of a subject."""
        return _estimate_caption_cost(self._captioner, subject, self._spec, self._price)

    def process(self, works: Sequence[Work]) -> list[Outcome]:
        """One caption per work; all are asked for at once."""
        requests = [_caption_request(work, self._captioner) for work in works]
        sent = [request for request in requests if isinstance(request, VlmRequest)]
        replies = iter(self._vlm.ask(sent))
        return [
            _caption_result(work, self._captioner, next(replies))
            if isinstance(request, VlmRequest)
            else request
            for work, request in zip(works, requests, strict=True)
        ]
