"""Vision-language models and encoders that annotators call, and doubles of both for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.models.base import (
        Capability,
        ModelProperties,
        Vlm,
        VlmFailure,
        VlmReply,
        VlmRequest,
        model_family,
        price_usd,
        require_capabilities,
    )
    from annotators.models.clip import ClipEncoder, absolute_spec, load_clip
    from annotators.models.families import (
        Kinship,
        ModelFamily,
        compare_models,
        expected_image_tokens,
        find_family,
    )
    from annotators.models.hash_encoder import load_hash_encoder
    from annotators.models.huggingface import LocalModelOptions
    from annotators.models.images import ReadableImages
    from annotators.models.inventory import (
        ModelDescription,
        describe_models,
        shared_language_model,
        worker_needs,
    )
    from annotators.models.load import (
        NamedEncoder,
        encoder_name,
        load_encoder_for,
        load_named_encoder,
        load_vlm,
    )
    from annotators.models.preflight import call_limit, grey_frames, make_test_call
    from annotators.models.unloaded import UNKNOWN_UNTIL_LOADED

__all__ = [
    "UNKNOWN_UNTIL_LOADED",
    "Capability",
    "ClipEncoder",
    "Kinship",
    "LocalModelOptions",
    "ModelDescription",
    "ModelFamily",
    "ModelProperties",
    "NamedEncoder",
    "ReadableImages",
    "Vlm",
    "VlmFailure",
    "VlmReply",
    "VlmRequest",
    "absolute_spec",
    "call_limit",
    "compare_models",
    "describe_models",
    "encoder_name",
    "expected_image_tokens",
    "find_family",
    "grey_frames",
    "load_clip",
    "load_encoder_for",
    "load_hash_encoder",
    "load_named_encoder",
    "load_vlm",
    "make_test_call",
    "model_family",
    "price_usd",
    "require_capabilities",
    "shared_language_model",
    "worker_needs",
]

__getattr__ = lazy_exports(__name__)
