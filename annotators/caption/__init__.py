"""The annotator `caption` and the arrangement of frames for vision-language models."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from annotators.caption.annotator import (
        CaptionAnnotator as CaptionAnnotator,
        Captioner as Captioner,
        CaptionOptions as CaptionOptions,
        load_captioner as load_captioner,
        make_caption_value as make_caption_value,
    )
    from annotators.caption.frame_layout import (
        FrameLayout as FrameLayout,
        LayoutName as LayoutName,
        compute_even_seconds as compute_even_seconds,
        parse_frame_layout as parse_frame_layout,
        select_frame_seconds as select_frame_seconds,
    )

__getattr__ = lazy_exports(__name__)
