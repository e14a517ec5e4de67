"""Measures of motion over time at a common rate: paths of arms and their smoothness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.motion.columns import MotionGroup

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def compute_sorted_quantile(ordered: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """The quantile of values that are sorted along their first axis, between two of them in proportion.

    Args:
        ordered: (N, ...), N at least 1.
        share: From 0 to 1.
    """
    import numpy as np

    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return np.asarray(ordered[below] + (position - below) * (ordered[above] - ordered[below]))


def median(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Medians of values (N, ...) along their first axis; N is at least 1."""
    import numpy as np

    ordered = np.sort(values, axis=0)
    return np.asarray((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)


# Arms move below 5 Hz; faster sources are averaged, slower ones keep their rate.
COMMON_RATE_HZ = 10.0
# Steps that lie further apart than so many periods, in the mean, are no motion: the clock jumps.
_MOST_PERIODS_PER_STEP = 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpisodePeriods:
    """N equal periods of an episode, and where their N + 1 ends lie among its T stamps.

    Attributes:
        period: Seconds.
        steps: (T - 1, 1) seconds between the stamps.
        left: (N + 1,) number of the last stamp before each end.
        into: (N + 1, 1) seconds from that stamp to the end.
    """

    period: float
    steps: NDArray[np.float64]
    left: NDArray[np.intp]
    into: NDArray[np.float64]

    @property
    def count(self) -> int:
        """N."""
        return len(self.left) - 1

    def means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N, D) means of the signal between its steps (T, D), finite: a low-pass filter."""
        import numpy as np

        integral = np.zeros_like(values)
        np.cumsum(self.steps * (values[1:] + values[:-1]) / 2, axis=0, out=integral[1:])
        before = values[self.left]
        slope = (values[self.left + 1] - before) / self.steps[self.left]
        at_ends = integral[self.left] + self.into * (before + slope * self.into / 2)
        return np.asarray(at_ends[1:] - at_ends[:-1]) / self.period

    def step_means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N, D) means of commands (T, D), each of which holds from its step to the next."""
        import numpy as np

        integral = np.zeros_like(values)
        np.cumsum(self.steps * values[:-1], axis=0, out=integral[1:])
        at_ends = integral[self.left] + self.into * values[self.left]
        return np.asarray(at_ends[1:] - at_ends[:-1]) / self.period


def divide_into_equal_periods(
    seconds: NDArray[np.float64], shortest_period: float = 1 / COMMON_RATE_HZ
) -> EpisodePeriods | None:
    """Divide an episode into equal periods: the shortest, or the median of the steps' where that is longer.

    Args:
        seconds: (T,) stamps, at least two.
        shortest_period: Seconds.

    Returns:
        None where the stamps do not rise, or jump so far that there would be far more periods than steps.
    """
    import numpy as np

    steps = np.diff(seconds)
    if steps.min() <= 0:
        return None
    period = max(shortest_period, float(median(steps)))
    count = max(1, int((seconds[-1] - seconds[0]) / period + 1e-6))
    if count > _MOST_PERIODS_PER_STEP * len(seconds):
        return None
    ends = seconds[0] + period * np.arange(count + 1)
    left = np.minimum(np.searchsorted(seconds, ends, side="right") - 1, len(seconds) - 2)
    return EpisodePeriods(
        period=period, steps=steps[:, None], left=left, into=(ends - seconds[left])[:, None]
    )


def resample(
    values: NDArray[np.float64], seconds: NDArray[np.float64], shortest_period: float = 1 / COMMON_RATE_HZ
) -> tuple[NDArray[np.float64], float]:
    """(N, D) means over equal periods of a signal (T, D), and the period in seconds; see `divide_into_equal_periods`.

    Args:
        values: (T, D), finite.
        seconds: (T,) strictly rising.
        shortest_period: Seconds.
    """
    periods = divide_into_equal_periods(seconds, shortest_period)
    assert periods is not None
    return periods.means(values), periods.period


# A slower peak is rounding, not motion; units per second.
MIN_PEAK_SPEED = 1e-9
# A movement crosses the median by at least this share of the standard deviation.
_CROSSING_SHARE = 0.3
# The spectrum ends where it falls below this share of its start for good, and at the latest here.
_SPECTRUM_THRESHOLD = 0.05
_LONGEST_SPECTRUM_HZ = 10.0
_ZERO_PADDING = 4
_FEWEST_SAMPLES = 5
_SAMPLES_PER_MOVEMENT = 20
# Periods before and after a movement in which it is too slow to count as moving.
_SLOW_ENDS = 2


def count_movements(values: NDArray[np.float64]) -> float:
    """Movements of a path: how often a dimension crosses its median, weighted by variance; at least 1.

    It depends neither on unit nor rate nor speed, and not on noise below a third of the standard deviation.

    Args:
        values: (N, D), at least one dimension moves.
    """
    import numpy as np

    variances = values.var(axis=0)
    crossings = count_sign_changes(values - median(values), _CROSSING_SHARE * np.sqrt(variances))
    return max(1.0, float((crossings * variances).sum() / variances.sum()))


