"""Loads the encoder that a spec names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ares.registry import encoders
from ares.search import Encoder, load_encoder_model

if TYPE_CHECKING:
    from ares.store import Stores
    from ares_annotators.base import Options


_DEFAULT_ENCODER = "clip"
# Encoders whose names are known when their files have been read.
_MODEL_ENCODERS = ("clip", "hf")


class NamedEncoder(Encoder, Protocol):
    """An encoder that names the embedding space of its vectors.

    Attributes:
        name: Portable name with a fingerprint of the weights: letters, digits, "_" and "-".
    """

    name: str


def load_encoder_for(spec: str, options: Options, stores: Stores) -> NamedEncoder:
    """Load the encoder of a spec; for an estimate, a stand-in for it.

    Args:
        spec: As for `load_named_encoder`.
        options: Device, and whether models are loaded.
        stores: Where the name of the model is remembered, so that an estimate knows it.

    Raises:
        ModelError: It cannot be loaded.
    """
    from ares_annotators.models.unloaded_models import make_unloaded_encoder, store_model_description

    is_model = find_encoder_name(spec) in _MODEL_ENCODERS
    if is_model and not options.load_models:
        return make_unloaded_encoder(spec, stores)
    encoder = load_named_encoder(spec, options.device)
    if is_model:
        store_model_description(stores, spec, encoder.name)
    return encoder


def find_encoder_name(spec: str) -> str:
    """Registry name of the encoder that loads a spec: its prefix ("hash:64") where it is one, else "clip"."""
    prefix, separator, _ = spec.partition(":")
    return prefix if separator and prefix in encoders.names() else _DEFAULT_ENCODER


def load_named_encoder(spec: str, device: str) -> NamedEncoder:
    """Load the encoder of a spec. Raises ModelError when it cannot be loaded."""
    encoder: NamedEncoder = load_encoder_model(find_encoder_name(spec), spec, device)  # type: ignore[assignment]
    return encoder
