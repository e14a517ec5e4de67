"""The values of a signal over equal periods of time, and their quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