def count_sign_changes(values: NDArray[np.float64], bars: NDArray[np.float64]) -> NDArray[np.intp]:
    """(D,) changes of sign of each column (N, D), of the values whose size is above its bar (D,)."""
    import numpy as np

    signs = np.where(values > bars, 1, np.where(values < -bars, -1, 0)).astype(np.int8)
    rows = np.arange(1, len(signs) + 1)[:, None]
    latest = np.maximum.accumulate(np.where(signs != 0, rows, 0), axis=0)
    filled = np.where(latest > 0, np.take_along_axis(signs, np.maximum(latest - 1, 0), axis=0), 0)
    return np.asarray(((filled[1:] * filled[:-1]) < 0).sum(axis=0))


def compute_movement_jerk(
    values: NDArray[np.float64], period: float, moving: NDArray[np.bool_], peak_speed: float, movements: float
) -> float | None:
    """Log dimensionless jerk of one average movement of a path, so that longer episodes score no worse.

    Eq. 8 of Balasubramanian et al., "On the analysis of movement smoothness", J. NeuroEng. Rehabil. 12:112 (2015),
    grows with the fourth power of the number of movements in a path, which is divided out. Rests are left out.

    Args:
        values: (N, D) at equal periods.
        period: Seconds between them.
        moving: (N - 1,) whether it moves.
        peak_speed: Units per second.
        movements: How many movements it has.

    Returns:
        A number without unit; None for a path that is too short or at rest.
    """
    import numpy as np

    if peak_speed < MIN_PEAK_SPEED:
        return None
    values, moving, period = _at_rate_of_movement(values, moving, period, movements)
    if len(values) < _FEWEST_SAMPLES:
        return None
    jerk = np.diff(values, n=3, axis=0) / period**3
    # A movement begins and ends slowly: its first and last periods belong to it.
    spread = np.convolve(moving, np.ones(2 * _SLOW_ENDS + 1))
    active = spread[_SLOW_ENDS : _SLOW_ENDS + len(moving)] > 0
    # The jerk of the steps 0 to 3 belongs to the speed of the step 1 to 2.
    kept = active[1:-1]
    duration = float(active.sum()) * period
    total = float((jerk[kept] ** 2).sum()) * period
    if total <= 0:
        return None
    return float(-np.log(total * duration**3 / peak_speed**2) + 4 * np.log(movements))


def _at_rate_of_movement(
    values: NDArray[np.float64], moving: NDArray[np.bool_], period: float, movements: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_], float]:
    """The path at at most 20 samples per movement, so that noise weighs as much in slow movements as in fast ones."""
    import numpy as np

    coarse_period = float(moving.sum()) * period / movements / _SAMPLES_PER_MOVEMENT
    if coarse_period <= period:
        return values, moving, period
    seconds = np.arange(len(values), dtype=np.float64) * period
    # Step i goes from sample i to i + 1, so its motion is known halfway.
    motion = np.concatenate([moving, moving[-1:]]).astype(np.float64)
    means, period = resample(np.column_stack([values, motion]), seconds, coarse_period)
    return means[:, :-1], (means[:-1, -1] + means[1:, -1]) > 1, period


def compute_movement_sparc(speeds: NDArray[np.float64], period: float, movements: float) -> float | None:
    """Median of `spectral_arc_length` over parts of a path, each as long as an average movement.

    Args:
        speeds: (N,) speeds at equal periods.
        period: Seconds between them.
        movements: How many movements the path has.
    """
    import numpy as np

    length = max(_FEWEST_SAMPLES, int(len(speeds) / movements))
    count = len(speeds) // length
    if not count:
        return None
    parts = speeds[: count * length].reshape(count, length)
    # A part at rest has no movement.
    parts = parts[parts.mean(axis=1) > 0.1 * speeds.mean()]
    lengths = compute_spectral_arc_lengths(parts, period) if len(parts) else np.empty(0)
    return float(median(lengths)) if len(lengths) else None


def compute_spectral_arc_lengths(speeds: NDArray[np.float64], period: float) -> NDArray[np.float64]:
    """Spectral arc length (SPARC) of speed profiles, after Balasubramanian et al. 2015, eq. 6: the arc length of the
    amplitude spectrum, normalised by its start, up to where it stays below 5 % and at most 10 Hz.

    Args:
        speeds: (P, N) speeds of P movements at equal periods; none is at rest.
        period: Seconds between them.

    Returns:
        (P,) numbers without unit; nearer 0 is smoother.
    """
    import numpy as np

    size = 2 ** (int(np.ceil(np.log2(speeds.shape[1]))) + _ZERO_PADDING)
    spectrum = np.abs(np.fft.rfft(speeds, size, axis=1))
    spectrum /= spectrum[:, :1]
    spectrum = spectrum[:, np.fft.rfftfreq(size, period) <= _LONGEST_SPECTRUM_HZ]
    last = spectrum.shape[1] - 1 - (spectrum[:, ::-1] >= _SPECTRUM_THRESHOLD).argmax(axis=1)
    last = np.maximum(last, 1)
    steps = np.hypot(1 / last[:, None], np.diff(spectrum, axis=1))
    inside = np.arange(spectrum.shape[1] - 1) < last[:, None]
    return np.asarray(-(steps * inside).sum(axis=1))


