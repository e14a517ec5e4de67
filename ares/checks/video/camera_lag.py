"""How a picture moves with the robot, learnt over episodes, and the lag between both with its interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Changes are taken over such a time, so that repeated frames and compression do not rule them.
_GAP_SECONDS = 0.13
_SMOOTHED_SECONDS = 0.1
# What changes slower than this says little of the lag.
_SLOW_SECONDS = 3.0
# Changes of a cell by less, in grey levels, may be noise or the work of the coder.
_CODED_LEVELS = 1.5
_GRID = 4
_CLIPPED_AT = 4.0
_RIDGE = 0.3
_LONGEST_LAG_SECONDS = 1.0
_FEWEST_STEPS = 24
_BLOCKS = 10
_RESAMPLES = 100
# A lag is claimed from this correlation on, where the interval is at most so wide.
_LOWEST_CORRELATION = 0.25
_WIDEST_STEPS = 2.0
_WIDEST_SECONDS = 0.1
_LOWEST_QUANTILE, _HIGHEST_QUANTILE = 0.1, 0.9
# Where an episode agrees with its dataset, its lag counts this much.
_EPISODE_SHARE = 0.3
_WIDEST_POOLED_SECONDS = 0.2
# Rates of the video over the claimed one that are tried.
_RATE_FACTORS = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2)
# Another rate must add so much correlation, also in this share of the draws.
_RATE_GAIN = 0.04
_RATE_SHARE = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoLag:
    """The lag of one motion behind another.

    Attributes:
        steps: Steps by which the picture follows; None where the data cannot say.
        low_steps: Lower end of the 80 % interval.
        high_steps: Its upper end.
        correlation: Correlation at the lag.
        rate_factor: Rate of the video over the claimed one; 1 where another does not explain clearly more.
        rate_gain: Correlation that the best other rate adds.
    """

    steps: float | None
    low_steps: float = 0.0
    high_steps: float = 0.0
    correlation: float = 0.0
    rate_factor: float = 1.0
    rate_gain: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MotionRegression:
    """Sums of products of M causes and 16 picture blocks over episodes, at one lag: what a ridge regression needs.

    Attributes:
        lag_steps: Lag at which they were summed.
        causes: (M, M) sum of causes times causes.
        effects: (M, 16) sum of causes times picture blocks.
        num_steps: Steps that were summed.
    """

    lag_steps: int
    causes: NDArray[np.float64]
    effects: NDArray[np.float64]
    num_steps: int

    def without(self, cause: NDArray[np.float32], effect: NDArray[np.float32]) -> MotionRegression:
        """The map of the other episodes."""
        products = _products_at_lag(cause, effect, self.lag_steps)
        return MotionRegression(
            lag_steps=self.lag_steps,
            causes=self.causes - products[0],
            effects=self.effects - products[1],
            num_steps=self.num_steps - products[2],
        )

    def predict(self, cause: NDArray[np.float32]) -> NDArray[np.float64]:
        """(T, 16) motion of the picture that the causes explain, without lag."""
        import numpy as np

        ridge = (_RIDGE * max(self.num_steps, 1) + 1e-6) * np.eye(len(self.causes))
        return np.asarray(cause @ np.linalg.solve(self.causes + ridge, self.effects))


def picture_motion(thumbs: NDArray[np.float16], rate_hz: float) -> NDArray[np.float32]:
    """(T - k - w + 1, 16) motion of the picture in a grid of 4 x 4 blocks, without slow changes; scaled to 1.

    Args:
        thumbs: (T, 24, 32) grey levels, one per step.
        rate_hz: Steps per second.
    """
    import numpy as np

    gap = max(1, round(_GAP_SECONDS * rate_hz))
    grey = thumbs.astype(np.float32)
    change = np.maximum(np.abs(grey[gap:] - grey[:-gap]) - _CODED_LEVELS, 0)
    count, height, width = change.shape
    blocks = change.reshape(count, _GRID, height // _GRID, _GRID, width // _GRID).mean(axis=(2, 4))
    motion = _without_slow(np.sqrt(_moving_average(blocks.reshape(count, -1), rate_hz)), rate_hz)
    return _clip_motion(motion / max(float(np.sqrt((motion**2).mean())), 1e-6) if motion.size else motion)


def state_motion(state: NDArray[np.float64], rate_hz: float) -> NDArray[np.float32]:
    """(T - k - w + 1, D) speed of each dimension, without slow changes; each scaled to 1, those at rest to 0.

    Args:
        state: (T, D), one row per step.
        rate_hz: Steps per second.
    """
    import numpy as np

    gap = max(1, round(_GAP_SECONDS * rate_hz))
    span = np.ptp(state, axis=0)
    scale = np.where(span > 1e-3 * span.max(initial=0.0), span, np.inf)
    speed = _moving_average(np.abs(state[gap:] - state[:-gap]) / np.maximum(scale, 1e-12), rate_hz)
    motion = _without_slow(np.sqrt(speed), rate_hz)
    return _clip_motion(
        motion / np.maximum(np.sqrt((motion**2).mean(axis=0)), 1e-6) if motion.size else motion
    )


def _moving_average(values: NDArray[np.floating], rate_hz: float) -> NDArray[np.float64]:
    import numpy as np

    window = max(1, round(_SMOOTHED_SECONDS * rate_hz))
    sums = np.cumsum(np.pad(values.astype(np.float64), ((1, 0), (0, 0))), axis=0)
    return np.maximum(sums[window:] - sums[:-window], 0) / window


def _without_slow(values: NDArray[np.float64], rate_hz: float) -> NDArray[np.float64]:
    """Values less their moving mean over seconds."""
    import numpy as np

    half = max(1, round(_SLOW_SECONDS * rate_hz) // 2)
    padded = np.pad(values, ((half + 1, half), (0, 0)), mode="edge") if len(values) else values
    sums = np.cumsum(padded, axis=0)
    return values - (sums[2 * half + 1 :] - sums[: -2 * half - 1]) / (2 * half + 1)


def _clip_motion(values: NDArray[np.float64]) -> NDArray[np.float32]:
    import numpy as np

    return np.clip(values, -_CLIPPED_AT, _CLIPPED_AT).astype(np.float32)


def _align_at_lag(
    cause: NDArray[np.float32], effect: NDArray[np.float32], lag: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Causes, and effects that follow them by a lag."""
    count = min(len(cause), len(effect))
    return cause[max(0, -lag) : count - max(0, lag)], effect[max(0, lag) : count + min(0, lag)]


