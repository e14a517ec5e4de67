"""Generates clean episodes of foreign robots, with the lags that are true of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.quality.audit.foreign_motion import commanded_motion, filtered, true_lag, with_backlash
from ares.quality.audit.foreign_recording import HAND_WIDTH, record_signals
from ares.quality.audit.foreign_robots import ForeignRobot
from ares.quality.signals import EpisodeSignals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
    import numpy as np

    home = rng.uniform(-0.8, 0.8, len(robot.gains))
    lengths = robot.median_seconds * np.exp(rng.normal(0, 0.3, episodes))
    return [
        _episode(robot, rng, home, float(np.clip(length, 2, 120)), f"foreign{number}")
        for number, length in enumerate(lengths)
    ]


def _episode(
    robot: ForeignRobot, rng: np.random.Generator, home: NDArray[np.float64], length: float, episode_id: str
) -> ForeignEpisode:
    import numpy as np

    every = max(1, int(np.ceil(_FINE_HZ / robot.rate_hz)))
    step = 1 / robot.rate_hz / every
    margin, steps = round(_MARGIN_SECONDS / step), max(10, int(length * robot.rate_hz)) * every
    seconds = np.asarray(np.arange(steps + 2 * margin) * step, dtype=np.float64)
    start = np.asarray(home + rng.normal(0, 0.05, len(home)), dtype=np.float64)
    moved = commanded_motion(robot.style, seconds, _amplitudes(robot), rng)
    command = np.asarray(start + moved, dtype=np.float64)
    inside = slice(margin, margin + steps)
    followed = _followed(robot, command, seconds, rng)[inside]
    lag = 1 / robot.rate_hz
    if robot.action != "next-state":
        lag = true_lag(followed, command[margin - round(_LONGEST_LAG / step) : inside.stop], step)
    signals = record_signals(
        robot, rng, seconds[:steps:every], command[inside][::every], followed[::every], episode_id
    )
    moves = np.ptp(command, axis=0) > 0
    return ForeignEpisode(signals=signals, lag_seconds=lag, angle_dims=_angle_dims(robot, moves))


def _amplitudes(robot: ForeignRobot) -> NDArray[np.float64]:
    import numpy as np

    amplitudes = np.array(robot.amplitudes)
    if robot.is_parked:
        amplitudes[robot.width :] = 0.0
    return amplitudes


def _angle_dims(robot: ForeignRobot, moves: NDArray[np.bool_]) -> tuple[int, ...]:
    """Numbers of the moving joints in the state: each arm is followed by what is at its end."""
    if robot.pose != "joints":
        return ()
    ends = {"none": 0, "hand": HAND_WIDTH}.get(robot.end, 1)
    return tuple(int(joint) + ends * (int(joint) // robot.width) for joint in moves.nonzero()[0])


def _followed(
    robot: ForeignRobot, command: NDArray[np.float64], seconds: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """What the joints do, without the noise of the encoders."""
    import numpy as np

    middle = command.mean(axis=0)
    aim = middle + (command - middle) * robot.gains
    frequency = robot.natural_frequency
    followed = filtered(aim, float(seconds[1]), frequency, robot.damping, robot.delay_seconds)
    if robot.backlash:
        followed = with_backlash(followed, robot.backlash)
    moves = np.ptp(command, axis=0) > 0
    waves = np.sin(2 * np.pi * rng.uniform(3, 7) * seconds[:, None] + rng.uniform(0, 6, len(middle)))
    sag = rng.uniform(-0.03, 0.03, len(middle)) * np.cos(followed)
    return np.asarray(followed + (sag + robot.ripple * waves) * moves)
