"""The annotator `embed`: vectors of frames, sampled by time, by number or by change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.embed.annotator import make_embed_annotator
    from annotators.embed.frame_sampling import FrameSampling, parse_sampling

__all__ = ["FrameSampling", "make_embed_annotator", "parse_sampling"]

__getattr__ = lazy_exports(__name__)
