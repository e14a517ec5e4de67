"""A signal at a common rate, so that measures of motion do not depend on the rate of the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Arms move below 5 Hz; faster sources are averaged, slower ones keep their rate.
COMMON_RATE_HZ = 10.0


def resample(
    values: NDArray[np.float64], seconds: NDArray[np.float64], shortest_period: float = 1 / COMMON_RATE_HZ
) -> tuple[NDArray[np.float64], float]:
    """Means over equal periods of the signal between its steps, which is a low-pass filter.

    Args:
        values: (T, D), finite.
        seconds: (T,) strictly rising.
        shortest_period: Seconds.

    Returns:
        (N, D) means and the period in seconds: the shortest, or the median of the steps' where that is longer.
    """
    import numpy as np

    period = max(shortest_period, float(np.median(np.diff(seconds))))
    count = max(1, int((seconds[-1] - seconds[0]) / period + 1e-6))
    edges = seconds[0] + period * np.arange(count + 1)
    areas = np.diff(seconds)[:, None] * (values[1:] + values[:-1]) / 2
    integral = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(areas, axis=0)])
    left = np.clip(np.searchsorted(seconds, edges, side="right") - 1, 0, len(seconds) - 2)
    into = (edges - seconds[left])[:, None]
    slope = (values[left + 1] - values[left]) / (seconds[left + 1] - seconds[left])[:, None]
    at_edges = integral[left] + into * (values[left] + slope * into / 2)
    return np.diff(at_edges, axis=0) / period, period
