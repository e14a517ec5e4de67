"""Evidence of episodes for the meaning of their signals: a few numbers per dimension, pooled."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.contract.contracts import GroupKind, SignalName
from ares.contract.profiles import SignalProfile, episode_profile, pool_profiles
from ares.signals import EpisodeSignals, classify_by_name, name_tokens, paired_dimensions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionGroup:
    """Dimensions of one signal that mean the same.

    Attributes:
        signal: State or action.
        kind: What they are.
        numbers: Their numbers in the signal.
        names: Their names.
    """

    signal: SignalName
    kind: GroupKind
    numbers: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def words(self) -> frozenset[str]:
        """All words of the names."""
        return frozenset(word for name in self.names for word in name_tokens(name))


@functools.lru_cache(maxsize=256)
def dimension_groups(signal: SignalName, names: tuple[str, ...]) -> tuple[DimensionGroup, ...]:
    """The groups of a signal, in the order of their first dimensions."""
    by_kind: dict[GroupKind, list[int]] = {}
    for number, kind in enumerate(classify_by_name(names)):
        by_kind.setdefault(kind, []).append(number)
    return tuple(
        DimensionGroup(
            signal=signal, kind=kind, numbers=tuple(numbers), names=tuple(names[number] for number in numbers)
        )
        for kind, numbers in by_kind.items()
    )


# Episodes of a dataset whose evidence is pooled: more add nothing.
CONTRACT_EPISODES = 64
# Lags between action and state that are tried, in steps.
LAGS = 13
_SMOOTHED_SECONDS = 0.1
# A long episode says no more than its first steps.
_MAX_STEPS = 2_000
# A command within this share of its range from an end of it is at that end.
_END_SHARE = 0.15
_RESTING_SECONDS = 0.4
# An episode is odd where its values are so many times those of the others, of at least so many.
_OUTLIER_SIZE, _OUTLIER_SHARE, _LEAST_EPISODES = 10.0, 0.2, 6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignalContractEvidence:
    """Of one signal with D dimensions.

    Attributes:
        low: (D,) smallest value.
        high: (D,) largest value.
        start: (D,) first value.
        middle: (D,) median.
        at_unit: (D,) share of the steps that are exactly 1 or -1.
        at_hundred: (D,) share of the steps that are exactly 100 or -100.
        turns: (D,) jumps by more than 5 between two steps, as at the end of a turn in radians.
        norm_error: (D,) median of how far the norm of the four values from this one on is from 1; infinite where
            fewer follow.
        is_whole: (D,) 1 where all values are whole numbers, else 0.
        has_two_values: (D,) 1 where every value is the smallest or the largest, else 0.
        profile: (9, D) how the values are distributed; see `episode_profile`.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    start: NDArray[np.float64]
    middle: NDArray[np.float64]
    at_unit: NDArray[np.float64]
    at_hundred: NDArray[np.float64]
    turns: NDArray[np.float64]
    norm_error: NDArray[np.float64]
    is_whole: NDArray[np.float64]
    has_two_values: NDArray[np.float64]
    profile: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairEvidence:
    """Of P pairs of dimensions, one of the state and one of the action.

    Attributes:
        products: (2, LAGS, P) sums of changes of the state times changes of the action (first) and times the action
            itself (second), for each lag of the state.
        state_power: (P,) sum of the squared changes of the state.
        action_power: (2, P) sum of the squared changes of the action, and of the squared action.
        difference: (P,) median of the absolute difference of state and action.
        ends: (2, 2, P) medians of state (first) and action while the action rests at its low (first) or high end; NaN
            where it does not rest there, and for what is no gripper.
        level_sign: (P,) correlation of state and action.
    """

    products: NDArray[np.float64]
    state_power: NDArray[np.float64]
    action_power: NDArray[np.float64]
    difference: NDArray[np.float64]
    ends: NDArray[np.float64]
    level_sign: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContractEvidence:
    """Of one episode.

    Attributes:
        episode_id: The episode.
        rate_hz: Steps per second.
        state: Of the state.
        action: Of the action.
        pairs: Of the dimensions that belong together; see `pair_dimensions`.
    """

    episode_id: str
    rate_hz: float
    state: SignalContractEvidence
    action: SignalContractEvidence
    pairs: PairEvidence


