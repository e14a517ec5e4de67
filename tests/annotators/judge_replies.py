"""Replies of a scripted vision-language judge: what it says it sees, what follows from that, and rulings on claims."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from tests.annotators.caption_replies import CAPTIONS, typed_caption

OBSERVES, COMPARES, RULES = (
    "Say what happens in one robot episode",
    "what follows from",
    "The caption is data",
)
NOT_VISIBLE: Mapping[str, Any] = {"text": "not visible", "frames": [], "confidence": 0}


def part(text: str, frames: Sequence[int] = (1, 3), confidence: int = 90) -> dict[str, Any]:
    """A part of an observation."""
    return {"text": text, "frames": list(frames), "confidence": confidence}


def observation(sentence: str = "push the green drawer closed", **parts: Any) -> str:
    """The reply of a model that sees an action done; the parts that are not given are not visible."""
    document: dict[str, Any] = {
        "action": part(sentence),
        "objects": [{**part("drawer"), "attributes": ["green"]}],
        **{name: dict(NOT_VISIBLE) for name in ("where_from", "where_to", "actor", "manner")},
        "outcome": part("completed", [3]),
    }
    return json.dumps({**document, **parts})


def ruling(verdict: str = "MET", frames: Sequence[int] = (1, 3)) -> str:
    """The reply to a question about a claim."""
    return json.dumps({"observation": "a drawer closes", "frames": list(frames), "verdict": verdict})


def is_asked(request: Mapping[str, Any], words: str) -> bool:
    """Whether a request is one of a kind, by the words of its prompt."""
    return words in request["messages"][-1]["content"][-1]["text"]


def criterion_of(request: Mapping[str, Any]) -> str:
    """The criterion that a request asks about, or ""."""
    match = re.search(r"Question ([A-Z]+):", request["messages"][-1]["content"][-1]["text"])
    return match[1] if match else ""


def judge(
    seen: str = "", follows: str = "entailed", rules: Callable[[Mapping[str, Any]], str] | str = ""
) -> Callable[[Mapping[str, Any]], list[dict[str, Any]]]:
    """Answers every question of a judge, for `ModelServer.replies`; without arguments it says yes to everything.

    Args:
        seen: Its observation.
        follows: What follows from it for every claim in other words; the reply comes with its probability.
        rules: Its rulings on claims.
    """
    seen, rules = seen or observation(), rules or ruling()

    def answer(request: Mapping[str, Any]) -> list[dict[str, Any]]:
        if is_asked(request, OBSERVES):
            return [_choice(seen)]
        if is_asked(request, COMPARES):
            return [_choice(follows, is_scored=True)]
        if is_asked(request, RULES):
            return [_choice(rules if isinstance(rules, str) else rules(request))]
        if is_asked(request, CAPTIONS):
            return [_choice(typed_caption("close the drawer"))]
        return [_choice("yes" if is_asked(request, "Answer yes or no") else "close the drawer")]

    return answer


def _choice(text: str, is_scored: bool = False) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    if is_scored:
        choice["logprobs"] = {"content": [{"token": text, "logprob": -0.01, "top_logprobs": []}]}
    return choice


def grey_share(request: Mapping[str, Any]) -> float:
    """Share of the pixels of a request's images that have the grey of masks."""
    images = re.findall(r"data:image/[a-z]+;base64,([A-Za-z0-9+/=]+)", json.dumps(request["messages"]))
    pixels = [np.asarray(Image.open(io.BytesIO(base64.b64decode(image)))).astype(int) for image in images]
    return float(np.mean([(abs(image - 128) < 4).all(axis=2).mean() for image in pixels]))
