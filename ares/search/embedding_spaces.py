"""The embedding spaces of a workspace, and the models that compute vectors for them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.messages import announce_if_slow
from ares.registry import did_you_mean, encoders, plugin_faults
from ares.store.vectors import EmbeddingSpace, Encoder

if TYPE_CHECKING:
    from ares.store import Stores

SPACES_COLLECTION = "spaces"


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
        raise RequestError(
            f"no embedding space {name!r}",
            f"{did_you_mean(name, spaces)}there are: {', '.join(spaces) or 'none'}",
        )
    if not spaces:
        raise RequestError("there are no frame vectors to search", "run `ares annotate embed` first")
    return spaces[name or list(spaces)[-1]]


def load_encoder(space: EmbeddingSpace, device: str = "") -> Encoder:
    """The model of a space, loaded once per process. Raises ModelError when it cannot be loaded."""
    return load_model(space.encoder, space.model, device)


@lru_cache(maxsize=2)
def load_model(name: str, model: str, device: str) -> Encoder:
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
