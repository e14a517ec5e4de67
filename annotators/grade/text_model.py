"""A model that is asked about words alone, and requests of several captions that are one question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from annotators.base import Preflight
from annotators.grade.questions import comparison_request, make_pair, parse_comparison
from annotators.models import ReadableImages, Vlm, VlmFailure, VlmReply, VlmRequest, make_test_call
from ares.annotation import Cost
from ares.episode import Json


class TextModel:
    """A model that is asked about words, and gets no frames.

    Args:
        vlm: The model; it keeps its replies and books their cost.
    """

    def __init__(self, vlm: Vlm) -> None:
        self.vlm = vlm
        self.has_schema = "schema" in vlm.capabilities
        self.settings: Mapping[str, Json] = {
            "text_model": vlm.name,
            "text_family": vlm.family,
            "text_has_schema": self.has_schema,
        }

    def ask(self, requests: Sequence[VlmRequest]) -> list[VlmReply | VlmFailure]:
        """A reply for each request; the same question of several captions is asked, and paid, once."""
        return ask_once(self.vlm, requests, [request.prompt for request in requests])

    def preflight(self) -> Preflight:
        """One question whose reply has to be of the form asked for. Raises ModelError."""
        request = comparison_request(make_pair("action", "open", "pull open"), self.has_schema)
        return make_test_call(self.vlm, request, _comparison_problem)


def _comparison_problem(reply: VlmReply) -> str:
    is_read = parse_comparison(reply.text) in reply.text
    return "" if is_read else "reply is off the menu"


def ask_once(vlm: Vlm, requests: Sequence[VlmRequest], keys: Sequence[object]) -> list[VlmReply | VlmFailure]:
    """Replies; of requests with the same key one is asked, and the first of them has paid for it."""
    first = dict(zip(reversed(keys), reversed(requests), strict=True))
    for key, request in zip(keys, requests, strict=True):
        # What is not sent holds no pixels meanwhile.
        if request is not first[key] and isinstance(request.images, ReadableImages):
            request.images.release()
    replies = dict(zip(first, vlm.ask(list(first.values())), strict=True)) if first else {}
    paid_for: set[object] = set()
    answers: list[VlmReply | VlmFailure] = []
    for key in keys:
        answers.append(_as_kept(replies[key]) if key in paid_for else replies[key])
        paid_for.add(key)
    return answers


def _as_kept(reply: VlmReply | VlmFailure) -> VlmReply | VlmFailure:
    return replace(reply, was_kept=True) if isinstance(reply, VlmReply) else replace(reply, cost=Cost())
