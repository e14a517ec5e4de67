"""The embedding spaces of a workspace, and how a text becomes a vector of one."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ares.console import announce_if_slow, print_message
from ares.errors import ModelError, RequestError
from ares.registry import did_you_mean, encoders, plugin_faults, text_encoders
from ares.store import check_ids_once

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.store import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpace:
    """An embedding space, stored as a document of the collection "spaces" under its name.

    Attributes:
        name: Part of table names: letters, digits, "_" and "-".
        encoder: Plug-in name of the model loader ("clip").
        model: Model spec for that loader ("ViT-B-32/laion2b_s34b_b79k", "local-dir:/path").
        dim: Length D of its vectors.
    """

    name: str
    encoder: str
    model: str
    dim: int


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


SPACES_COLLECTION = "spaces"


def list_embedding_spaces(stores: Stores) -> dict[str, EmbeddingSpace]:
    """Embedding spaces by name, oldest first.

    Left out are spaces that have no vectors yet, and spaces without an encoder, whose vectors come from signals.
    """
    names = set(stores.tables.spaces())
    documents = dict[str, dict[str, object]](stores.annotations.find_documents(SPACES_COLLECTION))  # type: ignore[arg-type]
    encodable = {
        name: document for name, document in documents.items() if name in names and document["encoder"]
    }
    oldest_first = sorted(encodable, key=lambda name: str(encodable[name].get("created", "")))
    return {name: _to_space(name, encodable[name]) for name in oldest_first}


def find_embedding_space(stores: Stores, name: str = "") -> EmbeddingSpace:
    """The space with that name, or the newest. Raises RequestError when it does not exist."""
    spaces = list_embedding_spaces(stores)
    if name and name not in spaces:
        document = stores.annotations.get_document(SPACES_COLLECTION, name)
        if isinstance(document, dict) and document["model"] == _USER_MODEL:
            return _to_space(name, dict[str, object](document))
        known = [*spaces, *list_user_vectors(stores)]
        raise RequestError(
            f"no embedding space {name!r}",
            f"{did_you_mean(name, known)}there are: {', '.join(known) or 'none'}",
        )
    if not spaces:
        raise RequestError("there are no frame vectors to search", "run `ares annotate embed` first")
    return spaces[name or list(spaces)[-1]]


# What a space says of itself whose vectors people have brought, and vectors that are written at once.
_USER_MODEL, _VECTOR_BATCH = "own", 10_000


@dataclass(frozen=True, slots=True)
class _EpisodeVector:
    """The vector of a whole episode, (1, D), as the tables take those of frames."""

    episode_id: str
    vectors: NDArray[np.float32]
    seconds: NDArray[np.float64]
    camera: str = ""


def add_user_vectors(stores: Stores, name: str, ids: Sequence[str], vectors: NDArray[np.float64]) -> int:
    """Store a vector of each of some episodes, in a user space; those that they have there are replaced.

    Args:
        stores: Stores of the workspace.
        name: Name of the space: letters, digits, "_" and "-".
        ids: N episodes, each once.
        vectors: (N, D) numbers; they are stored with unit length.

    Returns:
        N.

    Raises:
        RequestError: The name is that of a space of a model, an id is no episode, or a vector has another length, is
            zero or not finite.
        StoreError: The table cannot be written.
    """
    import numpy as np

    document = stores.annotations.get_document(SPACES_COLLECTION, name)
    _check_user_vectors(stores, name, ids, vectors, document)
    with stores.write_lock(f"vectors of {name}"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if document is None:
            created = datetime.now(UTC).isoformat(timespec="seconds")
            description: dict[str, Json] = {
                "encoder": "",
                "model": _USER_MODEL,
                "dim": vectors.shape[1],
                "created": created,
            }
            stores.annotations.put_documents(SPACES_COLLECTION, {name: description})
        for start in range(0, len(ids), _VECTOR_BATCH):
            part = slice(start, start + _VECTOR_BATCH)
            unit = (vectors[part] / lengths[part]).astype(np.float32)[:, None]
            stores.tables.vectors(name).add(
                [_EpisodeVector(id, vector, np.zeros(1)) for id, vector in zip(ids[part], unit, strict=True)]
            )
    return len(ids)


def list_user_vectors(stores: Stores) -> dict[str, EmbeddingSpace]:
    """The user spaces that have vectors, by name."""
    documents = dict[str, dict[str, object]](stores.annotations.find_documents(SPACES_COLLECTION))  # type: ignore[arg-type]
    names = (name for name in sorted(documents) if documents[name]["model"] == _USER_MODEL)
    return {name: _to_space(name, documents[name]) for name in names if stores.tables.vectors(name).count()}


def remove_user_vectors(stores: Stores, name: str, ids: Collection[str] | None = None) -> int:
    """Delete the vectors of a user space; a space without any takes vectors of another length.

    Args:
        stores: Stores of the workspace.
        name: Name of the space.
        ids: The episodes that lose their vector; None for all.

    Returns:
        Number of vectors that were deleted.

    Raises:
        RequestError: There is no such space, or it is that of a model.
        StoreError: The table cannot be written.
    """
    added = list_user_vectors(stores)
    if name not in added:
        what = (
            f"the vectors of {name!r} are those of a model"
            if _has_vectors(stores, name)
            else f"no vectors of your own {name!r}"
        )
        raise RequestError(what, f"{did_you_mean(name, added)}there are: {', '.join(added) or 'none'}")
    table = stores.tables.vectors(name)
    with stores.write_lock(f"vectors of {name}"):
        count = table.delete_unknown(lambda stored: set(stored).difference(stored if ids is None else ids))
        if not table.count():
            stores.annotations.drop_documents(SPACES_COLLECTION, [name])
    return count


def _has_vectors(stores: Stores, name: str) -> bool:
    return name in stores.tables.spaces() and stores.tables.vectors(name).count() > 0


def _check_user_vectors(
    stores: Stores, name: str, ids: Sequence[str], vectors: NDArray[np.float64], document: Json
) -> None:
    """Raise RequestError as `add_user_vectors`."""
    import numpy as np

    stores.tables.vectors(name)  # raises for a name that cannot be one
    is_model = isinstance(document, dict) and document["model"] != _USER_MODEL
    if is_model or (document is None and _has_vectors(stores, name)):
        raise RequestError(f"the vectors of {name!r} are those of a model", "give yours another name")
    if vectors.ndim != 2 or len(vectors) != len(ids) or not vectors.size:
        raise RequestError(
            "vectors are an array (N, D), one for each id", f"got {vectors.shape} for {len(ids):,} ids"
        )
    if isinstance(document, dict) and vectors.shape[1] != document["dim"]:
        raise RequestError(f"a vector of {name!r} has width {document['dim']}", f"got {vectors.shape[1]}")
    wrong = np.flatnonzero(~(np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)))
    if len(wrong):
        raise RequestError(
            "a vector has finite numbers, and one that is not 0",
            f"that of episode {ids[wrong[0]]!r} has not: {vectors[wrong[0]][:4].tolist()} ...",
        )
    check_ids_once(stores, ids)


_loading = threading.RLock()


def load_encoder(space: EmbeddingSpace, device: str = "") -> Encoder:
    """The model of a space, loaded once per process. Raises ModelError when it cannot be loaded."""
    # Two threads that need it at once would both load it.
    with _loading:
        return load_encoder_model(space.encoder, space.model, device)


@lru_cache(maxsize=2)
def load_encoder_model(name: str, model: str, device: str) -> Encoder:
    """The model of a spec, loaded once per process.

    Args:
        name: Name of the encoder plug-in that loads it.
        model: Model spec.
        device: torch device, or "" for the default.

    Raises:
        ModelError: It cannot be loaded.
    """
    load = encoders.get(name)
    with plugin_faults(encoders.label(name)), announce_if_slow(f"loading the model {model}"):
        encoder: Encoder = load(model, device)
    return encoder


def _to_space(name: str, document: dict[str, object]) -> EmbeddingSpace:
    return EmbeddingSpace(
        name=name,
        encoder=str(document["encoder"]),
        model=str(document["model"]),
        dim=int(str(document["dim"])),
    )


# In the workspace; where that is on an object store, in its folder of caches.
TEXT_ENCODER_FOLDER = "text-encoders"
# Texts per call of the model, and per write to the table.
_ENCODER_BATCH, _WRITE_BATCH = 256, 8_192
# So many texts take the stored encoder less time than loading the whole model, which is faster for each text.
_FEW_TEXTS = 64
# Texts of a space in the memory of a process.
_RECENT_TEXTS = 64


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
