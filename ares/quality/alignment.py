"""The lag between action and state: cross-correlation of their speeds, with an interval, or "unknown"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ares.quality.kinds import CHECKED_KINDS, kinds_by_name
from ares.quality.signals import EpisodeSignals, paired_dimensions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# What an action means: where the state is to be, or how far or how fast it is to move.
ActionMeaning = Literal["absolute", "relative"]
MEANINGS: tuple[ActionMeaning, ...] = ("absolute", "relative")

_LONGEST_LAG_SECONDS = 1.0
_FEWEST_STEPS = 24
_SMOOTHED_SECONDS = 0.1
_BLOCKS = 10
_RESAMPLES = 80
# Speeds that are further from zero than so many standard deviations do not decide the lag.
_CLIPPED_AT = 4.0
# Lags whose correlation is below this share of the best take no part in the interval.
_RIVAL_SHARE = 0.5
# A lag is claimed from this correlation on, where the interval is at most so wide.
_LOWEST_CORRELATION = 0.5
_WIDEST_STEPS = 2.0
_WIDEST_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActionAlignment:
    """How the state of an episode follows its action; P dimensions have the same name in both.

    Attributes:
        meaning: What the action was taken as.
        lag_steps: Steps by which the state follows the action; None where the data cannot say.
        low_steps: Lower end of the 90 % interval of the lag.
        high_steps: Its upper end.
        correlation: Correlation of the speeds at the lag, mean over the dimensions that move.
        correlations: (P,) for each pair, with its sign; NaN where it does not move.
        gains: (P,) speed of the state per speed of the action; NaN where it does not move.
    """

    meaning: ActionMeaning
    lag_steps: float | None
    low_steps: float
    high_steps: float
    correlation: float
    correlations: NDArray[np.float64]
    gains: NDArray[np.float64]


def align_action(
    signals: EpisodeSignals, meaning: ActionMeaning, motion_bars: NDArray[np.float64]
) -> ActionAlignment | None:
    """The lag of an episode; None without paired dimensions, or where it is too short or nothing moves.

    Args:
        signals: The episode; all finite.
        meaning: What the action is taken as.
        motion_bars: (P,) range of the state from which a paired dimension counts as moving.
    """
    import numpy as np

    pairs = paired_dimensions(signals.state_names, signals.action_names)
    if not pairs or len(signals.state) < _FEWEST_STEPS:
        return None
    of_state, of_action = (signals.state[:, [i for i, _ in pairs]], signals.action[:, [j for _, j in pairs]])
    moving = (np.ptp(of_state, axis=0) >= motion_bars) & (np.ptp(of_action, axis=0) > 0)
    if not moving.any():
        return None
    decides = _deciding([signals.state_names[i] for i, _ in pairs], moving)
    window = max(1, round(_SMOOTHED_SECONDS * signals.rate_hz))
    followed = _smoothed(np.diff(of_state[:, moving], axis=0), window)
    command = np.diff(of_action[:, moving], axis=0) if meaning == "absolute" else of_action[:-1, moving]
    return _aligned(followed, _smoothed(command, window), signals.rate_hz, meaning, moving, decides)


def _deciding(names: Sequence[str], moving: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(M,) 1 for each of the moving pairs that decides the lag: a gripper or a hand has a lag of its own."""
    import numpy as np

    kinds = kinds_by_name(tuple(names))
    follows = np.array([kind in CHECKED_KINDS or kind == "unknown" for kind in kinds])[moving]
    return (follows if follows.any() else np.ones(len(follows), dtype=bool)).astype(float)


