"""Checks that need one record alone, cheap enough for ingestion: metadata, clock, and values that no robot gives.

The same functions serve `ares ingest` and `ares check`, so that a fault has one definition, one code and one wording.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.checks.codes import (
    ACTION_IS_STATE,
    BLACK,
    CLOCK_BACKWARDS,
    CODES,
    DEAD_CHANNEL,
    DROPPED_STEPS,
    EMPTY_INSTRUCTION,
    FRAME_COUNT,
    FROZEN,
    IMPOSSIBLE_LENGTH,
    MISSING_CAMERA,
    NO_INSTRUCTION,
    NOT_FINITE,
    SATURATED,
    SINGLE_STEP,
)
from ares.checks.finding import QualityFinding, finding_confidence, make_finding
from ares.episode import CUT_CAMERA, MISSING_CAMERAS, TOPIC_KINDS, UNREAD
from ares.signals import (
    EpisodeSignals,
    are_smooth_kinds,
    classify_by_name,
    episode_signals,
    find_runs,
    paired_dimensions,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Episode, Trajectory


# A period between steps longer than this many medians is a gap.
GAP_PERIODS = 3.0
# No robot is recorded for longer in one episode.
_LONGEST_SECONDS = 86_400.0
# So few steps are no episode.
_MOST_STUMP_STEPS = 2
# Of fewer steps no value is called unusual.
FEW_STEPS = 10
# Limits that drivers and simulators cut actions off at: of normalised values, and of percentages.
_LIMITS = (1.0, 100.0)
# An action is cut off from this share of the steps on, and at so many of them.
_SATURATED_SHARE, _FEWEST_SATURATED = 0.05, 3
# It comes or leaves at this share of its usual speed, or its joint moves by this share of its range; else it is parked.
_ARRIVES, _PARKED_SHARE = 0.3, 0.05
# The code of each flag that a camera may have, worst first: a black camera is also frozen, and is named once.
_FLAG_CODES = {"black": BLACK, "frozen": FROZEN}
_PLACEHOLDERS = frozenset(
    {"none", "null", "nan", "n/a", "na", "unknown", "unspecified", "test", "task", "valid", "todo"}
)


def check_record(episode: Episode, trajectory: Trajectory) -> tuple[QualityFinding, ...]:
    """Every finding that one record alone allows; of its pixels only the flags that its ingester set."""
    return (
        *check_metadata(episode),
        *check_single_episode(episode_signals(episode, trajectory)),
    )


def finding_reason(finding: QualityFinding) -> str:
    """What a finding says, in the words of its code, with its camera or signal: by this findings are counted."""
    check = CODES[finding.code]
    subject = finding.dimension if finding.signal == "video" else finding.signal
    return f"{check.code} {check.name}: {check.meaning}" + (f" ({subject})" if subject else "")


def check_metadata(episode: Episode) -> Iterator[QualityFinding]:
    """A051, A052, A053, A054 and A056, and A033 or A034 of cameras that the ingester flagged."""
    if episode.num_steps <= _MOST_STUMP_STEPS:
        yield make_finding(SINGLE_STEP, size=episode.num_steps)
    for camera in episode.cameras:
        flag = next((flag for flag in _FLAG_CODES if flag in camera.flags), "")
        if flag:
            length = camera.media.num_frames / camera.media.rate_hz
            yield make_finding(_FLAG_CODES[flag], signal="video", dimension=camera.name, size=length)
        if camera.media.kind in TOPIC_KINDS:
            continue  # topics have separate clocks; their ingester warns of gaps
        # A recorder may drop the very first or last frame of a video; a TFRecord holds one image a step.
        tolerance = 1 if camera.media.kind == "mp4" else 0
        missing = abs(camera.media.num_frames - episode.num_steps)
        if missing > tolerance:
            seconds = min(camera.media.num_frames, episode.num_steps) / episode.rate_hz
            yield make_finding(
                FRAME_COUNT, signal="video", dimension=camera.name, seconds=seconds, size=missing
            )
    for name in missing_cameras(episode):
        yield make_finding(MISSING_CAMERA, signal="video", dimension=name, size=episode.num_steps)
    text = episode.instruction.strip().lower()
    if not text:
        yield make_finding(NO_INSTRUCTION, size=0.0)
    elif text in _PLACEHOLDERS or not re.search(r"[^\W\d_]{2}", text):
        yield make_finding(EMPTY_INSTRUCTION, size=len(text))


def missing_cameras(episode: Episode) -> tuple[str, ...]:
    """The cameras that the source of an episode names and of which it has no pictures."""
    names = episode.metadata.get(MISSING_CAMERAS)
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


def describe_incomplete(episode: Episode) -> list[str]:
    """What the source of an episode promises and could not be read, each in words; empty for a complete one."""
    unread = episode.metadata.get(UNREAD)
    others = [str(reason) for reason in unread] if isinstance(unread, list) else []
    cut = [camera.name for camera in episode.cameras if CUT_CAMERA in camera.flags]
    return [
        *(f"camera {name} has no pictures" for name in missing_cameras(episode)),
        *(f"video of camera {name} is cut" for name in cut),
        *others,
    ]


def check_timestamps(seconds: NDArray[np.float64]) -> Iterator[QualityFinding]:
    """A050, A055, and A016 of the stamps: (T,) seconds."""
    import numpy as np

    if len(seconds) < 2:
        return
    length = float(seconds[-1] - seconds[0])
    if length >= _LONGEST_SECONDS:
        yield make_finding(IMPOSSIBLE_LENGTH, signal="clock", size=length)
    periods = np.diff(seconds)
    shortest = periods.min()
    if shortest > 0 and periods.max() <= GAP_PERIODS * shortest:
        return  # the usual case, without the slow median
    wrong = np.flatnonzero(~(periods > 0))
    if len(wrong):
        yield make_finding(CLOCK_BACKWARDS, signal="clock", seconds=float(seconds[wrong[0]]), size=len(wrong))
    rising = periods[periods > 0]
    if not len(rising):
        return
    usual, worst = float(np.median(rising)), int(np.where(periods > 0, periods, 0).argmax())
    if periods[worst] > GAP_PERIODS * usual:
        yield make_finding(
            DROPPED_STEPS,
            signal="clock",
            seconds=float(seconds[worst]),
            size=float(periods[worst]) - usual,
            confidence=finding_confidence(float(periods[worst]) / usual, GAP_PERIODS),
        )


def check_single_episode(signals: EpisodeSignals) -> tuple[QualityFinding, ...]:
    """What the signals and stamps of one episode say without any other: the same at ingestion and in a check.

    Values that are not finite are named before all else: nothing can be said of the others.
    """
    clock = tuple(check_timestamps(signals.seconds))
    if not (signals.state_names or signals.action_names):
        return clock
    not_finite = (
        *_check_finite("state", signals.state, signals.state_names, signals.seconds),
        *_check_finite("action", signals.action, signals.action_names, signals.seconds),
    )
    if not_finite:
        return (*not_finite, *clock)
    constant = tuple(check_constant(signals.state, signals.action))
    return (*constant, *_check_copied_state(signals), *_check_action_limits(signals), *clock)


def _check_copied_state(signals: EpisodeSignals) -> Iterator[QualityFinding]:
    """A057: each dimension of the action that moves is the dimension of the state of its name, or at its place.

    One of them has more than two values: a gripper that opens and closes at once has the state that is commanded.
    """
    import numpy as np

    state, action = signals.state, signals.action
    pairs = paired_dimensions(signals.state_names, signals.action_names)
    if not pairs and state.shape[1] == action.shape[1]:
        pairs = tuple((number, number) for number in range(action.shape[1]))
    if len(action) < FEW_STEPS or len(pairs) < action.shape[1]:
        return
    states, commands = state[:, [own for own, _ in pairs]], action[:, [other for _, other in pairs]]
    moves = (commands != commands[0]).any(axis=0)
    has_levels = ((commands != commands.min(axis=0)) & (commands != commands.max(axis=0))).any(axis=0)
    if has_levels.any() and np.array_equal(states[:, moves], commands[:, moves]):
        yield make_finding(ACTION_IS_STATE, signal="action", size=len(action))


def _check_finite(
    name: str, values: NDArray[np.floating], names: tuple[str, ...], seconds: NDArray[np.float64]
) -> Iterator[QualityFinding]:
    """A001: the dimensions of a signal (T, D) with values that are NaN or infinite, and how many steps have them."""
    import numpy as np

    finite = np.isfinite(values)
    if finite.all():
        return
    for number in np.flatnonzero(~finite.all(axis=0)):
        steps = np.flatnonzero(~finite[:, number])
        yield make_finding(
            NOT_FINITE,
            signal=name,
            dimension=names[number],
            seconds=float(seconds[steps[0]]),
            size=len(steps),
        )


def check_constant(state: NDArray[np.floating], action: NDArray[np.floating]) -> Iterator[QualityFinding]:
    """A002 of whole signals, (T, S) and (T, A): one that never changes. Of a robot that never moves it is the state."""
    if len(state) < FEW_STEPS or len(action) != len(state):
        return
    signals = {"state": state, "action": action}
    constant = [
        name for name, values in signals.items() if values.shape[1] and not (values != values[0]).any()
    ]
    if constant:
        yield make_finding(DEAD_CHANNEL, signal=constant[0], size=len(state))


def _check_action_limits(signals: EpisodeSignals) -> Iterator[QualityFinding]:
    """A006 of the action: a dimension stays exactly at 1 or 100, or minus these, while another one moves.

    It is an arm joint or of an end effector by its name, and never beyond the limit: what was commanded is cut off.
    A joint that is parked there comes slowly, and does not move meanwhile.
    """
    import numpy as np

    action, names = signals.action, signals.action_names
    if len(action) < FEW_STEPS or not action.shape[1]:
        return
    largest = np.abs(action).max(axis=0)
    may_be_cut_off = np.isin(largest, _LIMITS) & are_smooth_kinds(classify_by_name(names))
    if not may_be_cut_off.any():
        return
    moves = np.diff(action, axis=0) != 0
    states = {command: number for number, command in paired_dimensions(signals.state_names, names)}
    for number in np.flatnonzero(may_be_cut_off).tolist():
        others_move = np.delete(moves, number, axis=1).any(axis=1)
        state = signals.state[:, states[number]] if number in states else None
        cut_off = _cut_off_steps(action[:, number], float(largest[number]), state)[1:] & others_move
        share = float(cut_off.mean())
        if share >= _SATURATED_SHARE and cut_off.sum() >= _FEWEST_SATURATED and moves[:, number].any():
            yield make_finding(
                SATURATED,
                signal="action",
                dimension=names[number],
                seconds=float(signals.seconds[1 + int(cut_off.argmax())]),
                size=share,
                confidence=finding_confidence(share, _SATURATED_SHARE),
            )


def _cut_off_steps(
    column: NDArray[np.float64], limit: float, state: NDArray[np.float64] | None
) -> NDArray[np.bool_]:
    """(T,) where a dimension of the action is at its limit, but for the spans in which it is parked there.

    Args:
        column: (T,) its values.
        limit: The largest of them without sign.
        state: (T,) the dimension of the state with its name, or None.
    """
    import numpy as np

    at_limit = np.abs(column) == limit
    changes = np.abs(np.diff(column))
    usual = float(np.quantile(changes[changes > 0], 0.75)) if (changes > 0).any() else 0.0
    span = float(np.ptp(state)) if state is not None else 0.0
    for start, stop in find_runs(at_limit).tolist():
        beside = [changes[start - 2] if start >= 2 else 0.0, changes[stop] if stop < len(changes) else 0.0]
        moved = state is not None and float(np.ptp(state[start:stop])) > _PARKED_SHARE * span
        # A rest before or after all motion, where the state shows that it is one.
        is_at_end = state is not None and (start == 0 or stop == len(column))
        if (is_at_end or max(beside) <= _ARRIVES * usual) and not moved:
            at_limit[start:stop] = False
    return np.asarray(at_limit)
