"""Rank correlation of the measures of motion with the length of an episode, on generated motions.

.venv/bin/python -m benchmarks.motion_length --seeds 2000000:2000300

Three ways to be longer: more movements of the same kind, the same movements slower, the same movements at a higher
rate. A measure of quality must not follow any of them, unless it is a length or a speed by definition.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ares.episode import Signal, Trajectory
from ares_annotators.motion import compute_spectral_arc_lengths, measure_motion
from benchmarks.quality import seed_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

_JOINTS = tuple(f"joint_{number}" for number in range(6))
_NAMES = (*_JOINTS, "gripper")
_MEASURES = (
    "joint_path_length",
    "gripper_events",
    "joint_mean_speed",
    "joint_peak_speed",
    "joint_jerk_ldlj",
    "joint_sparc",
    "idle_share",
    "direction_changes",
    "action_saturation",
    "action_jumps",
)
_RATES_HZ = (10.0, 15.0, 20.0, 30.0, 50.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MotionPlan:
    """A motion to generate.

    Attributes:
        movements: Number of movements between random angles.
        tempo: Factor of their durations.
        rate_hz: Steps per second.
        noise: Standard deviation of the encoders, radians.
    """

    movements: int = 10
    tempo: float = 1.0
    rate_hz: float = 30.0
    noise: float = 5e-4


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=seed_range, default="0:300", help="first and one past the last seed")
    seeds = parser.parse_args().seeds
    sweeps: dict[str, Callable[[np.random.Generator], MotionPlan]] = {
        "more movements": lambda rng: MotionPlan(movements=int(rng.integers(5, 50))),
        "slower": lambda rng: MotionPlan(tempo=float(rng.uniform(0.7, 3))),
        "higher rate": lambda rng: MotionPlan(rate_hz=float(rng.choice(_RATES_HZ))),
    }
    tables = [correlations(seeds, plan) for plan in sweeps.values()]
    print(f"| measure | {' | '.join(sweeps)} |\n|---{'|---' * len(sweeps)}|")
    for name in (*_MEASURES, "LDLJ of the whole path", "SPARC of the whole path"):
        print(f"| {name} | {' | '.join(table.get(name, 'constant') for table in tables)} |")


def correlations(seeds: range, plan: Callable[[np.random.Generator], MotionPlan]) -> dict[str, str]:
    """By measure, Spearman's correlation with the number of steps over one motion per seed, with its interval."""
    rows, lengths = [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        trajectory = generate(plan(rng), rng)
        rows.append({**measure_motion(trajectory), **_whole_path(trajectory)})
        lengths.append(len(trajectory.timestamps))
    values = {name: [float(str(row.get(name, 0.0))) for row in rows] for name in [*_MEASURES, *_WHOLE]}
    return {name: _interval(column, lengths) for name, column in values.items() if np.ptp(column) > 0}


def generate(plan: MotionPlan, rng: np.random.Generator) -> Trajectory:
    """Minimum-jerk movements of six joints, each after a rest, and a gripper that changes in one of four."""
    angles = rng.normal(0, 0.5, (plan.movements + 1, len(_JOINTS)))
    durations, rests = rng.uniform(0.6, 2.5, plan.movements), rng.uniform(0, 0.6, plan.movements)
    seconds = np.arange(0, plan.tempo * (durations + rests).sum(), 1 / plan.rate_hz)
    command = np.tile(angles[0], (len(seconds), 1))
    start = 0.0
    for before, after, duration, rest in zip(angles, angles[1:], durations, rests, strict=False):
        phase = np.clip((seconds - start) / (plan.tempo * duration), 0, 1)[:, None]
        command += (after - before) * phase**3 * (10 - 15 * phase + 6 * phase**2)
        start += plan.tempo * (duration + rest)
    gripper = _gripper(plan, seconds, rng)
    action = np.concatenate([command, gripper], axis=1).astype(np.float32)
    state = action + rng.normal(0, plan.noise, action.shape).astype(np.float32)
    return Trajectory(timestamps=seconds, state=Signal(state, _NAMES), action=Signal(action, _NAMES))


def _gripper(plan: MotionPlan, seconds: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """(T, 1) open or closed, 0 or 1."""
    times = np.sort(rng.uniform(0, seconds[-1], plan.movements // 4))
    return np.asarray(np.searchsorted(times, seconds) % 2, dtype=float)[:, None]


_WHOLE = ("LDLJ of the whole path", "SPARC of the whole path")


def log_dimensionless_jerk(position: NDArray[np.float64], seconds: NDArray[np.float64]) -> float | None:
    """Log dimensionless jerk of a path, the smoothness measure of Balasubramanian, Melendez-Calderon, Roby-Brami and
    Burdet, "On the analysis of movement smoothness", J. NeuroEng. Rehabil. 12:112 (2015), eq. 8:
    -ln(T^3 / v_peak^2 * integral of |d2v/dt2|^2 dt), with duration T and the speed's peak v_peak.

    Args:
        position: (T, D) in any unit.
        seconds: (T,) strictly rising.

    Returns:
        A number without unit, None for a path at rest.
    """
    velocity = np.gradient(position, seconds, axis=0)
    jerk = np.gradient(np.gradient(velocity, seconds, axis=0), seconds, axis=0)
    peak = float(np.linalg.norm(velocity, axis=1).max())
    total = float(np.trapezoid((jerk**2).sum(axis=1), seconds))
    if peak < 1e-9 or total <= 0:
        return None
    return float(-np.log(total * (seconds[-1] - seconds[0]) ** 3 / peak**2))


def _whole_path(trajectory: Trajectory) -> dict[str, float]:
    """The published forms over the whole episode, for comparison."""
    assert trajectory.state is not None
    path = trajectory.state.values[:, : len(_JOINTS)].astype(np.float64)
    period = float(trajectory.timestamps[1])
    speeds = np.linalg.norm(np.diff(path, axis=0), axis=1) / period
    jerk = log_dimensionless_jerk(path, trajectory.timestamps) or 0.0
    return dict(
        zip(_WHOLE, (jerk, float(compute_spectral_arc_lengths(speeds[None], period)[0])), strict=True)
    )


def _interval(values: Sequence[float], lengths: Sequence[int]) -> str:
    """Spearman's correlation with its 95 % interval by Fisher's transformation."""
    rho = float(np.corrcoef(_ranks(values), _ranks(lengths))[0, 1])
    half = 1.96 * 1.03 / np.sqrt(len(values) - 3)
    centre = np.arctanh(np.clip(rho, -0.999999, 0.999999))
    return f"{rho:+.2f} ({np.tanh(centre - half):+.2f} to {np.tanh(centre + half):+.2f})"


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    """(N,) ranks; equal values have their mean rank."""
    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse], dtype=float)


if __name__ == "__main__":
    main()
