"""The annotator `motion`: measures of a trajectory, and vectors that find similar motion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares.annotation import Producer
from ares_annotators.base import Options, Result, Work, new_annotation
from ares_annotators.motion.actions import SATURATION_MARGIN
from ares_annotators.motion.columns import (
    COLUMNS,
)
from ares_annotators.motion.curves import (
    IDLE_SHARE_OF_SPEED,
)
from ares_annotators.motion.grippers import GRIPPER_HIGH, GRIPPER_LOW
from ares_annotators.motion.meaning import DatasetMeanings
from ares_annotators.motion.measures import measure_motion
from ares_annotators.motion.vectors import TrajectoryVectors

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


_VERSION = "5"
_BATCH_SIZE = 64
# The options that there once were are part of the producer's id.
_SETTINGS: dict[str, Json] = {
    "idle": IDLE_SHARE_OF_SPEED,
    "saturation": SATURATION_MARGIN,
    "gripper": [GRIPPER_LOW, GRIPPER_HIGH],
    "end_effector": "",
    "base_link": "",
}


class MotionAnnotator:
    """Measures motion and makes the vectors of `ares search --by state,action`.

    An episode without signals gets the status "no signals".
    """

    needs_signals = True
    batch_size = _BATCH_SIZE

    def __init__(self, options: Options, stores: Stores) -> None:
        self.producer = Producer(annotator="motion", version=_VERSION, settings=_SETTINGS, columns=COLUMNS)
        self._vectors, self._meanings = TrajectoryVectors(stores), DatasetMeanings(stores)

    def process(self, works: Sequence[Work]) -> list[Result]:
        """The measures of each trajectory, and its vectors."""
        return [self._measure(work) for work in works]

    def _measure(self, work: Work) -> Result:
        value = measure_motion(work.trajectory, self._meanings.find(work))
        return Result(
            annotations=[new_annotation(work, self.producer, value)],
            vectors=tuple(self._vectors.make_vectors(work)),
        )
