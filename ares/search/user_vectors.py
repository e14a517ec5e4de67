"""Vectors that people bring: one of each episode, in a space of their own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.registry import did_you_mean
from ares.search.spaces import SPACES_COLLECTION, USER_MODEL, list_user_vectors
from ares.store import check_ids_once

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.store import Stores


# Vectors that are written at once.
_VECTOR_BATCH = 10_000


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
                "model": USER_MODEL,
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
    is_model = isinstance(document, dict) and document["model"] != USER_MODEL
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
