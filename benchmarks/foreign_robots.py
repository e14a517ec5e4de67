"""Clean signals and true lags of robots with other controllers, actions and names than `tests.generators.robots`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ares.signals import EpisodeSignals

MotionStyle = Literal["minimum-jerk", "trapezoid", "person"]
# No joint is asked to move faster, radians per second.
_FASTEST = 2.0
_MOTION_STYLES: tuple[MotionStyle, ...] = ("minimum-jerk", "trapezoid", "person")


def _commanded_motion(
    style: MotionStyle,
    seconds: NDArray[np.float64],
    amplitudes: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """(T, J) commanded motion around 0: joints move together between rests, or as a person leads them."""
    if style == "person":
        return _led_by_person(seconds, amplitudes, rng)
    return _between_goals(seconds, amplitudes, rng, is_smooth=style == "minimum-jerk")


def _between_goals(
    seconds: NDArray[np.float64],
    amplitudes: NDArray[np.float64],
    rng: np.random.Generator,
    *,
    is_smooth: bool,
) -> NDArray[np.float64]:
    """Movements that all joints begin at once; some end early, and each is followed by a rest or by none."""
    values = np.zeros((len(seconds), len(amplitudes)))
    now, here = float(rng.uniform(0, 1.2)), np.zeros(len(amplitudes))
    while now < seconds[-1]:
        goal = np.clip(rng.normal(0, 1, len(amplitudes)), -2, 2) * amplitudes
        goal = np.where(rng.random(len(amplitudes)) < 0.8, goal, here)
        duration = max(rng.uniform(0.6, 3), 1.9 * float(np.abs(goal - here).max()) / _FASTEST)
        durations = duration * rng.choice([1.0, 1.0, 0.8], len(amplitudes))
        phase = np.clip((seconds[:, None] - now) / durations, 0, 1)
        share = phase**3 * (10 - 15 * phase + 6 * phase**2) if is_smooth else _constant_speed(phase)
        values += (goal - here) * share
        now, here = now + duration + float(rng.choice([0.0, rng.uniform(0, 1.2)])), goal
    return values


def _constant_speed(phase: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the way at a constant speed, with an acceleration over a fifth of the time at either end."""
    ends = 0.2
    speed = 1 / (1 - ends)
    start = speed * phase**2 / (2 * ends)
    stop = 1 - speed * (1 - phase) ** 2 / (2 * ends)
    middle = speed * (phase - ends / 2)
    return np.where(phase < ends, start, np.where(phase > 1 - ends, stop, middle))


