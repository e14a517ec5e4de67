"""Image and text vectors by a vision model of transformers, loaded from a folder or the hub."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.errors import ModelError, shorten
from ares.imports import needs_extra
from ares_annotators.models.clip import encode_batches, hash_model_weights, select_device
from ares_annotators.models.model_info import prepare_hub

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


_BATCH_SIZE = 64


class TransformersImageEncoder:
    """A transformers model of images, with a text tower or without; fills the protocol `ares.search.Encoder`.

    Args:
        model: The model, on its device and in eval mode.
        processor: Its image processor.
        tokenizer: The tokenizer of its texts, or None without a text tower.
        name: Portable name with the fingerprint of the weights.
        device: torch device.
    """

    def __init__(self, model: Any, processor: Any, tokenizer: Any, name: str, device: str) -> None:
        import numpy as np

        self._model, self._processor, self._tokenizer = model, processor, tokenizer
        self._device = device
        self.name = name
        self.dim = 0
        self.dim = int(self.encode_images([np.zeros((64, 64, 3), np.uint8)]).shape[1])

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """(N, D) unit vectors of N RGB images, each (H, W, 3) uint8, of any sizes."""
        return self._encode(images, self._encode_pixels)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) unit vectors of N texts; longer texts are cut to the model's context.

        Raises:
            ModelError: The model knows images alone.
        """
        if self._tokenizer is None:
            raise ModelError(
                "embedding model has no texts",
                f"{self.name}; search by an episode, or embed with CLIP or SigLIP",
            )
        return self._encode(texts, self._encode_tokens)

    def _encode(
        self, items: Sequence[Any], encode_batch: Callable[[Sequence[Any]], torch.Tensor]
    ) -> NDArray[np.float32]:
        return encode_batches(items, encode_batch, _BATCH_SIZE, self._device, self.dim)

    def _encode_pixels(self, images: Sequence[NDArray[np.uint8]]) -> torch.Tensor:
        import torch

        tensors = [torch.from_numpy(image).permute(2, 0, 1) for image in images]
        inputs = self._processor(images=tensors, return_tensors="pt", device=self._device).to(self._device)
        if self._tokenizer is not None:
            return _unit_vectors(self._model.get_image_features(**inputs))
        return _unit_vectors(self._model(**inputs))

    def _encode_tokens(self, texts: Sequence[str]) -> torch.Tensor:
        length = int(self._model.config.text_config.max_position_embeddings)
        # SigLIP was trained on texts that are padded to its full context.
        padding = "max_length" if self._model.config.model_type.startswith("siglip") else True
        inputs = self._tokenizer(
            list(texts), padding=padding, truncation=True, max_length=length, return_tensors="pt"
        )
        return _unit_vectors(self._model.get_text_features(**inputs.to(self._device)))


def _unit_vectors(output: Any) -> torch.Tensor:
    """(N, D) float32 vectors of length 1 from the pooled output of a model."""
    import torch

    pooled: torch.Tensor = output if isinstance(output, torch.Tensor) else output.pooler_output
    return torch.nn.functional.normalize(pooled.float(), dim=-1)


PREFIX = "hf:"


def load_vision_tower(spec: str, device: str = "") -> TransformersImageEncoder:
    """Load the model of a spec.

    Args:
        spec: "hf:FOLDER" or "hf:ORG/NAME".
        device: torch device, or "" for a GPU when there is one.

    Raises:
        ModelError: The model cannot be downloaded or read, or has no vector for an image.
        RequestError: The extra `models` is not installed.
    """
    source = spec.removeprefix(PREFIX)
    if not Path(source).is_dir():
        prepare_hub(spec, source)
    device = select_device(device)
    model, processor = _load_model_and_processor(source)
    has_texts = hasattr(model, "get_image_features") and hasattr(model, "get_text_features")
    tokenizer = _read_tokenizer(source) if has_texts else None
    name = f"{_name_from_source(source)}-{hash_model_weights(model.state_dict())}"
    model.eval().to(device)
    try:
        return TransformersImageEncoder(model, processor, tokenizer, name, device)
    except (AttributeError, TypeError, ValueError) as error:
        raise ModelError(
            "model has no vector for an image",
            f"{spec}: {_first_line(error)}; give a CLIP, SigLIP or DINO model",
        ) from None


def _load_model_and_processor(source: str) -> tuple[Any, Any]:
    """The model and its image processor."""
    with needs_extra("models"):
        from safetensors import SafetensorError
        from transformers import AutoImageProcessor, AutoModel
        from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        processor = AutoImageProcessor.from_pretrained(source)  # type: ignore[no-untyped-call]
        return AutoModel.from_pretrained(source, dtype="float32"), processor
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise _cannot_be_loaded(source, error) from None


def _read_tokenizer(source: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise _cannot_be_loaded(source, error) from None


def _cannot_be_loaded(source: str, error: BaseException) -> ModelError:
    return ModelError(
        "embedding model cannot be loaded",
        f"{PREFIX}{source}: {_first_line(error)}; give a folder, or a hub id that is in the cache or can be downloaded",
    )


def _name_from_source(source: str) -> str:
    name = Path(source).resolve().name if Path(source).is_dir() else source
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")


def _first_line(error: BaseException) -> str:
    return shorten((str(error).strip().splitlines() or [type(error).__name__])[0])
