"""A drawn robot and what it records.

Written from the paragraph of issue 33 on sets from several sources, before what it says was built, and from no
other code: nothing here is shared with what compares datasets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RATE_HZ = 30.0
DEGREES = 57.29577951308232
_TICKS = 4096 / 6.283185307179586


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRobot:
    """A robot that two datasets are of.

    Attributes:
        names: Name of each dimension.
        kinds: Kind of each dimension: "arm", "gripper" or "hand".
        home: Value of each dimension where episodes start.
        low: Lower limit of each dimension.
        high: Upper limit of each dimension.
        reach: Usual size of a motion of each dimension.
        resolution: Distance of neighbouring values of an encoder, 0 for none.
        noise: Standard deviation of what is measured.
        lag: Steps by which the state is late.
        returns: Whether an episode ends at home.
        grip: Where each finger stops at an object, as a share of its range from closed.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    home: Array
    low: Array
    high: Array
    reach: Array
    resolution: float
    noise: float
    lag: int
    returns: bool
    grip: float

    def dimensions(self, *kinds: str) -> list[int]:
        """Numbers of the dimensions of these kinds."""
        return [number for number, kind in enumerate(self.kinds) if kind in kinds]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The episodes of one dataset: (T, D) states and actions, and the names of the D dimensions."""

    states: tuple[Array, ...]
    actions: tuple[Array, ...]
    names: tuple[str, ...]


def random_robot(rng: np.random.Generator) -> ArmRobot:
    """One or two arms with a gripper or a hand each, in radians."""
    sides = ("left_", "right_") if rng.random() < 0.35 else ("",)
    fingers, joints = int(rng.choice([1, 1, 1, 6])), int(rng.integers(5, 8))
    words = (
        "shoulder_pan",
        "shoulder_lift",
        "shoulder_roll",
        "elbow_flex",
        "wrist_roll",
        "wrist_flex",
        "wrist_yaw",
    )
    arm_names = [f"joint_{n + 1}" for n in range(joints)] if rng.random() < 0.5 else list(words[:joints])
    names, kinds = list[str](), list[str]()
    for side in sides:
        names += [side + name for name in arm_names]
        names += [f"{side}gripper"] if fingers == 1 else [f"{side}hand_{n}" for n in range(fingers)]
        kinds += ["arm"] * joints + (["gripper"] if fingers == 1 else ["hand"] * fingers)
    is_arm = np.array(kinds) == "arm"
    one_sided = is_arm & (rng.random(len(kinds)) < 0.35)
    low = np.where(one_sided, -0.1, -rng.uniform(1.5, 3.0, len(kinds)))
    high = np.where(one_sided, rng.uniform(1.8, 2.9, len(kinds)), -low)
    home = np.where(one_sided, rng.uniform(0.2, 1.6, len(kinds)), rng.uniform(-0.8, 0.8, len(kinds)))
    reach = rng.uniform(0.15, 0.7, len(kinds))
    top = float(rng.choice([1.0, 1.0, 1.0, 0.08, 0.9]))
    return ArmRobot(
        names=tuple(names),
        kinds=tuple(kinds),
        home=np.where(is_arm, home, top),
        low=np.where(is_arm, low, 0.0),
        high=np.where(is_arm, high, top),
        reach=np.where(is_arm, reach, top),
        resolution=float(rng.choice([0.0, 1 / _TICKS])),
        noise=float(10 ** rng.uniform(-4, -3)),
        lag=int(rng.integers(1, 5)),
        returns=bool(rng.random() < 0.4),
        grip=float(rng.uniform(0.15, 0.5)),
    )


def random_waypoints(robot: ArmRobot, rng: np.random.Generator) -> Array:
    """(K, D) where one task goes: home, some places, the object, perhaps home again; closed at the object."""
    places = int(rng.integers(3, 6))
    away = rng.normal(0, 1, (places, len(robot.names))) * robot.reach
    points = np.clip(robot.home + away, robot.low + 0.02, robot.high - 0.02)
    end = robot.home if robot.returns else points[-1]
    points = np.vstack([robot.home, points, end])
    fingers = robot.dimensions("gripper", "hand")
    closes, opens = int(rng.integers(1, places - 1)), places + int(rng.integers(0, 2))
    points[:, fingers] = robot.high[fingers]
    points[closes + 1 : opens + 1, fingers] = robot.low[fingers]
    return points


def record(robot: ArmRobot, points: Array, rng: np.random.Generator, episodes: int) -> Recorded:
    """Episodes of one task, each with its own goals, times and noise."""
    made = [_record_episode(robot, points, rng) for _ in range(episodes)]
    return Recorded(
        states=tuple(state for state, _ in made),
        actions=tuple(action for _, action in made),
        names=robot.names,
    )


def _record_episode(robot: ArmRobot, points: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    arm, fingers = robot.dimensions("arm"), robot.dimensions("gripper", "hand")
    own = points.copy()
    own[1:, arm] += rng.normal(0, 0.2, own[1:, arm].shape) * robot.reach[arm]
    own[0, arm] += rng.normal(0, 0.02, len(arm))
    own = np.clip(own, robot.low, robot.high)
    spans = rng.uniform(25, 55, len(own) - 1)
    stops = np.concatenate([[0], np.cumsum(spans)]) + 5
    steps = np.arange(int(stops[-1] + rng.uniform(5, 20)))
    leg = np.clip(np.searchsorted(stops, steps, side="right") - 1, 0, len(spans) - 1)
    share = np.clip((steps - stops[leg]) / spans[leg], 0, 1)
    smooth = (share**3 * (10 - 15 * share + 6 * share**2))[:, None]
    command = own[leg] * (1 - smooth) + own[leg + 1] * smooth
    state = command[np.clip(steps - robot.lag, 0, None)].copy()
    span = robot.high[fingers] - robot.low[fingers]
    thickness = robot.grip * rng.uniform(0.8, 1.2, len(fingers))
    state[:, fingers] = np.maximum(state[:, fingers], robot.low[fingers] + span * thickness)
    noise = np.where(np.array(robot.kinds) == "arm", robot.noise, robot.noise * robot.high)
    state += rng.normal(0, 1, state.shape) * noise
    if robot.resolution:
        state[:, arm] = np.round(state[:, arm] / robot.resolution) * robot.resolution
    return state, command + rng.normal(0, 0.3, command.shape) * noise * (
        np.abs(np.gradient(command, axis=0)) > 1e-6
    )
