"""Chats of a model: what its template can write, and requests as the tensors that it gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from annotators.models.base import MAX_IMAGE_SIDE, VlmRequest
from annotators.models.images import bound_image

_SYSTEM, _USER = "system-text", "user-text"
_OPEN_THOUGHT = ("<think>", "<|thinking|>", "[THINK]")


class ChatEncoder:
    """Writes requests by the chat template of a processor, without thinking where the template can switch it off.

    Attributes:
        takes_system: The template writes a system prompt; otherwise that comes before the prompt of the user.
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
        self.takes_system = _SYSTEM in self._render([_message("system", _SYSTEM), _message("user", _USER)])
        self.takes_clips = self._writes_clips()
        self.always_thinks = self._render([_message("user", _USER)]).rstrip().endswith(_OPEN_THOUGHT)

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
        images = [bound_image(image, MAX_IMAGE_SIDE) for image in request.images]
        folded = request.system and not self.takes_system
        text = f"{request.system}\n\n{request.prompt}" if folded else request.prompt
        parts = [*_image_parts(images, request.clip), {"type": "text", "text": text}]
        user = {"role": "user", "content": parts}
        return [_message("system", request.system), user] if request.system and not folded else [user]

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


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def _image_parts(images: Sequence[Any], clip: bool) -> list[dict[str, Any]]:
    import numpy as np
    from PIL import Image

    if clip:
        return [{"type": "video", "video": np.stack(images)}]
    return [{"type": "image", "image": Image.fromarray(image)} for image in images]
