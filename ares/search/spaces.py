"""The embedding spaces of a workspace, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.registry import did_you_mean

if TYPE_CHECKING:
    from ares.store import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpace:
    """An embedding space, stored as a document of the collection "spaces" under its name.

    Attributes:
        name: Part of table names: letters, digits, "_" and "-".
        encoder: Plug-in name of the model loader ("clip"); "" where vectors come from signals.
        model: Model spec for that loader ("ViT-B-32/laion2b_s34b_b79k", "local-dir:/path").
        dim: Length D of its vectors.
    """

    name: str
    encoder: str
    model: str
    dim: int


SPACES_COLLECTION = "spaces"


def list_embedding_spaces(stores: Stores) -> dict[str, EmbeddingSpace]:
    """Embedding spaces by name, oldest first.

    Left out are spaces that have no vectors yet, and spaces without an encoder, of signals.
    """
    names = set(stores.tables.spaces())
    encodable = {
        name: document
        for name, document in _read_documents(stores).items()
        if name in names and document["encoder"]
    }
    oldest_first = sorted(encodable, key=lambda name: str(encodable[name].get("created", "")))
    return {name: parse_space(name, encodable[name]) for name in oldest_first}


def find_embedding_space(stores: Stores, name: str = "") -> EmbeddingSpace:
    """The space with that name, or the newest. Raises RequestError when it does not exist."""
    spaces = list_embedding_spaces(stores)
    if name and name not in spaces:
        raise RequestError(
            f"no embedding space {name!r}",
            f"{did_you_mean(name, list(spaces))}there are: {', '.join(spaces) or 'none'}",
        )
    if not spaces:
        raise RequestError("there are no frame vectors to search", "run `ares annotate embed` first")
    return spaces[name or list(spaces)[-1]]


def _read_documents(stores: Stores) -> dict[str, dict[str, object]]:
    return dict(stores.annotations.find_documents(SPACES_COLLECTION))  # type: ignore[arg-type]


def parse_space(name: str, document: dict[str, object]) -> EmbeddingSpace:
    """The space that a document of the collection describes."""
    return EmbeddingSpace(
        name=name,
        encoder=str(document["encoder"]),
        model=str(document["model"]),
        dim=int(str(document["dim"])),
    )
