"""Models that are described without being loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from ares.annotation import short_hash
from ares.episode import Json
from ares_annotators.models.base import IMAGE_SETTINGS, Capability
from ares_annotators.models.model_families import find_family
from ares_annotators.models.model_info import find_model_files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores
    from ares_annotators.models.base import VlmFailure, VlmReply, VlmRequest

# Part of the name of a model whose fingerprint is not known.
UNKNOWN_UNTIL_LOADED = "unknown until loaded"

_COLLECTION = "loaded_models"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadedVlm:
    """Fills the protocol `ares_annotators.models.base.Vlm`, but cannot answer.

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
        _raise_not_loaded(self.name)


@dataclass(slots=True, kw_only=True)
class UnloadedEncoder:
    """Fills the protocol `ares_annotators.models.load_encoder.NamedEncoder`, but cannot encode."""

    name: str
    dim: int = 0

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Raises RuntimeError."""
        _raise_not_loaded(self.name)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Raises RuntimeError."""
        _raise_not_loaded(self.name)


def store_model_description(
    stores: Stores, spec: str, name: str, family: str = "", capabilities: Iterable[str] = ()
) -> None:
    """Store what is known of a model that was loaded, with a stamp of its files; the stand-ins read it."""
    files = find_model_files(spec)
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


def make_unloaded_vlm(spec: str, stores: Stores | None) -> UnloadedVlm:
    """The stand-in for the vision-language model of a spec; no file of weights is read."""
    known = _remembered_facts(spec, stores)
    source = spec.partition(":")[2]
    return UnloadedVlm(
        name=known.get("name") or f"{source} ({UNKNOWN_UNTIL_LOADED})",
        family=known.get("family") or find_family(source).name,
        capabilities=frozenset(known.get("capabilities", ())),
    )


def make_unloaded_encoder(spec: str, stores: Stores) -> UnloadedEncoder:
    """The stand-in for the encoder of a spec."""
    return UnloadedEncoder(
        name=_remembered_facts(spec, stores).get("name") or f"{spec} ({UNKNOWN_UNTIL_LOADED})"
    )


def _remembered_facts(spec: str, stores: Stores | None) -> dict[str, Any]:
    """What is known of a model that was loaded from the same files; nothing for another model."""
    files = find_model_files(spec)
    document = stores.annotations.get_document(_COLLECTION, short_hash(spec)) if stores and files else None
    if not files or not isinstance(document, dict) or document["stamp"] != short_hash(files.stamp):
        return {}
    return document


def _raise_not_loaded(name: str) -> NoReturn:
    raise RuntimeError(f"{name} was not loaded: this is an estimate")
