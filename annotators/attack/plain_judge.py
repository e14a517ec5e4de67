"""The same model without the rubric: what it accepts on its own is what the rubric has to improve on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from annotators.models import VlmReply, VlmRequest, load_encoder_for, load_vlm
from ares.annotation import Cost

if TYPE_CHECKING:
    from annotators.base import Options, Work
    from ares.rubric.attacks import AttackText
    from ares.store import Stores

_CLIP_PREFIX = "clip:"
_MAX_NEW_TOKENS = 8
_QUESTION = (
    "The images are frames of one video, in the order of time. Is this caption true of the video? "
    "Answer yes or no.\nCaption: {caption}"
)
# Whether each text is accepted, None where the model did not answer; and what was paid.
PlainJudge = Callable[["Work", Sequence["AttackText"], str], tuple[list[bool | None], Cost]]


def make_plain_judge(options: Options, stores: Stores, spec: str) -> PlainJudge:
    """The judge without its rubric: a plain question, or for a clip judge the similarity alone.

    Similarity has no threshold of its own: a text is accepted where it fits the frames at least as well as the truth.

    Raises:
        ModelError: The model cannot be loaded.
    """
    if spec.startswith(_CLIP_PREFIX):
        return _judge_by_similarity(options, stores, spec.removeprefix(_CLIP_PREFIX))
    return _judge_by_question(options, stores, spec)


def _judge_by_similarity(options: Options, stores: Stores, spec: str) -> PlainJudge:
    encoder = load_encoder_for(spec, options, stores)

    def accept(work: Work, texts: Sequence[AttackText], truth: str) -> tuple[list[bool | None], Cost]:
        import numpy as np

        images = np.concatenate(
            [work.frames.at(camera, seconds) for camera, seconds in work.frames.requested.items()]
        )
        frames = encoder.encode_images(list(images)).mean(axis=0)
        *scores, least = encoder.encode_texts([*(text.text for text in texts), truth]) @ frames
        return [bool(score >= least) for score in scores], Cost()

    return accept


def _judge_by_question(options: Options, stores: Stores, spec: str) -> PlainJudge:
    vlm = load_vlm(spec, options, _MAX_NEW_TOKENS, stores)

    def accept(work: Work, texts: Sequence[AttackText], truth: str) -> tuple[list[bool | None], Cost]:
        camera, seconds = next(iter(work.frames.requested.items()))
        images = list(work.frames.at(camera, seconds))
        questions = [_QUESTION.format(caption=json.dumps(text.text)) for text in texts]
        replies = vlm.ask([VlmRequest(images=images, prompt=question) for question in questions])
        paid = sum((reply.paid if isinstance(reply, VlmReply) else reply.cost for reply in replies), Cost())
        return [_is_yes(reply.text) if isinstance(reply, VlmReply) else None for reply in replies], paid

    return accept


def _is_yes(reply: str) -> bool:
    return reply.strip().lower().startswith("yes")
