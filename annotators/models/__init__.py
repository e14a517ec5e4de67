"""Vision-language models and encoders that annotators call, and doubles of both for tests."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from annotators.models.base import (
        Capability as Capability,
        ModelProperties as ModelProperties,
        Vlm as Vlm,
        VlmFailure as VlmFailure,
        VlmReply as VlmReply,
        VlmRequest as VlmRequest,
        call_limit as call_limit,
        model_family as model_family,
        price_usd as price_usd,
        require_capabilities as require_capabilities,
    )
    from annotators.models.clip import (
        ClipEncoder as ClipEncoder,
        load_clip as load_clip,
        make_spec_absolute as make_spec_absolute,
    )
    from annotators.models.doubles import load_hash_encoder as load_hash_encoder
    from annotators.models.huggingface.vlm import (
        LocalModelOptions as LocalModelOptions,
        load_huggingface as load_huggingface,
    )
    from annotators.models.image_tokens import (
        count_image_tokens as count_image_tokens,
        estimate_image_tokens as estimate_image_tokens,
    )
    from annotators.models.inventory import (
        ModelDescription as ModelDescription,
        describe_models as describe_models,
        estimate_worker_resources as estimate_worker_resources,
        shared_language_model as shared_language_model,
    )
    from annotators.models.load import load_vlm as load_vlm
    from annotators.models.load_encoder import (
        NamedEncoder as NamedEncoder,
        find_encoder_name as find_encoder_name,
        load_encoder_for as load_encoder_for,
        load_named_encoder as load_named_encoder,
    )
    from annotators.models.model_families import (
        ModelFamily as ModelFamily,
        compare_models as compare_models,
        find_family as find_family,
    )
    from annotators.models.model_info import UNKNOWN_UNTIL_LOADED as UNKNOWN_UNTIL_LOADED
    from annotators.models.paid_calls import (
        ReadableImages as ReadableImages,
    )
    from annotators.models.server.vlm import OpenAiVlm as OpenAiVlm
    from annotators.models.text_tower import open_text_encoder as open_text_encoder
    from annotators.models.transformers_encoder import (
        TransformersImageEncoder as TransformersImageEncoder,
        load_vision_tower as load_vision_tower,
    )
    from annotators.models.trial_call import grey_frames as grey_frames, make_test_call as make_test_call

__getattr__ = lazy_exports(__name__)
