"""The annotator `motion`: measures of motion and vectors for motion similarity."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from annotators.motion.annotator import (
        MotionAnnotator as MotionAnnotator,
        measure_motion as measure_motion,
    )
    from annotators.motion.columns import (
        JOINTS as JOINTS,
        OTHER_DIMENSIONS as OTHER_DIMENSIONS,
        find_gripper_dimensions as find_gripper_dimensions,
        find_motion_groups as find_motion_groups,
    )
    from annotators.motion.curves import (
        compute_spectral_arc_lengths as compute_spectral_arc_lengths,
        divide_into_equal_periods as divide_into_equal_periods,
    )
    from annotators.motion.grippers import (
        GripperChange as GripperChange,
        find_gripper_events as find_gripper_events,
    )
    from annotators.motion.meaning import (
        DatasetMeanings as DatasetMeanings,
        MotionMeaning as MotionMeaning,
        infer_meaning_by_names as infer_meaning_by_names,
    )

__getattr__ = lazy_exports(__name__)
