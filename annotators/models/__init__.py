"""Vision-language models and encoders that annotators call, and doubles of both for tests."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_annotators.models.base import (
        Capability as Capability,
        FrameJudge as FrameJudge,
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
    from ares_annotators.models.clip import (
        ClipEncoder as ClipEncoder,
        load_clip as load_clip,
        make_spec_absolute as make_spec_absolute,
    )
    from ares_annotators.models.doubles import load_hash_encoder as load_hash_encoder
    from ares_annotators.models.huggingface.vlm import (
        LocalModelOptions as LocalModelOptions,
        load_huggingface as load_huggingface,
    )
    from ares_annotators.models.image_tokens import (
        count_image_tokens as count_image_tokens,
        estimate_image_tokens as estimate_image_tokens,
    )
    from ares_annotators.models.load import load_vlm as load_vlm
    from ares_annotators.models.load_encoder import (
        NamedEncoder as NamedEncoder,
        find_encoder_name as find_encoder_name,
        load_encoder_for as load_encoder_for,
        load_named_encoder as load_named_encoder,
    )
    from ares_annotators.models.model_families import (
        ModelFamily as ModelFamily,
        find_family as find_family,
    )
    from ares_annotators.models.model_info import estimate_worker_resources as estimate_worker_resources
    from ares_annotators.models.paid_calls import (
        ReadableImages as ReadableImages,
    )
    from ares_annotators.models.related_models import model_family_error as model_family_error
    from ares_annotators.models.server.vlm import OpenAiVlm as OpenAiVlm
    from ares_annotators.models.text_tower import open_text_encoder as open_text_encoder
    from ares_annotators.models.transformers_encoder import (
        TransformersImageEncoder as TransformersImageEncoder,
        load_vision_tower as load_vision_tower,
    )
    from ares_annotators.models.trial_call import grey_frames as grey_frames, make_test_call as make_test_call
    from ares_annotators.models.unloaded_models import UNKNOWN_UNTIL_LOADED as UNKNOWN_UNTIL_LOADED

__getattr__ = lazy_exports(__name__)
