"""Evidence of the episodes of a dataset, pooled per dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.quality.contract.inference.evidence import EpisodeEvidence, SignalEvidence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PooledSignal:
    """Of one signal with D dimensions, over N episodes; see `SignalEvidence`.

    Attributes:
        low: (D,) smallest value of all.
        high: (D,) largest value of all.
        range: (D,) median range in an episode.
        sizes: (N, D) largest absolute values.
        starts: (N, D) first values.
        middle: (D,) median of the medians.
        at_unit: (D,) share of the steps that are exactly 1 or -1.
        at_hundred: (D,) share of the steps that are exactly 100 or -100.
        turns: (D,) number of jumps by a whole turn.
        norm_error: (D,) median over the episodes.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    range: NDArray[np.float64]
    sizes: NDArray[np.float64]
    starts: NDArray[np.float64]
    middle: NDArray[np.float64]
    at_unit: NDArray[np.float64]
    at_hundred: NDArray[np.float64]
    turns: NDArray[np.float64]
    norm_error: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PooledPairs:
    """Of P pairs of dimensions; see `PairEvidence`.

    Attributes:
        correlations: (2, LAGS, P) of the changes of the state with those of the action, and with the action itself.
        gains: (2, LAGS, P) change of the state per change of the action, and per action.
        difference: (P,) median difference of state and action.
        ends: (N, 2, 2, P) levels of state and action while the action rests at its low or high end.
        level_sign: (P,) median correlation of state and action.
    """

    correlations: NDArray[np.float64]
    gains: NDArray[np.float64]
    difference: NDArray[np.float64]
    ends: NDArray[np.float64]
    level_sign: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PooledEvidence:
    """Of a dataset.

    Attributes:
        rate_hz: Steps per second of its first episode.
        state: Of the state.
        action: Of the action.
        pairs: Of the pairs.
    """

    rate_hz: float
    state: PooledSignal
    action: PooledSignal
    pairs: PooledPairs


def pool_evidence(episodes: Sequence[EpisodeEvidence]) -> PooledEvidence:
    """The evidence of at least one episode, pooled."""
    return PooledEvidence(
        rate_hz=episodes[0].rate_hz,
        state=_pool_signal([episode.state for episode in episodes]),
        action=_pool_signal([episode.action for episode in episodes]),
        pairs=_pool_pairs(episodes),
    )


def _pool_signal(episodes: Sequence[SignalEvidence]) -> PooledSignal:
    import numpy as np

    def stacked(name: str) -> NDArray[np.float64]:
        return np.array([getattr(episode, name) for episode in episodes])

    low, high = stacked("low"), stacked("high")
    return PooledSignal(
        low=low.min(axis=0),
        high=high.max(axis=0),
        range=np.median(high - low, axis=0),
        sizes=np.maximum(np.abs(low), np.abs(high)),
        starts=stacked("start"),
        middle=np.median(stacked("middle"), axis=0),
        at_unit=stacked("at_unit").mean(axis=0),
        at_hundred=stacked("at_hundred").mean(axis=0),
        turns=stacked("turns").sum(axis=0),
        norm_error=np.median(stacked("norm_error"), axis=0),
    )


def _pool_pairs(episodes: Sequence[EpisodeEvidence]) -> PooledPairs:
    import numpy as np

    pairs = [episode.pairs for episode in episodes]
    products = np.sum([pair.products for pair in pairs], axis=0)
    state_power = np.sum([pair.state_power for pair in pairs], axis=0)
    action_power = np.sum([pair.action_power for pair in pairs], axis=0)[:, None]
    power = np.sqrt(state_power * action_power)
    return PooledPairs(
        correlations=products / np.where(power > 0, power, 1),
        gains=products / np.where(action_power > 0, action_power, 1),
        difference=np.median([pair.difference for pair in pairs], axis=0),
        ends=np.array([pair.ends for pair in pairs]),
        level_sign=np.median([pair.level_sign for pair in pairs], axis=0),
    )
