"""The annotator `motion`: measures of motion and vectors for motion similarity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.motion.annotator import make_motion_annotator
    from annotators.motion.events import EndChange, find_events
    from annotators.motion.measures import measure_motion
    from annotators.motion.smoothness import log_dimensionless_jerk, spectral_arc_lengths

__all__ = [
    "EndChange",
    "find_events",
    "log_dimensionless_jerk",
    "make_motion_annotator",
    "measure_motion",
    "spectral_arc_lengths",
]

__getattr__ = lazy_exports(__name__)
