"""Stand-ins for models that an estimate does not load, with the name that the model had when it was loaded last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from annotators.models.base import IMAGE_SETTINGS, Capability
from annotators.models.families import find_family
from annotators.models.known_models import open_clip_hub_id
from annotators.models.weights import ModelFiles, files_in_cache, files_in_folder
from ares.annotation import short_hash
from ares.episode import Json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from annotators.models.base import VlmFailure, VlmReply, VlmRequest
    from ares.store import Stores

# Part of the name of a model whose fingerprint is not known.
UNKNOWN_UNTIL_LOADED = "unknown until loaded"
_COLLECTION = "loaded_models"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadedVlm:
    """Fills the protocol `annotators.models.base.Vlm`, but cannot answer.

    Attributes:
        name: Name of the model, with UNKNOWN_UNTIL_LOADED where its fingerprint is not known.
        family: Its family.
    """

    name: str
    family: str
    batch_size: int = 1
    workers: int = 1
    capabilities: frozenset[Capability] = frozenset()
    settings: Mapping[str, Json] = field(default_factory=lambda: IMAGE_SETTINGS)

    def ask(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | VlmFailure]:
        """Raises RuntimeError: an estimate calls no model."""
        _refuse(self.name)


@dataclass(slots=True, kw_only=True)
class UnloadedEncoder:
    """Fills the protocol `annotators.models.load.NamedEncoder`, but cannot encode."""

    name: str
    dim: int = 0

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Raises RuntimeError."""
        _refuse(self.name)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Raises RuntimeError."""
        _refuse(self.name)


def remember_model(
    stores: Stores, spec: str, name: str, family: str = "", capabilities: Iterable[str] = ()
) -> None:
    """Store what is known of a model that was loaded, with a stamp of its files; the stand-ins read it."""
    files = _files_of(spec)
    if files is None:
        return
    document: Json = {
        "spec": spec,
        "name": name,
        "family": family,
        "capabilities": [*sorted(capabilities)],
        "stamp": short_hash(files.stamp),
    }
    if stores.annotations.get_document(_COLLECTION, short_hash(spec)) != document:
        stores.annotations.put_documents(_COLLECTION, {short_hash(spec): document})


def unloaded_vlm(spec: str, stores: Stores | None) -> UnloadedVlm:
    """The stand-in for the vision-language model of a spec; no file of weights is read."""
    known = _recall(spec, stores)
    source = spec.partition(":")[2]
    return UnloadedVlm(
        name=known.get("name") or f"{source} ({UNKNOWN_UNTIL_LOADED})",
        family=known.get("family") or find_family(source).name,
        capabilities=frozenset(known.get("capabilities", ())),
    )


def unloaded_encoder(spec: str, stores: Stores) -> UnloadedEncoder:
    """The stand-in for the encoder of a spec."""
    return UnloadedEncoder(name=_recall(spec, stores).get("name") or f"{spec} ({UNKNOWN_UNTIL_LOADED})")


def _recall(spec: str, stores: Stores | None) -> dict[str, Any]:
    """What is known of a model that was loaded from the same files; nothing for another model."""
    files = _files_of(spec)
    document = stores.annotations.get_document(_COLLECTION, short_hash(spec)) if stores and files else None
    if not files or not isinstance(document, dict) or document["stamp"] != short_hash(files.stamp):
        return {}
    return document


def _files_of(spec: str) -> ModelFiles | None:
    """The files of a model on this machine, or None when it is not here."""
    kind, _, rest = spec.partition(":")
    if kind in ("hf", "local-dir") and Path(rest).is_dir():
        return files_in_folder(Path(rest))
    hub_id = rest if kind in ("hf", "hf-hub") else open_clip_hub_id(spec)
    return files_in_cache(hub_id) if hub_id else None


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(f"{name} was not loaded: this is an estimate")