# An arm is idle below this share of its usual speed, the mean of its speed weighted by the way.
IDLE_SHARE_OF_SPEED = 0.1
# A turn counts between speeds of at least this share of the usual speed of its dimension.
_TURN_SHARE = 0.2
# An arm that spreads less than this share of the widest is parked: what it does is noise.
_PARKED_SHARE = 0.05
_MIN_SPREAD = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PathMeasures:
    """Measures of the path of one arm in one space.

    Attributes:
        group: Its dimensions.
        spread: Standard deviation of the path, in its unit.
        length: Its length, in its unit.
        mean_speed: Mean speed while it moves, units per second.
        peak_speed: 95th percentile of the speed while it moves.
        jerk: See `compute_movement_jerk`; None for a path at rest.
        sparc: See `compute_movement_sparc`; None for a path at rest.
        moving: (N - 1,) whether it moves, at the common rate.
        period: Seconds between them.
        turns: (D,) changes of direction of each dimension that moves.
    """

    group: MotionGroup
    spread: float
    length: float
    mean_speed: float
    peak_speed: float
    jerk: float | None
    sparc: float | None
    moving: NDArray[np.bool_]
    period: float
    turns: NDArray[np.intp]


def measure_path(group: MotionGroup, values: NDArray[np.float64], period: float) -> PathMeasures:
    """The measures of one path.

    Args:
        group: Its dimensions.
        values: (N, D) at equal periods, N at least 2.
        period: Seconds between them.
    """
    import numpy as np

    velocity = np.diff(values, axis=0) / period
    speeds = np.linalg.norm(velocity, axis=1)
    usual = float((speeds**2).sum() / speeds.sum()) if speeds.sum() > 0 else 0.0
    moving = speeds > max(IDLE_SHARE_OF_SPEED * usual, MIN_PEAK_SPEED)
    spread = float(np.sqrt(values.var(axis=0).sum()))
    rests = spread < _MIN_SPREAD or not moving.any()
    movements = 1.0 if rests else count_movements(values)
    peak = 0.0 if rests else float(compute_sorted_quantile(np.sort(speeds[moving]), 0.95))
    return PathMeasures(
        group=group,
        spread=spread,
        length=float(speeds.sum() * period),
        mean_speed=0.0 if rests else float(speeds[moving].mean()),
        peak_speed=peak,
        jerk=None if rests else compute_movement_jerk(values, period, moving, peak, movements),
        sparc=None if rests else compute_movement_sparc(speeds, period, movements),
        moving=moving,
        period=period,
        turns=_count_turns(velocity, values),
    )


def _count_turns(velocity: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.intp]:
    """Changes of direction of each dimension that moves, (D,)."""
    import numpy as np

    ranges = np.ptp(values, axis=0)
    velocity = velocity[:, ranges > max(_MIN_SPREAD, 0.1 * float(ranges.max()))]
    sums = np.abs(velocity).sum(axis=0)
    usual = (velocity**2).sum(axis=0) / np.maximum(sums, MIN_PEAK_SPEED)
    return count_sign_changes(velocity, _TURN_SHARE * usual)


def drop_parked_arms(paths: Sequence[PathMeasures]) -> list[PathMeasures]:
    """The paths of one space without those of parked arms."""
    widest = max((path.spread for path in paths), default=0.0)
    return [path for path in paths if path.spread >= max(_PARKED_SHARE * widest, _MIN_SPREAD)]


def combine_path_measures(
    paths: Sequence[PathMeasures],
) -> tuple[float, float, float, float | None, float | None]:
    """Length, mean speed, peak speed, jerk and arc length of all arms in one space, which must not be empty.

    Lengths are summed, speeds those of the faster arm, smoothness the mean of the arms that move, by their lengths.
    """
    moving = drop_parked_arms(paths)
    return (
        sum(path.length for path in paths),
        max((path.mean_speed for path in moving), default=0.0),
        max((path.peak_speed for path in moving), default=0.0),
        _weighted_mean([(path.length, path.jerk) for path in moving if path.jerk is not None]),
        _weighted_mean([(path.length, path.sparc) for path in moving if path.sparc is not None]),
    )


def _weighted_mean(weighted: Sequence[tuple[float, float]]) -> float | None:
    total = sum(weight for weight, _ in weighted)
    return sum(weight * value for weight, value in weighted) / total if total > 0 else None
