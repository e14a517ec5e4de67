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
        encoder: Plug-in name of the model loader ("clip"); "" where vectors come from signals or from people.
        model: Model spec for that loader ("ViT-B-32/laion2b_s34b_b79k", "local-dir:/path"); "own" for those of people.
        dim: Length D of its vectors.
    """

    name: str
    encoder: str
    model: str
    dim: int


SPACES_COLLECTION = "spaces"


def list_embedding_spaces(stores: Stores) -> dict[str, EmbeddingSpace]:
    """Embedding spaces by name, oldest first.

    Left out are spaces that have no vectors yet, and spaces without an encoder, of signals and of people.
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
        document = stores.annotations.get_document(SPACES_COLLECTION, name)
        if isinstance(document, dict) and document["model"] == USER_MODEL:
            return parse_space(name, dict[str, object](document))
        known = [*spaces, *list_user_vectors(stores)]
        raise RequestError(
            f"no embedding space {name!r}",
            f"{did_you_mean(name, known)}there are: {', '.join(known) or 'none'}",
        )
    if not spaces:
        raise RequestError("there are no frame vectors to search", "run `ares annotate embed` first")
    return spaces[name or list(spaces)[-1]]


# What a space says of itself whose vectors people have brought.
USER_MODEL = "own"


def list_user_vectors(stores: Stores) -> dict[str, EmbeddingSpace]:
    """The user spaces that have vectors, by name."""
    documents = _read_documents(stores)
    names = (name for name in sorted(documents) if documents[name]["model"] == USER_MODEL)
    return {name: parse_space(name, documents[name]) for name in names if stores.tables.vectors(name).count()}


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
