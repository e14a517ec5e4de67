"""How a text becomes a vector of an embedding space, by its stored text encoder or its model."""

from __future__ import annotations

import threading
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ares.console import announce_if_slow, print_message
from ares.errors import ModelError
from ares.registry import encoders, plugin_faults, text_encoders
from ares.search.spaces import EmbeddingSpace

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores

# In the workspace; where that is on an object store, in its folder of caches.
TEXT_ENCODER_FOLDER = "text-encoders"
# Texts per call of the model, and per write to the table.
_ENCODER_BATCH, _WRITE_BATCH = 256, 8_192
# So many texts take the stored encoder less time than loading the whole model, which is faster for each text.
_FEW_TEXTS = 64
# Texts of a space in the memory of a process.
_RECENT_TEXTS = 64


class TextEncoder(Protocol):
    """Computes the vectors of texts of one space.

    Entry points of "ares.text_encoders" are functions `(path) -> TextEncoder`. They open the file that the encoder of
    the same name stored by `save_text_encoder`, and raise ModelError when it cannot be used.
    """

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors (N, D) of N texts."""


class Encoder(TextEncoder, Protocol):
    """Computes vectors of one space; entry points of "ares.encoders" are functions `(spec, device) -> Encoder`."""

    dim: int

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Unit vectors (N, D) of N RGB images, each (H, W, 3) uint8, of any sizes."""


@runtime_checkable
class StorableTextEncoder(Protocol):
    """What an encoder offers whose texts can be encoded without the whole model.

    Attributes:
        name: Name of the embedding space of its vectors.
    """

    name: str

    def save_text_encoder(self, path: Path) -> bool:
        """Write what `encode_texts` needs to one file. Returns False, having written nothing, where that cannot be."""


_loading = threading.RLock()


def load_encoder(space: EmbeddingSpace, device: str = "") -> Encoder:
    """The model of a space, loaded once per process. Raises ModelError when it cannot be loaded."""
    return load_encoder_model(space.encoder, space.model, device)


def load_encoder_model(name: str, model: str, device: str) -> Encoder:
    """The model of a spec, loaded once per process, also where several threads need it at once.

    Args:
        name: Name of the encoder plug-in that loads it.
        model: Model spec.
        device: torch device, or "" for the default.

    Raises:
        ModelError: It cannot be loaded.
    """
    with _loading:
        return _load_cached(name, model, device)


@lru_cache(maxsize=2)
def _load_cached(name: str, model: str, device: str) -> Encoder:
    load = encoders.get(name)
    with plugin_faults(encoders.label(name)), announce_if_slow(f"loading the model {model}"):
        encoder: Encoder = load(model, device)
    return encoder


def encode_text(stores: Stores, space: EmbeddingSpace, text: str) -> NDArray[np.float32]:
    """Unit vector (D,) of a text, which this process remembers.

    Raises:
        ModelError: Nothing is stored for the space yet, and its model cannot be loaded.
    """
    recent = _recent_vectors(_encoder_path(stores, space))
    vector = recent.get(text)
    if vector is None:
        encoder = _text_encoder(stores, space)
        with plugin_faults(encoders.label(space.encoder)):
            vector = encoder.encode_texts([text])[0]
        if len(recent) >= _RECENT_TEXTS:
            recent.clear()
        recent[text] = vector
    return vector


@lru_cache(maxsize=8)
def _recent_vectors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Vectors of the texts that were searched last in a space, by text: a page asks for one several times."""
    return {}


def prepare_text_search(stores: Stores, space: EmbeddingSpace) -> None:
    """Load what the first text search of a process needs. Raises ModelError as `encode_text`."""
    _text_encoder(stores, space).encode_texts([""])


def embed_texts(stores: Stores, space: EmbeddingSpace) -> int:
    """Store vectors of the captions and instructions that have none in a space yet. Returns how many were added.

    Raises ModelError when the model of the space cannot be loaded.
    """
    import numpy as np

    table, added = stores.tables.texts(space.name), 0
    for texts in table.texts_without_vectors(_WRITE_BATCH):
        few = not added and len(texts) <= _FEW_TEXTS
        encoder = _text_encoder(stores, space) if few else _whole_model(stores, space)
        batches = [texts[start : start + _ENCODER_BATCH] for start in range(0, len(texts), _ENCODER_BATCH)]
        table.add(texts, np.concatenate([encoder.encode_texts(batch) for batch in batches]))
        added += len(texts)
    return added


def _text_encoder(stores: Stores, space: EmbeddingSpace) -> TextEncoder:
    """The stored encoder; stored now from the whole model where the space has none, else the whole model."""
    stored = _stored_encoder(stores, space)
    if stored:
        return stored
    model = _whole_model(stores, space)
    return _stored_encoder(stores, space) or model


def _whole_model(stores: Stores, space: EmbeddingSpace) -> Encoder:
    """The model of a space, from which its text encoder is stored in passing."""
    model = load_encoder(space)
    # A model that was exchanged since has another name: the vectors of the space are not from it.
    if isinstance(model, StorableTextEncoder) and model.name == space.name:
        _store_text_encoder(stores, space, model)
    return model


def _store_text_encoder(stores: Stores, space: EmbeddingSpace, model: StorableTextEncoder) -> None:
    path = _encoder_path(stores, space)
    if _stored_encoder(stores, space):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if model.save_text_encoder(path):
            print_message(f"stored the text encoder of {space.name}: later searches need not load the model")
    except OSError:
        pass  # a read-only workspace, or a full disk: the whole model answers


def _stored_encoder(stores: Stores, space: EmbeddingSpace) -> TextEncoder | None:
    """The stored encoder of a space; None where there is none that can be used."""
    path = _encoder_path(stores, space)
    try:
        return _open_encoder(space.encoder, path, path.stat().st_mtime_ns)
    except (OSError, ModelError):
        return None


@lru_cache(maxsize=2)
def _open_encoder(name: str, path: Path, modified_ns: int) -> TextEncoder:
    encoder: TextEncoder = text_encoders.get(name)(path)
    return encoder


def _encoder_path(stores: Stores, space: EmbeddingSpace) -> Path:
    return stores.folder / TEXT_ENCODER_FOLDER / f"{space.name}.safetensors"
