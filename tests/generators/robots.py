"""Clean signals of generated robots: joints and grippers with names, or dimensions without any of a known kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ares.signals import DimensionKind
from ares.signals.plain_arrays import EpisodeSignals

JointType = Literal["arm", "parked", "gripper", "hand"]
_RATES_HZ = (10.0, 15.0, 20.0, 30.0, 50.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomRobot:
    """A robot whose episodes are generated.

    Attributes:
        joints: Type of each joint.
        names: Name of each joint.
        rate_hz: Steps per second.
        lag_seconds: How much later than its command a joint moves.
        unit_scale: Units of the signals per radian: 1, or 57.3 for degrees.
        noise: Standard deviation of the state, radians; 0 in simulation.
        resolution: Distance of neighbouring encoder values, radians.
        hand_jitter: Standard deviation of the command of a person who leads the robot, radians.
        is_delta: Whether the action is the change of the command, and not the command.
    """

    joints: tuple[JointType, ...]
    names: tuple[str, ...]
    rate_hz: float
    lag_seconds: float
    unit_scale: float
    noise: float
    resolution: float
    hand_jitter: float
    is_delta: bool

    @property
    def moving_joints(self) -> tuple[int, ...]:
        """Numbers of the arm joints that move."""
        return tuple(number for number, joint in enumerate(self.joints) if joint == "arm")


def random_robot(rng: np.random.Generator) -> RandomRobot:
    """A robot with one or two arms, grippers or hands, and perhaps a parked arm."""
    joints, names = _random_joints(rng)
    simulated = rng.random() < 0.25
    return RandomRobot(
        joints=joints,
        names=names,
        rate_hz=float(rng.choice(_RATES_HZ)),
        lag_seconds=float(rng.uniform(0.03, 0.2)),
        unit_scale=float(rng.choice([1.0, 180 / 3.141592653589793])),
        noise=0.0 if simulated else float(10 ** rng.uniform(-4, -2.7)),
        resolution=0.0 if simulated else float(rng.choice([0.0, 2 * 3.14159 / 4096, 2 * 3.14159 / 65536])),
        hand_jitter=0.0 if simulated else float(10 ** rng.uniform(-4, -2.5)),
        is_delta=bool(rng.random() < 0.25),
    )


def _random_joints(rng: np.random.Generator) -> tuple[tuple[JointType, ...], tuple[str, ...]]:
    sides = ("left", "right")[: int(rng.integers(1, 3))]
    parked = sides[0] if len(sides) == 2 and rng.random() < 0.3 else ""
    fingers = int(rng.choice([1, 1, 6]))
    joints: list[JointType] = []
    names = []
    for side in sides:
        width = int(rng.integers(5, 8))
        arm: JointType = "parked" if side == parked else "arm"
        end: JointType = "parked" if side == parked else "gripper" if fingers == 1 else "hand"
        joints += [arm] * width + [end] * fingers
        names += [f"{side}_joint_{number}" for number in range(width)]
        names += [f"{side}_gripper"] if fingers == 1 else [f"{side}_hand_{n}" for n in range(fingers)]
    return tuple(joints), tuple(names)


def random_dataset(robot: RandomRobot, rng: np.random.Generator, episodes: int = 6) -> list[EpisodeSignals]:
    """Clean episodes of one robot and one task."""
    home = rng.uniform(-1, 1, len(robot.joints))
    return [_random_episode(robot, rng, home, f"generated{number}") for number in range(episodes)]


def _random_episode(
    robot: RandomRobot, rng: np.random.Generator, home: NDArray[np.float64], episode_id: str
) -> EpisodeSignals:
    steps = max(40, int(rng.uniform(6, 25) * robot.rate_hz))
    seconds = np.arange(steps) / robot.rate_hz
    command = np.column_stack(
        [_joint_command(joint, seconds, start, rng) for joint, start in zip(robot.joints, home, strict=True)]
    )
    state = _encoder_readings(command, robot, rng)
    action = command + rng.normal(0, robot.hand_jitter, command.shape) * _is_moving(command)
    if robot.is_delta:
        action = np.diff(action, axis=0, append=action[-1:])
    return EpisodeSignals(
        episode_id=episode_id,
        seconds=seconds,
        state=_as_stored(state * robot.unit_scale),
        action=_as_stored(action * robot.unit_scale),
        state_names=robot.names,
        action_names=robot.names,
        rate_hz=robot.rate_hz,
        claimed_rate_hz=robot.rate_hz,
        measured_rate_hz=robot.rate_hz,
    )


def _as_stored(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values.astype("float32").astype("float64")


def _is_moving(command: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray(np.ptp(command, axis=0) > 0)


def _joint_command(
    joint: JointType, seconds: NDArray[np.float64], start: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    if joint == "parked":
        return np.full(len(seconds), start)
    if joint in ("gripper", "hand"):
        return _switched_joint(seconds, rng)
    return _waypoint_motion(seconds, start, rng)


def _switched_joint(seconds: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Open or closed, changed a few times, over 0.1 to 0.5 s; or never changed."""
    times = np.sort(rng.uniform(0, seconds[-1], int(rng.integers(0, 5))))
    period = rng.uniform(0.1, 0.5)
    parts = [(-1) ** n * np.clip((seconds - time) / period, 0, 1) for n, time in enumerate(times)]
    return np.asarray(np.sum(parts, axis=0)) if parts else np.zeros(len(seconds))


