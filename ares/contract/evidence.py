"""What is kept of an episode to infer what its signals mean: ranges, and how the state follows the action."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.contract.contracts import GroupKind, SignalName
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


# Episodes of a dataset from which its contract is inferred: more add nothing.
CONTRACT_EPISODES = 64
# Lags between action and state that are tried, in steps.
LAGS = 13
_SMOOTHED_SECONDS = 0.1
# A long episode says no more than its first steps.
_MAX_STEPS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignalRanges:
    """Of one signal with D dimensions.

    Attributes:
        low: (D,) smallest value.
        high: (D,) largest value.
        is_two_valued: (D,) whether every value is the smallest or the largest.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    is_two_valued: NDArray[np.bool_]

    @property
    def size(self) -> NDArray[np.float64]:
        """(D,) largest absolute value."""
        import numpy as np

        return np.maximum(np.abs(self.low), np.abs(self.high))

    def select(self, numbers: tuple[int, ...]) -> SignalRanges:
        """Of some of the dimensions."""
        columns = list(numbers)
        return SignalRanges(
            low=self.low[columns], high=self.high[columns], is_two_valued=self.is_two_valued[columns]
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContractEvidence:
    """Of one episode, with P pairs of dimensions that belong together; see `pair_dimensions`.

    Attributes:
        episode_id: The episode.
        rate_hz: Steps per second.
        state: Of the state.
        action: Of the action.
        products: (2, LAGS, P) sums of changes of the state times changes of the action (first) and times the action
            itself (second), for each lag of the state.
        state_power: (P,) sum of the squared changes of the state.
        action_power: (2, P) sum of the squared changes of the action, and of the squared action.
    """

    episode_id: str
    rate_hz: float
    state: SignalRanges
    action: SignalRanges
    products: NDArray[np.float64]
    state_power: NDArray[np.float64]
    action_power: NDArray[np.float64]


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
    followers, leaders = state[:, [i for i, _ in pairs]], action[:, [j for _, j in pairs]]
    window = max(1, min(round(_SMOOTHED_SECONDS * signals.rate_hz), len(state) // 4))
    moves = _moving_average(np.diff(followers, axis=0), window)
    commands = np.stack(
        [_moving_average(np.diff(leaders, axis=0), window), _moving_average(leaders[:-1], window)]
    )
    return ContractEvidence(
        episode_id=signals.episode_id,
        rate_hz=signals.rate_hz,
        state=_signal_ranges(state),
        action=_signal_ranges(action),
        products=_lagged_products(moves, commands),
        state_power=(moves**2).sum(axis=0),
        action_power=(commands**2).sum(axis=1),
    )


def _signal_ranges(values: NDArray[np.float64]) -> SignalRanges:
    low, high = values.min(axis=0), values.max(axis=0)
    return SignalRanges(low=low, high=high, is_two_valued=((values == low) | (values == high)).all(axis=0))


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
