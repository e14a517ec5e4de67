"""The vector of a text: as remembered, else by the stored text encoder of its space, else by the whole model."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import ModelError
from ares.messages import print_message
from ares.registry import encoders, plugin_faults, text_encoders
from ares.search.embedding_spaces import list_spaces, load_encoder
from ares.store.vectors import EmbeddingSpace, Encoder, QueryVectors, StorableTextEncoder, TextEncoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores

# In the workspace; where that is on an object store, in its folder of caches.
TEXT_ENCODER_FOLDER = "text-encoders"
# Texts per call of the model, and per write to the table.
_ENCODER_BATCH, _WRITE_BATCH = 256, 8_192
# So many texts take the stored encoder less time than loading the whole model, which is faster for each text.
_FEW_TEXTS = 64


def encode_text(stores: Stores, space: EmbeddingSpace, text: str) -> NDArray[np.float32]:
    """Unit vector (D,) of a text, which is remembered in the workspace.

    Raises:
        ModelError: Nothing is stored for the space yet, and its model cannot be loaded.
    """
    vectors = _query_vectors(_path(stores, space, "npy"), space.dim)
    vector = vectors.get(text)
    if vector is None:
        encoder = _text_encoder(stores, space)
        with plugin_faults(encoders.label(space.encoder)):
            vector = encoder.encode_texts([text])[0]
        vectors.add(text, vector)
    return vector


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


def is_text_encoder_usable(stores: Stores, path: Path) -> bool:
    """Whether a file of the folder of text encoders can be opened, and its space has vectors."""
    space = list_spaces(stores).get(path.stem)
    return space is not None and _stored_encoder(stores, space) is not None


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
    path = _path(stores, space, "safetensors")
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
    path = _path(stores, space, "safetensors")
    try:
        return _open_encoder(space.encoder, path, path.stat().st_mtime_ns)
    except (OSError, ModelError):
        return None


@lru_cache(maxsize=2)
def _open_encoder(name: str, path: Path, modified_ns: int) -> TextEncoder:
    encoder: TextEncoder = text_encoders.get(name)(path)
    return encoder


@lru_cache(maxsize=8)
def _query_vectors(path: Path, dim: int) -> QueryVectors:
    return QueryVectors(path, dim)


def _path(stores: Stores, space: EmbeddingSpace, suffix: str) -> Path:
    return stores.folder / TEXT_ENCODER_FOLDER / f"{space.name}.{suffix}"
