"""Checks of the state against the action that commands it: lag, sign, gain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ares.checks.codes import (
    ACTION_LAG,
    GAIN,
    SIGN_FLIP,
    TURNED,
)
from ares.checks.finding import QualityFinding, finding_confidence, findings_of, make_finding
from ares.signals import (
    ActionLagEstimate,
    EpisodeSignals,
    TypicalEpisode,
    are_smooth_kinds,
    estimate_action_lag,
    paired_dimensions,
)

# A lag is unlike that of the other episodes by at least so much, and beyond its interval.
_LAG_SECONDS = 0.1

_LAG_STEPS = 0.65

# Where the lags of the other episodes differ little, a difference of so many of their spreads is enough.
_LAG_SPREADS, _LEAST_LAG_SPREAD = 6.0, 0.4

# A state that comes so many steps before its command is one of no robot.
_EARLIEST_STEPS = -0.9

# Where the interval is too wide for a lag, its nearer end differs: of signals that agree so well, with so many others.
_SURE_CORRELATION, _FEWEST_LAGS = 0.8, 3

# Without other episodes: a state that comes before its command, or later than this.
_LATEST_SECONDS = 0.6

_FLIPPED = 0.6

# A joint that moves by less of the usual range says nothing of sign and gain: the first step of a controller decides.
_LEAST_RANGE = 0.1

_GAIN_FACTOR = 1.6

_GAIN_CORRELATION = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeActionLag:
    """The lag of an episode in steps, or why there is none: counted by the report.

    Attributes:
        steps: Steps by which the state follows the action; None for "unknown".
        low_steps: Lower end of the 90 % interval.
        high_steps: Its upper end.
        could_say: Whether state and action have paired dimensions that move.
    """

    steps: float | None
    low_steps: float = 0.0
    high_steps: float = 0.0
    could_say: bool = True


def check_state_against_action(
    signals: EpisodeSignals, typical: TypicalEpisode
) -> tuple[EpisodeActionLag, tuple[QualityFinding, ...]]:
    """A012, A013, A014 and A022 without named commands, and the lag of the episode."""
    bars = typical.motion_bars(signals.state_names, signals.action_names)
    usual = typical.lag_steps if typical.num_lags >= _FEWEST_LAGS else None
    aligned = estimate_action_lag(signals, typical.meaning, bars, usual) if typical.meaning else None
    if aligned is None:
        return EpisodeActionLag(steps=None, could_say=False), ()
    lag = EpisodeActionLag(
        steps=aligned.lag_steps, low_steps=aligned.low_steps, high_steps=aligned.high_steps
    )
    findings = (
        *_check_lag(signals, aligned, typical),
        *_check_pairs(signals, aligned, typical),
        *_check_responses(signals, aligned, typical),
    )
    return lag, findings


def _check_lag(
    signals: EpisodeSignals, aligned: ActionLagEstimate, typical: TypicalEpisode
) -> Iterator[QualityFinding]:
    """Against the median of the dataset; a median that no robot can have is a finding in every episode."""
    if typical.lag_steps is None:
        return
    lag_steps = aligned.lag_steps
    if lag_steps is None:
        lag_steps = min(max(typical.lag_steps, aligned.low_steps), aligned.high_steps)
        if aligned.correlation < _SURE_CORRELATION or typical.num_lags < _FEWEST_LAGS:
            return
    seconds, usual = lag_steps / signals.rate_hz, typical.lag_steps / signals.rate_hz
    # A state comes before its command in no robot, be it in one episode or in all of them.
    is_early = lag_steps < _EARLIEST_STEPS and aligned.high_steps < _EARLIEST_STEPS / 2
    if is_early or usual > _LATEST_SECONDS:
        usual = 0.0
    spread = _LAG_SPREADS * max(typical.lag_spread, _LEAST_LAG_SPREAD) / signals.rate_hz
    bar = 0.0 if is_early else max(min(_LAG_SECONDS, spread), _LAG_STEPS / signals.rate_hz)
    nearest = min(max(typical.lag_steps, aligned.low_steps), aligned.high_steps) / signals.rate_hz
    is_certain = abs(nearest - usual) > 0.5 * bar or usual == 0.0
    if abs(seconds - usual) >= bar and is_certain:
        confidence = finding_confidence(abs(seconds - usual), bar)
        yield make_finding(ACTION_LAG, "action", size=seconds, confidence=confidence)


def _check_pairs(
    signals: EpisodeSignals, aligned: ActionLagEstimate, typical: TypicalEpisode
) -> Iterator[QualityFinding]:
    """Sign and gain of each pair: the sign at the usual lag where that of the episode is unknown, the gain never."""
    import numpy as np

    pairs = paired_dimensions(signals.state_names, signals.action_names)
    is_known = aligned.lag_steps is not None
    if not pairs or not (is_known or typical.num_lags >= _FEWEST_LAGS):
        return
    names = tuple(signals.action_names[command] for _, command in pairs)
    ranges = np.ptp(signals.state, axis=0)[[number for number, _ in pairs]]
    arms = are_smooth_kinds([typical.state.kinds[number] for number, _ in pairs])
    arms &= ranges > _LEAST_RANGE * typical.state.scale
    zeros, unit = np.zeros(len(pairs)), np.ones(len(pairs))
    flipped = np.where(arms, -aligned.correlations, np.nan)
    yield from findings_of(SIGN_FLIP, "action", names, flipped, _FLIPPED * unit, zeros)
    known = (typical.gains != 0) & (aligned.gains != 0)
    factor = np.abs(aligned.gains / np.where(known, typical.gains, np.nan))
    says = (
        arms
        & is_known
        & (aligned.correlations > _GAIN_CORRELATION)
        & (typical.correlations > _GAIN_CORRELATION)
    )
    larger = np.where(says, np.maximum(factor, 1 / factor), np.nan)
    yield from findings_of(GAIN, "action", names, larger, _GAIN_FACTOR * unit, zeros)


def _check_responses(
    signals: EpisodeSignals, aligned: ActionLagEstimate, typical: TypicalEpisode
) -> Iterator[QualityFinding]:
    """A022 of dimensions that follow the commands the other way than in most episodes."""
    if typical.turned_responses is None or aligned.responses is None:
        return
    from ares.signals import dimensions_against_commands

    for number in dimensions_against_commands(typical.turned_responses, aligned.responses):
        size = 1 - float(typical.turned_responses.share[number])
        name, confidence = signals.state_names[number], finding_confidence(size, 0.5)
        yield make_finding(TURNED, "state", name, size=size, confidence=confidence)
