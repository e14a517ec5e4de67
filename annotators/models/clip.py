"""Image and text vectors by an open_clip model."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.errors import ModelError, RequestError, shorten
from ares.imports import needs_extra
from ares_annotators.models.clip_pixels import make_pixel_preprocessor
from ares_annotators.models.model_info import open_clip_hub_id, prepare_hub
from ares_annotators.models.text_tower import (
    write_text_tower,
)
from ares_annotators.models.text_tower_parts import extract_text_tower, gives_equal_vectors

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

_BATCH_SIZE = 64
_LOCAL_PREFIX = "local-dir:"
_HUB_PREFIX = "hf-hub:"


def select_device(device: str) -> str:
    """A torch device that is on this machine.

    Args:
        device: For example "cpu", "cuda" or "cuda:1"; "" for a GPU when there is one.

    Raises:
        RequestError: There is no such device, on this machine or at all, or it is "all", or torch is not installed.
    """
    with needs_extra("models"):
        import torch

    if device == "all":
        raise RequestError(
            "this model runs on one device", f"--device {device}; give cpu, cuda or cuda:NUMBER"
        )
    if not device:
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = device.partition(":")
    if kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            raise RequestError("torch sees no GPU here", f"--device {device}; give --device cpu, or none")
        if number.isdigit() and int(number) >= count:
            raise RequestError(f"there is no GPU {number}", f"they are numbered from 0 to {count - 1}")
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        cause = str(error).splitlines()[0][:200]
        raise RequestError(f"no device {device!r}", f"{cause}; give cpu, cuda or cuda:NUMBER") from None
    return device


def encode_batches(
    items: Sequence[Any],
    encode_batch: Callable[[Sequence[Any]], torch.Tensor],
    batch_size: int,
    device: str,
    dim: int,
) -> NDArray[np.float32]:
    """(N, D) vectors of N items, in batches; with half precision on a GPU.

    Where half precision has no number for a value, the batch is encoded again with single precision.

    Args:
        items: Images or texts.
        encode_batch: Vectors (M, D) of M items.
        batch_size: Most items of a batch.
        device: torch device.
        dim: Length D of the vectors, for no items.
    """
    import numpy as np
    import torch

    if not len(items):
        return np.empty((0, dim), np.float32)
    vectors = []
    with torch.inference_mode():
        for start in range(0, len(items), batch_size):
            batch = items[start : start + batch_size]
            with torch.autocast("cuda", torch.float16, enabled=device.startswith("cuda")):
                encoded = encode_batch(batch).float()
            vectors.append(encoded if bool(torch.isfinite(encoded).all()) else encode_batch(batch).float())
        joined: NDArray[np.float32] = torch.cat(vectors).cpu().numpy()
    return joined


class ClipEncoder:
    """An open_clip model; fills the protocol `ares.search.encoding.Encoder`.

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
        self._on_device = None if device == "cpu" else make_pixel_preprocessor(preprocess, device)
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
            `ares_annotators.models.text_tower`, or its vectors differ.
        """
        stored = extract_text_tower(self._model, self._tokenizer, self.name)
        return stored is not None and write_text_tower(
            path, stored, lambda written: gives_equal_vectors(written, self._encode_texts_precisely)
        )

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

    name, tag = _split_spec(spec)
    if not spec.startswith(_LOCAL_PREFIX):
        prepare_hub(spec, name.removeprefix(_HUB_PREFIX) if tag is None else open_clip_hub_id(spec))
    with needs_extra("models"):
        import open_clip
        from safetensors import SafetensorError

    device = select_device(device)
    try:
        model, _, preprocess = open_clip.create_model_and_transforms(
            name, pretrained=tag, require_pretrained=True
        )
        tokenizer = open_clip.get_tokenizer(name)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError, pickle.UnpicklingError) as error:
        raise ModelError(
            "embedding model cannot be loaded", f"{spec}: {_first_line(error)}; {_loading_remedy(spec)}"
        ) from None
    fingerprint = hash_model_weights(model.state_dict())
    model.eval().to(device)
    return ClipEncoder(model, preprocess, tokenizer, f"{_name_from_spec(spec)}-{fingerprint}", device)


def make_spec_absolute(spec: str) -> str:
    """The spec that loads the same model from any working folder."""
    prefix, _, rest = spec.partition(":")
    is_folder = f"{prefix}:" == _LOCAL_PREFIX or (prefix == "hf" and Path(rest).is_dir())
    return f"{prefix}:{Path(rest).resolve()}" if is_folder else spec


def hash_model_weights(weights: dict[str, torch.Tensor]) -> str:
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
        return make_spec_absolute(spec), None
    name, slash, tag = spec.partition("/")
    if not (name and slash and tag):
        raise ModelError("embedding model spec cannot be read", f"{spec!r}; {_loading_remedy('')}")
    return name, tag


def _name_from_spec(spec: str) -> str:
    text = (
        Path(make_spec_absolute(spec).removeprefix(_LOCAL_PREFIX)).name
        if spec.startswith(_LOCAL_PREFIX)
        else spec
    )
    return re.sub(r"[^A-Za-z0-9_]+", "-", text.removeprefix(_HUB_PREFIX)).strip("-")


def _first_line(error: BaseException) -> str:
    return shorten((str(error).strip().splitlines() or [type(error).__name__])[0])


def _loading_remedy(spec: str) -> str:
    if spec.startswith(_LOCAL_PREFIX):
        return "give a folder with open_clip_config.json and its weights"
    if spec:
        return "without a network give local-dir:FOLDER; `open_clip.list_pretrained()` lists the names"
    return "give ARCHITECTURE/TAG such as ViT-B-32/laion2b_s34b_b79k, hf-hub:ORG/NAME or local-dir:FOLDER"
