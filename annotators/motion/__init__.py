"""The annotator `motion`: measures of motion and vectors for motion similarity."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_annotators.motion.annotator import MotionAnnotator as MotionAnnotator
    from ares_annotators.motion.columns import (
        JOINTS as JOINTS,
        OTHER_DIMENSIONS as OTHER_DIMENSIONS,
        find_gripper_dimensions as find_gripper_dimensions,
        find_motion_groups as find_motion_groups,
    )
    from ares_annotators.motion.grippers import (
        GripperChange as GripperChange,
        find_gripper_events as find_gripper_events,
    )
    from ares_annotators.motion.meaning import (
        DatasetMeanings as DatasetMeanings,
        MotionMeaning as MotionMeaning,
        infer_meaning_by_names as infer_meaning_by_names,
    )
    from ares_annotators.motion.measures import measure_motion as measure_motion
    from ares_annotators.motion.periods import divide_into_equal_periods as divide_into_equal_periods
    from ares_annotators.motion.picture_disagreement import (
        DISAGREEMENTS as DISAGREEMENTS,
        MOTION_DISAGREEMENT as MOTION_DISAGREEMENT,
        find_disagreements as find_disagreements,
    )
    from ares_annotators.motion.smoothness import compute_spectral_arc_lengths as compute_spectral_arc_lengths

__getattr__ = lazy_exports(__name__)
