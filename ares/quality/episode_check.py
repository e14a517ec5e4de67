"""Runs every check on one episode, against what is typical of its dataset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ares.quality.command_checks import EpisodeLag, check_commands, check_unit
from ares.quality.finding import QualityFinding
from ares.quality.jump_checks import check_jumps
from ares.quality.record import check_action_limits, check_clock, check_finite
from ares.quality.signals import EpisodeSignals, with_continuous_rotations
from ares.quality.statistics import TypicalEpisode
from ares.quality.time_checks import check_time
from ares.quality.value_checks import check_values


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeCheck:
    """What the checks say of one episode.

    Attributes:
        findings: What they found.
        lag: Lag of the state behind the action.
    """

    findings: tuple[QualityFinding, ...]
    lag: EpisodeLag


def check_signals(signals: EpisodeSignals, typical: TypicalEpisode | None) -> EpisodeCheck:
    """Run every check; without a typical episode, or with values that are not finite, only those that need neither.

    Raises ValueError when `typical` is of other dimensions.
    """
    unknown = EpisodeLag(steps=None, could_say=False)
    clock, not_finite = tuple(check_clock(signals.seconds)), tuple(_not_finite(signals))
    if not_finite or typical is None:
        return EpisodeCheck(findings=(*not_finite, *clock), lag=unknown)
    if len(typical.state.range) != signals.state.shape[1]:
        raise ValueError(f"statistics of {len(typical.state.range)} dimensions, not {signals.state.shape[1]}")
    signals = with_continuous_rotations(signals)
    unit = tuple(check_unit(signals, typical.state))
    if unit:  # every other size would be wrong by the factor
        return EpisodeCheck(findings=(*unit, *clock), lag=unknown)
    lag, commanded = check_commands(signals, typical)
    findings = (
        *check_values(signals, typical),
        *check_action_limits(signals.action, signals.action_names, signals.seconds),
        *check_jumps(signals, typical.state),
        *commanded,
        *clock,
        *check_time(signals, typical.state),
    )
    return EpisodeCheck(findings=findings, lag=lag)


def _not_finite(signals: EpisodeSignals) -> Iterator[QualityFinding]:
    yield from check_finite("state", signals.state, signals.state_names, signals.seconds)
    yield from check_finite("action", signals.action, signals.action_names, signals.seconds)
