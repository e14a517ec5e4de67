"""The annotator `caption` and the arrangement of frames for vision-language models."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from annotators.caption.annotator import (
        CaptionAnnotator as CaptionAnnotator,
        Captioner as Captioner,
        CaptionOptions as CaptionOptions,
        caption_value as caption_value,
        load_captioner as load_captioner,
    )
    from annotators.caption.frame_layout import (
        FrameLayout as FrameLayout,
        LayoutName as LayoutName,
        evenly_spaced_seconds as evenly_spaced_seconds,
        parse_layout as parse_layout,
        select_frame_seconds as select_frame_seconds,
    )

__getattr__ = lazy_exports(__name__)
