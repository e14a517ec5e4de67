"""By how many steps one motion follows another, and which mixture of commands explains it best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_LONGEST_LAG_SECONDS = 1.0
_SMOOTHED_SECONDS = 0.1
_BLOCKS = 10
_RESAMPLES = 80
# A lag is claimed where its interval is at most so wide.
_WIDEST_STEPS = 2.0
_WIDEST_SECONDS = 0.1
# Commands are mixed where there are so many steps for each of them; of more commands one is chosen.
_STEPS_PER_COMMAND = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LagPeak:
    """Where the correlation of two motions is highest.

    Attributes:
        steps: Steps by which the one follows the other; None where the data cannot say.
        low_steps: Lower end of the interval of the lag.
        high_steps: Its upper end.
        correlation: Correlation at the lag.
    """

    steps: float | None
    low_steps: float = 0.0
    high_steps: float = 0.0
    correlation: float = 0.0


def moving_mean(values: NDArray[np.floating], rate_hz: float) -> NDArray[np.float64]:
    """Moving mean over a tenth of a second; equal for both motions, so that it shifts neither against the other."""
    import numpy as np

    window = max(1, round(_SMOOTHED_SECONDS * rate_hz))
    sums = np.cumsum(np.pad(values.astype(np.float64), ((1, 0), (0, 0))), axis=0)
    return np.asarray((sums[window:] - sums[:-window]) / window)


def longest_lag(num_steps: int, rate_hz: float) -> int:
    """Largest lag that is looked for: a second, or a quarter of the episode."""
    return min(round(_LONGEST_LAG_SECONDS * rate_hz), num_steps // 4)


def block_edges(num_steps: int) -> NDArray[np.int64]:
    """(B + 1,) steps at which the B blocks of time of an episode begin, and its end."""
    import numpy as np

    return np.linspace(0, num_steps, _BLOCKS + 1).astype(int)


def block_products(
    followed: NDArray[np.float64], command: NDArray[np.float64], longest: int
) -> NDArray[np.float64]:
    """(2 L + 1, B, P): sums over the steps of each of B blocks of followed(t) x command(t - lag), lags from -L to L."""
    import numpy as np

    starts = block_edges(len(followed))[:-1]
    shifted = _shifted_commands(command, len(followed), longest)
    return np.stack([np.add.reduceat(followed * part, starts, axis=0) for part in shifted])


def _shifted_commands(
    command: NDArray[np.float64], num_steps: int, longest: int
) -> Sequence[NDArray[np.float64]]:
    """The commands (T, A) later by each lag from -L to L, with zeros where there are none."""
    import numpy as np

    padded = np.pad(command, ((longest, longest), (0, 0)))
    return [padded[start : start + num_steps] for start in range(2 * longest, -1, -1)]


def resample_blocks() -> NDArray[np.float64]:
    """(R, B) how often each block of an episode is drawn."""
    import numpy as np

    rng = np.random.default_rng(0)
    return rng.multinomial(_BLOCKS, np.full(_BLOCKS, 1 / _BLOCKS), _RESAMPLES).astype(float)


def find_lag_peak(
    profile: NDArray[np.float64],
    resampled: NDArray[np.float64],
    rate_hz: float,
    *,
    lowest_correlation: float,
    quantiles: tuple[float, float],
) -> LagPeak:
    """The lag of a profile of correlations, by the parabola through its peak.

    Args:
        profile: (2 L + 1,) correlation at each lag from -L to L.
        resampled: (R, 2 L + 1) the same with the blocks of the episode drawn again; they give the interval.
        rate_hz: Steps per second.
        lowest_correlation: A lag is claimed from this correlation on.
        quantiles: Of the lags that are drawn; they are the ends of the interval.
    """
    import numpy as np

    longest, peak = len(profile) // 2, int(profile.argmax())
    low, high = map(float, np.quantile(resampled.argmax(axis=1) - longest, quantiles))
    is_narrow = high - low <= max(_WIDEST_STEPS, _WIDEST_SECONDS * rate_hz)
    is_known = profile[peak] >= lowest_correlation and is_narrow and 0 < peak < 2 * longest
    return LagPeak(
        steps=peak + _parabola_top(profile[peak - 1 : peak + 2]) - longest if is_known else None,
        low_steps=low,
        high_steps=high,
        correlation=float(profile[peak]),
    )


def _parabola_top(values: NDArray[np.float64]) -> float:
    """The top of the parabola through a peak and its neighbours, from the peak."""
    before, top, after = values
    bend = before - 2 * top + after
    return 0.5 * float((before - after) / bend) if bend < 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LagProducts:
    """Sums over the steps of one or more episodes from which A commands are mixed to explain S motions.

    Attributes:
        power: (A, A) sum of commands times commands.
        products: (2 L + 1, A, S) sum of commands times motions at each lag from -L to L.
        num_steps: Steps that were summed.
    """

    power: NDArray[np.float64]
    products: NDArray[np.float64]
    num_steps: int

    @property
    def longest(self) -> int:
        """Steps of the longest lag, either way."""
        return len(self.products) // 2

    def __add__(self, other: LagProducts) -> LagProducts:
        """The sums of the episodes of both."""
        return LagProducts(
            power=self.power + other.power,
            products=self.products + other.products,
            num_steps=self.num_steps + other.num_steps,
        )

    def __sub__(self, other: LagProducts) -> LagProducts:
        """The sums without some of the episodes."""
        return LagProducts(
            power=self.power - other.power,
            products=self.products - other.products,
            num_steps=self.num_steps - other.num_steps,
        )

    def best_mixture(self, ridge: float) -> NDArray[np.float64]:
        """(A, S) weights of the commands in each motion, at the lag where they explain most.

        Where there are few steps for so many commands, each motion follows the one command that explains it best.

        Args:
            ridge: Part of the power of the commands that is added to each of them.
        """
        import numpy as np

        width = len(self.power)
        power = self.power + ridge * max(float(np.trace(self.power)) / width, 1e-12) * np.eye(width)
        if self.num_steps >= _STEPS_PER_COMMAND * width:
            weights = np.linalg.solve(power, self.products)
        else:
            single = self.products / np.diag(power)[:, None]
            explains = np.abs(self.products * single)
            weights = np.where(explains == explains.max(axis=1, keepdims=True), single, 0.0)
        explained = (self.products * weights).sum(axis=(1, 2))
        return np.asarray(weights[int(explained.argmax())])


def lag_products(followed: NDArray[np.float64], command: NDArray[np.float64], longest: int) -> LagProducts:
    """The sums of one episode.

    Args:
        followed: (T, S) motions over their deviation.
        command: (T, A) commands, likewise; they may be zero throughout.
        longest: Steps of the longest lag, either way.
    """
    import numpy as np

    shifted = _shifted_commands(command, len(followed), longest)
    return LagProducts(
        power=command.T @ command,
        products=np.stack([part.T @ followed for part in shifted]),
        num_steps=len(followed),
    )
