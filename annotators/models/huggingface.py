"""Vision-language models through transformers, from a local folder or the hub, on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotators.models.base import (
    IMAGE_SETTINGS,
    MAX_IMAGE_SIDE,
    Capability,
    VlmFailure,
    VlmReply,
    VlmRequest,
    model_family,
)
from annotators.models.clip import weights_fingerprint
from annotators.models.device import select_device
from annotators.models.hub import announce_download, use_cache_when_offline
from annotators.models.images import bound_image
from ares.annotation import Cost
from ares.errors import ModelError
from ares.extras import needs_extra

if TYPE_CHECKING:
    import torch

_BATCH_SIZE = 8


class HuggingfaceVlm:
    """A transformers image-text-to-text model; fills the protocol `annotators.models.base.Vlm`.

    Args:
        model: The model, on its device and in eval mode.
        processor: Its processor.
        name: Portable name with the fingerprint of the weights.
        max_new_tokens: Length limit of one reply.
    """

    batch_size = _BATCH_SIZE
    workers = 1
    capabilities: frozenset[Capability] = frozenset()
    settings = IMAGE_SETTINGS

    def __init__(self, model: Any, processor: Any, name: str, max_new_tokens: int) -> None:
        self._model, self._processor = model, processor
        self._max_new_tokens = max_new_tokens
        self.name = name
        self.family = model_family(str(model.config.model_type))

    def ask(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | VlmFailure]:
        """One greedy reply per request; a reply that reaches the length limit is an error, not half an answer."""
        import torch

        inputs = self._encode_inputs(requests)
        with torch.inference_mode():
            tokens = self._model.generate(**inputs, max_new_tokens=self._max_new_tokens, do_sample=False)
        width = int(inputs["input_ids"].shape[1])
        lengths = inputs["attention_mask"].sum(dim=1).tolist()
        return [self._reply(row[width:], int(length)) for row, length in zip(tokens, lengths, strict=True)]

    def _encode_inputs(self, requests: Sequence[VlmRequest]) -> Any:
        chats = [_chat(request) for request in requests]
        # Generation continues at the right end, so the padding must be on the left.
        self._processor.tokenizer.padding_side = "left"
        return self._processor.apply_chat_template(
            chats,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs={"padding": True},
        ).to(self._model.device, self._model.dtype)

    def _reply(self, tokens: torch.Tensor, tokens_in: int) -> VlmReply | VlmFailure:
        eos_ids = self._model.generation_config.eos_token_id
        ids = tokens.tolist()
        stop_ids = set(eos_ids if isinstance(eos_ids, list) else [eos_ids])
        stop = next((index for index, token in enumerate(ids) if token in stop_ids), None)
        cost = Cost(calls=1, tokens_in=tokens_in, tokens_out=len(ids) if stop is None else stop + 1)
        if stop is None and len(ids) >= self._max_new_tokens:
            limit = f"{self._max_new_tokens} tokens from {self.name}"
            return VlmFailure(ModelError("reply was cut at its length limit", limit), cost)
        return VlmReply(
            text=self._processor.tokenizer.decode(ids[:stop], skip_special_tokens=True), cost=cost
        )


def load_huggingface(source: str, device: str, max_new_tokens: int) -> HuggingfaceVlm:
    """Load a model from a folder or by its hub id.

    Raises:
        ModelError: The model cannot be downloaded or read.
        RequestError: The extra `models` is not installed.
    """
    with needs_extra("models"):
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModelForImageTextToText, AutoProcessor
        from transformers.utils.logging import disable_progress_bar

    device = select_device(device)
    dtype = torch.float32 if device == "cpu" else "auto"
    folder = Path(source)
    if not folder.is_dir():
        use_cache_when_offline()
        announce_download(source)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        processor = AutoProcessor.from_pretrained(source)  # type: ignore[no-untyped-call]
        model = AutoModelForImageTextToText.from_pretrained(source, dtype=dtype)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(
            "vision-language model cannot be loaded", f"hf:{source}: {_error_text(error)}"
        ) from None
    if not hasattr(processor, "tokenizer") or not processor.chat_template:
        raise ModelError(
            "vision-language model has no chat template", f"hf:{source}; give an instruction-tuned model"
        )
    base_name = folder.resolve().name if folder.is_dir() else source
    name = f"{base_name}@{weights_fingerprint(model.state_dict())}"
    model.eval()  # type: ignore[no-untyped-call]
    model.to(device)  # type: ignore[arg-type]
    return HuggingfaceVlm(model, processor, name, max_new_tokens)


def _chat(request: VlmRequest) -> list[dict[str, object]]:
    from PIL import Image

    content: list[dict[str, object]] = [
        {"type": "image", "image": Image.fromarray(bound_image(image, MAX_IMAGE_SIDE))}
        for image in request.images
    ]
    content.append({"type": "text", "text": request.prompt})
    system: list[dict[str, object]] = []
    if request.system:
        system.append({"role": "system", "content": [{"type": "text", "text": request.system}]})
    return [*system, {"role": "user", "content": content}]


def _error_text(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{lines[0][:300]}; give a folder, or a hub id that is in the cache or can be downloaded"
