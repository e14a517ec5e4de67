"""The annotator `caption` and the arrangement of frames for vision-language models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.caption.annotator import (
        Captioner,
        CaptionOptions,
        caption_value,
        load_captioner,
        make_caption_annotator,
    )
    from annotators.caption.frame_layout import (
        FrameLayout,
        LayoutName,
        evenly_spaced_seconds,
        parse_layout,
        select_frame_seconds,
    )

__all__ = [
    "CaptionOptions",
    "Captioner",
    "FrameLayout",
    "LayoutName",
    "caption_value",
    "evenly_spaced_seconds",
    "load_captioner",
    "make_caption_annotator",
    "parse_layout",
    "select_frame_seconds",
]

__getattr__ = lazy_exports(__name__)
