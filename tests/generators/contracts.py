"""Generated datasets whose signals have a known meaning: units, modes, rotations and grippers at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from ares.contract.rotations import convert_rotation
from ares.signals.plain_arrays import EpisodeSignals

Array = NDArray[np.float64]

_EPISODES = 6
_PI = 3.141592653589793
_QUATERNION_NAMES = {"quaternion xyzw": "xyzw", "quaternion wxyz": "wxyz"}
_GRIPPER_RANGES = {"fraction": (0.0, 1.0), "signed": (-1.0, 1.0), "percent": (0.0, 100.0), "m": (0.0, 0.08)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedDataset:
    """A dataset and what its signals mean.

    Attributes:
        episodes: Its episodes, of one robot.
        truth: True values by signal group and property, such as ("action.arm", "unit").
    """

    episodes: tuple[EpisodeSignals, ...]
    truth: Mapping[tuple[str, str], str]


@dataclass(slots=True, kw_only=True)
class _Columns:
    """Columns of a signal with their names, episode by episode."""

    names: list[str] = field(default_factory=list)
    parts: list[list[Array]] = field(default_factory=list)

    def add(self, names: list[str], episodes: list[Array]) -> None:
        self.names += names
        self.parts.append(episodes)

    def episode(self, number: int) -> Array:
        import numpy as np

        values = np.concatenate([part[number] for part in self.parts], axis=1)
        return values.astype("float32").astype("float64")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Robot:
    rate_hz: float
    lag_steps: float
    noise: float
    resolution: float
    lengths: tuple[int, ...]


def random_meaning(seed: int) -> GeneratedDataset:
    """A dataset of one random robot."""
    rng = np.random.default_rng(seed)
    robot = _random_robot(rng)
    state, action, truth = _Columns(), _Columns(), dict[tuple[str, str], str]()
    if rng.random() < 0.6:
        _add_joints(robot, rng, state, action, truth)
    else:
        _add_pose(robot, rng, state, action, truth)
    _add_gripper(robot, rng, state, action, truth)
    episodes = tuple(
        _episode_signals(robot, state, action, f"meaning{seed}-{n}", n) for n in range(_EPISODES)
    )
    return GeneratedDataset(episodes=episodes, truth=truth)


def _random_robot(rng: np.random.Generator) -> _Robot:
    rate = float(rng.choice([5.0, 10.0, 15.0, 20.0, 30.0, 50.0]))
    is_short = rng.random() < 0.15
    lengths = [
        int(rng.integers(10, 24)) if is_short else int(rng.uniform(5, 20) * rate) for _ in range(_EPISODES)
    ]
    return _Robot(
        rate_hz=rate,
        lag_steps=float(rng.uniform(0.0, 0.2)) * rate,
        noise=float(10 ** rng.uniform(-4.5, -2.7)),
        resolution=float(rng.choice([0.0, 0.0, 2 * _PI / 4096])),
        lengths=tuple(lengths),
    )


def _episode_signals(
    robot: _Robot, state: _Columns, action: _Columns, name: str, number: int
) -> EpisodeSignals:
    values = state.episode(number)
    return EpisodeSignals(
        episode_id=name,
        seconds=np.arange(len(values)) / robot.rate_hz,
        state=values,
        action=action.episode(number),
        state_names=tuple(state.names),
        action_names=tuple(action.names),
        rate_hz=robot.rate_hz,
    )


def _add_joints(
    robot: _Robot,
    rng: np.random.Generator,
    state: _Columns,
    action: _Columns,
    truth: dict[tuple[str, str], str],
) -> None:
    width = int(rng.integers(5, 8))
    names = [f"joint_{number}" for number in range(width)]
    home, reach = rng.normal(0, 0.9, width), rng.uniform(0.15, 0.7, width)
    commands = [_waypoint_motion(steps, robot.rate_hz, home, reach, rng) for steps in robot.lengths]
    follow = [_encoder_readings(command, robot, rng) for command in commands]
    unit, mode = (
        str(rng.choice(["rad", "deg", "percent"])),
        str(rng.choice(["absolute", "absolute", "delta", "velocity"])),
    )
    if unit == "percent" and mode != "absolute":
        unit = "deg"
    scale = {"rad": 1.0, "deg": 180 / np.pi, "percent": 100 / rng.uniform(1.2, 2.2)}[unit]
    limit = 100.0 if unit == "percent" else np.inf
    state.add(names, [np.clip(part * scale, -limit, limit) for part in follow])
    actions, action_unit = _as_mode(commands, mode, unit, scale, robot, rng)
    action.add(names, [np.clip(part, -limit, limit) for part in actions])
    truth[("state.arm", "unit")], truth[("action.arm", "unit")] = unit, action_unit
    truth[("action.arm", "mode")] = mode


def _as_mode(
    commands: list[Array], mode: str, unit: str, scale: float, robot: _Robot, rng: np.random.Generator
) -> tuple[list[Array], str]:
    """The commands as absolute values, deltas or velocities, and the unit; motions are often normalised."""
    values = [command * scale for command in commands]
    if mode == "absolute":
        return values, unit
    motions = [np.diff(part, axis=0, append=part[-1:]) for part in values]
    if mode == "velocity":
        motions = [part * robot.rate_hz for part in motions]
    if mode == "delta" and rng.random() < 0.4:
        largest = max(float(np.abs(part).max()) for part in motions) * rng.uniform(0.3, 1)
        return [np.clip(part / max(largest, 1e-9), -1, 1) for part in motions], "normalised"
    return motions, unit


def _add_pose(
    robot: _Robot,
    rng: np.random.Generator,
    state: _Columns,
    action: _Columns,
    truth: dict[tuple[str, str], str],
) -> None:
    home, reach = rng.uniform([0.2, -0.3, 0.05], [0.6, 0.3, 0.4]), rng.uniform(0.04, 0.15, 3)
    commands = [_waypoint_motion(steps, robot.rate_hz, home, reach, rng) for steps in robot.lengths]
    follow = [_encoder_readings(command, robot, rng, 0.1) for command in commands]
    unit, mode = (
        str(rng.choice(["m", "m", "mm"])),
        str(rng.choice(["absolute", "delta", "delta", "velocity"])),
    )
    scale = {"m": 1.0, "mm": 1000.0}[unit]
    prefix = str(rng.choice(["", "eef_", "tcp_"]))
    names = [f"{prefix}{axis}" for axis in "xyz"]
    state.add(names, [part * scale for part in follow])
    actions, action_unit = _as_mode(commands, mode, unit, scale, robot, rng)
    action.add(names, actions)
    truth[("state.position", "unit")], truth[("action.position", "unit")] = unit, action_unit
    truth[("action.position", "mode")] = mode
    _add_rotation(robot, rng, state, truth)


def _add_rotation(
    robot: _Robot, rng: np.random.Generator, state: _Columns, truth: dict[tuple[str, str], str]
) -> None:
    """The rotation of the state, in any convention; one name in two says which."""
    convention = str(rng.choice(["euler", "axis-angle", "quaternion xyzw", "quaternion wxyz", "6d"]))
    home = rng.normal(0, 1, 3) if rng.random() < 0.5 else np.array([np.pi * 0.98, 0.0, 0.0])
    turns = [
        _encoder_readings(_waypoint_motion(steps, robot.rate_hz, home, np.full(3, 0.3), rng), robot, rng)
        for steps in robot.lengths
    ]
    quaternions = [convert_rotation(part, "axis-angle", "quaternion xyzw") for part in turns]
    is_named, is_canonical = rng.random() < 0.5, rng.random() < 0.5
    if is_canonical:
        quaternions = [part * np.where(part[:, 3:] < 0, -1, 1) for part in quaternions]
    if convention == "6d":  # the first two columns of the matrix
        values = [np.array([cv2.Rodrigues(turn)[0][:, :2].T.ravel() for turn in part]) for part in turns]
    else:
        values = [convert_rotation(part, "quaternion xyzw", convention) for part in quaternions]
    state.add(_rotation_names(convention, is_named), values)
    truth[("state.rotation", "rotation")] = convention


def _rotation_names(convention: str, is_named: bool) -> list[str]:
    width = {"euler": 3, "axis-angle": 3, "6d": 6}.get(convention, 4)
    if not is_named:
        return [f"rot_{number}" for number in range(width)]
    if convention in _QUATERNION_NAMES:
        return [f"q{axis}" for axis in _QUATERNION_NAMES[convention]]
    if convention == "euler":
        return ["roll", "pitch", "yaw"]
    return [f"rot6d_{n}" for n in range(6)] if convention == "6d" else ["rx", "ry", "rz"]


def _add_gripper(
    robot: _Robot,
    rng: np.random.Generator,
    state: _Columns,
    action: _Columns,
    truth: dict[tuple[str, str], str],
) -> None:
    is_binary = rng.random() < 0.5
    ranges = [str(rng.choice(list(_GRIPPER_RANGES))) for _ in range(2)]
    if is_binary and ranges[1] not in ("fraction", "signed"):
        ranges[1] = "fraction"
    is_open_high = rng.random(2) < 0.5
    is_open_high |= np.array([name == "m" for name in ranges])
    commands = [_commanded_opening(steps, robot.rate_hz, is_binary, rng) for steps in robot.lengths]
    follow = [_measured_opening(command, robot, rng) for command in commands]
    name = str(rng.choice(["gripper", "gripper_position", "grip"]))
    for columns, signal, values, number in ((state, "state", follow, 0), (action, "action", commands, 1)):
        low, high = _GRIPPER_RANGES[ranges[number]]
        parts = [part if is_open_high[number] else 1 - part for part in values]
        columns.add([name], [(low + (high - low) * part)[:, None] for part in parts])
        truth[(f"{signal}.gripper", "unit")] = ranges[number]
        truth[(f"{signal}.gripper", "gripper")] = "high is open" if is_open_high[number] else "high is closed"


def _commanded_opening(steps: int, rate_hz: float, is_binary: bool, rng: np.random.Generator) -> Array:
    """Commanded opening, 0 closed to 1 open: mostly open at first, closed to grasp, then often opened."""
    times = np.sort(rng.uniform(0.1, 0.95, int(rng.integers(1, 4)))) * steps
    levels = [float(rng.random() < 0.75)]
    for _ in times:
        levels.append(1.0 - levels[-1])
    opening = np.array(levels)[np.searchsorted(times, np.arange(steps), side="right")]
    if is_binary:
        return opening
    largest, window = rng.uniform(0.6, 1.0), max(1, round(rng.uniform(0.2, 0.6) * rate_hz))
    return _moving_mean(opening, window) * largest


def _moving_mean(values: Array, window: int) -> Array:
    padded = np.pad(values, window, mode="edge")
    return np.asarray(np.convolve(padded, np.ones(window) / window, "same")[window:-window])


def _measured_opening(command: Array, robot: _Robot, rng: np.random.Generator) -> Array:
    """Measured opening: later than the command, and stopped by an object in most grasps."""
    steps = np.arange(len(command))
    smooth = _moving_mean(command, max(1, round(0.2 * robot.rate_hz)))
    opening = np.interp(steps - robot.lag_steps, steps, smooth)
    width = rng.uniform(0.05, 0.5) if rng.random() < 0.8 else 0.0
    noise = rng.normal(0, min(robot.noise, 0.002), len(command))
    return np.asarray(np.clip(np.maximum(opening, width) + noise, 0, 1))


def _waypoint_motion(
    steps: int, rate_hz: float, home: Array, reach: Array, rng: np.random.Generator
) -> Array:
    """(T, D) movements of minimum jerk between random points around the home, with rests."""
    seconds = np.arange(steps) / rate_hz
    point = home + rng.normal(0, 0.2, len(home)) * reach
    values, now = np.tile(point, (steps, 1)), rng.uniform(0, 0.5)
    while now < seconds[-1]:
        duration, target = rng.uniform(0.6, 2.5), home + rng.normal(0, 1, len(home)) * reach
        phase = np.clip((seconds - now) / duration, 0, 1)[:, None]
        values += (target - point) * phase**3 * (10 - 15 * phase + 6 * phase**2)
        now, point = now + duration + rng.choice([0.0, rng.uniform(0, 0.8)]), target
    return np.asarray(values)


def _encoder_readings(
    command: Array, robot: _Robot, rng: np.random.Generator, noise_scale: float = 1.0
) -> Array:
    """(T, D) what encoders read: the command later, with an offset by gravity, noise and resolution."""
    steps = np.arange(len(command))
    state = np.column_stack([np.interp(steps - robot.lag_steps, steps, column) for column in command.T])
    state = state + noise_scale * (
        rng.normal(0, 0.01, state.shape[1]) + rng.normal(0, robot.noise, state.shape)
    )
    grid = robot.resolution * noise_scale
    return np.asarray(np.round(state / grid) * grid) if grid else state