def _smoothed(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Moving mean over so many steps; equal for both signals, so that it shifts neither against the other."""
    import numpy as np

    sums = np.cumsum(np.pad(values, ((1, 0), (0, 0))), axis=0)
    return np.asarray((sums[window:] - sums[:-window]) / window)


def _aligned(
    followed: NDArray[np.float64],
    command: NDArray[np.float64],
    rate_hz: float,
    meaning: ActionMeaning,
    moving: NDArray[np.bool_],
    decides: NDArray[np.float64],
) -> ActionAlignment:
    import numpy as np

    longest = min(round(_LONGEST_LAG_SECONDS * rate_hz), len(followed) // 4)
    unit_state, scale_state = _scaled(followed)
    unit_action, scale_action = _scaled(command)
    products = _block_products(unit_state, unit_action, longest)
    powers = _block_powers(unit_state, unit_action, longest)
    profile = _correlations(products.sum(axis=1), *(power.sum(axis=1) for power in powers))
    weights = decides * np.abs(profile).max(axis=0) ** 2
    weights /= max(float(weights.sum()), 1e-12)
    total = np.abs(profile) @ weights
    peak = int(np.argmax(total))
    low, high = _interval((products, *powers), weights, total, longest)
    widest = max(_WIDEST_STEPS, _WIDEST_SECONDS * rate_hz)
    is_known = total[peak] >= _LOWEST_CORRELATION and high - low <= widest and 0 < peak < 2 * longest
    correlations, gains = np.full((2, len(moving)), np.nan)
    correlations[moving] = profile[peak]
    slopes = products[peak].sum(axis=0) / np.maximum((unit_action**2).sum(axis=0), 1e-12)
    gains[moving] = slopes * scale_state / scale_action
    return ActionAlignment(
        meaning=meaning,
        lag_steps=_vertex(total, peak) - longest if is_known else None,
        low_steps=low,
        high_steps=high,
        correlation=float(total[peak]),
        correlations=correlations,
        gains=gains,
    )


def _scaled(speeds: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Speeds over their standard deviation, clipped, and that deviation."""
    import numpy as np

    scale = np.maximum(np.sqrt((speeds**2).mean(axis=0)), 1e-12)
    return np.clip(speeds / scale, -_CLIPPED_AT, _CLIPPED_AT), scale


def _block_products(
    followed: NDArray[np.float64], command: NDArray[np.float64], longest: int
) -> NDArray[np.float64]:
    """(2 L + 1, B, P): sums over the steps of each of B blocks of state(t) x action(t - lag), lags from -L to L."""
    import numpy as np

    starts = np.linspace(0, len(followed), _BLOCKS + 1).astype(int)[:-1]
    padded = np.pad(command, ((longest, longest), (0, 0)))
    shifted = (
        padded[2 * longest - number : 2 * longest - number + len(followed)]
        for number in range(2 * longest + 1)
    )
    return np.stack([np.add.reduceat(followed * part, starts, axis=0) for part in shifted])


def _block_powers(
    followed: NDArray[np.float64], command: NDArray[np.float64], longest: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two (2 L + 1, B, P): sums of squares of state and action over the steps of each product of a block."""
    import numpy as np

    steps = len(followed)
    edges = np.linspace(0, steps, _BLOCKS + 1).astype(int)
    lags = np.arange(-longest, longest + 1)[:, None]
    rows = np.clip(edges, np.maximum(lags, 0), steps + np.minimum(lags, 0))
    sums = [np.cumsum(np.pad(part**2, ((1, 0), (0, 0))), axis=0) for part in (followed, command)]
    return np.diff(sums[0][rows], axis=1), np.diff(sums[1][rows - lags], axis=1)


def _correlations(
    products: NDArray[np.float64], of_state: NDArray[np.float64], of_action: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(2 L + 1, ...) correlations of the steps that overlap at each lag, so that no lag loses by its length.

    At least half of the largest power counts: a few steps that agree by chance decide nothing.
    """
    import numpy as np

    powers = [np.maximum(part, 0.5 * part.max(axis=0)) for part in (of_state, of_action)]
    return np.asarray(products / np.maximum(np.sqrt(powers[0] * powers[1]), 1e-12))


def _interval(
    blocks: tuple[NDArray[np.float64], ...],
    weights: NDArray[np.float64],
    total: NDArray[np.float64],
    longest: int,
) -> tuple[float, float]:
    """The 90 % interval of the lag, by drawing the blocks of the episode again."""
    import numpy as np

    lags = np.flatnonzero(total >= _RIVAL_SHARE * total.max())  # no other lag can win a draw
    rng = np.random.default_rng(0)
    draws = rng.multinomial(_BLOCKS, np.full(_BLOCKS, 1 / _BLOCKS), _RESAMPLES).astype(float)
    # One small product per lag: a large one would start the threads of the linear algebra library.
    drawn = (draws @ part[lags][:, :, weights > 0] for part in blocks)
    profiles = np.abs(_correlations(*drawn)) @ weights[weights > 0]
    peaks = lags[profiles.argmax(axis=0)] - longest
    return float(np.quantile(peaks, 0.05)), float(np.quantile(peaks, 0.95))


def _vertex(profile: NDArray[np.float64], peak: int) -> float:
    """The top of the parabola through the peak and its neighbours."""
    before, top, after = profile[peak - 1 : peak + 2]
    bend = before - 2 * top + after
    return peak + (0.5 * float((before - after) / bend) if bend < 0 else 0.0)
