"""The lag of the state behind the action that commands it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ares.signals.dimension_kinds import (
    CHECKED_KINDS,
    classify_by_name,
)
from ares.signals.motion_lag import (
    block_edges,
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

from ares.signals.plain_arrays import ActionMeaning, EpisodeSignals, paired_dimensions

MEANINGS: tuple[ActionMeaning, ...] = ("absolute", "relative")

_FEWEST_STEPS = 24

# Speeds that are further from zero than so many standard deviations do not decide the lag.
_CLIPPED_AT = 4.0

# Lags whose correlation is below this share of the best take no part in the interval.
_RIVAL_SHARE = 0.5

# A lag is claimed from this correlation on.
_LOWEST_CORRELATION = 0.5

_INTERVAL = (0.05, 0.95)

# A mixture of commands is fitted, and explains something by chance: it says a lag from this correlation on, of at most
# so many dimensions of the state, for the time that it takes.
_LOWEST_COUPLED, _MOST_COUPLED = 0.5, 64

# Two commands that are nearly one share their effect.
_RIDGE = 1e-2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActionLagEstimate:
    """How the state of an episode follows its action; P dimensions have the same name in both.

    Attributes:
        meaning: What the action was taken as.
        lag_steps: Steps by which the state follows the action; None where the data cannot say.
        low_steps: Lower end of the 90 % interval of the lag.
        high_steps: Its upper end.
        correlation: Correlation of the speeds at the lag, mean over the dimensions that move.
        correlations: (P,) for each pair, with its sign; NaN where it does not move.
        gains: (P,) speed of the state per speed of the action; NaN where it does not move.
        responses: (A, S) how the state follows the commands where no names pair them, else None.
        explained: (S,) correlation of each dimension of the state with them, else None.
    """

    meaning: ActionMeaning
    lag_steps: float | None
    low_steps: float
    high_steps: float
    correlation: float
    correlations: NDArray[np.float64]
    gains: NDArray[np.float64]
    responses: NDArray[np.float64] | None = None
    explained: NDArray[np.float64] | None = None


def estimate_action_lag(
    signals: EpisodeSignals,
    meaning: ActionMeaning,
    motion_bars: NDArray[np.float64],
    usual_steps: float | None = None,
) -> ActionLagEstimate | None:
    """The lag of an episode; None where it is too short, nothing moves, or commands without pairs explain little.

    Args:
        signals: The episode; all finite.
        meaning: What the action is taken as.
        motion_bars: (P,) range of the state from which a paired dimension counts as moving.
        usual_steps: Lag at which pairs are correlated where that of the episode is unknown; by default at its peak.
    """
    import numpy as np

    pairs = paired_dimensions(signals.state_names, signals.action_names)
    if len(signals.state) < _FEWEST_STEPS or not signals.state.shape[1] or not signals.action.shape[1]:
        return None
    if not pairs:
        return _estimate_coupled_lag(signals, meaning)
    of_state, of_action = (signals.state[:, [i for i, _ in pairs]], signals.action[:, [j for _, j in pairs]])
    moving = (np.ptp(of_state, axis=0) >= motion_bars) & (np.ptp(of_action, axis=0) > 0)
    if not moving.any():
        return None
    decides = _deciding_pairs([signals.state_names[i] for i, _ in pairs], moving)
    followed = moving_mean(np.diff(of_state[:, moving], axis=0), signals.rate_hz)
    command = np.diff(of_action[:, moving], axis=0) if meaning == "absolute" else of_action[:-1, moving]
    command = moving_mean(command, signals.rate_hz)
    return _align_speeds(followed, command, (signals.rate_hz, usual_steps), meaning, moving, decides)


def _estimate_coupled_lag(signals: EpisodeSignals, meaning: ActionMeaning) -> ActionLagEstimate | None:
    """The lag of a state behind the mixture of commands that explains its speeds best."""
    import numpy as np

    kinds = classify_by_name(signals.state_names)
    moving = np.array([kind not in ("other", "gripper", "hand") for kind in kinds]) & (
        np.ptp(signals.state, axis=0) > 0
    )
    if not moving.any() or moving.sum() > _MOST_COUPLED:
        return None
    followed = moving_mean(np.diff(signals.state[:, moving], axis=0), signals.rate_hz)
    command = np.diff(signals.action, axis=0) if meaning == "absolute" else signals.action[:-1]
    command = moving_mean(command - command.mean(axis=0), signals.rate_hz)
    unit_command, longest = _scale_speeds(command)[0], longest_lag(len(followed), signals.rate_hz)
    weights = lag_products(_scale_speeds(followed)[0], unit_command, longest).best_mixture(_RIDGE)
    decides = np.ones(int(moving.sum()))
    aligned = _align_speeds(
        followed, unit_command @ weights, (signals.rate_hz, None), meaning, moving, decides
    )
    if aligned.correlation < _LOWEST_COUPLED:
        return None
    responses = np.zeros((command.shape[1], len(moving)))
    responses[:, moving] = weights
    none = np.zeros(0)
    return replace(
        aligned,
        correlations=none,
        gains=none,
        responses=responses,
        explained=np.nan_to_num(aligned.correlations),
    )


def _deciding_pairs(names: Sequence[str], moving: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(M,) 1 for each of the moving pairs that decides the lag: a gripper or a hand has a separate lag."""
    import numpy as np

    kinds = classify_by_name(tuple(names))
    follows = np.array([kind in CHECKED_KINDS or kind == "unknown" for kind in kinds])[moving]
    return (follows if follows.any() else np.ones(len(follows), dtype=bool)).astype(float)


