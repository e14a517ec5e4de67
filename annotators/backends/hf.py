"""Hf: vision-language models through transformers, from a local folder or the hub, on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotators.backends.clip import weights_fingerprint
from annotators.backends.hub import settle_hub
from annotators.vlm import Ask, Reply, family
from ares.annotation import Cost
from ares.errors import AresError, ModelError

if TYPE_CHECKING:
    import torch

_BATCH = 8


class HfVlm:
    """A transformers image-text-to-text model; keeps the contract of `annotators.vlm.Vlm`.

    Args:
        model: The model, on its device and in eval mode.
        processor: Its processor.
        name: Portable name with the fingerprint of the weights.
        max_new_tokens: Bound of one reply.
    """

    batch = _BATCH
    workers = 1

    def __init__(self, model: Any, processor: Any, name: str, max_new_tokens: int) -> None:
        self._model, self._processor = model, processor
        self._max_new_tokens = max_new_tokens
        self.name = name
        self.family = family(str(model.config.model_type))

    def ask(self, asks: Sequence[Ask]) -> Sequence[Reply | AresError]:
        """One greedy reply per question; a reply that meets the bound is an error, not half an answer."""
        import torch

        inputs = self._inputs(asks)
        with torch.inference_mode():
            tokens = self._model.generate(**inputs, max_new_tokens=self._max_new_tokens, do_sample=False)
        width = int(inputs["input_ids"].shape[1])
        lengths = inputs["attention_mask"].sum(dim=1).tolist()
        return [self._reply(row[width:], int(length)) for row, length in zip(tokens, lengths, strict=True)]

    def _inputs(self, asks: Sequence[Ask]) -> Any:
        chats = [_chat(ask) for ask in asks]
        # Generation goes on at the right end, so what fills a row up must stand at its left.
        self._processor.tokenizer.padding_side = "left"
        return self._processor.apply_chat_template(
            chats,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs={"padding": True},
        ).to(self._model.device, self._model.dtype)

    def _reply(self, tokens: torch.Tensor, tokens_in: int) -> Reply | AresError:
        ends = self._model.generation_config.eos_token_id
        ids = tokens.tolist()
        stops = set(ends if isinstance(ends, list) else [ends])
        stop = next((index for index, token in enumerate(ids) if token in stops), None)
        if stop is None and len(ids) >= self._max_new_tokens:
            return ModelError(
                "reply was cut at its length limit", f"{self._max_new_tokens} tokens from {self.name}"
            )
        text = self._processor.tokenizer.decode(ids[:stop], skip_special_tokens=True)
        spent = len(ids) if stop is None else stop + 1
        return Reply(text=text, cost=Cost(calls=1, tokens_in=tokens_in, tokens_out=spent))


def load_hf(source: str, device: str, max_new_tokens: int) -> HfVlm:
    """Load a model from a folder or by its hub id. Raises ModelError when it cannot be had or read."""
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForImageTextToText, AutoProcessor
    from transformers.utils.logging import disable_progress_bar

    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.float32 if where == "cpu" else "auto"
    folder = Path(source)
    if not folder.is_dir():
        settle_hub()
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        processor = AutoProcessor.from_pretrained(source)  # type: ignore[no-untyped-call]
        model = AutoModelForImageTextToText.from_pretrained(source, dtype=dtype)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError("vision-language model cannot be loaded", f"hf:{source}: {_told(error)}") from None
    if not hasattr(processor, "tokenizer") or not processor.chat_template:
        raise ModelError(
            "vision-language model has no chat template", f"hf:{source}; give an instruction-tuned model"
        )
    own = folder.resolve().name if folder.is_dir() else source
    name = f"{own}@{weights_fingerprint(model.state_dict())}"
    model.eval()  # type: ignore[no-untyped-call]
    model.to(where)  # type: ignore[arg-type]
    return HfVlm(model, processor, name, max_new_tokens)


def _chat(ask: Ask) -> list[dict[str, object]]:
    from PIL import Image

    content: list[dict[str, object]] = [
        {"type": "image", "image": Image.fromarray(image)} for image in ask.images
    ]
    content.append({"type": "text", "text": ask.prompt})
    system: list[dict[str, object]] = []
    if ask.system:
        system.append({"role": "system", "content": [{"type": "text", "text": ask.system}]})
    return [*system, {"role": "user", "content": content}]


def _told(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{lines[0][:300]}; give a folder, or a hub id that is in the cache or can be downloaded"
