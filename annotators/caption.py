"""Caption: one imperative sentence per episode, written by a vision-language model that sees frames alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.base import Annotator, Options, Result, Work
from annotators.facts import fact
from annotators.layout import Layout, parse_layout, wanted
from annotators.prompts import prompt
from annotators.vlm import Ask, Reply, Vlm, load_vlm, usd
from ares.annotation import Column, Cost, Maker, short_hash
from ares.episode import Json
from ares.errors import AresError, MediaError, ModelError

if TYPE_CHECKING:
    from ares.settings import Price
    from ares.workspace import Workspace

_VERSION = "1"
_MAX_NEW_TOKENS = 64
# For the quote alone: a 640 x 480 frame in common models, the prompt, and a sentence.
_TOKENS_PER_IMAGE, _TOKENS_OF_PROMPT, _TOKENS_OF_CAPTION = 400, 150, 20
_COLUMN = Column(name="caption", type="string", meaning="Latest caption of the whole episode.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Captioner:
    """What captioning needs.

    Attributes:
        vlm: The model.
        maker: What its captions say made them.
        layout: How frames are laid before it.
        camera: Camera name, or "" for the best one.
    """

    vlm: Vlm
    maker: Maker
    layout: Layout
    camera: str


def caption(options: Options, ws: Workspace) -> Annotator:
    """An annotator that captions whole episodes; it is never told an instruction.

    Raises:
        RequestError: The layout or the model spec cannot be read.
        ModelError: The model cannot be loaded.
    """
    layout = parse_layout(options.layout)
    spec = options.model or options.settings.caption_model
    vlm = load_vlm(spec, options, _MAX_NEW_TOKENS)
    captioner = Captioner(
        vlm=vlm, maker=_maker(vlm, layout, options.camera), layout=layout, camera=options.camera
    )
    return Annotator(
        maker=captioner.maker,
        process=lambda works: _process(works, captioner),
        wants=lambda episode: wanted(episode, options.camera, layout.count),
        batch=vlm.batch,
        workers=vlm.workers,
        estimate=lambda episode: _estimate(layout, spec, options.settings.price),
    )


def _maker(vlm: Vlm, layout: Layout, camera: str) -> Maker:
    settings: dict[str, Json] = {
        "layout": layout.name,
        "camera": camera,
        "max_new_tokens": _MAX_NEW_TOKENS,
        "temperature": 0,
        "family": vlm.family,
    }
    return Maker(
        annotator="caption",
        version=_VERSION,
        model=vlm.name,
        prompt_hash=short_hash(prompt("caption")),
        settings=settings,
        columns=(_COLUMN,),
    )


def _process(works: Sequence[Work], captioner: Captioner) -> list[Result | AresError]:
    asks = [_ask(work, captioner) for work in works]
    replies = iter(captioner.vlm.ask([ask for ask in asks if isinstance(ask, Ask)]))
    return [
        _result(work, captioner, next(replies)) if isinstance(ask, Ask) else ask
        for work, ask in zip(works, asks, strict=True)
    ]


def _ask(work: Work, captioner: Captioner) -> Ask | AresError:
    seconds = wanted(work.episode, captioner.camera, captioner.layout.count)
    if not seconds:
        return MediaError("episode has no such camera", f"{captioner.camera or 'any'!r}")
    (camera, instants), *_ = seconds.items()
    try:
        frames = work.frames.at(camera, instants)
    except MediaError as error:
        return error
    text = prompt("caption").format(legend=captioner.layout.legend(instants))
    return Ask(images=captioner.layout.arrange(frames), prompt=text)


def _result(work: Work, captioner: Captioner, reply: Reply | AresError) -> Result | AresError:
    if isinstance(reply, AresError):
        return reply
    text = clean(reply.text)
    if not text:
        return ModelError("caption is empty", f"{captioner.vlm.name} replied {reply.text[:200]!r}")
    value: dict[str, Json] = {"text": text, "caption": text, "layout": captioner.layout.name}
    if reply.text != text:
        value["raw"] = reply.text
    (camera, instants), *_ = wanted(work.episode, captioner.camera, captioner.layout.count).items()
    made = fact(work, captioner.maker, value, camera=camera, frames=instants, cost=reply.cost)
    return Result(annotations=[made])


def clean(reply: str) -> str:
    """A reply without line breaks, outer spaces and outer quotes; nothing else is mended."""
    text = " ".join(reply.split())
    for opening, closing in (('"', '"'), ("'", "'"), ("“", "”")):
        if len(text) > 1 and text.startswith(opening) and text.endswith(closing):
            text = text[1:-1].strip()
    return text


def _estimate(layout: Layout, spec: str, price: Price | None) -> Cost:
    images = 1 if layout.name == "collage" else layout.count
    tokens_in, tokens_out = images * _TOKENS_PER_IMAGE + _TOKENS_OF_PROMPT, _TOKENS_OF_CAPTION
    spent = usd(price, tokens_in, tokens_out) if spec.startswith("openai:") else 0.0
    return Cost(calls=1, tokens_in=tokens_in, tokens_out=tokens_out, usd=spent)