def _products_at_lag(
    cause: NDArray[np.float32], effect: NDArray[np.float32], lag: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    import numpy as np

    before, after = (part.astype(np.float64) for part in _align_at_lag(cause, effect, lag))
    return before.T @ before, before.T @ after, len(before)


def longest_lag(num_steps: int, rate_hz: float) -> int:
    """Largest lag that is looked for: a second, or a quarter of the episode."""
    return min(round(_LONGEST_LAG_SECONDS * rate_hz), num_steps // 4)


def fit_motion_regression(
    pairs: list[tuple[NDArray[np.float32], NDArray[np.float32]]], rate_hz: float
) -> MotionRegression | None:
    """The map of some episodes at the lag where it explains most; None without any that is long enough.

    Args:
        pairs: Causes (T, M) and picture motion (T, 16) of each episode.
        rate_hz: Steps per second.
    """
    import numpy as np

    long_enough = [pair for pair in pairs if min(len(pair[0]), len(pair[1])) >= _FEWEST_STEPS]
    if not long_enough:
        return None
    longest = min(longest_lag(len(cause), rate_hz) for cause, _ in long_enough)
    maps = [_sum_at(long_enough, lag) for lag in range(-longest, longest + 1)]
    explained = [_explained_share(part) for part in maps]
    return maps[int(np.argmax(explained))]


def _sum_at(pairs: list[tuple[NDArray[np.float32], NDArray[np.float32]]], lag: int) -> MotionRegression:
    parts = [_products_at_lag(cause, effect, lag) for cause, effect in pairs]
    return MotionRegression(
        lag_steps=lag,
        causes=sum(part[0] for part in parts),  # type: ignore[arg-type]
        effects=sum(part[1] for part in parts),  # type: ignore[arg-type]
        num_steps=sum(part[2] for part in parts),
    )


def _explained_share(part: MotionRegression) -> float:
    """Share of the picture's motion that the causes explain."""
    import numpy as np

    ridge = (_RIDGE * part.num_steps + 1e-6) * np.eye(len(part.causes))
    return float((part.effects * np.linalg.solve(part.causes + ridge, part.effects)).sum()) / part.num_steps


def measure_picture_lag(
    cause: NDArray[np.float32], effect: NDArray[np.float32], of_others: MotionRegression, rate_hz: float
) -> VideoLag:
    """The lag of the picture of an episode behind its causes.

    Args:
        cause: (T, M) causes.
        effect: (T, 16) motion of the picture.
        of_others: Map that was learnt without this episode.
        rate_hz: Steps per second.
    """
    import numpy as np

    count = min(len(cause), len(effect))
    if count < _FEWEST_STEPS or not of_others.num_steps:
        return VideoLag(steps=None)
    longest = longest_lag(count, rate_hz)
    expected, seen = of_others.predict(cause[:count]), effect[:count].astype(np.float64)
    blocks = {
        rate_factor: _block_products(_at_rate(expected, rate_factor), seen, longest)
        for rate_factor in _RATE_FACTORS
    }
    peaks = {rate_factor: float(part.sum(axis=1).max()) for rate_factor, part in blocks.items()}
    best = max(peaks, key=lambda rate_factor: peaks[rate_factor])
    gain = peaks[best] - peaks[1.0]
    if not _has_other_rate(blocks[1.0], blocks[best], gain):
        best = 1.0
    return replace(_lag_of(blocks[best], longest, rate_hz, best), rate_gain=gain)


def shrink_lag_to_dataset(lag: VideoLag, typical: float, rate_hz: float) -> VideoLag:
    """The lag of an episode drawn towards that of its dataset, where the data do not say that they differ.

    Args:
        lag: The lag by the episode alone.
        typical: Median lag of the dataset, in steps.
        rate_hz: Steps per second.
    """
    width = (lag.high_steps - lag.low_steps) / rate_hz
    is_like = lag.low_steps - 1 <= typical <= lag.high_steps + 1
    if not is_like or lag.correlation < _LOWEST_CORRELATION or width > _WIDEST_POOLED_SECONDS:
        return lag
    steps = typical if lag.steps is None else lag.steps
    return replace(lag, steps=typical + _EPISODE_SHARE * (steps - typical))


def _lag_of(blocks: NDArray[np.float64], longest: int, rate_hz: float, rate_factor: float) -> VideoLag:
    profile = blocks.sum(axis=1)
    peak = int(profile.argmax())
    low, high = _lag_interval(blocks, longest)
    widest = max(_WIDEST_STEPS, _WIDEST_SECONDS * rate_hz)
    is_known = profile[peak] >= _LOWEST_CORRELATION and high - low <= widest and 0 < peak < 2 * longest
    return VideoLag(
        steps=peak - longest + _parabola_vertex(profile, peak) if is_known else None,
        low_steps=low,
        high_steps=high,
        correlation=round(float(profile[peak]), 3),
        rate_factor=rate_factor,
    )


def _at_rate(values: NDArray[np.float64], rate_factor: float) -> NDArray[np.float64]:
    """Values as they are seen at another rate, about the middle of the episode."""
    import numpy as np

    if rate_factor == 1.0:
        return values
    middle = (len(values) - 1) / 2
    at = middle + (np.arange(len(values)) - middle) * rate_factor
    whole = np.clip(np.round(at).astype(int), 0, len(values) - 1)
    inside = (at >= -0.5) & (at <= len(values) - 0.5)
    return values[whole] * inside[:, None]  # type: ignore[no-any-return]


def _block_products(
    expected: NDArray[np.float64], seen: NDArray[np.float64], longest: int
) -> NDArray[np.float64]:
    """(2 L + 1, B): parts of the correlation at each lag from -L to L that each of B blocks of time gives."""
    import numpy as np

    starts = np.linspace(0, len(seen), _BLOCKS + 1).astype(int)[:-1]
    padded = np.pad(expected, ((longest, longest), (0, 0)))
    power = np.sqrt((expected**2).sum() * (seen**2).sum()) + 1e-12
    rows = [
        (padded[2 * longest - number : 2 * longest - number + len(seen)] * seen).sum(axis=1)
        for number in range(2 * longest + 1)
    ]
    return np.add.reduceat(np.stack(rows), starts, axis=1) / power  # type: ignore[no-any-return]


def _resampling_weights() -> NDArray[np.float64]:
    """(R, B) how often each block is drawn."""
    import numpy as np

    rng = np.random.default_rng(0)
    return rng.multinomial(_BLOCKS, np.full(_BLOCKS, 1 / _BLOCKS), _RESAMPLES).astype(float)


def _lag_interval(blocks: NDArray[np.float64], longest: int) -> tuple[float, float]:
    """The 80 % interval of the lag, by drawing the blocks of the episode again."""
    import numpy as np

    peaks = (_resampling_weights() @ blocks.T).argmax(axis=1) - longest
    return float(np.quantile(peaks, _LOWEST_QUANTILE)), float(np.quantile(peaks, _HIGHEST_QUANTILE))


def _has_other_rate(usual: NDArray[np.float64], other: NDArray[np.float64], gain: float) -> bool:
    """Whether another rate explains more, also when the blocks are drawn again."""
    if gain < _RATE_GAIN:
        return False
    weights = _resampling_weights()
    better = (weights @ other.T).max(axis=1) > (weights @ usual.T).max(axis=1)
    return bool(better.mean() >= _RATE_SHARE)


def _parabola_vertex(profile: NDArray[np.float64], peak: int) -> float:
    """The top of the parabola through the peak and its neighbours, from the peak."""
    before, top, after = profile[peak - 1 : peak + 2]
    bend = before - 2 * top + after
    return 0.5 * float((before - after) / bend) if bend < 0 else 0.0
