"""Robust statistics of a dataset from compact summaries of its episodes, in bounded memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ares.signals.action_lag import MEANINGS, ActionLagEstimate, estimate_action_lag
from ares.signals.dimension_kinds import (
    CHECKED_KINDS,
    DimensionKind,
    ValueEvidence,
    are_smooth_kinds,
    classify_by_name,
    learn_kinds,
    value_evidence,
)
from ares.signals.plain_arrays import (
    ActionMeaning,
    EpisodeSignals,
    paired_dimensions,
    with_continuous_rotations,
)
from ares.signals.positions import EpisodePositions, TypicalPositions, episode_positions, typical_positions
from ares.signals.turned_dimensions import TurnedDimension, find_turned_dimensions
from ares.signals.turned_responses import TurnedResponses, find_turned_responses
from ares.statistics import DEVIATIONS_PER_MAD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# A dimension that spends so much of its time near two values is a switch.
_SWITCH_SHARE = 0.9
_SWITCH_WIDTH = 0.05


def switch_like(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of the dimensions (T, D) move, but are nearly always near their lowest or their highest value."""
    import numpy as np

    low, span = values.min(axis=0), np.ptp(values, axis=0)
    share = (values - low) / np.where(span > 0, span, 1)
    near = (np.minimum(share, 1 - share) < _SWITCH_WIDTH).mean(axis=0)
    at_both = (share > 1 - _SWITCH_WIDTH).mean(axis=0)
    return np.asarray((span > 0) & (near > _SWITCH_SHARE) & (at_both > 0.02) & (at_both < 0.98))


# Summaries that are kept: a uniform sample of the episodes, so that a median of it is exact to a few per cent.
KEPT_EPISODES = 256
# Fewer steps say nothing of jumps, grids and limits.
FEWEST_STEPS = 16
# What only one of the episodes has is told from what the dataset has, of so many.
FEWEST_COMPARED = 8
# A mixture of commands that explains less is no chance where so many of the episodes have one lag, within so many
# steps.
_SURE_MIXTURE, _SHARE_OF_LAGS, _FEWEST_LAGS, _SAME_LAG = 0.7, 0.8, 5, 1.0
_EARLIEST_MIXTURE = -0.5
# Evidence for kinds compares every two dimensions: not of more than so many.
_MOST_LEARNT = 256
# A dimension moves in an episode where its range is at least this share of the typical range of an arm joint.
_MOVING_SHARE = 0.03
# Angles beyond this, two turns, are degrees.
_LARGEST_RADIANS = 13.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignalSummary:
    """What is kept of one signal of an episode, for each of its D dimensions.

    Attributes:
        low: (D,) smallest value.
        high: (D,) largest value.
        rest: (D,) median.
        speed: (D,) 95th percentile of the absolute change per second.
        noise: (D,) standard deviation of what neighbouring values do not explain, from its median.
        switch: (D,) whether it has only two levels.
        largest_change: (D,) largest absolute change from one step to the next.
        fresh: (D,) share of its changes that follow one at the step before.
        evidence: What the values say of kinds, where a name says nothing; else None.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    rest: NDArray[np.float64]
    speed: NDArray[np.float64]
    noise: NDArray[np.float64]
    switch: NDArray[np.bool_]
    largest_change: NDArray[np.float64]
    fresh: NDArray[np.float64]
    evidence: ValueEvidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpisodeSignalSummary:
    """What is kept of an episode.

    Attributes:
        rank: Hash of its id: the episodes of the lowest ranks are the sample.
        state: Of the state.
        action: Of the action.
        alignments: Lag, correlations and gains for each meaning that the action may have.
        positions: Where it begins, ends and rests.
        jitter: Spread of the periods between stamps, as a share of their median.
    """

    rank: str
    state: SignalSummary
    action: SignalSummary
    alignments: tuple[ActionLagEstimate | None, ...]
    positions: EpisodePositions
    jitter: float


def summarise_signals(signals: EpisodeSignals) -> EpisodeSignalSummary | None:
    """The summary of an episode; None for less than four steps or values that are not finite."""
    import numpy as np

    if len(signals.state) < 4 or not (np.isfinite(signals.state).all() and np.isfinite(signals.action).all()):
        return None
    signals = with_continuous_rotations(signals)
    pairs = paired_dimensions(signals.state_names, signals.action_names)
    ranges = np.ptp(signals.state, axis=0)
    largest = ranges[_arm_dimensions(signals.state_names)].max(initial=0.0)
    bars = np.full(len(pairs), _MOVING_SHARE * float(largest))
    return EpisodeSignalSummary(
        rank=hashlib.blake2b(signals.episode_id.encode(), digest_size=8).hexdigest(),
        state=_summarise_signal(signals.state, signals.state_names, signals.rate_hz),
        action=_summarise_signal(signals.action, signals.action_names, signals.rate_hz),
        alignments=tuple(estimate_action_lag(signals, meaning, bars) for meaning in MEANINGS),
        positions=episode_positions(signals),
        jitter=period_jitter(signals.seconds),
    )


def period_jitter(seconds: NDArray[np.float64]) -> float:
    """Spread of the periods between stamps (T,) as a share of their median, from their median deviation."""
    import numpy as np

    periods = np.diff(seconds)
    usual = float(np.median(periods)) if len(periods) else 0.0
    return DEVIATIONS_PER_MAD * float(np.median(np.abs(periods - usual))) / usual if usual > 0 else 0.0


def _arm_dimensions(names: tuple[str, ...]) -> list[int]:
    """Numbers of the arm joints, or of all dimensions where none is one."""
    kinds = classify_by_name(names)
    return [number for number, kind in enumerate(kinds) if kind in CHECKED_KINDS] or list(range(len(names)))


def _summarise_signal(values: NDArray[np.float64], names: tuple[str, ...], rate_hz: float) -> SignalSummary:
    import numpy as np

    says_little = "unknown" in classify_by_name(names) and len(names) <= _MOST_LEARNT and len(values) > 4
    changes = np.abs(np.diff(values, axis=0))
    return SignalSummary(
        low=values.min(axis=0),
        high=values.max(axis=0),
        rest=np.median(values, axis=0),
        speed=np.quantile(changes, 0.95, axis=0) * rate_hz,
        noise=DEVIATIONS_PER_MAD * np.median(np.abs(cubic_residuals(values)), axis=0),
        switch=switch_like(values),
        largest_change=changes.max(axis=0),
        fresh=fresh_share(changes),
        evidence=value_evidence(values, rate_hz) if says_little else None,
    )


def fresh_share(changes: NDArray[np.float64]) -> NDArray[np.float64]:
    """(D,) share of the changes (T - 1, D) other than 0 that follow one at the step before: near 0 for held values."""
    import numpy as np

    is_change = changes != 0
    counts = is_change.sum(axis=0)
    return np.asarray((is_change[1:] & is_change[:-1]).sum(axis=0) / np.maximum(counts, 1))


def cubic_residuals(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T - 4, D): each value less what the cubic through its four neighbours says; the first is of step 2."""
    around = 4 * (values[1:-3] + values[3:-1]) - values[:-4] - values[4:]
    return values[2:-2] - around / 6 if len(values) > 4 else values[:1] * 0


