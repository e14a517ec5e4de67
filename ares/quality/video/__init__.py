"""Checks of video: blur, exposure, frozen and lost frames, colours, swapped cameras, damage, and its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.video.codes import VIDEO_CODES

__all__ = ["VIDEO_CODES"]

__getattr__ = lazy_exports(__name__)
