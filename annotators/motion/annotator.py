"""The annotator `motion`: measures of the robot's motion and vectors for similarity, from recorded signals only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from annotators.base import Annotator, Options, Result, Work, new_annotation
from annotators.motion.actions import SATURATION_MARGIN
from annotators.motion.columns import COLUMNS
from annotators.motion.events import GRIPPER_HIGH, GRIPPER_LOW
from annotators.motion.meaning import DatasetMeanings
from annotators.motion.measures import measure_motion
from annotators.motion.paths import IDLE_SHARE_OF_SPEED
from annotators.motion.trajectory_vectors import TrajectoryVectors
from annotators.options import AnnotatorOptions, takes_options
from ares.annotation import Maker, short_hash
from ares.errors import AresError
from ares.kinematics import Kinematics, read_chains

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores

_VERSION = "4"
_BATCH_SIZE = 64


class MotionOptions(AnnotatorOptions):
    """Options of motion."""

    urdf: str = Field(
        default="",
        description="URDF file of the robot, to measure paths of its end effector by forward kinematics",
    )
    end_effector: str = Field(
        default="",
        description="link of the URDF whose path is measured; several, with commas, for several arms",
    )
    base_link: str = Field(
        default="",
        description="link of the URDF at which the arms begin, where joints before it are not recorded",
    )

    not_in_maker = frozenset({"urdf"})

    @model_validator(mode="after")
    def _check_both(self) -> MotionOptions:
        if bool(self.urdf) != bool(self.end_effector) or (self.base_link and not self.urdf):
            raise ValueError("urdf and end_effector are given together")
        return self

    def kinematics(self) -> Kinematics | None:
        """The chains of the end effectors; None without a URDF. Raises as `read_chains`."""
        links = [link.strip() for link in self.end_effector.split(",") if link.strip()]
        return Kinematics(chains=read_chains(self.urdf, links, self.base_link)) if links else None


@takes_options(MotionOptions)
def make_motion_annotator(options: Options, stores: Stores) -> Annotator:
    """An annotator that measures motion and makes the vectors of `ares search --by state,action`.

    An episode without signals gets the status "no signals".

    Raises:
        RequestError: The URDF has no such link, or one of the options is missing.
        SourceError: The URDF cannot be read or is wrong.
    """
    own = options.parse(MotionOptions)
    kinematics = own.kinematics()
    settings: dict[str, Json] = {
        "idle": IDLE_SHARE_OF_SPEED,
        "saturation": SATURATION_MARGIN,
        "gripper": [GRIPPER_LOW, GRIPPER_HIGH],
        **own.maker_settings(),
        **({} if kinematics is None else {"kinematics": short_hash(kinematics.to_json())}),
    }
    maker = Maker(annotator="motion", version=_VERSION, settings=settings, columns=COLUMNS)
    vectors, meanings = TrajectoryVectors(stores), DatasetMeanings(stores, kinematics)

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
