"""Vision-language models and encoders that annotators call, and doubles of both for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.models.base import ModelProperties, Vlm, VlmReply, VlmRequest, model_family, price_usd
    from annotators.models.clip import ClipEncoder, absolute_spec, load_clip
    from annotators.models.hash_encoder import load_hash_encoder
    from annotators.models.load import NamedEncoder, encoder_name, load_named_encoder, load_vlm

__all__ = [
    "ClipEncoder",
    "ModelProperties",
    "NamedEncoder",
    "Vlm",
    "VlmReply",
    "VlmRequest",
    "absolute_spec",
    "encoder_name",
    "load_clip",
    "load_hash_encoder",
    "load_named_encoder",
    "load_vlm",
    "model_family",
    "price_usd",
]

__getattr__ = lazy_exports(__name__)
