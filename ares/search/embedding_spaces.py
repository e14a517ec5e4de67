"""The embedding spaces of a workspace, and the models that compute vectors for them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.registry import encoders
from ares.store.vectors import EmbeddingSpace, Encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores

SPACES_COLLECTION = "spaces"
# Texts per call of the model, and per write to the table.
_ENCODER_BATCH, _WRITE_BATCH = 256, 8_192


def list_spaces(stores: Stores) -> dict[str, EmbeddingSpace]:
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


def choose_space(stores: Stores, name: str = "") -> EmbeddingSpace:
    """The space with that name, or the newest. Raises RequestError when it does not exist."""
    spaces = list_spaces(stores)
    if name and name not in spaces:
        raise RequestError(f"no embedding space {name!r}", f"there are: {', '.join(spaces) or 'none'}")
    if not spaces:
        raise RequestError("there are no frame vectors to search", "run `ares annotate embed` first")
    return spaces[name or list(spaces)[-1]]


def load_encoder(space: EmbeddingSpace, device: str = "") -> Encoder:
    """The model of a space, loaded once per process. Raises ModelError when it cannot be loaded."""
    return _load(space.encoder, space.model, device)


@lru_cache(maxsize=64)
def encode_text(space: EmbeddingSpace, text: str) -> NDArray[np.float32]:
    """Unit vector (D,) of a text; recent texts are cached."""
    vector: NDArray[np.float32] = load_encoder(space).encode_texts([text])[0]
    return vector


def embed_texts(stores: Stores, space: EmbeddingSpace) -> int:
    """Store vectors of the captions and instructions that have none in a space yet. Returns how many were added.

    Raises ModelError when the model of the space cannot be loaded.
    """
    import numpy as np

    table, added = stores.tables.texts(space.name), 0
    for texts in table.texts_without_vectors(_WRITE_BATCH):
        batches = [texts[start : start + _ENCODER_BATCH] for start in range(0, len(texts), _ENCODER_BATCH)]
        table.add(texts, np.concatenate([load_encoder(space).encode_texts(batch) for batch in batches]))
        added += len(texts)
    return added


@lru_cache(maxsize=2)
def _load(name: str, model: str, device: str) -> Encoder:
    encoder: Encoder = encoders.get(name)(model, device)
    return encoder


def _to_space(name: str, document: dict[str, object]) -> EmbeddingSpace:
    return EmbeddingSpace(
        name=name,
        encoder=str(document["encoder"]),
        model=str(document["model"]),
        dim=int(str(document["dim"])),
    )
