"""All checks of the signals of one episode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ares.checks.codes import (
    CHATTER,
    CLOCK_JITTER,
    DEAD_CHANNEL,
    NOT_FINITE,
    OFFSET,
    SPIKE,
)
from ares.checks.conventions import check_conventions, check_joint_unit
from ares.checks.finding import QualityFinding, finding_confidence, make_finding
from ares.checks.jumps import check_jumps
from ares.checks.readings import (
    check_clock_values,
    check_levels,
    check_repeats,
    check_single_values,
    check_still,
    check_unusual_steps,
    merge_stale,
)
from ares.checks.record import check_single_episode
from ares.checks.state_response import EpisodeActionLag, check_state_against_action
from ares.checks.step_timing import check_rate, check_step_timing
from ares.checks.values import check_state_values
from ares.console import count_of
from ares.signals import (
    EpisodeSignals,
    TypicalEpisode,
    period_jitter,
    with_continuous_rotations,
)

# Periods spread by this share of the period, and so many times as much as usual; or by this share whatever is usual.
_JITTER_SHARE, _JITTER_FACTOR, _LARGEST_JITTER = 0.1, 4.0, 0.15


# Euler angles within this share of a quarter turn jump without a motion, so many steps around.
_SINGULAR_SHARE, _SINGULAR_STEPS = 0.25, 8
_OF_ANGLES = frozenset(check.code for check in (SPIKE, CHATTER, OFFSET))


def _check_jitter(signals: EpisodeSignals, typical: TypicalEpisode) -> Iterator[QualityFinding]:
    """A021, against the other episodes."""
    bar = min(max(_JITTER_SHARE, _JITTER_FACTOR * typical.jitter), _LARGEST_JITTER)
    jitter = period_jitter(signals.seconds)
    if jitter >= bar:
        yield make_finding(CLOCK_JITTER, "clock", "", 0.0, jitter, finding_confidence(jitter, bar))


def _is_at_singularity(signals: EpisodeSignals, typical: TypicalEpisode, finding: QualityFinding) -> bool:
    """Whether a jump or an alternation is of Euler angles whose middle one is near a quarter turn.

    There the outer two jump, and the rotation does not. The state says where an action of the same name is, too.
    """
    import numpy as np

    names, quarter = signals.state_names, np.pi / 2 * typical.state.units_per_radian
    if finding.code not in _OF_ANGLES or finding.dimension not in names:
        return False
    number = first = names.index(finding.dimension)
    while first and typical.state.kinds[first - 1] == "rotation":
        first -= 1
    part = (number - first) % 3
    if typical.state.kinds[number] != "rotation" or part == 1 or number - part + 1 >= len(names):
        return False
    row = int(np.abs(signals.seconds - finding.seconds).argmin())
    near = np.abs(signals.state[max(0, row - _SINGULAR_STEPS) : row + _SINGULAR_STEPS + 1, number - part + 1])
    return bool((np.abs(near - quarter) < _SINGULAR_SHARE * quarter).any())


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeCheck:
    """What the checks say of one episode.

    Attributes:
        findings: What they found.
        lag: Lag of the state behind the action.
    """

    findings: tuple[QualityFinding, ...]
    lag: EpisodeActionLag


def check_signals(signals: EpisodeSignals, typical: TypicalEpisode | None) -> EpisodeCheck:
    """Run every check; without a typical episode, or with values that are not finite, only those that need neither.

    Raises ValueError when `typical` is of other dimensions.
    """
    single, unknown = check_single_episode(signals), EpisodeActionLag(steps=None, could_say=False)
    if typical is None or any(finding.code == NOT_FINITE.code for finding in single):
        return EpisodeCheck(findings=single, lag=unknown)
    if len(typical.state.range) != signals.state.shape[1]:
        raise ValueError(
            f"statistics of {count_of(len(typical.state.range), 'dimension')}, not {signals.state.shape[1]}"
        )
    jitter = tuple(_check_jitter(signals, typical))
    if not (signals.state_names or signals.action_names):  # of videos alone only the clock can be checked
        return EpisodeCheck(findings=(*check_rate(signals), *single, *jitter), lag=unknown)
    signals = with_continuous_rotations(signals)
    unit = tuple(check_joint_unit(signals, typical.state, typical.num_episodes))
    if unit:  # every other size would be wrong by the factor
        return EpisodeCheck(findings=(*unit, *single), lag=unknown)
    is_still = any(finding.code == DEAD_CHANNEL.code and finding.signal == "state" for finding in single)
    still = () if is_still else tuple(check_still(signals, typical.state))
    if is_still or still:  # nothing else can be said of a robot that never moves
        return EpisodeCheck(findings=(*still, *single), lag=unknown)
    lag, commanded = check_state_against_action(signals, typical)
    values = (*check_state_values(signals, typical), *check_jumps(signals, typical.state))
    values = (*values, *check_repeats(signals, typical.state), *check_step_timing(signals, typical.state))
    values = (
        *values,
        *check_levels(signals, typical, values),
        *check_single_values(signals, typical, values),
    )
    values = (
        *values,
        *check_clock_values(signals, typical.state),
        *check_unusual_steps(signals, typical, values),
    )
    values = tuple(finding for finding in values if not _is_at_singularity(signals, typical, finding))
    merged = merge_stale(values, signals, typical.state)
    findings = (*merged, *commanded, *single, *jitter, *check_conventions(signals, typical))
    return EpisodeCheck(findings=findings, lag=lag)