def _waypoint_motion(
    seconds: NDArray[np.float64], start: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Movements of minimum jerk between random angles, with rests; the first second may be idle."""
    values = np.full(len(seconds), start)
    now, angle = rng.uniform(0, 1), start
    while now < seconds[-1]:
        duration, target = rng.uniform(0.6, 2.5), start + rng.normal(0, 0.5)
        phase = np.clip((seconds - now) / duration, 0, 1)
        values += (target - angle) * phase**3 * (10 - 15 * phase + 6 * phase**2)
        now, angle = now + duration + rng.choice([0.0, rng.uniform(0, 0.8)]), target
    return values


def _encoder_readings(
    command: NDArray[np.float64], robot: RandomRobot, rng: np.random.Generator
) -> NDArray[np.float64]:
    """What the encoders read: the command later and smoothed, with an offset by gravity, noise and resolution."""
    steps = np.arange(len(command))
    delay = robot.lag_seconds * robot.rate_hz
    state = np.column_stack([np.interp(steps - delay, steps, column) for column in command.T])
    moving = _is_moving(command)
    state = state + rng.normal(0, 0.01, state.shape[1]) * moving
    state = state + rng.normal(0, robot.noise, state.shape) * (moving | (rng.random() < 0.5))
    return np.asarray(np.round(state / robot.resolution) * robot.resolution) if robot.resolution else state


Block = tuple[list[DimensionKind], "NDArray[np.float64]"]


def random_dimensions(
    rng: np.random.Generator, episodes: int = 5
) -> tuple[tuple[DimensionKind, ...], list[NDArray[np.float64]], float]:
    """The true kinds of D dimensions, the values (T, D) of some episodes, and the rate in Hz; half of the robots have
    their dimensions permuted, in which case four of a quaternion are no neighbours."""
    rate_hz = float(rng.choice([10.0, 20.0, 30.0, 50.0]))
    plan = {
        "joints": int(rng.integers(5, 15)),
        "grippers": int(rng.integers(0, 3)),
        "fingers": int(rng.choice([0, 0, 6])),
        "pose": int(rng.random() < 0.4),
        "clock": int(rng.random() < 0.3),
        "speeds": int(rng.random() < 0.3),
    }
    unit = float(rng.choice([1.0, 57.29578]))
    noise = float(rng.choice([0.0, 1e-4, 1e-3]))
    home = rng.uniform(-1.6, 1.6, plan["joints"])
    values, kinds = [], tuple[DimensionKind, ...]()
    for _ in range(episodes):
        seconds = np.arange(int(rng.uniform(6, 20) * rate_hz)) / rate_hz
        blocks = _signal_blocks(plan, seconds, home, unit, noise, rng)
        kinds = tuple(kind for names, _ in blocks for kind in names)
        values.append(np.concatenate([block for _, block in blocks], axis=1).astype(np.float32).astype(float))
    if rng.random() < 0.5:
        order = rng.permutation(len(kinds))
        kinds, values = tuple(kinds[n] for n in order), [part[:, order] for part in values]
    return kinds, values, rate_hz


def _signal_blocks(
    plan: dict[str, int],
    seconds: NDArray[np.float64],
    home: NDArray[np.float64],
    unit: float,
    noise: float,
    rng: np.random.Generator,
) -> list[Block]:
    joints = home + 0.5 * _slow_sines(seconds, plan["joints"], rng)
    measured = unit * (joints + rng.normal(0, noise, joints.shape))
    blocks: list[Block] = [(["arm"] * plan["joints"], measured)]
    for _ in range(plan["grippers"]):
        blocks.append((["gripper"], rng.choice([0.08, 1.0, 100.0]) * _switched_column(seconds, rng)))
    if plan["fingers"]:
        closure = 1.5 * _switched_column(seconds, rng) * rng.uniform(0.6, 1, plan["fingers"])
        blocks.append((["hand"] * plan["fingers"], closure + rng.normal(0, 1e-3, closure.shape)))
    if plan["pose"]:
        turns = _slow_sines(seconds, 4, rng) + np.array([3, 0, 0, 0])
        quaternion = turns / np.linalg.norm(turns, axis=1, keepdims=True)
        blocks.append((["position"] * 3, 0.5 + 0.15 * _slow_sines(seconds, 3, rng)))
        blocks.append((["rotation"] * 4, quaternion))
    if plan["clock"]:
        blocks.append((["other"], seconds[:, None]))
    if plan["speeds"]:
        speeds = unit * np.gradient(joints, seconds, axis=0)
        blocks.append((["other"] * plan["joints"], speeds))
    return blocks


def _slow_sines(seconds: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """(T, count) sums of slow sines, of standard deviation 1."""
    frequencies = rng.uniform(0.05, 0.4, (4, count))
    phases = rng.uniform(0, 2 * np.pi, (4, count))
    parts = np.sin(2 * np.pi * frequencies * seconds[:, None, None] + phases)
    return np.asarray(parts.sum(axis=1) / np.sqrt(2))


def _switched_column(seconds: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """(T, 1) open or closed, changed one to three times in 0.2 to 0.6 s."""
    times = np.sort(rng.uniform(0.1, 0.8, int(rng.integers(1, 4)))) * seconds[-1]
    period = rng.uniform(0.2, 0.6)
    parts = [(-1) ** number * np.clip((seconds - time) / period, 0, 1) for number, time in enumerate(times)]
    return np.asarray(np.sum(parts, axis=0))[:, None]
