"""Checks whether readings are those of the robot: repeats, still, shifted to another level, or a single one off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ares.checks.codes import (
    DEAD_CHANNEL,
    DROPPED_STEPS,
    OFFSET,
    QUANTISED,
    REPEATED_STEPS,
    SATURATED,
    SPIKE,
    STALE_VALUES,
    STUCK,
    WRAP_AROUND,
    CheckCode,
)
from ares.checks.finding import QualityFinding, finding_confidence, make_finding
from ares.signals import (
    FEWEST_STEPS,
    EpisodeSignals,
    TypicalEpisode,
    TypicalSignal,
    are_smooth_kinds,
    find_equal_steps,
    fresh_share,
    paired_dimensions,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Values are held where at most this share of the changes follows one at the step before, of at least so many changes.
_REPEAT_ADJACENT, _FEWEST_REPEATS = 0.05, 8
# They are no counts of a coarse encoder, whose changes are all of one size.
_REPEAT_SIZES = 2.0
# Dimensions held together are one finding from this share of those that move on.
_REPEAT_TOGETHER = 0.5
# Where the values of others are no smooth motion, they are held where in other episodes this share of their changes
# follows one at the step before, or changes lie on a grid of so many steps, at most of its places.
_FRESH, _OTHER_SHARE, _FEWEST_GRID, _MOST_OF_GRID = 0.3, 0.3, 3, 0.8
# A dimension that does not move has changes as large as of white noise: this share of them.
_WHITE_SHARE = 0.5
# The whole state is held for at least so long, after motion of this share of the usual, and goes on with a jump.
_STALE_SECONDS, _FEWEST_STALE, _STALE_SPEED, _STALE_JUMP = 0.2, 4, 0.2, 1.5
_OTHER_REPEATS = 0.01
_FEWEST_STILL = 20
# A level is another one from this share of the usual range on, and so many times the largest usual change.
_LEVEL_SHARE, _LEVEL_FACTOR, _LEVEL_STEPS, _LEVEL_RANGE = 0.15, 5.0, 5, 0.1
# A finger is judged where it follows its command so well; a command counts that came so long before the lag.
_FINGER_FOLLOWS, _COMMAND_SECONDS = 0.6, 0.5
# A value that is off comes back within this share, and is so many times as far off as any other of its dimension.
_RETURNS, _SINGLE_FACTOR, _SINGLE_SHARE = 0.35, 2.5, 0.25
_FEWEST_LEVELS = 12
# A change in one step is unusual from so many times the largest of the other episodes on, more of a finger that grips,
# and this share of the range, in this share of the dimensions.
_STEP_FACTOR, _FINGER_FACTOR, _STEP_SHARE, _STEP_DIMENSIONS = 1.5, 2.0, 0.2, 0.34
# Nearly all steps of a clock are even within this share; so many of them at once are a gap.
_CLOCK_EVEN, _CLOCK_SHARE, _CLOCK_PERIODS = 0.02, 0.8, 3.0
_OF_JUMPS = frozenset(
    check.code for check in (STUCK, SPIKE, WRAP_AROUND, OFFSET, STALE_VALUES, DROPPED_STEPS)
)
# Findings that a held value has beside its own.
_OF_STALE = frozenset(
    check.code for check in (STUCK, SPIKE, QUANTISED, SATURATED, REPEATED_STEPS, DROPPED_STEPS, OFFSET)
)


def _reading_finding(
    check: CheckCode, dimension: str, seconds: float, sizes: tuple[float, float], signal: str = "state"
) -> QualityFinding:
    """A finding of a size and its threshold."""
    return make_finding(check, signal, dimension, seconds, sizes[0], finding_confidence(*sizes))


def check_still(signals: EpisodeSignals, typical: TypicalSignal) -> Iterator[QualityFinding]:
    """A002 of a robot that never moves: every dimension has one value, or one value and white noise."""
    import numpy as np

    counts = np.array([kind != "other" for kind in typical.kinds], dtype=bool)
    values = signals.state[:, counts]
    if len(values) < _FEWEST_STILL or not values.shape[1]:
        return
    spread = values.var(axis=0)
    is_white = np.diff(values, axis=0).var(axis=0) > 2 * _WHITE_SHARE * spread
    if (is_white | (spread == 0)).all():
        yield _reading_finding(DEAD_CHANNEL, "", 0.0, (len(values), 0.0))


def check_repeats(signals: EpisodeSignals, typical: TypicalSignal) -> tuple[QualityFinding, ...]:
    """A020: dimensions of the state that have a new value only every few steps while they move."""
    import numpy as np

    if len(signals.state) < FEWEST_STEPS or not signals.state.shape[1]:
        return ()
    changes = np.diff(signals.state, axis=0)
    smooth, is_change = _reading_dimensions(typical), changes != 0
    counts = is_change.sum(axis=0)
    ranges, fresh = np.ptp(signals.state, axis=0), fresh_share(changes)
    moves = smooth & (ranges > 0.05 * typical.range[smooth].max(initial=0.0))
    repeats = moves & (counts >= _FEWEST_REPEATS) & (fresh <= _REPEAT_ADJACENT)
    numbers = [int(n) for n in np.flatnonzero(repeats) if _has_several_sizes(changes[is_change[:, n], n])]
    numbers += _slower_dimensions(typical, ranges, fresh, is_change).tolist()
    if not numbers:
        return ()
    steps = float(np.median([len(changes) / counts[number] for number in numbers]))
    first = signals.seconds[int(is_change[:, numbers].any(axis=1).argmax())]
    of_moving = sum(bool(moves[number]) for number in numbers)
    together = of_moving > 1 and of_moving >= _REPEAT_TOGETHER * moves.sum()
    names = ("",) if together or moves.sum() == 1 else tuple(signals.state_names[n] for n in numbers)
    return tuple(_reading_finding(STALE_VALUES, name, first, (steps, 1.0)) for name in names)


def _slower_dimensions(
    typical: TypicalSignal,
    ranges: NDArray[np.float64],
    fresh: NDArray[np.float64],
    is_change: NDArray[np.bool_],
) -> NDArray[np.intp]:
    """Other dimensions that are held here, but new at each step in the other episodes, or wherever they are in step.

    Args:
        typical: What is typical of the state.
        ranges: (D,) ranges in the episode.
        fresh: (D,) share of the changes that follow one at the step before.
        is_change: (T - 1, D) whether a value is another one than before.
    """
    import numpy as np

    repeating = ~_reading_dimensions(typical) & (fresh <= _REPEAT_ADJACENT)
    repeating &= (is_change.sum(axis=0) >= _FEWEST_REPEATS) & (ranges > _OTHER_SHARE * typical.range)
    compared = np.isfinite(typical.largest_change)
    usual = compared & (typical.fresh >= _FRESH)
    # Without other episodes: as a whole the state is new at each step, and this one at each third, fourth, ...
    others = fresh[(ranges > 0) & ~repeating]
    is_new = len(others) > 0 and float(np.median(others)) >= _FRESH
    regular = np.array([_is_regular(is_change[:, number]) for number in range(len(ranges))], dtype=bool)
    return np.flatnonzero(repeating & (usual | (~compared & regular & is_new)))


def _is_regular(is_change: NDArray[np.bool_]) -> bool:
    """Whether all changes of (T - 1,) lie on a grid of at least three steps, and most of its places have one."""
    import numpy as np

    gaps = np.diff(np.flatnonzero(is_change))
    if not len(gaps) or (step := int(gaps.min())) < _FEWEST_GRID:
        return False
    return bool((gaps % step == 0).all() and (gaps == step).mean() >= _MOST_OF_GRID)


def _reading_dimensions(typical: TypicalSignal) -> NDArray[np.bool_]:
    """(D,) joints and poses; where nothing says which these are, what is unknown."""
    import numpy as np

    smooth = are_smooth_kinds(typical.kinds)
    return smooth if smooth.any() else np.array([kind == "unknown" for kind in typical.kinds], dtype=bool)


def _has_several_sizes(changes: NDArray[np.float64]) -> bool:
    import numpy as np

    sizes = np.abs(changes)
    return bool(np.quantile(sizes, 0.75) >= _REPEAT_SIZES * np.quantile(sizes, 0.05))


def merge_stale(
    findings: Sequence[QualityFinding], signals: EpisodeSignals, typical: TypicalSignal
) -> tuple[QualityFinding, ...]:
    """The findings with one of A020 in position of those of each dimension where the whole state is held for a time.

    What else a held value looks like, such as a jump where it ends, is left out.
    """
    repeats = [finding for finding in findings if finding.code == STALE_VALUES.code]
    merged = () if repeats else tuple(_check_stale(signals, typical))
    if not repeats and not merged:
        return tuple(findings)
    names = {finding.dimension for finding in repeats}
    is_whole = bool(merged) or "" in names
    kept = (
        finding
        for finding in findings
        if finding.code not in _OF_STALE
        or finding.signal == "action"
        or not (is_whole or finding.dimension in names)
    )
    return (*kept, *merged)


def _check_stale(signals: EpisodeSignals, typical: TypicalSignal) -> Iterator[QualityFinding]:
    """A020 of the longest span in which the whole state is held, between motion and the jump that makes up for it."""
    import numpy as np

    values = signals.state[:, _reading_dimensions(typical)]
    if len(values) < FEWEST_STEPS or values.shape[1] < 2:
        return
    sizes = np.abs(np.diff(values, axis=0)) / np.maximum(np.ptp(values, axis=0), 1e-12)
    total = sizes.sum(axis=1)
    fewest = max(_FEWEST_STALE, round(_STALE_SECONDS * signals.rate_hz))
    runs = find_equal_steps(total == 0, fewest)
    inside = runs[(runs[:, 0] >= 1) & (runs[:, 1] < len(values))]
    if not len(inside) or (total > 0).sum() < FEWEST_STEPS // 2:
        return
    usual = np.quantile(total[total > 0], [0.5, 0.9])
    before, jump = total[inside[:, 0] - 1], total[inside[:, 1] - 1]
    after = total[np.minimum(inside[:, 1], len(total) - 1)]
    is_stale = (before > _STALE_SPEED * usual[0]) & (jump > _STALE_JUMP * np.maximum(usual[1], after))
    # A whole state that has no row twice but here is held, however slowly it goes on.
    repeated = (signals.state[1:] == signals.state[:-1]).all(axis=1)
    lengths = inside[:, 1] - inside[:, 0] - 1
    inside_repeated = np.array([repeated[start : stop - 1].all() for start, stop in inside])
    # Where the commands stand still as well, whole steps are repeated, which is A017.
    is_commanded = np.zeros(len(repeated), bool)
    if len(signals.action) == len(signals.state):
        is_commanded = (signals.action[1:] != signals.action[:-1]).any(axis=1)
    inside_commanded = np.array([is_commanded[start : stop - 1].any() for start, stop in inside])
    is_only = (
        inside_repeated & inside_commanded & (repeated.sum() - lengths <= _OTHER_REPEATS * len(repeated))
    )
    is_stale |= is_only & (before > _STALE_SPEED * usual[0]) & (jump > usual[0])
    for start, stop in inside[is_stale][np.argsort(-np.ptp(inside[is_stale], axis=1))[:1]].tolist():
        yield _reading_finding(STALE_VALUES, "", signals.seconds[start], (stop - start, 1.0))


def check_levels(
    signals: EpisodeSignals, typical: TypicalEpisode, earlier: Sequence[QualityFinding]
) -> Iterator[QualityFinding]:
    """A019 from a step on: one dimension jumps to another level and stays there, and nothing commands it.

    Args:
        signals: The episode.
        typical: What is typical.
        earlier: What other checks say of jumps: a whole turn or the end of a held value is no other level.
    """
    import numpy as np

    steps = len(signals.state)
    if steps < FEWEST_STEPS or not typical.state.scale:
        return
    changes = np.abs(np.diff(signals.state, axis=0))
    usual = np.quantile(changes, 0.95, axis=0)
    # A joint that hardly moves counts as one that moves a little: what it does in one step is no level.
    ranges = np.maximum(typical.state.range, _LEVEL_RANGE * typical.state.scale)
    bars = np.maximum(_LEVEL_SHARE * ranges, _LEVEL_FACTOR * usual)
    bars = np.maximum(bars, 12 * typical.state.noise)
    jumps = _levelled_dimensions(signals, typical) & (changes >= bars) & (bars > 0)
    jumps &= (jumps.sum(axis=1) == 1)[:, None]
    others = {f.dimension for f in earlier if f.code in (STUCK.code, WRAP_AROUND.code, SPIKE.code)}
    for number in np.flatnonzero(jumps.any(axis=0)):
        step = int(np.where(jumps[:, number], changes[:, number], 0).argmax())
        name = signals.state_names[number]
        if name in others or not _keeps_level(signals.state[:, number], step):
            continue
        if not _is_commanded(signals, typical, int(number), step):
            sizes = (float(changes[step, number]), float(bars[number]))
            yield _reading_finding(OFFSET, name, float(signals.seconds[step + 1]), sizes)


def _levelled_dimensions(signals: EpisodeSignals, typical: TypicalEpisode) -> NDArray[np.bool_]:
    """(S,) dimensions whose level says something: joints, and fingers that have a command by position."""
    levelled = are_smooth_kinds(typical.state.kinds)
    if typical.meaning == "absolute":
        for pair, (number, _) in enumerate(paired_dimensions(signals.state_names, signals.action_names)):
            is_finger = typical.state.kinds[number] in ("gripper", "hand")
            levelled[number] |= is_finger and bool(typical.correlations[pair] > _FINGER_FOLLOWS)
    return levelled


def _keeps_level(column: NDArray[np.float64], step: int) -> bool:
    """Whether the values after a step lie as far from those before as they jump there."""
    import numpy as np

    before, after = (
        column[max(0, step + 1 - _LEVEL_STEPS) : step + 1],
        column[step + 1 : step + 1 + _LEVEL_STEPS],
    )
    if min(len(before), len(after)) < _LEVEL_STEPS:
        return False
    share = (np.median(after) - np.median(before)) / (column[step + 1] - column[step])
    return bool(0.6 <= share <= 1.6)


def _is_commanded(signals: EpisodeSignals, typical: TypicalEpisode, number: int, step: int) -> bool:
    """Whether the command of a dimension jumps at or before the step, too."""
    import numpy as np

    pairs = dict(paired_dimensions(signals.state_names, signals.action_names))
    if number not in pairs or typical.meaning != "absolute":
        return False
    early = step - round((typical.lag_steps or 0) + _COMMAND_SECONDS * signals.rate_hz) - 2
    command = signals.action[max(0, early) : step + 3, pairs[number]]
    jump = abs(float(signals.state[step + 1, number] - signals.state[step, number]))
    return bool(len(command) and np.ptp(command) >= 0.5 * jump)


def check_clock_values(signals: EpisodeSignals, typical: TypicalSignal) -> Iterator[QualityFinding]:
    """A004, A016 or A019 of a dimension of the state that is a clock: it rises evenly, but for one step or two."""
    import numpy as np

    if len(signals.state) < FEWEST_STEPS:
        return
    changes = np.diff(signals.state, axis=0)
    usual = np.median(changes, axis=0)
    off = np.abs(changes - usual)
    is_clock = (usual > 0) & ((off <= _CLOCK_EVEN * np.abs(usual)).mean(axis=0) >= _CLOCK_SHARE)
    is_clock &= ~are_smooth_kinds(typical.kinds)
    for number in np.flatnonzero(is_clock & (off.max(axis=0) > _CLOCK_PERIODS * usual)).tolist():
        step, bar = int(off[:, number].argmax()), _CLOCK_PERIODS * float(usual[number])
        forward = float(changes[step, number]) > 0
        other = DROPPED_STEPS if forward else OFFSET
        check = SPIKE if _comes_back(signals.state[:, number], step) else other
        sizes = (float(off[step, number]), bar)
        yield _reading_finding(check, signals.state_names[number], signals.seconds[step + 1], sizes)


def _comes_back(column: NDArray[np.float64], step: int) -> bool:
    """Whether the change from a step to the next is one side of a single value that is off."""
    size = abs(float(column[step + 1] - column[step]))
    after = abs(float(column[step + 2] - column[step])) if step + 2 < len(column) else size
    before = abs(float(column[step + 1] - column[step - 1])) if step else size
    return min(after, before) <= _RETURNS * size


def check_unusual_steps(
    signals: EpisodeSignals, typical: TypicalEpisode, earlier: Sequence[QualityFinding]
) -> Iterator[QualityFinding]:
    """A004 or A019 of any dimension that changes in one step by more than in all other episodes."""
    import numpy as np

    known = {(finding.signal, finding.dimension) for finding in earlier if finding.code in _OF_JUMPS}
    of_state = (signals.state, signals.state_names, typical.state)
    of_action = (signals.action, signals.action_names, typical.action)
    for signal, (values, names, usual) in {"state": of_state, "action": of_action}.items():
        if len(values) < FEWEST_STEPS or (signal, "") in known:
            continue
        changes = np.abs(np.diff(values, axis=0))
        fingers = np.array([kind in ("gripper", "hand") for kind in usual.kinds], dtype=bool)
        factors = np.where(fingers, _FINGER_FACTOR, _STEP_FACTOR)
        bars = np.maximum(factors * usual.largest_change, _STEP_SHARE * usual.range)
        is_unusual = (changes.max(axis=0, initial=0.0) >= bars) & (bars > 0)
        # A thing that is hit, once in all episodes, changes its place and speed in one step.
        is_unusual &= np.array([kind != "other" for kind in usual.kinds], dtype=bool)
        # A simulation that sets its robot elsewhere moves most of it.
        if is_unusual.sum() > max(1, _STEP_DIMENSIONS * len(names)):
            continue
        for number in np.flatnonzero(is_unusual).tolist():
            step = int(changes[:, number].argmax())
            is_single = _comes_back(values[:, number], step)
            is_level = signal == "state" and _keeps_level(values[:, number], step)
            is_level = is_level and not _is_commanded(signals, typical, number, step)
            if (signal, names[number]) not in known and (is_single or is_level):
                sizes = (float(changes[step, number]), float(bars[number]))
                check = SPIKE if is_single else OFFSET
                yield _reading_finding(check, names[number], signals.seconds[step + 1], sizes, signal)


def check_single_values(
    signals: EpisodeSignals, typical: TypicalEpisode, earlier: Sequence[QualityFinding]
) -> Iterator[QualityFinding]:
    """A004 of grippers, hands and actions: one value far off, as no other of its dimension, between two that agree."""
    import numpy as np

    # One value is all there is of a change where a gripper is commanded by changes, which are zero most of the time.
    rests = (signals.action == np.median(signals.action, axis=0)).mean(axis=0) > 0.5
    # Only fingers and wheels of the state: the speed of a thing that is hit changes in one step, too.
    others = np.array([kind not in ("gripper", "hand", "base") for kind in typical.state.kinds], dtype=bool)
    skipped = {"state": others, "action": rests}
    known = {
        (f.signal, f.dimension) for f in earlier if f.code in (SPIKE.code, STALE_VALUES.code, STUCK.code)
    }
    for signal, values, names in (
        ("state", signals.state, signals.state_names),
        ("action", signals.action, signals.action_names),
    ):
        kept = np.flatnonzero(~skipped[signal])
        if len(values) < FEWEST_STEPS or not len(kept):
            continue
        sizes, bars, steps = _single_values(values[:, kept])
        # What other episodes have too, as a finger that meets a thing, is no single value.
        usual = (typical.state if signal == "state" else typical.action).largest_change[kept]
        bars = np.maximum(bars, np.where(np.isfinite(usual), usual, 0.0))
        for position in np.flatnonzero(sizes >= bars).tolist():
            name = names[kept[position]]
            if (signal, name) not in known and (signal, "") not in known:
                second = float(signals.seconds[steps[position]])
                yield _reading_finding(
                    SPIKE, name, second, (float(sizes[position]), float(bars[position])), signal
                )


def _single_values(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    """(D,) how far the worst value of each dimension of (T, D) is off, from where on it counts, and its step."""
    import numpy as np

    rise, fall = np.diff(values, axis=0)[:-1], -np.diff(values, axis=0)[1:]
    size = np.where(rise * fall > 0, np.minimum(np.abs(rise), np.abs(fall)), 0.0)
    top, columns = size.argmax(axis=0), np.arange(values.shape[1])
    largest = size[top, columns]
    returns = np.abs(values[top + 2, columns] - values[top, columns]) <= _RETURNS * largest
    rows = np.arange(len(size))[:, None]
    others = np.where(np.abs(rows - top) <= 2, 0.0, size).max(axis=0)
    without = np.where(np.abs(np.arange(len(values))[:, None] - top - 1) <= 0, np.nan, values)
    span = np.nanmax(without, axis=0) - np.nanmin(without, axis=0)
    changes = np.quantile(np.abs(np.diff(values, axis=0)), 0.9, axis=0)
    levels = (np.diff(np.sort(values, axis=0), axis=0) > 0).sum(axis=0) + 1
    bars = np.maximum(np.maximum(_SINGLE_FACTOR * others, _SINGLE_SHARE * span), 3 * changes)
    says = returns & (levels >= _FEWEST_LEVELS) & (bars > 0)
    return np.where(says, largest, 0.0), np.where(says, bars, np.inf), top + 1
