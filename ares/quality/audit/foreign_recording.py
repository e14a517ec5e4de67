"""How foreign robots record themselves: units, encoders, names, rotations, grippers, hands and bases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.quality.audit.foreign_motion import filtered, switched
from ares.quality.audit.foreign_robots import ForeignRobot
from ares.quality.signals import EpisodeSignals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FINGERS = ("thumb", "index", "middle", "ring", "pinky", "palm")
HAND_WIDTH = len(_FINGERS)
# Positions in metres per radian of a joint.
_METRES = 0.3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _RecordedPart:
    """Some dimensions of state (T, S) and action (T, A), and their names."""

    state: NDArray[np.float64]
    action: NDArray[np.float64]
    state_names: list[str]
    action_names: list[str]


def record_signals(
    robot: ForeignRobot,
    rng: np.random.Generator,
    seconds: NDArray[np.float64],
    command: NDArray[np.float64],
    followed: NDArray[np.float64],
    episode_id: str,
) -> EpisodeSignals:
    """The signals of an episode.

    Args:
        robot: Whose signals.
        rng: Draws noise, grippers and bases.
        seconds: (T,).
        command: (T, J) where the joints are to be.
        followed: (T, J) where they are.
        episode_id: Its id.
    """
    import numpy as np

    measured = _encoded(followed, robot, rng)
    action = _action(robot, command, measured, rng)
    parts = []
    for arm in range(robot.num_arms):
        dims = slice(arm * robot.width, (arm + 1) * robot.width)
        parts.append(_arm(robot, arm, measured[:, dims], action[:, dims]))
        parts.append(_end(robot, seconds, arm, rng))
    if robot.has_base:
        parts.append(_base(seconds, rng))
    return EpisodeSignals(
        episode_id=episode_id,
        seconds=seconds,
        state=_as_stored(np.concatenate([part.state for part in parts], axis=1)),
        action=_as_stored(np.concatenate([part.action for part in parts], axis=1)),
        state_names=tuple(name for part in parts for name in part.state_names),
        action_names=tuple(name for part in parts for name in part.action_names),
        rate_hz=robot.rate_hz,
        claimed_rate_hz=robot.rate_hz,
        measured_rate_hz=robot.rate_hz,
    )


def _as_stored(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values.astype("float32").astype("float64")


def _encoded(
    followed: NDArray[np.float64], robot: ForeignRobot, rng: np.random.Generator
) -> NDArray[np.float64]:
    import numpy as np

    noisy = followed + rng.normal(0, robot.noise, followed.shape)
    return np.round(noisy / robot.resolution) * robot.resolution if robot.resolution else noisy


def _action(
    robot: ForeignRobot, command: NDArray[np.float64], measured: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """(T, J) the action of each step, in radians, or radians per second or share of the fastest for a motion."""
    import numpy as np

    if robot.action == "next-state":
        return np.concatenate([measured[1:], measured[-1:]])
    if robot.action == "leader":
        leader = command + rng.normal(0, 1e-3, command.shape)
        return np.asarray(np.round(leader / 0.0015) * 0.0015)
    if robot.action == "absolute":
        return command
    if robot.action == "velocity":
        return np.asarray(np.gradient(command, axis=0) * robot.rate_hz)
    change = np.diff(command, axis=0, append=command[-1:])
    if robot.action == "clipped":
        return np.clip(change / (1.5 * np.array(robot.amplitudes) / robot.rate_hz), -1, 1)
    return change


def _arm(
    robot: ForeignRobot, arm: int, measured: NDArray[np.float64], action: NDArray[np.float64]
) -> _RecordedPart:
    """One arm as it is recorded: its joints, or the pose of its end effector."""
    scale = robot.action_scale if robot.is_relative else 1.0
    names, action_names = _arm_names(robot, arm)
    if robot.pose == "joints":
        state, command = measured * robot.unit_scale, action * robot.unit_scale
    else:
        state, command = _poses(robot, measured, action)
    return _RecordedPart(state=state, action=command * scale, state_names=names, action_names=action_names)


def _poses(
    robot: ForeignRobot, measured: NDArray[np.float64], action: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Poses of state and action: three positions, and three angles or a quaternion."""
    import numpy as np

    metres = np.array([_METRES] * 3 + [1.0] * 3)
    state, command = measured * metres, action * (1.0 if robot.action == "clipped" else metres)
    if robot.pose == "euler":
        return _bounded(state), command if robot.is_relative else _bounded(command)
    turned = _quaternions(state, flips_signs=robot.flips_signs)
    return turned, command if robot.is_relative else _quaternions(command, flips_signs=robot.flips_signs)


