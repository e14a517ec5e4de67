"""Checks of time: idle ends, dropped and repeated steps, and the clock against the claimed rate."""

from __future__ import annotations

from collections.abc import Iterator

from ares.quality.catalogue import CLOCK_RATE, DROPPED_STEPS, IDLE_END, IDLE_START, REPEATED_STEPS, CheckCode
from ares.quality.finding import QualityFinding, confidence_of
from ares.quality.kinds import are_checked
from ares.quality.signals import EpisodeSignals
from ares.quality.statistics import TypicalSignal
from ares.quality.value_checks import runs_of_zero

_IDLE_SECONDS = 2.0
# A dimension has left its first or last value from this share of its typical range on.
_LEFT_SHARE = 0.03
# Steps are missing where the dimensions that move jump together, by so much more than the speeds beside it say.
_DROP_EXCESS = 0.7
_DROP_FACTOR = 1.5
_DROP_SHARE = 0.5
_FEWEST_JUMPING = 3
# Two are enough where they jump by so many times the steps beside it.
_STRONG_FACTOR, _FEWEST_STRONG = 4.0, 2
# Steps are repeated for at least so long, between changes of this share of the usual ones.
_REPEATED_SECONDS = 0.1
_FEWEST_REPEATED = 2
_REPEATED_SPEED = 0.2
_RATE_TOLERANCE = 0.05


def check_time(signals: EpisodeSignals, typical: TypicalSignal) -> Iterator[QualityFinding]:
    """A010, A011, A016 of the values, A017 and A018."""
    yield from _check_rate(signals)
    if len(signals.state) < 10:
        return
    if signals.state.shape[1] and typical.scale:
        yield from _check_idle(signals, typical)
        yield from _check_dropped(signals, typical)
        yield from _check_repeated(signals)


def _finding(check: CheckCode, signal: str, seconds: float, size: float, confidence: float) -> QualityFinding:
    return QualityFinding(
        code=check.code,
        signal=signal,
        dimension="",
        seconds=round(float(seconds), 3),
        size=round(float(size), 6),
        confidence=confidence,
    )


def _check_rate(signals: EpisodeSignals) -> Iterator[QualityFinding]:
    claimed, measured = signals.claimed_rate_hz, signals.measured_rate_hz
    if claimed and measured and abs(measured / claimed - 1) > _RATE_TOLERANCE:
        difference = abs(measured - claimed)
        confidence = confidence_of(difference / claimed, _RATE_TOLERANCE)
        yield _finding(CLOCK_RATE, "clock", 0.0, measured - claimed, confidence)


def _check_idle(signals: EpisodeSignals, typical: TypicalSignal) -> Iterator[QualityFinding]:
    """Seconds until the first dimension leaves its first value, and since the last came to its last."""
    import numpy as np

    bars = np.maximum(_LEFT_SHARE * np.maximum(typical.range, 0.3 * typical.scale), 6 * typical.noise)
    ends = ((IDLE_START, signals.state[0], 1), (IDLE_END, signals.state[-1], -1))
    for check, value, direction in ends:
        has_left = (np.abs(signals.state - value) > bars).any(axis=1)[::direction]
        steps = int(has_left.argmax()) if has_left.any() else len(has_left)
        if steps / signals.rate_hz >= _IDLE_SECONDS:
            first = 0 if direction == 1 else len(has_left) - steps
            seconds = steps / signals.rate_hz
            confidence = confidence_of(seconds, _IDLE_SECONDS)
            yield _finding(check, "state", signals.seconds[first], seconds, confidence)


def _check_dropped(signals: EpisodeSignals, typical: TypicalSignal) -> Iterator[QualityFinding]:
    """Most of the dimensions that move there jump at once; one that jumps alone is a switch or a spike."""
    import numpy as np

    arms = are_checked(typical.kinds)
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
    is_drop = (share >= _DROP_SHARE) & is_enough
    if is_drop.any():
        ratio = excess.sum(axis=1) / np.maximum(np.abs(expected).sum(axis=1), 1e-12)
        worst = int(np.where(is_drop, ratio, 0).argmax())
        confidence = confidence_of(float(ratio[worst]), _DROP_EXCESS)
        lost = min(ratio[worst], len(share)) / signals.rate_hz
        yield _finding(DROPPED_STEPS, "state", signals.seconds[worst + 2], lost, confidence)


def _check_repeated(signals: EpisodeSignals) -> Iterator[QualityFinding]:
    """Runs of equal rows with motion on both sides; a robot that rests slows down before and starts slowly."""
    import numpy as np

    rows = np.concatenate([signals.state, signals.action], axis=1)
    total = np.abs(np.diff(signals.state, axis=0)).sum(axis=1)
    equal = (np.diff(rows, axis=0) == 0).all(axis=1)
    fewest = max(_FEWEST_REPEATED, round(_REPEATED_SECONDS * signals.rate_hz)) + 1
    runs = runs_of_zero(np.where(equal, 0.0, 1.0), fewest)
    bar = _REPEATED_SPEED * float(np.median(total[total > 0])) if (total > 0).any() else np.inf
    inside = [run for run in runs if run[0] >= 1 and run[1] <= len(total) - 1]
    moving = [run for run in inside if min(total[run[0] - 1], total[run[1] - 1]) > bar]
    if moving:
        start, stop = max(moving, key=lambda run: int(run[1] - run[0]))
        seconds = float(stop - start - 1) / signals.rate_hz
        confidence = confidence_of(seconds, _REPEATED_SECONDS)
        yield _finding(REPEATED_STEPS, "", signals.seconds[start], seconds, confidence)
