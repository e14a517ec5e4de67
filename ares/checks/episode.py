"""Runs every check on the signals of one episode, those of time and of state against command included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.checks.codes import (
    ACTION_LAG,
    CHATTER,
    CLOCK_JITTER,
    CLOCK_RATE,
    DEAD_CHANNEL,
    DRIFT,
    DROPPED_STEPS,
    GAIN,
    IDLE_END,
    IDLE_START,
    NOT_FINITE,
    OFFSET,
    REPEATED_STEPS,
    SIGN_FLIP,
    SPIKE,
    TURNED,
)
from ares.checks.conventions import check_conventions, check_joint_unit
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
from ares.checks.record import (
    QualityFinding,
    check_single_episode,
    finding_confidence,
    findings_of,
    make_finding,
)
from ares.checks.values import check_state_values
from ares.console import count_of
from ares.signals import (
    ActionLagEstimate,
    EpisodeSignals,
    TypicalEpisode,
    TypicalSignal,
    are_smooth_kinds,
    estimate_action_lag,
    find_equal_steps,
    paired_dimensions,
    period_jitter,
    with_continuous_rotations,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_IDLE_SECONDS = 2.0
# A dimension has left its first or last value from this share of its typical range on.
_LEFT_SHARE = 0.03
# Steps are missing where the dimensions that move jump together, by so much more than the speeds beside it say.
_DROP_EXCESS = 0.7
_DROP_FACTOR = 1.5
_DROP_SHARE = 0.5
_FEWEST_JUMPING = 3
_DROP_AGREES = 0.75
# A command that moves goes on evenly where its change is below so many times those beside it.
_EVEN_FACTOR = 1.3
# Two are enough where they jump by so many times the steps beside it.
_STRONG_FACTOR, _FEWEST_STRONG = 4.0, 2
# Steps are repeated for at least so long, between changes of this share of the usual ones.
_REPEATED_SECONDS = 0.1
_FEWEST_REPEATED = 2
_REPEATED_SPEED = 0.2
_RATE_TOLERANCE = 0.05
# Periods spread by this share of the period, and so many times as much as usual; or by this share whatever is usual.
_JITTER_SHARE, _JITTER_FACTOR, _LARGEST_JITTER = 0.1, 4.0, 0.15


# Euler angles within this share of a quarter turn jump without a motion, so many steps around.
_SINGULAR_SHARE, _SINGULAR_STEPS = 0.25, 8
_OF_ANGLES = frozenset(check.code for check in (SPIKE, CHATTER, OFFSET))


def check_step_timing(signals: EpisodeSignals, typical: TypicalSignal) -> Iterator[QualityFinding]:
    """A010, A011, A016 of the values, A017 and A018."""
    yield from _check_rate(signals)
    if len(signals.state) < 10:
        return
    if signals.state.shape[1] and typical.scale:
        yield from _check_idle(signals, typical)
        yield from _check_dropped(signals, typical)
        yield from _check_repeated(signals)


def _check_rate(signals: EpisodeSignals) -> Iterator[QualityFinding]:
    claimed, measured = signals.claimed_rate_hz, signals.measured_rate_hz
    if claimed and measured and abs(measured / claimed - 1) > _RATE_TOLERANCE:
        difference = abs(measured - claimed)
        confidence = finding_confidence(difference / claimed, _RATE_TOLERANCE)
        yield make_finding(CLOCK_RATE, "clock", "", 0.0, measured - claimed, confidence)


def _check_jitter(signals: EpisodeSignals, typical: TypicalEpisode) -> Iterator[QualityFinding]:
    """A021, against the other episodes."""
    bar = min(max(_JITTER_SHARE, _JITTER_FACTOR * typical.jitter), _LARGEST_JITTER)
    jitter = period_jitter(signals.seconds)
    if jitter >= bar:
        yield make_finding(CLOCK_JITTER, "clock", "", 0.0, jitter, finding_confidence(jitter, bar))


def count_idle_steps(values: NDArray[np.float64], typical: TypicalSignal) -> tuple[int, int]:
    """How many steps of a signal (T, D) stand still at the start and at the end: T and T where it never moves."""
    import numpy as np

    bars = np.maximum(_LEFT_SHARE * np.maximum(typical.range, 0.3 * typical.scale), 6 * typical.noise)

    def count(value: NDArray[np.float64], direction: int) -> int:
        has_left = np.any(np.abs(values - value) > bars, axis=1)[::direction]
        return int(has_left.argmax()) if has_left.any() else len(has_left)

    return count(values[0], 1), count(values[-1], -1)


def _check_idle(signals: EpisodeSignals, typical: TypicalSignal) -> Iterator[QualityFinding]:
    """Seconds until the first dimension leaves its first value, and since the last came to its last."""
    for check, steps in zip((IDLE_START, IDLE_END), count_idle_steps(signals.state, typical), strict=True):
        if steps / signals.rate_hz >= _IDLE_SECONDS:
            first = 0 if check is IDLE_START else len(signals.state) - steps
            seconds = steps / signals.rate_hz
            confidence = finding_confidence(seconds, _IDLE_SECONDS)
            yield make_finding(check, "state", "", signals.seconds[first], seconds, confidence)


def _check_dropped(signals: EpisodeSignals, typical: TypicalSignal) -> Iterator[QualityFinding]:
    """Most of the dimensions that move there jump at once; one that jumps alone is a switch or a spike."""
    import numpy as np

    arms = are_smooth_kinds(typical.kinds)
    changes = np.diff(signals.state[:, arms], axis=0)
    expected = (4 * (changes[1:-3] + changes[3:-1]) - changes[:-4] - changes[4:]) / 6
    excess = np.abs(changes[2:-2] - expected)
    moves = np.abs(changes[2:-2]) > np.maximum(6 * typical.noise[arms], 0.004 * typical.scale)
    beside = np.maximum(np.abs(changes[1:-3]), np.abs(changes[3:-1]))
    jumps = (
        moves & (excess > _DROP_EXCESS * np.abs(expected)) & (np.abs(changes[2:-2]) > _DROP_FACTOR * beside)
    )
    share = jumps.sum(axis=1) / np.maximum(moves.sum(axis=1), 1)
    strong = (jumps & (np.abs(changes[2:-2]) > _STRONG_FACTOR * beside)).sum(axis=1)
    is_enough = (jumps.sum(axis=1) >= _FEWEST_JUMPING) | (strong >= _FEWEST_STRONG)
    # What is missing goes on as it went before; a simulation that sets its robot elsewhere jumps anywhere.
    agrees = jumps & (np.sign(changes[2:-2]) == np.sign(expected))
    goes_on = agrees.sum(axis=1) >= _DROP_AGREES * jumps.sum(axis=1)
    goes_on &= _commands_jump(signals, np.flatnonzero(arms), jumps)
    is_drop = (share >= _DROP_SHARE) & is_enough & goes_on
    if is_drop.any():
        ratio = excess.sum(axis=1) / np.maximum(np.abs(expected).sum(axis=1), 1e-12)
        worst = int(np.where(is_drop, ratio, 0).argmax())
        confidence = finding_confidence(float(ratio[worst]), _DROP_EXCESS)
        lost = min(ratio[worst], len(share)) / signals.rate_hz
        yield make_finding(DROPPED_STEPS, "state", "", signals.seconds[worst + 2], lost, confidence)


def _commands_jump(
    signals: EpisodeSignals, numbers: NDArray[np.intp], jumps: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """(T - 5,) whether the commands of the dimensions that jump do so too: a step that is missing has lost both.

    Args:
        signals: The episode.
        numbers: (J,) dimensions of the state.
        jumps: (T - 5, J) where they jump.
    """
    import numpy as np

    commands = dict(paired_dimensions(signals.state_names, signals.action_names))
    paired = [index for index, number in enumerate(numbers.tolist()) if number in commands]
    if not paired:
        return np.ones(len(jumps), dtype=bool)
    changes = np.abs(np.diff(signals.action[:, [commands[int(numbers[index])] for index in paired]], axis=0))
    beside = np.maximum(changes[1:-3], changes[3:-1])
    usual = np.median(changes, axis=0)
    even = (changes[2:-2] < _EVEN_FACTOR * beside) & (changes[2:-2] > usual)
    counts = (jumps[:, paired] & even).sum(axis=1)
    return np.asarray(counts <= 0.5 * jumps[:, paired].sum(axis=1))


def _check_repeated(signals: EpisodeSignals) -> Iterator[QualityFinding]:
    """Runs of equal rows with motion on both sides; a robot that rests slows down before and starts slowly."""
    import numpy as np

    rows = np.concatenate([signals.state, signals.action], axis=1)
    total = np.abs(np.diff(signals.state, axis=0)).sum(axis=1)
    equal = (np.diff(rows, axis=0) == 0).all(axis=1)
    fewest = max(_FEWEST_REPEATED, round(_REPEATED_SECONDS * signals.rate_hz)) + 1
    runs = find_equal_steps(equal, fewest)
    bar = _REPEATED_SPEED * float(np.median(total[total > 0])) if (total > 0).any() else np.inf
    inside = [run for run in runs if run[0] >= 1 and run[1] <= len(total) - 1]
    moving = [run for run in inside if min(total[run[0] - 1], total[run[1] - 1]) > bar]
    if moving:
        start, stop = max(moving, key=lambda run: int(run[1] - run[0]))
        seconds = float(stop - start - 1) / signals.rate_hz
        confidence = finding_confidence(seconds, _REPEATED_SECONDS)
        yield make_finding(REPEATED_STEPS, "", "", signals.seconds[start], seconds, confidence)


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
_DRIFT_SHARE = 0.05
_DRIFT_ERRORS = 4.0
_DRIFT_BLOCKS = 10


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
    """A008, A012, A013, A014 and A022 without named commands, and the lag of the episode."""
    bars = typical.motion_bars(signals.state_names, signals.action_names)
    aligned = estimate_action_lag(signals, typical.meaning, bars) if typical.meaning else None
    if aligned is None:
        return EpisodeActionLag(steps=None, could_say=False), ()
    lag = EpisodeActionLag(
        steps=aligned.lag_steps, low_steps=aligned.low_steps, high_steps=aligned.high_steps
    )
    findings = (
        *_check_lag(signals, aligned, typical),
        *_check_pairs(signals, aligned, typical),
        *_check_drift(signals, aligned, typical),
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
    """Sign and gain of each pair; they say something only where the lag is known."""
    import numpy as np

    pairs = paired_dimensions(signals.state_names, signals.action_names)
    if aligned.lag_steps is None or not pairs:
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
    says = arms & (aligned.correlations > _GAIN_CORRELATION) & (typical.correlations > _GAIN_CORRELATION)
    larger = np.where(says, np.maximum(factor, 1 / factor), np.nan)
    yield from findings_of(GAIN, "action", names, larger, _GAIN_FACTOR * unit, zeros)


def _check_drift(
    signals: EpisodeSignals, aligned: ActionLagEstimate, typical: TypicalEpisode
) -> Iterator[QualityFinding]:
    """How far the state moves away from its command over the episode, beyond what a gain and their spread explain."""
    import numpy as np

    pairs = paired_dimensions(signals.state_names, signals.action_names)
    if aligned.meaning != "absolute" or aligned.lag_steps is None or not pairs:
        return
    lag = round(aligned.lag_steps)
    rows = np.arange(max(lag, 0), len(signals.state) + min(lag, 0))
    state, command = signals.state[rows][:, [i for i, _ in pairs]], signals.action[rows - lag]
    drifts, errors = _drift_slopes_and_errors(state, command[:, [j for _, j in pairs]])
    arms = are_smooth_kinds([typical.state.kinds[number] for number, _ in pairs])
    sizes = np.where(arms & (aligned.correlations > 0.5), np.abs(drifts), np.nan)
    bars = np.maximum(_DRIFT_SHARE * typical.state.scale, _DRIFT_ERRORS * errors)
    names = tuple(signals.state_names[number] for number, _ in pairs)
    yield from findings_of(DRIFT, "state", names, sizes, bars, np.zeros(len(pairs)))


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


def _drift_slopes_and_errors(
    state: NDArray[np.float64], command: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(P,) slopes over the whole time beside a gain and an offset, and their errors by leaving blocks out.

    Args:
        state: (T, P) positions.
        command: (T, P) commands of the same steps.
    """
    import numpy as np

    centred = command - command.mean(axis=0)
    ramp = np.broadcast_to(np.linspace(-0.5, 0.5, len(state))[:, None], state.shape)
    columns = np.stack(
        [np.ones_like(centred), centred / np.maximum(centred.std(axis=0), 1e-12), ramp], axis=2
    )
    starts = np.linspace(0, len(state), _DRIFT_BLOCKS + 1).astype(int)[:-1]
    squares = np.add.reduceat(columns[..., :, None] * columns[..., None, :], starts, axis=0)
    products = np.add.reduceat(columns * state[..., None], starts, axis=0)
    kept = (
        1e-9 * np.eye(3) + squares.sum(axis=0) - np.concatenate([squares * 0, squares])[_DRIFT_BLOCKS - 1 :]
    )
    sums = products.sum(axis=0) - np.concatenate([products * 0, products])[_DRIFT_BLOCKS - 1 :]
    slopes = np.linalg.solve(kept, sums[..., None])[..., 2, 0]
    spread = np.sqrt((_DRIFT_BLOCKS - 1) * ((slopes[1:] - slopes[1:].mean(axis=0)) ** 2).mean(axis=0))
    return slopes[0], np.asarray(spread)


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
        return EpisodeCheck(findings=(*_check_rate(signals), *single, *jitter), lag=unknown)
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
