"""Image and text vectors by any open_clip model, which is named by the fingerprint of its weights."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotators.models.clip_pixels import pixels_on_device
from annotators.models.device import encode_batches, select_device
from annotators.models.hub import announce_download, use_cache_when_offline
from annotators.models.known_models import open_clip_hub_id
from ares.errors import ModelError
from ares.extras import needs_extra

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

_BATCH_SIZE = 64
_LOCAL_PREFIX = "local-dir:"
_HUB_PREFIX = "hf-hub:"


class ClipEncoder:
    """An open_clip model; fills the protocol `ares.store.vectors.embedding_space.Encoder`.

    Args:
        model: The model, on its device and in eval mode.
        preprocess: open_clip's transform for it.
        tokenizer: open_clip's tokenizer for it.
        name: Portable name with the fingerprint of the weights ("reference-clip-3fa9c1d2").
        device: torch device.
    """

    def __init__(self, model: Any, preprocess: Any, tokenizer: Any, name: str, device: str) -> None:
        self._model, self._preprocess, self._tokenizer = model, preprocess, tokenizer
        self._device = device
        self._pool = ThreadPoolExecutor(min(8, os.cpu_count() or 1), thread_name_prefix="clip-resize")
        self.name = name
        self._on_device = None if device == "cpu" else pixels_on_device(preprocess, device)
        self.dim: int = int(self.encode_texts([""]).shape[1])

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """(N, D) unit vectors of N RGB images, each (H, W, 3) uint8, of any sizes."""
        import torch

        def encode_batch(batch: Sequence[NDArray[np.uint8]]) -> torch.Tensor:
            # On a CPU by open_clip's transform: torchvision's is two to five times as fast, but moves vectors by more
            # than 1e-3 on large frames. Pillow releases the lock, so threads help. A GPU must not wait for Pillow.
            if self._on_device is None:
                pixels = torch.stack(list(self._pool.map(self._prepare, batch))).to(self._device)
            else:
                pixels = self._on_device(batch)
            vectors: torch.Tensor = self._model.encode_image(pixels, normalize=True)
            return vectors

        return self._encode(images, encode_batch)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) unit vectors of N texts; longer texts are cut to the model's context."""

        def encode_batch(batch: Sequence[str]) -> torch.Tensor:
            vectors: torch.Tensor = self._model.encode_text(
                self._tokenizer(list(batch)).to(self._device), normalize=True
            )
            return vectors

        return self._encode(texts, encode_batch)

    def save_text_encoder(self, path: Path) -> bool:
        """Write the text tower to one file, from which NumPy computes the same vectors.

        Returns:
            False, and nothing is written, where the tower is of an architecture that is not known to
            `annotators.models.text_tower`, or its vectors differ.
        """
        from annotators.models.text_tower import extract_tower, gives_equal_vectors, write_tower

        stored = extract_tower(self._model, self._tokenizer, self.name)
        if stored is None or not gives_equal_vectors(stored, self._encode_texts_precisely):
            return False
        write_tower(path, stored)
        return True

    def _encode_texts_precisely(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `encode_texts`, in single precision also on a GPU."""
        import torch

        with torch.inference_mode():
            tokens = self._tokenizer(list(texts)).to(self._device)
            vectors: NDArray[np.float32] = self._model.encode_text(tokens, normalize=True).cpu().numpy()
        return vectors

    def _prepare(self, image: NDArray[np.uint8]) -> torch.Tensor:
        from PIL import Image

        prepared: torch.Tensor = self._preprocess(Image.fromarray(image))
        return prepared

    def _encode(self, items: Sequence[Any], encode_batch: Any) -> NDArray[np.float32]:
        return encode_batches(items, encode_batch, _BATCH_SIZE, self._device, getattr(self, "dim", 0))


def load_clip(spec: str, device: str = "") -> ClipEncoder:
    """Load an open_clip model.

    Args:
        spec: "ARCHITECTURE/PRETRAINED_TAG", "hf-hub:ORG/NAME" or "local-dir:FOLDER".
        device: torch device, or "" for a GPU when there is one.

    Raises:
        ModelError: The model is not known, cannot be downloaded, or its weights cannot be read.
        RequestError: The extra `models` is not installed.
    """
    import pickle

    with needs_extra("models"):
        import open_clip
        from safetensors import SafetensorError

    device = select_device(device)
    name, tag = _split_spec(spec)
    if not spec.startswith(_LOCAL_PREFIX):
        use_cache_when_offline()
        announce_download(name.removeprefix(_HUB_PREFIX) if tag is None else open_clip_hub_id(spec))
    try:
        model, _, preprocess = open_clip.create_model_and_transforms(
            name, pretrained=tag, require_pretrained=True
        )
        tokenizer = open_clip.get_tokenizer(name)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError, pickle.UnpicklingError) as error:
        raise ModelError(
            "embedding model cannot be loaded", f"{spec}: {_first_line(error)}; {_remedy(spec)}"
        ) from None
    fingerprint = weights_fingerprint(model.state_dict())
    model.eval().to(device)
    return ClipEncoder(model, preprocess, tokenizer, f"{_slug(spec)}-{fingerprint}", device)


def absolute_spec(spec: str) -> str:
    """The spec that loads the same model from any working folder."""
    prefix, _, rest = spec.partition(":")
    is_folder = f"{prefix}:" == _LOCAL_PREFIX or (prefix == "hf" and Path(rest).is_dir())
    return f"{prefix}:{Path(rest).resolve()}" if is_folder else spec


def weights_fingerprint(weights: dict[str, torch.Tensor]) -> str:
    """8 hex digits over names, types and values of weights: the same for the same weights in any file."""
    import hashlib

    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:8]


def _split_spec(spec: str) -> tuple[str, str | None]:
    if spec.startswith((_LOCAL_PREFIX, _HUB_PREFIX)):
        return absolute_spec(spec), None
    name, slash, tag = spec.partition("/")
    if not (name and slash and tag):
        raise ModelError("embedding model spec cannot be read", f"{spec!r}; {_remedy('')}")
    return name, tag


def _slug(spec: str) -> str:
    text = (
        Path(absolute_spec(spec).removeprefix(_LOCAL_PREFIX)).name if spec.startswith(_LOCAL_PREFIX) else spec
    )
    return re.sub(r"[^A-Za-z0-9_]+", "-", text.removeprefix(_HUB_PREFIX)).strip("-")


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__


def _remedy(spec: str) -> str:
    if spec.startswith(_LOCAL_PREFIX):
        return "give a folder with open_clip_config.json and its weights"
    if spec:
        return "without a network give local-dir:FOLDER; `open_clip.list_pretrained()` lists the names"
    return "give ARCHITECTURE/TAG such as ViT-B-32/laion2b_s34b_b79k, hf-hub:ORG/NAME or local-dir:FOLDER"
