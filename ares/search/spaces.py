"""Spaces: which embedding spaces a workspace has, and the model that makes vectors for one."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.registry import encoders
from ares.store.space import Encoder, Space

if TYPE_CHECKING:
    from ares.workspace import Workspace

SPACES = "spaces"


def spaces(ws: Workspace) -> dict[str, Space]:
    """Embedding spaces by name, oldest first.

    Those whose first vectors are still to be written are left out, and those without an encoder, made of signals.
    """
    written = set(ws.tables.spaces())
    found = [(name, document) for name, document in ws.annotations.find(SPACES) if name in written]
    found = [(name, document) for name, document in found if document["encoder"]]  # type: ignore[call-overload,index]
    dated = sorted(found, key=lambda pair: str(pair[1].get("created", "")))  # type: ignore[union-attr]
    return {name: _space(name, document) for name, document in dated}  # type: ignore[arg-type]


def choose_space(ws: Workspace, name: str = "") -> Space:
    """The space of that name, or the newest. Raises RequestError when there is none."""
    known = spaces(ws)
    if name and name not in known:
        raise RequestError(f"no embedding space {name!r}", f"there are: {', '.join(known) or 'none'}")
    if not known:
        raise RequestError("there are no frame vectors to search", "run `ares annotate embed` first")
    return known[name or list(known)[-1]]


def encoder(space: Space, device: str = "") -> Encoder:
    """The model of a space, loaded once per process. Raises ModelError when it cannot be loaded."""
    return _load(space.encoder, space.model, device)


@lru_cache(maxsize=2)
def _load(name: str, model: str, device: str) -> Encoder:
    loaded: Encoder = encoders.get(name)(model, device)
    return loaded


def _space(name: str, document: dict[str, object]) -> Space:
    return Space(
        name=name,
        encoder=str(document["encoder"]),
        model=str(document["model"]),
        dim=int(str(document["dim"])),
    )