@dataclass(slots=True, kw_only=True, eq=False)
class DatasetStatistics:
    """Statistics of the episodes of one dataset with the same dimensions.

    Attributes:
        state_names: Names of the state's dimensions.
        action_names: Names of the action's dimensions.
        num_episodes: Episodes that were added.
        rate_hz: Steps per second of the first of them.
        sample: Summaries of at most `KEPT_EPISODES` of them, those of the lowest ranks.
    """

    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    num_episodes: int = 0
    rate_hz: float = 0.0
    sample: list[EpisodeSignalSummary] = field(default_factory=list)

    def add(self, signals: EpisodeSignals) -> None:
        """Count an episode, and keep its summary if it belongs to the sample."""
        self.add_summary(summarise_signals(signals), signals.rate_hz)

    def add_summary(self, summary: EpisodeSignalSummary | None, rate_hz: float) -> None:
        """Count an episode that another process has summarised; None for one that could not be."""
        self.num_episodes += 1
        self.rate_hz = self.rate_hz or rate_hz
        self._keep([summary] if summary is not None else [])

    def merge(self, other: DatasetStatistics) -> None:
        """Add the episodes of another part of the dataset. Raises ValueError for other dimensions."""
        if (self.state_names, self.action_names) != (other.state_names, other.action_names):
            raise ValueError(f"dimensions differ: {self.state_names} and {other.state_names}")
        self.num_episodes += other.num_episodes
        self.rate_hz = self.rate_hz or other.rate_hz
        self._keep(other.sample)

    def _keep(self, summaries: list[EpisodeSignalSummary]) -> None:
        self.sample = sorted([*self.sample, *summaries], key=lambda summary: summary.rank)[:KEPT_EPISODES]

    def typical(self) -> TypicalEpisode | None:
        """The medians over the sample; None where no episode could be summarised."""
        return typical_episode(self) if self.sample else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TypicalSignal:
    """Medians over the episodes, for each of the D dimensions of a signal.

    Attributes:
        range: (D,) median range in an episode.
        least_range: (D,) range that one episode in five stays below.
        low: (D,) smallest value of all.
        high: (D,) largest value of all.
        speed: (D,) median of the fast speeds.
        noise: (D,) median noise.
        largest_change: (D,) change from step to step that only one of the episodes passes; infinite for few episodes.
        fresh: (D,) median share of the changes that follow one at the step before.
        kinds: Kind of each dimension, from names and values together.
        scale: Typical range of an arm joint that moves; 0 where none moves.
    """

    range: NDArray[np.float64]
    least_range: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    speed: NDArray[np.float64]
    noise: NDArray[np.float64]
    largest_change: NDArray[np.float64]
    fresh: NDArray[np.float64]
    kinds: tuple[DimensionKind, ...]
    scale: float

    @property
    def units_per_radian(self) -> float:
        """57.3 where an arm joint has values that are no radians, else 1."""
        import numpy as np

        largest = np.maximum(np.abs(self.low), np.abs(self.high))[are_smooth_kinds(self.kinds)]
        return 180 / np.pi if float(largest.max(initial=0.0)) > _LARGEST_RADIANS else 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TypicalEpisode:
    """What an episode of a dataset is compared with.

    Attributes:
        num_episodes: Episodes that it was learnt from.
        state: Of the state.
        action: Of the action.
        meaning: What the action means; None where the state follows it in neither way.
        lag_steps: Median lag of the episodes that have one; None where none has.
        num_lags: Episodes that have one.
        lag_spread: Spread of the lags between the episodes, in steps.
        correlations: (P,) median over the episodes, NaN where a pair never moves.
        gains: (P,) likewise.
        jitter: Spread of the periods that nine of ten episodes have at least, as a share of their median.
        positions: Where episodes begin and rest.
        turned_dimensions: Dimensions of the state that some episodes have turned, by their places.
        turned_responses: Dimensions that follow commands without names the other way in some episodes, or None.
        grippers: (N, P, 2, 2) commands and openings of the grippers in the episodes of each task.
    """

    num_episodes: int
    state: TypicalSignal
    action: TypicalSignal
    meaning: ActionMeaning | None
    lag_steps: float | None
    num_lags: int
    lag_spread: float
    correlations: NDArray[np.float64]
    gains: NDArray[np.float64]
    jitter: float
    positions: TypicalPositions
    turned_dimensions: tuple[TurnedDimension, ...]
    turned_responses: TurnedResponses | None
    grippers: Mapping[str, NDArray[np.float64]]

    def motion_bars(self, state_names: tuple[str, ...], action_names: tuple[str, ...]) -> NDArray[np.float64]:
        """(P,) range from which a paired dimension of the state counts as moving."""
        import numpy as np

        return np.full(len(paired_dimensions(state_names, action_names)), _MOVING_SHARE * self.state.scale)