def _bounded(pose: NDArray[np.float64]) -> NDArray[np.float64]:
    """A pose (T, 6) whose angles stay within 2.9 rad, so that none is wrapped."""
    import numpy as np

    return np.concatenate([pose[:, :3], 2.9 * np.tanh(pose[:, 3:] / 2.9)], axis=1)


def _quaternions(pose: NDArray[np.float64], *, flips_signs: bool) -> NDArray[np.float64]:
    """A pose (T, 7) with the quaternion (w, x, y, z) of the rotation vector (T, 3), tilted by half a turn."""
    import numpy as np

    vectors = pose[:, 3:] + np.array([np.pi - 0.2, 0.0, 0.0])
    angles = np.linalg.norm(vectors, axis=1, keepdims=True)
    axes = vectors / np.maximum(angles, 1e-12)
    quaternions = np.concatenate([np.cos(angles / 2), axes * np.sin(angles / 2)], axis=1)
    if flips_signs:
        quaternions *= np.where(quaternions[:, :1] < 0, -1.0, 1.0)
    return np.concatenate([pose[:, :3], quaternions], axis=1)


def _side(robot: ForeignRobot, arm: int) -> str:
    return ("left_", "right_")[arm] if robot.num_arms == 2 else ""


def _arm_names(robot: ForeignRobot, arm: int) -> tuple[list[str], list[str]]:
    """Names of the dimensions of state and action of an arm."""
    side = _side(robot, arm)
    if robot.pose == "joints":
        names = [side + robot.name.format(number) for number in range(robot.width)]
        return names, names
    euler = [side + part for part in ("x", "y", "z", "roll", "pitch", "yaw")]
    quaternion = [side + part for part in ("x", "y", "z", "qw", "qx", "qy", "qz")]
    names = euler if robot.pose == "euler" else quaternion
    return names, euler if robot.is_relative else names


def _end(
    robot: ForeignRobot, seconds: NDArray[np.float64], arm: int, rng: np.random.Generator
) -> _RecordedPart:
    """What is at the end of an arm: nothing, a gripper or a hand."""
    import numpy as np

    side = _side(robot, arm)
    if robot.end == "none":
        nothing = np.zeros((len(seconds), 0))
        return _RecordedPart(state=nothing, action=nothing, state_names=[], action_names=[])
    closed = switched(seconds, rng) * (not (robot.is_parked and arm == 1))
    moved = filtered(closed[:, None], float(seconds[1]), 12.0, 1.0, 0.05)
    if robot.end == "hand":
        reach = rng.uniform(0.6, 1.5, HAND_WIDTH)
        names = [f"{side}hand_{finger}" for finger in _FINGERS]
        state = moved * reach + rng.normal(0, robot.noise, (len(moved), HAND_WIDTH))
        return _RecordedPart(
            state=state, action=closed[:, None] * reach, state_names=names, action_names=names
        )
    width = 0.08 * (1 - moved) if robot.end != "binary" else (moved > 0.5).astype(float)
    command = {"gripper": 0.08 * (1 - closed), "inverted": 2 * closed - 1, "binary": closed}[robot.end]
    names = [f"{side}gripper"]
    return _RecordedPart(state=width, action=command[:, None], state_names=names, action_names=names)


def _base(seconds: NDArray[np.float64], rng: np.random.Generator) -> _RecordedPart:
    """Position and heading of a base that drives at times; the heading lies in (-pi, pi], and nothing commands it."""
    import numpy as np

    speed = switched(seconds, rng)[:, None] * rng.normal(0, 0.4, 3)
    path = np.cumsum(filtered(speed, float(seconds[1]), 5.0, 1.0), axis=0) * seconds[1]
    path[:, 2] = (path[:, 2] + 3.0 + np.pi) % (2 * np.pi) - np.pi
    names = ["base_x", "base_y", "base_yaw"]
    return _RecordedPart(state=path, action=np.zeros((len(seconds), 0)), state_names=names, action_names=[])
