"""The annotator `caption` and the arrangement of frames for vision-language models."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_annotators.caption.annotator import (
        SEGMENT_CAPTION as SEGMENT_CAPTION,
        SEGMENTERS as SEGMENTERS,
        CaptionAnnotator as CaptionAnnotator,
        CaptionOptions as CaptionOptions,
        CaptionQuestion as CaptionQuestion,
        ask_captioner as ask_captioner,
        count_prompt_tokens as count_prompt_tokens,
        load_captioner as load_captioner,
    )
    from ares_annotators.caption.captioner import (
        CaptionedKind as CaptionedKind,
        Captioner as Captioner,
    )
    from ares_annotators.caption.frame_plan import (
        CameraView as CameraView,
        CaptionLayout as CaptionLayout,
        FramePlan as FramePlan,
        choose_camera as choose_camera,
        compute_even_seconds as compute_even_seconds,
        frame_range as frame_range,
        frame_second as frame_second,
        plan_frames as plan_frames,
        plan_test_frames as plan_test_frames,
    )
    from ares_annotators.caption.slot_filler import (
        MOST_SENTENCES as MOST_SENTENCES,
        FilledSlots as FilledSlots,
        describe_verbs as describe_verbs,
        fill_hash as fill_hash,
        fill_prompt as fill_prompt,
        fill_slots as fill_slots,
        is_fillable as is_fillable,
        make_shared_fill_request as make_shared_fill_request,
        read_shared_fill_reply as read_shared_fill_reply,
    )

__getattr__ = lazy_exports(__name__)