def _led_by_person(
    seconds: NDArray[np.float64], amplitudes: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Noise up to about a hertz, with spells of rest in which the hand is nearly still."""
    step = seconds[1] - seconds[0]
    speed = _second_order(rng.normal(size=(len(seconds), len(amplitudes))), step, rng.uniform(3, 8), 1.0)
    speed /= np.maximum(speed.std(axis=0), 1e-12)
    activity = _second_order(rng.normal(size=(len(seconds), 1)), step, 1.5, 1.0)
    speed *= np.clip(activity / max(float(activity.std()), 1e-12) + rng.uniform(0.3, 1.5), 0, 1)
    moved = np.cumsum(speed, axis=0) * step
    # People come back: the part below a twentieth of a hertz is taken out.
    moved -= _second_order(moved, step, 0.3, 1.0)
    moved = (moved - moved[0]) / np.maximum(moved.std(axis=0), 1e-12) * amplitudes
    fastest = np.abs(np.diff(moved, axis=0)).max(axis=0) / step
    return np.asarray(moved * np.minimum(1, _FASTEST / np.maximum(fastest, 1e-12)))


def _second_order(
    values: NDArray[np.float64], step: float, radians_per_second: float, damping: float, delay: float = 0.0
) -> NDArray[np.float64]:
    """(T, J) values after a filter of second order and a delay in seconds; before the start they rest.

    Args:
        values: (T, J).
        step: Seconds from row to row.
        radians_per_second: Natural frequency of the filter.
        damping: Damping ratio; below 1 it overshoots.
        delay: Seconds.
    """
    rest = int(6 / (min(damping, 1.0) * radians_per_second) / step) + int(delay / step) + 8
    padded = np.concatenate(
        [np.repeat(values[:1], rest, axis=0), values, np.repeat(values[-1:], rest, axis=0)]
    )
    slope = np.linspace(0, 1, len(padded))[:, None]
    trend = padded[:1] + slope * (padded[-1:] - padded[:1])  # so that the ends meet
    omega = 2 * np.pi * np.fft.rfftfreq(len(padded), step)[:, None]
    ratio = 1j * omega / radians_per_second
    response = np.exp(-1j * omega * delay) / (1 + 2 * damping * ratio + ratio**2)
    moved = np.fft.irfft(np.fft.rfft(padded - trend, axis=0) * response, len(padded), axis=0)
    late = delay + 2 * damping / radians_per_second
    total = (len(padded) - 1) * step
    moved += trend - (padded[-1:] - padded[:1]) * late / total
    return np.asarray(moved[rest : rest + len(values)])


def _with_backlash(values: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """(T, J) what follows the values through gears with play: it moves once they have crossed the width."""
    followed = np.empty_like(values)
    now = values[0]
    for row, value in enumerate(values):
        now = np.clip(now, value - width / 2, value + width / 2)
        followed[row] = now
    return followed


def _switched_column(seconds: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """(T,) 0 or 1, changed up to six times at once."""
    times = np.sort(rng.uniform(0.05, 0.95, int(rng.integers(0, 7)))) * seconds[-1]
    return (np.searchsorted(times, seconds) % 2).astype(float)


def _true_lag(followed: NDArray[np.float64], command: NDArray[np.float64], step: float) -> float:
    """Seconds by which motions without noise come after their commands: the peak of the correlated speeds.

    Args:
        followed: (T, J) motion.
        command: (T + L, J) commands, from L steps before the motion on; no longer lag is looked for.
        step: Seconds from row to row.
    """
    left, right = np.diff(followed, axis=0), np.diff(command, axis=0)
    moves = (left.std(axis=0) > 0) & (right.std(axis=0) > 0)
    left, right = left[:, moves], right[:, moves]
    longest, profile = len(right) - len(left), []
    for lag in range(longest + 1):
        part = right[longest - lag : len(right) - lag]
        power = np.linalg.norm(left, axis=0) * np.linalg.norm(part, axis=0)
        profile.append(float(((left * part).sum(axis=0) / np.maximum(power, 1e-12)).mean()))
    return float(np.argmax(profile)) * step


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
        style=_MOTION_STYLES[int(rng.integers(len(_MOTION_STYLES)))],
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


_FINGERS = ("thumb", "index", "middle", "ring", "pinky", "palm")
_HAND_WIDTH = len(_FINGERS)
# Positions in metres per radian of a joint.
_METRES = 0.3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _RecordedPart:
    """Some dimensions of state (T, S) and action (T, A), and their names."""

    state: NDArray[np.float64]
    action: NDArray[np.float64]
    state_names: list[str]
    action_names: list[str]


def _record_signals(
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
    measured = _encoder_values(followed, robot, rng)
    action = _recorded_action(robot, command, measured, rng)
    parts = []
    for arm in range(robot.num_arms):
        dims = slice(arm * robot.width, (arm + 1) * robot.width)
        parts.append(_recorded_arm(robot, arm, measured[:, dims], action[:, dims]))
        parts.append(_recorded_end(robot, seconds, arm, rng))
    if robot.has_base:
        parts.append(_recorded_base(seconds, rng))
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


def _encoder_values(
    followed: NDArray[np.float64], robot: ForeignRobot, rng: np.random.Generator
) -> NDArray[np.float64]:
    noisy = followed + rng.normal(0, robot.noise, followed.shape)
    return np.round(noisy / robot.resolution) * robot.resolution if robot.resolution else noisy


def _recorded_action(
    robot: ForeignRobot, command: NDArray[np.float64], measured: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """(T, J) the action of each step, in radians, or radians per second or share of the fastest for a motion."""
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


def _recorded_arm(
    robot: ForeignRobot, arm: int, measured: NDArray[np.float64], action: NDArray[np.float64]
) -> _RecordedPart:
    """One arm as it is recorded: its joints, or the pose of its end effector."""
    scale = robot.action_scale if robot.is_relative else 1.0
    names, action_names = _arm_names(robot, arm)
    if robot.pose == "joints":
        state, command = measured * robot.unit_scale, action * robot.unit_scale
    else:
        state, command = _recorded_poses(robot, measured, action)
    return _RecordedPart(state=state, action=command * scale, state_names=names, action_names=action_names)


def _recorded_poses(
    robot: ForeignRobot, measured: NDArray[np.float64], action: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Poses of state and action: three positions, and three angles or a quaternion."""
    metres = np.array([_METRES] * 3 + [1.0] * 3)
    state, command = measured * metres, action * (1.0 if robot.action == "clipped" else metres)
    if robot.pose == "euler":
        return _bounded_pose(state), command if robot.is_relative else _bounded_pose(command)
    turned = _quaternion_pose(state, flips_signs=robot.flips_signs)
    return turned, command if robot.is_relative else _quaternion_pose(command, flips_signs=robot.flips_signs)


def _bounded_pose(pose: NDArray[np.float64]) -> NDArray[np.float64]:
    """A pose (T, 6) whose angles stay within 2.9 rad, so that none is wrapped."""
    return np.concatenate([pose[:, :3], 2.9 * np.tanh(pose[:, 3:] / 2.9)], axis=1)


def _quaternion_pose(pose: NDArray[np.float64], *, flips_signs: bool) -> NDArray[np.float64]:
    """A pose (T, 7) with the quaternion (w, x, y, z) of the rotation vector (T, 3), tilted by half a turn."""
    vectors = pose[:, 3:] + np.array([np.pi - 0.2, 0.0, 0.0])
    angles = np.linalg.norm(vectors, axis=1, keepdims=True)
    axes = vectors / np.maximum(angles, 1e-12)
    quaternions = np.concatenate([np.cos(angles / 2), axes * np.sin(angles / 2)], axis=1)
    if flips_signs:
        quaternions *= np.where(quaternions[:, :1] < 0, -1.0, 1.0)
    return np.concatenate([pose[:, :3], quaternions], axis=1)


def _side_prefix(robot: ForeignRobot, arm: int) -> str:
    return ("left_", "right_")[arm] if robot.num_arms == 2 else ""


def _arm_names(robot: ForeignRobot, arm: int) -> tuple[list[str], list[str]]:
    """Names of the dimensions of state and action of an arm."""
    side = _side_prefix(robot, arm)
    if robot.pose == "joints":
        names = [side + robot.name.format(number) for number in range(robot.width)]
        return names, names
    euler = [side + part for part in ("x", "y", "z", "roll", "pitch", "yaw")]
    quaternion = [side + part for part in ("x", "y", "z", "qw", "qx", "qy", "qz")]
    names = euler if robot.pose == "euler" else quaternion
    return names, euler if robot.is_relative else names


def _recorded_end(
    robot: ForeignRobot, seconds: NDArray[np.float64], arm: int, rng: np.random.Generator
) -> _RecordedPart:
    """What is at the end of an arm: nothing, a gripper or a hand."""
    side = _side_prefix(robot, arm)
    if robot.end == "none":
        nothing = np.zeros((len(seconds), 0))
        return _RecordedPart(state=nothing, action=nothing, state_names=[], action_names=[])
    closed = _switched_column(seconds, rng) * (not (robot.is_parked and arm == 1))
    moved = _second_order(closed[:, None], float(seconds[1]), 12.0, 1.0, 0.05)
    if robot.end == "hand":
        reach = rng.uniform(0.6, 1.5, _HAND_WIDTH)
        names = [f"{side}hand_{finger}" for finger in _FINGERS]
        state = moved * reach + rng.normal(0, robot.noise, (len(moved), _HAND_WIDTH))
        return _RecordedPart(
            state=state, action=closed[:, None] * reach, state_names=names, action_names=names
        )
    width = 0.08 * (1 - moved) if robot.end != "binary" else (moved > 0.5).astype(float)
    command = {"gripper": 0.08 * (1 - closed), "inverted": 2 * closed - 1, "binary": closed}[robot.end]
    names = [f"{side}gripper"]
    return _RecordedPart(state=width, action=command[:, None], state_names=names, action_names=names)


def _recorded_base(seconds: NDArray[np.float64], rng: np.random.Generator) -> _RecordedPart:
    """Position and heading of a base that drives at times; the heading lies in (-pi, pi], and nothing commands it."""
    speed = _switched_column(seconds, rng)[:, None] * rng.normal(0, 0.4, 3)
    path = np.cumsum(_second_order(speed, float(seconds[1]), 5.0, 1.0), axis=0) * seconds[1]
    path[:, 2] = (path[:, 2] + 3.0 + np.pi) % (2 * np.pi) - np.pi
    names = ["base_x", "base_y", "base_yaw"]
    return _RecordedPart(state=path, action=np.zeros((len(seconds), 0)), state_names=names, action_names=[])


_FINE_HZ = 200.0
# The motion goes on before the first step and after the last: recordings are cut anywhere.
_MARGIN_SECONDS, _LONGEST_LAG = 1.6, 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEpisode:
    """A generated episode and what is true of it.

    Attributes:
        signals: The episode.
        lag_seconds: How much later than its action the robot moves.
        angle_dims: Numbers of the joints of the state that move and are recorded as angles.
    """

    signals: EpisodeSignals
    lag_seconds: float
    angle_dims: tuple[int, ...]


def foreign_dataset(robot: ForeignRobot, rng: np.random.Generator, episodes: int = 6) -> list[ForeignEpisode]:
    """Clean episodes of one robot and one task; lengths differ by a third."""
    home = rng.uniform(-0.8, 0.8, len(robot.gains))
    lengths = robot.median_seconds * np.exp(rng.normal(0, 0.3, episodes))
    return [
        _foreign_episode(robot, rng, home, float(np.clip(length, 2, 120)), f"foreign{number}")
        for number, length in enumerate(lengths)
    ]


def _foreign_episode(
    robot: ForeignRobot, rng: np.random.Generator, home: NDArray[np.float64], length: float, episode_id: str
) -> ForeignEpisode:
    every = max(1, int(np.ceil(_FINE_HZ / robot.rate_hz)))
    step = 1 / robot.rate_hz / every
    margin, steps = round(_MARGIN_SECONDS / step), max(10, int(length * robot.rate_hz)) * every
    seconds = np.asarray(np.arange(steps + 2 * margin) * step, dtype=np.float64)
    start = np.asarray(home + rng.normal(0, 0.05, len(home)), dtype=np.float64)
    moved = _commanded_motion(robot.style, seconds, _arm_amplitudes(robot), rng)
    command = np.asarray(start + moved, dtype=np.float64)
    inside = slice(margin, margin + steps)
    followed = _followed_motion(robot, command, seconds, rng)[inside]
    lag = 1 / robot.rate_hz
    if robot.action != "next-state":
        lag = _true_lag(followed, command[margin - round(_LONGEST_LAG / step) : inside.stop], step)
    signals = _record_signals(
        robot, rng, seconds[:steps:every], command[inside][::every], followed[::every], episode_id
    )
    moves = np.ptp(command, axis=0) > 0
    return ForeignEpisode(signals=signals, lag_seconds=lag, angle_dims=_angle_dims(robot, moves))


def _arm_amplitudes(robot: ForeignRobot) -> NDArray[np.float64]:
    amplitudes = np.array(robot.amplitudes)
    if robot.is_parked:
        amplitudes[robot.width :] = 0.0
    return amplitudes


def _angle_dims(robot: ForeignRobot, moves: NDArray[np.bool_]) -> tuple[int, ...]:
    """Numbers of the moving joints in the state: each arm is followed by what is at its end."""
    if robot.pose != "joints":
        return ()
    ends = {"none": 0, "hand": _HAND_WIDTH}.get(robot.end, 1)
    return tuple(int(joint) + ends * (int(joint) // robot.width) for joint in moves.nonzero()[0])


def _followed_motion(
    robot: ForeignRobot, command: NDArray[np.float64], seconds: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """What the joints do, without the noise of the encoders."""
    middle = command.mean(axis=0)
    aim = middle + (command - middle) * robot.gains
    frequency = robot.natural_frequency
    followed = _second_order(aim, float(seconds[1]), frequency, robot.damping, robot.delay_seconds)
    if robot.backlash:
        followed = _with_backlash(followed, robot.backlash)
    moves = np.ptp(command, axis=0) > 0
    waves = np.sin(2 * np.pi * rng.uniform(3, 7) * seconds[:, None] + rng.uniform(0, 6, len(middle)))
    sag = rng.uniform(-0.03, 0.03, len(middle)) * np.cos(followed)
    return np.asarray(followed + (sag + robot.ripple * waves) * moves)
