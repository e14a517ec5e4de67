"""Image and text vectors by a vision model of transformers; images are resized on its device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from annotators.models.device import encode_batches
from ares.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

_BATCH_SIZE = 64


class VisionTower:
    """A transformers model of images, with a text tower or without; fills the protocol `ares.store.vectors.Encoder`.

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
            return _unit(self._model.get_image_features(**inputs))
        return _unit(self._model(**inputs))

    def _encode_tokens(self, texts: Sequence[str]) -> torch.Tensor:
        length = int(self._model.config.text_config.max_position_embeddings)
        # SigLIP was trained on texts that are padded to its full context.
        padding = "max_length" if self._model.config.model_type.startswith("siglip") else True
        inputs = self._tokenizer(
            list(texts), padding=padding, truncation=True, max_length=length, return_tensors="pt"
        )
        return _unit(self._model.get_text_features(**inputs.to(self._device)))


def _unit(output: Any) -> torch.Tensor:
    """(N, D) float32 vectors of length 1 from the pooled output of a model."""
    import torch

    pooled: torch.Tensor = output if isinstance(output, torch.Tensor) else output.pooler_output
    return torch.nn.functional.normalize(pooled.float(), dim=-1)
