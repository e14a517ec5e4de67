"""The annotator `motion`: measures of motion and vectors for motion similarity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.motion.annotator import make_motion_annotator

__all__ = ["make_motion_annotator"]

__getattr__ = lazy_exports(__name__)
