"""A vision-language model of transformers that answers requests in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from annotators.models.base import (
    IMAGE_SETTINGS,
    Capability,
    VlmFailure,
    VlmReply,
    VlmRequest,
    model_family,
)
from annotators.models.huggingface.batches import ask_in_batches
from annotators.models.huggingface.chat import ChatEncoder
from annotators.models.huggingface.choosing import choose_replies
from annotators.models.huggingface.generation import generate_replies
from annotators.models.huggingface.runtime import Runtime

if TYPE_CHECKING:
    from ares.episode import Json

_BATCH_SIZE = 8
_CAPABILITIES: frozenset[Capability] = frozenset({"schema", "choices", "probabilities", "samples", "seed"})


class HuggingfaceVlm:
    """A transformers image-text-to-text model; fills the protocol `annotators.models.base.Vlm`.

    Schemas are held token by token. A choice is the most probable one, and nothing is written for it. A sampled reply
    depends on its seed and not on its batch, as far as the arithmetic of the device allows it.

    Args:
        model: The model, on its device and in eval mode.
        processor: Its processor.
        name: Portable name with the fingerprint of the weights.
        max_new_tokens: Length limit of one reply.
    """

    batch_size = _BATCH_SIZE
    workers = 1
    settings: Mapping[str, Json] = IMAGE_SETTINGS

    def __init__(self, model: Any, processor: Any, name: str, max_new_tokens: int) -> None:
        chats = ChatEncoder(processor)
        self._runtime = Runtime(
            model=model,
            tokenizer=processor.tokenizer,
            chats=chats,
            name=name,
            max_new_tokens=max_new_tokens,
        )
        self.name, self.family = name, model_family(str(model.config.model_type))
        clip: frozenset[Capability] = frozenset({"clip"} if chats.takes_clips else ())
        self.capabilities = _CAPABILITIES | clip

    @property
    def always_thinks(self) -> bool:
        """Whether every reply begins with a thought, which cannot be switched off."""
        return self._runtime.chats.always_thinks

    def count_image_tokens(self, height: int, width: int) -> int:
        """Tokens that one image of this size, in pixels, adds to a request."""
        return self._runtime.chats.count_image_tokens(height, width)

    def ask(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | VlmFailure]:
        """One reply or failure per request; a reply that reaches the length limit is an error, not half an answer."""
        return ask_in_batches(requests, self._answer, _BATCH_SIZE, self.name)

    def _answer(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | VlmFailure]:
        if requests[0].choices:
            return choose_replies(self._runtime, requests)
        return generate_replies(self._runtime, requests)
