"""Draws foreign robots: other controllers, actions, names, grippers, bases and rotations than `random_robots`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ares.quality.audit.foreign_motion import MOTION_STYLES, MotionStyle

if TYPE_CHECKING:
    import numpy as np

ActionType = Literal["absolute", "delta", "velocity", "clipped", "next-state", "leader"]
PoseType = Literal["joints", "euler", "quaternion"]
EndType = Literal["none", "gripper", "inverted", "binary", "hand"]
_ACTIONS: tuple[ActionType, ...] = ("absolute", "delta", "velocity", "clipped", "next-state", "leader")
_POSES: tuple[PoseType, ...] = ("joints", "joints", "joints", "euler", "quaternion")
_ENDS: tuple[EndType, ...] = ("none", "gripper", "inverted", "binary", "hand")
_RATES_HZ = (5.0, 10.0, 12.5, 20.0, 25.0, 30.0, 50.0, 60.0, 100.0)
_JOINT_NAMES = (
    "joint_{}",
    "panda_joint{}",
    "arm.joint{}.pos",
    "main_shoulder_{}",
    "robot0_joint_pos_{}",
    "q_{}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRobot:
    """A robot whose episodes are generated.

    Attributes:
        pose: Whether joints are recorded, or the pose of an end effector with angles or a quaternion.
        width: Joints of each arm.
        num_arms: Arms; those beyond the first may rest.
        is_parked: Whether the last of two arms rests.
        end: What is at the end of each arm.
        has_base: Whether position and heading of a mobile base are recorded.
        action: What the action means.
        style: How it is moved.
        name: Pattern of the names of its joints.
        rate_hz: Steps per second.
        median_seconds: Median length of its episodes.
        unit_scale: Units of the signals per radian.
        action_scale: Units of the action per unit of the state.
        natural_frequency: Of its controller, radians per second.
        damping: Damping ratio of the controller.
        delay_seconds: Dead time of the controller.
        gains: (J,) motion of each joint per commanded motion.
        backlash: Play of the gears, radians.
        ripple: Amplitude of an oscillation of the controller, radians.
        noise: Standard deviation of the encoders, radians.
        resolution: Distance of neighbouring encoder values, radians.
        amplitudes: (J,) how far each joint moves, radians.
        flips_signs: Whether a quaternion is recorded with a positive first component.
    """

    pose: PoseType
    width: int
    num_arms: int
    is_parked: bool
    end: EndType
    has_base: bool
    action: ActionType
    style: MotionStyle
    name: str
    rate_hz: float
    median_seconds: float
    unit_scale: float
    action_scale: float
    natural_frequency: float
    damping: float
    delay_seconds: float
    gains: tuple[float, ...]
    backlash: float
    ripple: float
    noise: float
    resolution: float
    amplitudes: tuple[float, ...]
    flips_signs: bool

    @property
    def is_relative(self) -> bool:
        """Whether the action is a motion and not a position."""
        return self.action in ("delta", "velocity", "clipped")


def foreign_robot(rng: np.random.Generator) -> ForeignRobot:
    """A robot with random controller, action, names and rate."""
    import numpy as np

    pose = _POSES[int(rng.integers(len(_POSES)))]
    num_arms = int(rng.choice([1, 1, 2]))
    width = int(rng.integers(5, 8)) if pose == "joints" else 6
    joints = width * num_arms
    simulated = rng.random() < 0.3
    in_degrees = pose == "joints" and rng.random() < 0.3
    return ForeignRobot(
        pose=pose,
        width=width,
        num_arms=num_arms,
        is_parked=num_arms == 2 and bool(rng.random() < 0.4),
        end=_ENDS[int(rng.integers(len(_ENDS)))],
        has_base=bool(rng.random() < 0.15),
        action=_ACTIONS[int(rng.integers(len(_ACTIONS)))],
        style=MOTION_STYLES[int(rng.integers(len(MOTION_STYLES)))],
        name=str(rng.choice(_JOINT_NAMES)),
        rate_hz=float(rng.choice(_RATES_HZ)),
        median_seconds=float(np.exp(rng.uniform(np.log(2), np.log(120)))),
        unit_scale=180 / np.pi if in_degrees else 1.0,
        action_scale=float(rng.choice([1.0, 1.0, 1.0, 0.05, 20.0])),
        natural_frequency=float(rng.uniform(6, 40)),
        damping=float(rng.uniform(0.6, 1.3)),
        delay_seconds=float(rng.uniform(0, 0.15)),
        gains=tuple(rng.uniform(0.8, 1.02, joints)),
        backlash=float(rng.choice([0.0, 0.0, rng.uniform(0.001, 0.015)])),
        ripple=float(rng.choice([0.0, 0.0, rng.uniform(0.001, 0.006)])),
        noise=0.0 if simulated else float(10 ** rng.uniform(-4.5, -2.7)),
        resolution=0.0 if simulated else float(rng.choice([0.0, 2 * np.pi / 65536, 2 * np.pi / 4096])),
        amplitudes=tuple(np.minimum(rng.lognormal(np.log(0.4), 0.7, joints), 1.2)),
        flips_signs=bool(rng.random() < 0.5),
    )
