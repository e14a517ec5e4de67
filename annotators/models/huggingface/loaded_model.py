"""The parts of a loaded transformers model: its processor, chat template and JSON grammar."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from annotators.models.base import MAX_IMAGE_SIDE, VlmRequest
from annotators.models.paid_calls import shrink_image
from ares.errors import ModelError
from ares.imports import needs_extra

if TYPE_CHECKING:
    from llguidance import LLMatcher
    from llguidance._lib import JsonCompileOptions

    from ares.episode import Json


_SYSTEM, _USER = "system-text", "user-text"
_OPEN_THOUGHT = ("<think>", "<|thinking|>", "[THINK]")


class ChatEncoder:
    """Writes requests by the chat template of a processor, without thinking where the template can switch it off.

    Attributes:
        takes_system: The template writes a system prompt; otherwise that comes before the prompt of the user.
        takes_prompts: The template writes the prompt of the user; otherwise the model gets images alone.
        takes_clips: The template and the processor take frames as one clip.
        always_thinks: The template begins every reply with a thought, which cannot be switched off.

    Args:
        processor: The processor.
    """

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        # Generation continues at the right end, so the padding must be on the left.
        processor.tokenizer.padding_side = "left"
        if processor.tokenizer.pad_token is None:
            processor.tokenizer.pad_token = processor.tokenizer.eos_token
        # Otherwise SmolVLM writes a clip by another template than that of the model.
        self._template: dict[str, Any] = {"chat_template": processor.chat_template}
        if "enable_thinking" in str(processor.chat_template):
            self._template["enable_thinking"] = False
        _bound_clips(processor)
        self.takes_system = _SYSTEM in self._render(
            [_text_message("system", _SYSTEM), _text_message("user", _USER)]
        )
        self.takes_clips = self._writes_clips()
        question = self._render([_text_message("user", _USER)])
        self.takes_prompts = _USER in question or not question
        self.always_thinks = question.rstrip().endswith(_OPEN_THOUGHT)

    def encode(self, requests: Sequence[VlmRequest]) -> Any:
        """Tensors of a batch, on the CPU: `input_ids` and `attention_mask` (N, L), and what the model adds.

        All requests have images, or all a clip, or all neither. Raises ValueError for images that the processor
        refuses.
        """
        options: dict[str, Any] = {"padding": True}
        if requests[0].clip:
            options |= {
                "do_sample_frames": False,
                "video_metadata": [_frames_by_second(request) for request in requests],
            }
        return self._processor.apply_chat_template(
            [self._chat(request) for request in requests],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs=options,
            **self._template,
        )

    def count_image_tokens(self, height: int, width: int) -> int:
        """Tokens that one image adds to a request; larger ones are made smaller first."""
        import numpy as np

        image = np.zeros((height, width, 3), np.uint8)
        with_image, without = (
            self.encode([VlmRequest(images=images, prompt=_USER)])["input_ids"].shape[1]
            for images in ([image], [])
        )
        return int(with_image - without)

    def _chat(self, request: VlmRequest) -> list[dict[str, Any]]:
        images = [shrink_image(image, MAX_IMAGE_SIDE) for image in request.images]
        folded = request.system and not self.takes_system
        text = f"{request.system}\n\n{request.prompt}" if folded else request.prompt
        parts = [*_image_parts(images, request.clip), {"type": "text", "text": text}]
        user = {"role": "user", "content": parts}
        return [_text_message("system", request.system), user] if request.system and not folded else [user]

    def _writes_clips(self) -> bool:
        token = getattr(self._processor, "video_token", None)
        if not token or getattr(self._processor, "video_processor", None) is None:
            return False
        clip = {"role": "user", "content": [{"type": "video", "video": ""}, {"type": "text", "text": _USER}]}
        return token in self._render([clip])

    def _render(self, chat: list[dict[str, Any]]) -> str:
        """The text of a chat up to the reply, or "" where the template refuses it."""
        from jinja2 import TemplateError

        try:
            return str(
                self._processor.apply_chat_template(
                    chat, add_generation_prompt=True, tokenize=False, **self._template
                )
            )
        except TemplateError:
            return ""


def _bound_clips(processor: Any) -> None:
    """Bound the pixels of each frame of a clip, which some processors of Qwen leave open."""
    videos: Any = getattr(processor, "video_processor", None)
    if hasattr(videos, "cap_pixels_per_frame"):
        videos.cap_pixels_per_frame = True


def _frames_by_second(request: VlmRequest) -> dict[str, Any]:
    """A clip has no times: the model is told one frame per second."""
    count = len(request.images)
    return {
        "fps": 1.0,
        "total_num_frames": count,
        "frames_indices": list(range(count)),
        "duration": float(count),
    }


def _text_message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def _image_parts(images: Sequence[Any], clip: bool) -> list[dict[str, Any]]:
    import numpy as np
    from PIL import Image

    if clip:
        return [{"type": "video", "video": np.stack(images)}]
    return [{"type": "image", "image": Image.fromarray(image)} for image in images]


# The spaces of Python's `json.dumps`: models read and write JSON in this form most often, and endless spaces are none.
_FORM: JsonCompileOptions = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class JsonGrammar:
    """The vocabulary of a model, for which JSON schemas become matchers.

    Args:
        tokenizer: A tokenizer of the library `tokenizers`.
        vocabulary_size: Number of logits of the model.
        stop_ids: Tokens that end a reply.

    Raises:
        RequestError: The extra `models` is not installed.
    """

    def __init__(self, tokenizer: Any, vocabulary_size: int, stop_ids: Sequence[int]) -> None:
        with needs_extra("models"):
            from llguidance.hf import from_tokenizer

        self._tokenizer = from_tokenizer(tokenizer, n_vocab=vocabulary_size, eos_token=list(stop_ids))
        self._grammars: dict[str, str] = {}

    def matcher(self, schema: Mapping[str, Json]) -> LLMatcher:
        """A matcher that follows one reply.

        Raises:
            ModelError: The schema has something that cannot be held.
        """
        from llguidance import LLMatcher

        matcher = LLMatcher(self._tokenizer, self._grammar(json.dumps(schema)), log_level=0)
        if matcher.is_error():
            raise ModelError("JSON schema cannot be held", " ".join(matcher.get_error().split())[:300])
        return matcher

    def _grammar(self, schema: str) -> str:
        from llguidance import LLMatcher

        if schema not in self._grammars:
            self._grammars[schema] = LLMatcher.grammar_from_json_schema(schema, overrides=_FORM)
        return self._grammars[schema]


@dataclass(frozen=True, kw_only=True)
class LoadedTransformer:
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