@functools.lru_cache(maxsize=256)
def pair_dimensions(
    state_names: tuple[str, ...], action_names: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Dimensions (state, action) of one name; in a group without any, those of one place if there are as many."""
    pairs = {action: state for state, action in paired_dimensions(state_names, action_names)}
    states = {group.kind: group for group in dimension_groups("state", state_names)}
    for group in dimension_groups("action", action_names):
        other = states.get(group.kind)
        if other is None or len(other.numbers) != len(group.numbers) or group.kind in ("unknown", "other"):
            continue
        if not any(number in pairs for number in group.numbers):
            pairs.update(zip(group.numbers, other.numbers, strict=True))
    return tuple((state, action) for action, state in sorted(pairs.items()))


def collect_contract_evidence(signals: EpisodeSignals) -> ContractEvidence | None:
    """The evidence of an episode; None for less than four steps or values that are not finite."""
    import numpy as np

    state, action = signals.state[:_MAX_STEPS], signals.action[:_MAX_STEPS]
    if len(state) < 4 or not (np.isfinite(state).all() and np.isfinite(action).all()):
        return None
    pairs = pair_dimensions(signals.state_names, signals.action_names)
    of_state, of_action = state[:, [i for i, _ in pairs]], action[:, [j for _, j in pairs]]
    return ContractEvidence(
        episode_id=signals.episode_id,
        rate_hz=signals.rate_hz,
        state=_signal_evidence(state, signals.rate_hz),
        action=_signal_evidence(action, signals.rate_hz),
        pairs=_pair_evidence(
            of_state, of_action, signals.rate_hz, _gripper_pairs(signals.action_names, pairs)
        ),
    )


def _gripper_pairs(action_names: tuple[str, ...], pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Numbers of the pairs whose action is a gripper."""
    kinds = classify_by_name(action_names)
    return [number for number, (_, action) in enumerate(pairs) if kinds[action] == "gripper"]


def _signal_evidence(values: NDArray[np.float64], rate_hz: float) -> SignalContractEvidence:
    import numpy as np

    size = np.abs(values)
    return SignalContractEvidence(
        low=values.min(axis=0),
        high=values.max(axis=0),
        start=values[0],
        middle=np.median(values, axis=0),
        at_unit=(size == 1).mean(axis=0),
        at_hundred=(size == 100).mean(axis=0),
        turns=(np.abs(np.diff(values, axis=0)) > 5).sum(axis=0).astype(float),
        norm_error=_norm_errors(values),
        is_whole=(values == np.round(values)).all(axis=0).astype(float),
        has_two_values=((values == values.min(axis=0)) | (values == values.max(axis=0)))
        .all(axis=0)
        .astype(float),
        profile=episode_profile(values, rate_hz),
    )


def _norm_errors(values: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    errors = np.full(values.shape[1], np.inf)
    if values.shape[1] >= 4:
        windows = np.lib.stride_tricks.sliding_window_view(values, 4, axis=1)
        errors[: windows.shape[1]] = np.median(np.abs(np.linalg.norm(windows, axis=2) - 1), axis=0)
    return errors


def _pair_evidence(
    state: NDArray[np.float64], action: NDArray[np.float64], rate_hz: float, grippers: Sequence[int]
) -> PairEvidence:
    import numpy as np

    window = max(1, min(round(_SMOOTHED_SECONDS * rate_hz), len(state) // 4))
    followed = _moving_average(np.diff(state, axis=0), window)
    commands = np.stack(
        [_moving_average(np.diff(action, axis=0), window), _moving_average(action[:-1], window)]
    )
    return PairEvidence(
        products=_lagged_products(followed, commands),
        state_power=(followed**2).sum(axis=0),
        action_power=(commands**2).sum(axis=1),
        difference=np.median(np.abs(state - action), axis=0) if state.shape[1] else np.zeros(0),
        ends=_levels_at_ends(state, action, max(1, round(_RESTING_SECONDS * rate_hz)), grippers),
        level_sign=_correlation_by_dimension(state, action),
    )


def _moving_average(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    import numpy as np

    sums = np.cumsum(np.pad(values, ((1, 0), (0, 0))), axis=0)
    return np.asarray((sums[window:] - sums[:-window]) / window)


def _lagged_products(followed: NDArray[np.float64], commands: NDArray[np.float64]) -> NDArray[np.float64]:
    """(2, LAGS, P) sums of state(t) x action(t - lag)."""
    import numpy as np

    products = np.zeros((2, LAGS, followed.shape[1]))
    for lag in range(min(LAGS, len(followed))):
        products[:, lag] = (followed[lag:] * commands[:, : len(followed) - lag]).sum(axis=1)
    return products


def _levels_at_ends(
    state: NDArray[np.float64], action: NDArray[np.float64], rest_steps: int, grippers: Sequence[int]
) -> NDArray[np.float64]:
    """(2, 2, P): see `PairEvidence.ends`. The action rests where it was at that end already so many steps before."""
    import numpy as np

    low, span = action.min(axis=0), np.ptp(action, axis=0)
    share = (action - low) / np.where(span > 0, span, 1)
    levels = np.full((2, 2, action.shape[1]), np.nan)
    for number in (number for number in grippers if span[number] > 0):
        for end, is_at_end in enumerate((share[:, number] < _END_SHARE, share[:, number] > 1 - _END_SHARE)):
            is_resting = is_at_end.copy()
            is_resting[:rest_steps] = False
            is_resting[rest_steps:] &= is_at_end[:-rest_steps]
            if is_resting.any():
                levels[0, end, number] = np.median(state[is_resting, number])
                levels[1, end, number] = np.median(action[is_resting, number])
    return levels


def _correlation_by_dimension(state: NDArray[np.float64], action: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    first, second = state - state.mean(axis=0), action - action.mean(axis=0)
    power = np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0))
    return np.asarray((first * second).sum(axis=0) / np.where(power > 0, power, 1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PooledSignal:
    """Of one signal with D dimensions, over N episodes; see `SignalContractEvidence`.

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
        is_whole: (D,) share of the episodes in which all values are whole numbers.
        has_two_values: (D,) share of the episodes in which it has at most two values.
        profile: How the values are distributed.
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
    is_whole: NDArray[np.float64]
    has_two_values: NDArray[np.float64]
    profile: SignalProfile


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
class PooledContractEvidence:
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


def are_outlier_episodes(
    episodes: Sequence[ContractEvidence], groups: Sequence[DimensionGroup]
) -> NDArray[np.bool_]:
    """(N,): whether an episode has values far beyond those of all others; never of few, nor of a fifth of them."""
    import numpy as np

    is_outlier = np.zeros(len(episodes), bool)
    for group in groups if len(episodes) >= _LEAST_EPISODES else ():
        parts = [episode.state if group.signal == "state" else episode.action for episode in episodes]
        numbers = list(group.numbers)
        sizes = np.array([np.maximum(np.abs(part.low), np.abs(part.high))[numbers].max() for part in parts])
        is_beyond = sizes > _OUTLIER_SIZE * np.median(sizes)
        if np.median(sizes) > 0 and is_beyond.mean() < _OUTLIER_SHARE:
            is_outlier |= is_beyond
    return is_outlier


def pool_contract_evidence(episodes: Sequence[ContractEvidence]) -> PooledContractEvidence:
    """The evidence of at least one episode, pooled."""
    return PooledContractEvidence(
        rate_hz=episodes[0].rate_hz,
        state=_pool_signal([episode.state for episode in episodes]),
        action=_pool_signal([episode.action for episode in episodes]),
        pairs=_pool_pairs(episodes),
    )


def _pool_signal(episodes: Sequence[SignalContractEvidence]) -> PooledSignal:
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
        is_whole=stacked("is_whole").mean(axis=0),
        has_two_values=stacked("has_two_values").mean(axis=0),
        profile=pool_profiles([episode.profile for episode in episodes]),
    )


def _pool_pairs(episodes: Sequence[ContractEvidence]) -> PooledPairs:
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
