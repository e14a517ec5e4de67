"""A loaded model with its processor, as the parts of this package use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from annotators.models.base import VlmRequest
from annotators.models.huggingface.chat import ChatEncoder
from annotators.models.huggingface.json_grammar import JsonGrammar


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """A model and its processor.

    Attributes:
        model: A transformers image-text-to-text model, on its device and in eval mode.
        tokenizer: The tokenizer of its processor.
        chats: Writes requests for it.
        name: Portable name with the fingerprint of the weights.
        max_new_tokens: Length limit of a reply where the request has none.
    """

    model: Any
    tokenizer: Any
    chats: ChatEncoder
    name: str
    max_new_tokens: int

    @cached_property
    def stop_ids(self) -> Sequence[int]:
        """Tokens that end a reply."""
        ids = self.model.generation_config.eos_token_id
        return ids if isinstance(ids, list) else [ids]

    @cached_property
    def grammar(self) -> JsonGrammar:
        """Makes matchers of JSON schemas; built when the first schema comes, in about a second."""
        return JsonGrammar(self.tokenizer, self.model.config.get_text_config().vocab_size, self.stop_ids)

    def encode(self, requests: Sequence[VlmRequest]) -> Any:
        """Tensors of a batch of requests on the CPU, see `ChatEncoder.encode`."""
        return self.chats.encode(requests)

    def to_device(self, inputs: Any) -> Any:
        """Tensors on the device of the model, those of pixels in its number format."""
        return inputs.to(self.model.device, self.model.dtype)
