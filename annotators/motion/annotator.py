"""The annotator `motion`: measures of the robot's motion and vectors for similarity, from recorded signals only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from annotators.base import Annotator, Options, Result, Work, new_annotation
from annotators.motion.actions import SATURATION_MARGIN
from annotators.motion.columns import COLUMNS
from annotators.motion.events import GRIPPER_HIGH, GRIPPER_LOW
from annotators.motion.meaning import DatasetMeanings
from annotators.motion.measures import measure_motion
from annotators.motion.paths import IDLE_SHARE_OF_SPEED
from annotators.motion.trajectory_vectors import TrajectoryVectors
from ares.annotation import Maker
from ares.errors import AresError

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores

_VERSION = "4"
_BATCH_SIZE = 64


def make_motion_annotator(options: Options, stores: Stores) -> Annotator:
    """An annotator that measures motion and makes the vectors of `ares search --by state,action`.

    An episode without signals gets the status "no signals".
    """
    settings: dict[str, Json] = {
        "idle": IDLE_SHARE_OF_SPEED,
        "saturation": SATURATION_MARGIN,
        "gripper": [GRIPPER_LOW, GRIPPER_HIGH],
    }
    maker = Maker(annotator="motion", version=_VERSION, settings=settings, columns=COLUMNS)
    vectors, meanings = TrajectoryVectors(stores), DatasetMeanings(stores)

    def process(works: Sequence[Work]) -> list[Result | AresError]:
        return [
            Result(
                annotations=[
                    new_annotation(work, maker, measure_motion(work.trajectory, meanings.find(work)))
                ],
                vectors=tuple(vectors.make_vectors(work)),
            )
            for work in works
        ]

    return Annotator(maker=maker, process=process, needs_signals=True, batch_size=_BATCH_SIZE)