def _align_speeds(
    followed: NDArray[np.float64],
    command: NDArray[np.float64],
    timing: tuple[float, float | None],
    meaning: ActionMeaning,
    moving: NDArray[np.bool_],
    decides: NDArray[np.float64],
) -> ActionLagEstimate:
    import numpy as np

    rate_hz, usual_steps = timing
    longest = longest_lag(len(followed), rate_hz)
    unit_state, scale_state = _scale_speeds(followed)
    unit_action, scale_action = _scale_speeds(command)
    products = block_products(unit_state, unit_action, longest)
    powers = _block_powers(unit_state, unit_action, longest)
    profile = _lag_correlations(products.sum(axis=1), *(power.sum(axis=1) for power in powers))
    weights = decides * np.abs(profile).max(axis=0) ** 2
    weights /= max(float(weights.sum()), 1e-12)
    total = np.abs(profile) @ weights
    peak = int(np.argmax(total))
    lag = find_lag_peak(
        total,
        _resampled_correlations((products, *powers), weights, total >= _RIVAL_SHARE * total[peak]),
        rate_hz,
        lowest_correlation=_LOWEST_CORRELATION,
        quantiles=_INTERVAL,
    )
    if lag.steps is None and usual_steps is not None:
        peak = int(np.clip(round(usual_steps) + longest, 0, 2 * longest))
    correlations, gains = np.full((2, len(moving)), np.nan)
    correlations[moving] = profile[peak]
    slopes = products[peak].sum(axis=0) / np.maximum((unit_action**2).sum(axis=0), 1e-12)
    gains[moving] = slopes * scale_state / scale_action
    return ActionLagEstimate(
        meaning=meaning,
        lag_steps=lag.steps,
        low_steps=lag.low_steps,
        high_steps=lag.high_steps,
        correlation=lag.correlation,
        correlations=correlations,
        gains=gains,
    )


def _scale_speeds(speeds: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Speeds over their standard deviation, clipped, and that deviation."""
    import numpy as np

    scale = np.maximum(np.sqrt((speeds**2).mean(axis=0)), 1e-12)
    return np.clip(speeds / scale, -_CLIPPED_AT, _CLIPPED_AT), scale


def _block_powers(
    followed: NDArray[np.float64], command: NDArray[np.float64], longest: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two (2 L + 1, B, P): sums of squares of state and action over the steps of each product of a block."""
    import numpy as np

    steps = len(followed)
    edges = block_edges(steps)
    lags = np.arange(-longest, longest + 1)[:, None]
    rows = np.clip(edges, np.maximum(lags, 0), steps + np.minimum(lags, 0))
    sums = [np.cumsum(np.pad(part**2, ((1, 0), (0, 0))), axis=0) for part in (followed, command)]
    return np.diff(sums[0][rows], axis=1), np.diff(sums[1][rows - lags], axis=1)


def _lag_correlations(
    products: NDArray[np.float64], of_state: NDArray[np.float64], of_action: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(2 L + 1, ...) correlations of the steps that overlap at each lag, so that no lag loses by its length.

    At least half of the largest power counts: a few steps that agree by chance decide nothing.
    """
    import numpy as np

    powers = [np.maximum(part, 0.5 * part.max(axis=0)) for part in (of_state, of_action)]
    return np.asarray(products / np.maximum(np.sqrt(powers[0] * powers[1]), 1e-12))


def _resampled_correlations(
    blocks: tuple[NDArray[np.float64], ...], weights: NDArray[np.float64], are_rivals: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """(R, 2 L + 1) weighted correlations with the blocks of the episode drawn again; 0 at lags that are no rivals."""
    import numpy as np

    draws = resample_blocks()
    # One small product per lag: a large one would start the threads of the linear algebra library.
    drawn = (draws @ part[are_rivals][:, :, weights > 0] for part in blocks)
    correlations = np.zeros((len(draws), len(are_rivals)))
    correlations[:, are_rivals] = (np.abs(_lag_correlations(*drawn)) @ weights[weights > 0]).T
    return correlations
