"""The annotator `motion`: measures of motion and vectors for motion similarity."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from annotators.motion.annotator import (
        MotionAnnotator as MotionAnnotator,
        measure_motion as measure_motion,
    )
    from annotators.motion.curves import (
        EndChange as EndChange,
        find_events as find_events,
        spectral_arc_lengths as spectral_arc_lengths,
    )

__getattr__ = lazy_exports(__name__)