def typical_episode(statistics: DatasetStatistics) -> TypicalEpisode:
    """The medians over the sample of the statistics, which must not be empty."""
    import numpy as np

    sample = statistics.sample
    meaning, alignments = _best_action_meaning(sample)
    lags = [alignment.lag_steps for alignment in alignments if alignment.lag_steps is not None]
    layout = (statistics.state_names, statistics.action_names)
    pairs = len(paired_dimensions(*layout))
    state = _typical_signal(statistics.state_names, [summary.state for summary in sample])
    gains = _nan_median([alignment.gains for alignment in alignments], pairs)
    bounds = (
        np.array([summary.state.low for summary in sample]),
        np.array([summary.state.high for summary in sample]),
    )
    positions = [summary.positions for summary in sample]
    return TypicalEpisode(
        num_episodes=len(sample),
        state=state,
        action=_typical_signal(statistics.action_names, [summary.action for summary in sample]),
        meaning=meaning,
        lag_steps=float(np.median(lags)) if lags else None,
        num_lags=len(lags),
        lag_spread=DEVIATIONS_PER_MAD * float(np.median(np.abs(np.array(lags) - np.median(lags))))
        if lags
        else 0.0,
        correlations=_nan_median([alignment.correlations for alignment in alignments], pairs),
        gains=gains,
        jitter=float(np.quantile([summary.jitter for summary in sample], 0.1, method="lower")),
        positions=typical_positions(layout, positions, bounds, gains),
        turned_dimensions=find_turned_dimensions(layout[0], positions, bounds, state.kinds),
        turned_responses=_turned_responses(alignments),
        grippers={
            task: np.array([part.grippers for part in positions if part.task == task])
            for task in {part.task for part in positions}
        },
    )


def _turned_responses(alignments: Sequence[ActionLagEstimate]) -> TurnedResponses | None:
    coupled = [
        (part.responses, part.explained)
        for part in alignments
        if part.responses is not None and part.explained is not None
    ]
    return find_turned_responses([part[0] for part in coupled], [part[1] for part in coupled])


