"""The annotator `motion`: measures of motion and vectors for motion similarity."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from annotators.motion.annotator import (
        MotionAnnotator as MotionAnnotator,
        measure_motion as measure_motion,
    )
    from annotators.motion.curves import (
        GripperChange as GripperChange,
        compute_spectral_arc_lengths as compute_spectral_arc_lengths,
        find_gripper_events as find_gripper_events,
    )

__getattr__ = lazy_exports(__name__)
