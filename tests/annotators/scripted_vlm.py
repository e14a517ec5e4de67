"""A vision-language model with scripted replies, for tests of annotators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ares.annotation import Cost
from ares.episode import Json
from ares.errors import ModelError
from ares_annotators.models import Capability, VlmFailure, VlmReply, VlmRequest


class StubVlm:
    """Fills the protocol `ares_annotators.models.base.Vlm` without a model; for tests of annotators.

    Its name, which every annotation stores as its model, begins with "stub:".

    Args:
        responder: Makes the reply to a request; None where none may be asked for.
        name: Rest of its name.
        family: Model family; a judge must be of another family than the captioner.

    Attributes:
        history: All requests so far, in order.
    """

    batch_size = 8
    workers = 1
    capabilities: frozenset[Capability] = frozenset({"schema", "choices", "seed", "clip"})
    settings: Mapping[str, Json] = {}

    def __init__(
        self,
        responder: Callable[[VlmRequest], str | ModelError] | None = None,
        name: str = "scripted",
        family: str = "stub",
    ) -> None:
        self.name = f"stub:{name}"
        self.family = family
        self.history: list[VlmRequest] = []
        self._responder = responder

    def ask(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | VlmFailure]:
        """One scripted reply or error per request; each counts as one call without tokens."""
        return [self._reply(request) for request in requests]

    def _reply(self, request: VlmRequest) -> VlmReply | VlmFailure:
        self.history.append(request)
        assert self._responder, "the stub has no reply"
        reply = self._responder(request)
        if isinstance(reply, ModelError):
            return VlmFailure(reply)
        return VlmReply(text=reply, cost=Cost(calls=1))