def _best_action_meaning(
    sample: list[EpisodeSignalSummary],
) -> tuple[ActionMeaning | None, list[ActionLagEstimate]]:
    """The meaning under which the state follows the action best, and the alignments under it."""
    import numpy as np

    by_meaning = [
        [summary.alignments[number] for summary in sample if summary.alignments[number] is not None]
        for number in range(len(MEANINGS))
    ]
    aligned = [[alignment for alignment in part if alignment is not None] for part in by_meaning]
    scores = [
        float(np.median([alignment.correlation for alignment in part])) * _lags_agree(part) if part else 0.0
        for part in aligned
    ]
    best = int(np.argmax(scores))
    return (MEANINGS[best], aligned[best]) if scores[best] > 0 else (None, [])


def _lags_agree(part: list[ActionLagEstimate]) -> float:
    """Share of the episodes that have one lag, where a mixture of commands was fitted; 0 where that is chance."""
    import numpy as np

    if part[0].responses is None:
        return 1.0
    lags = np.array([np.nan if alignment.lag_steps is None else alignment.lag_steps for alignment in part])
    share = float((np.abs(lags - np.nanmedian(lags)) <= _SAME_LAG).mean()) if np.isfinite(lags).any() else 0.0
    # A state that comes before a mixture of commands in all episodes does not follow it.
    if np.isfinite(lags).any() and np.nanmedian(lags) < _EARLIEST_MIXTURE:
        return 0.0
    correlation = float(np.median([alignment.correlation for alignment in part]))
    is_sure = correlation >= _SURE_MIXTURE or (share >= _SHARE_OF_LAGS and len(part) >= _FEWEST_LAGS)
    return share if is_sure else 0.0


def _nan_median(rows: list[NDArray[np.float64]], width: int) -> NDArray[np.float64]:
    """(width,) medians of the finite values; NaN where there is none."""
    import numpy as np

    if not rows or not width:
        return np.full(width, np.nan)
    ordered = np.sort(np.array(rows), axis=0)  # NaN comes last
    counts = np.isfinite(ordered).sum(axis=0)
    below, above = np.maximum(counts - 1, 0) // 2, np.minimum(counts // 2, len(rows) - 1)
    columns = np.arange(width)
    return np.asarray((ordered[below, columns] + ordered[above, columns]) / 2)


def _typical_signal(names: tuple[str, ...], summaries: list[SignalSummary]) -> TypicalSignal:
    import numpy as np

    def stacked(value: Callable[[SignalSummary], NDArray[np.float64]]) -> NDArray[np.float64]:
        return np.array([value(summary) for summary in summaries])

    ranges = stacked(lambda summary: summary.high - summary.low)
    switches = np.array([summary.switch for summary in summaries]).mean(axis=0) > 0.5
    typical = np.median(ranges, axis=0)
    low, high = (
        stacked(lambda summary: summary.low).min(axis=0),
        stacked(lambda summary: summary.high).max(axis=0),
    )
    evidence = [summary.evidence for summary in summaries if summary.evidence is not None]
    learnt = learn_kinds(names, evidence, typical, np.maximum(np.abs(low), np.abs(high)), switches)
    kinds = tuple(map(_checked_kind, classify_by_name(names), learnt, switches.tolist()))
    return TypicalSignal(
        range=typical,
        least_range=np.quantile(ranges, 0.2, axis=0),
        low=low,
        high=high,
        speed=np.median(stacked(lambda summary: summary.speed), axis=0),
        noise=np.median(stacked(lambda summary: summary.noise), axis=0),
        largest_change=_second_largest(stacked(lambda summary: summary.largest_change)),
        fresh=np.median(stacked(lambda summary: summary.fresh), axis=0),
        kinds=kinds,
        scale=_arm_scale(typical, kinds),
    )


def _second_largest(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(D,) second largest of the episodes (N, D), so that one with a fault does not count; infinite for few."""
    import numpy as np

    if len(values) < FEWEST_COMPARED:
        return np.full(values.shape[1], np.inf)
    return np.asarray(np.sort(values, axis=0)[-2])


def _checked_kind(named: DimensionKind, learnt: DimensionKind, is_switch: bool) -> DimensionKind:
    """The kind that the checks go by: a quaternion without a name may be that of an object, which jumps."""
    if learnt == "arm" and is_switch:
        return "gripper"
    return "unknown" if learnt == "rotation" and named == "unknown" else learnt


def _arm_scale(ranges: NDArray[np.float64], kinds: tuple[DimensionKind, ...]) -> float:
    """Median range of the arm joints that move: at least a tenth of the one that moves most."""
    import numpy as np

    arms = ranges[are_smooth_kinds(kinds)]
    moving = arms[arms > 0.1 * arms.max()] if len(arms) else arms
    return float(np.median(moving)) if len(moving) else 0.0
