"""Generates clean episodes of random robots: joints, grippers, hands, parked arms, rates, lags and noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ares.quality.signals import EpisodeSignals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
    import numpy as np

    steps = max(40, int(rng.uniform(6, 25) * robot.rate_hz))
    seconds = np.arange(steps) / robot.rate_hz
    command = np.column_stack(
        [_command(joint, seconds, start, rng) for joint, start in zip(robot.joints, home, strict=True)]
    )
    state = _follow(command, robot, rng)
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
    import numpy as np

    return np.asarray(np.ptp(command, axis=0) > 0)


def _command(
    joint: JointType, seconds: NDArray[np.float64], start: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    import numpy as np

    if joint == "parked":
        return np.full(len(seconds), start)
    if joint in ("gripper", "hand"):
        return _switched(seconds, rng)
    return _waypoints(seconds, start, rng)


def _switched(seconds: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Open or closed, changed a few times, over 0.1 to 0.5 s; or never changed."""
    import numpy as np

    times = np.sort(rng.uniform(0, seconds[-1], int(rng.integers(0, 5))))
    period = rng.uniform(0.1, 0.5)
    parts = [(-1) ** n * np.clip((seconds - time) / period, 0, 1) for n, time in enumerate(times)]
    return np.asarray(np.sum(parts, axis=0)) if parts else np.zeros(len(seconds))


def _waypoints(seconds: NDArray[np.float64], start: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Movements of minimum jerk between random angles, with rests; the first second may be idle."""
    import numpy as np

    values = np.full(len(seconds), start)
    now, angle = rng.uniform(0, 1), start
    while now < seconds[-1]:
        duration, target = rng.uniform(0.6, 2.5), start + rng.normal(0, 0.5)
        phase = np.clip((seconds - now) / duration, 0, 1)
        values += (target - angle) * phase**3 * (10 - 15 * phase + 6 * phase**2)
        now, angle = now + duration + rng.choice([0.0, rng.uniform(0, 0.8)]), target
    return values


def _follow(
    command: NDArray[np.float64], robot: RandomRobot, rng: np.random.Generator
) -> NDArray[np.float64]:
    """What the encoders read: the command later and smoothed, with an offset by gravity, noise and resolution."""
    import numpy as np

    steps = np.arange(len(command))
    delay = robot.lag_seconds * robot.rate_hz
    state = np.column_stack([np.interp(steps - delay, steps, column) for column in command.T])
    moving = _is_moving(command)
    state = state + rng.normal(0, 0.01, state.shape[1]) * moving
    state = state + rng.normal(0, robot.noise, state.shape) * (moving | (rng.random() < 0.5))
    return np.asarray(np.round(state / robot.resolution) * robot.resolution) if robot.resolution else state
