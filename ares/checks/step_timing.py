"""Checks of the steps of an episode: rate, jitter, rest, dropped and repeated steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.checks.codes import (
    CLOCK_RATE,
    DROPPED_STEPS,
    IDLE_END,
    IDLE_START,
    REPEATED_STEPS,
)
from ares.checks.finding import QualityFinding, finding_confidence, make_finding
from ares.signals import (
    EpisodeSignals,
    TypicalSignal,
    are_smooth_kinds,
    find_equal_steps,
    paired_dimensions,
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


def check_step_timing(signals: EpisodeSignals, typical: TypicalSignal) -> Iterator[QualityFinding]:
    """A010, A011, A016 of the values, A017 and A018."""
    yield from check_rate(signals)
    if len(signals.state) < 10:
        return
    if signals.state.shape[1] and typical.scale:
        yield from _check_idle(signals, typical)
        yield from _check_dropped(signals, typical)
        yield from _check_repeated(signals)


def check_rate(signals: EpisodeSignals) -> Iterator[QualityFinding]:
    claimed, measured = signals.claimed_rate_hz, signals.measured_rate_hz
    if claimed and measured and abs(measured / claimed - 1) > _RATE_TOLERANCE:
        difference = abs(measured - claimed)
        confidence = finding_confidence(difference / claimed, _RATE_TOLERANCE)
        yield make_finding(CLOCK_RATE, "clock", "", 0.0, measured - claimed, confidence)


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
