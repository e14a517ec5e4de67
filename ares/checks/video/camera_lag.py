"""How a picture moves with the robot, learnt over episodes, and the lag of the one against the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from ares.signals import (
    LagPeak,
    LagProducts,
    block_products,
    find_lag_peak,
    lag_products,
    longest_lag,
    moving_mean,
    resample_blocks,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Causes (T, M) and the motion of the picture (T, 16) of an episode.
Pair = tuple["NDArray[np.float32]", "NDArray[np.float32]"]

# Changes are taken over such a time, so that repeated frames and compression do not rule them.
_GAP_SECONDS = 0.13
# What changes slower than this says little of the lag.
_SLOW_SECONDS = 3.0
# Changes of a cell by less, in grey levels, may be noise or the work of the coder.
_CODED_LEVELS = 1.5
_GRID = 4
_CLIPPED_AT = 4.0
# Parts of a picture move together, and few episodes are learnt from.
_RIDGE = 0.3
_FEWEST_STEPS = 24
# A lag is claimed from this correlation on.
_LOWEST_CORRELATION = 0.25
_INTERVAL = (0.1, 0.9)
# Where an episode agrees with its dataset, its lag counts this much.
_EPISODE_SHARE = 0.3
_WIDEST_POOLED_SECONDS = 0.2


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
    motion = _without_slow(_root_of_mean(blocks.reshape(count, -1), rate_hz), rate_hz)
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
    speed = np.abs(state[gap:] - state[:-gap]) / np.maximum(scale, 1e-12)
    motion = _without_slow(_root_of_mean(speed, rate_hz), rate_hz)
    return _clip_motion(
        motion / np.maximum(np.sqrt((motion**2).mean(axis=0)), 1e-6) if motion.size else motion
    )


def _root_of_mean(values: NDArray[np.floating], rate_hz: float) -> NDArray[np.float64]:
    """The root of the moving mean of values that are not negative."""
    import numpy as np

    return np.asarray(np.sqrt(np.maximum(moving_mean(values, rate_hz), 0)))


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


def sum_motion_products(pairs: Sequence[Pair], rate_hz: float) -> LagProducts | None:
    """What the mixture of causes is solved from that explains the picture motion of some episodes best.

    None without any episode that is long enough.

    Args:
        pairs: One of each episode.
        rate_hz: Steps per second.
    """
    long_enough = [pair for pair in pairs if min(map(len, pair)) >= _FEWEST_STEPS]
    if not long_enough:
        return None
    longest = min(longest_lag(min(map(len, pair)), rate_hz) for pair in long_enough)
    return reduce(add, (_motion_products(*pair, longest) for pair in long_enough))


def _motion_products(cause: NDArray[np.float32], effect: NDArray[np.float32], longest: int) -> LagProducts:
    count = min(len(cause), len(effect))
    return lag_products(effect[:count].astype(float), cause[:count].astype(float), longest)


def measure_picture_lag(
    cause: NDArray[np.float32],
    effect: NDArray[np.float32],
    learnt: LagProducts,
    rate_hz: float,
    *,
    is_member: bool,
) -> LagPeak:
    """The lag of the picture of an episode behind its causes, by a mixture of them that the other episodes tell.

    Args:
        cause: (T, M) causes.
        effect: (T, 16) motion of the picture.
        learnt: Sums of the episodes of its dataset.
        rate_hz: Steps per second.
        is_member: Whether this episode is one of them.
    """
    count = min(len(cause), len(effect))
    if count < _FEWEST_STEPS:
        return LagPeak(steps=None)
    others = learnt - _motion_products(cause, effect, learnt.longest) if is_member else learnt
    if not others.num_steps:
        return LagPeak(steps=None)
    expected, seen = cause[:count] @ others.best_mixture(_RIDGE), effect[:count].astype(float)
    longest = longest_lag(count, rate_hz)
    blocks = _block_correlations(expected, seen, longest)
    return find_lag_peak(
        blocks.sum(axis=1),
        resample_blocks() @ blocks.T,
        rate_hz,
        lowest_correlation=_LOWEST_CORRELATION,
        quantiles=_INTERVAL,
    )


def shrink_lag_to_dataset(lag: LagPeak, typical: float, rate_hz: float) -> LagPeak:
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


def _block_correlations(
    expected: NDArray[np.float64], seen: NDArray[np.float64], longest: int
) -> NDArray[np.float64]:
    """(2 L + 1, B): parts of the correlation at each lag from -L to L that each of B blocks of time gives."""
    import numpy as np

    power = np.sqrt((expected**2).sum() * (seen**2).sum()) + 1e-12
    return np.asarray(block_products(seen, expected, longest).sum(axis=2) / power)
