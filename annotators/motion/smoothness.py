"""How smooth a movement is: submovements, jerk and spectral arc length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares_annotators.motion.periods import median, resample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
