"""Where something begins or ends by the signals: grippers and hands, rests, speed, direction and contact, per arm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from ares.signals import DimensionKind, find_runs
from ares_annotators.motion import MotionMeaning
from ares_annotators.segment.spans import (
    SHORTEST_SECONDS,
    ArmBoundaries,
    Boundary,
    BoundarySource,
    find_distance,
    join_boundaries,
)
from ares_annotators.segment.tracks import ArmTracks, EpisodeTracks, correlate, find_ranges, read_tracks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json, Trajectory

# Speeds are means over so many seconds, twice.
_SMOOTH_SECONDS = 0.1
# An arm rests below this share of its usual speed, or so many times the speed of its noise where that is more.
_REST_SHARE, _REST_NOISE, _MOST_REST_SHARE = 0.12, 2.5, 0.3
# It moves again above so many times the speed of rest.
_MOVES_AGAIN = 2.0
_SHORTEST_REST = 0.25
# A shorter rest between two movements is one boundary, at its middle.
_SHORT_REST_SECONDS = 0.4
# Between two movements the speed falls below this share of the lower of their peaks.
_DIP_SHARE = 0.75
# How much of the confidence of such a dip is by its depth; the rest is by the turn.
_DEPTH_WEIGHT = 0.6
# Directions are compared over so many seconds before and after; it turns from this angle on, in degrees.
_TURN_SECONDS, _TURN_DEGREES, _STRAIGHT_DEGREES = 0.4, 60.0, 20.0
# A way counts in full from this share of that at the usual speed.
_TURN_WAY = 0.4
# A commanded velocity jumps by this share of the usual speed, or a command of a gripper by one of its range, and by so
# many times the step that this share of all steps is below.
_JUMP_SHARE, _GRIP_JUMP_SHARE, _JUMP_NOISE, _USUAL_STEP = 0.3, 0.3, 3.5, 0.25
# Commands are of the motion that is measured from this correlation on.
_SAME_MOTION = 0.2
# A gripper moves faster than this share of its range per second, and by at least this share of it.
_END_SPEED, _LEAST_END_CHANGE = 0.4, 0.2
_END_NOISE = 6.0
# Movements of a gripper in one direction with a shorter gap are one.
_END_GAP = 0.5
# Contact begins where a channel leaves its noise by so many deviations and this share of its range.
_CONTACT_NOISE, _CONTACT_SHARE, _SHORTEST_CONTACT = 8.0, 0.2, 0.15
# A thing begins to move from this share of its fastest and so many times its noise on, after a rest of so many seconds.
_THING_SHARE, _THING_NOISE, _THING_GAP, _THING_CONFIDENCE = 0.01, 6.0, 0.25, 0.3
# A boundary of the arm's motion so near one of its gripper, hand or contact is of the same event.
_SAME_EVENT_SECONDS = 0.3
# Less sure boundaries are left out.
_LEAST_CONFIDENCE = 0.25

SIGNAL_SETTINGS: dict[str, Json] = {
    "smooth": _SMOOTH_SECONDS,
    "rest": [_REST_SHARE, _REST_NOISE, _MOST_REST_SHARE, _MOVES_AGAIN, _SHORTEST_REST, _SHORT_REST_SECONDS],
    "dip": [_DIP_SHARE, _DEPTH_WEIGHT],
    "turn": [_TURN_SECONDS, _TURN_DEGREES, _STRAIGHT_DEGREES, _TURN_WAY],
    "command": [_JUMP_SHARE, _GRIP_JUMP_SHARE, _JUMP_NOISE, _USUAL_STEP, _SAME_MOTION],
    "gripper": [_END_SPEED, _LEAST_END_CHANGE, _END_NOISE, _END_GAP],
    "contact": [_CONTACT_NOISE, _CONTACT_SHARE, _SHORTEST_CONTACT],
    "thing": [_THING_SHARE, _THING_NOISE, _THING_GAP, _THING_CONFIDENCE],
    "same_event": _SAME_EVENT_SECONDS,
    "least": _LEAST_CONFIDENCE,
}


def find_signal_boundaries(
    trajectory: Trajectory | None, meaning: MotionMeaning | None, duration_seconds: float
) -> tuple[ArmBoundaries, ...]:
    """The boundaries of each arm that moves; none where no signal changes.

    Args:
        trajectory: The signals.
        meaning: What their dimensions are.
        duration_seconds: Of the episode.
    """
    if trajectory is None or meaning is None:
        return ()
    tracks = read_tracks(trajectory, meaning)
    if tracks is None:
        return ()
    return tuple(
        ArmBoundaries(arm.arm, join_boundaries(_arm_boundaries(arm, tracks), duration_seconds))
        for arm in tracks.arms
    )


def _arm_boundaries(arm: ArmTracks, tracks: EpisodeTracks) -> list[Boundary]:
    """The boundaries of an arm that are sure enough; those of its motion only where no event is near."""
    start, period = tracks.start, tracks.period
    events: list[Boundary] = []
    for kind, values in arm.ends:
        events += _end_boundaries(values, kind, start, period)
    for values in arm.contacts:
        events += _contact_boundaries(values, start, period)
    path, is_change = arm.path, False
    if path is not None and arm.command is not None and _move_together(path, arm.command, period):
        path, is_change = arm.command, True
    motion = [] if path is None else list(_motion_boundaries(path, start, period))
    motion += _command_boundaries(arm, start, period, is_change)
    motion += _thing_boundaries(arm.things, start, period)
    seconds = sorted(event.seconds for event in events)
    apart = [
        boundary for boundary in motion if find_distance(seconds, boundary.seconds) > _SAME_EVENT_SECONDS
    ]
    return [boundary for boundary in (*events, *apart) if boundary.confidence >= _LEAST_CONFIDENCE]


def smooth(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """(N, D) running means over an odd number of periods, over fewer at the ends."""
    import numpy as np

    half = min(width // 2, len(values) - 1)
    if half < 1:
        return values
    sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    index = np.arange(len(values))
    low, high = np.maximum(index - half, 0), np.minimum(index + half + 1, len(values))
    return np.asarray((sums[high] - sums[low]) / (high - low)[:, None])


def _count_periods(seconds: float, period: float) -> int:
    """The odd number of periods in so many seconds."""
    return 2 * int(seconds / period / 2) + 1


def _smooth_speeds(
    path: NDArray[np.float64], period: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(N - 1, D) velocities of a path, and (N - 1,) their lengths."""
    import numpy as np

    width = _count_periods(_SMOOTH_SECONDS, period)
    velocity = smooth(smooth(np.diff(path, axis=0) / period, width), width)
    return velocity, np.sqrt((velocity * velocity).sum(axis=1))


def _move_together(path: NDArray[np.float64], command: NDArray[np.float64], period: float) -> bool:
    """Whether a commanded path goes as the measured one, or is fast where that is: else it is no sum of changes."""
    (velocity, speed), (commanded, commanded_speed) = (
        _smooth_speeds(positions, period) for positions in (path, command)
    )
    if velocity.shape == commanded.shape and correlate(velocity, commanded) >= _SAME_MOTION:
        return True
    return correlate(speed[:, None], commanded_speed[:, None]) >= _SAME_MOTION


def _command_boundaries(arm: ArmTracks, start: float, period: float, is_change: bool) -> Iterator[Boundary]:
    """Where a commanded velocity jumps, as at another goal, or a command of the gripper or hand does."""
    import numpy as np

    if is_change and arm.velocity is not None:
        speed = np.sqrt((arm.velocity * arm.velocity).sum(axis=1))
        usual = float((speed * speed).sum()) / max(float(speed.sum()), 1e-12)
        yield from _find_jumps(arm.velocity, start, period, usual, _JUMP_SHARE)
    for grip in arm.grips:
        yield from _find_jumps(grip, start, period, float(find_ranges(grip).max()), _GRIP_JUMP_SHARE)


def _find_jumps(
    values: NDArray[np.float64], start: float, period: float, whole: float, least_share: float
) -> Iterator[Boundary]:
    """Where held commands (N, D) change by a share of the whole at once, by far more than from step to step.

    What a change has in common with those beside it is no jump: so goes a command that speeds up for a while.
    """
    import numpy as np

    changes = np.diff(values, axis=0)
    sizes = np.sqrt((changes * changes).sum(axis=1))
    if not sizes.any():
        return
    padded = np.zeros((len(changes) + 2, changes.shape[1]))
    padded[1:-1] = changes
    common = ((padded[:-2] + padded[2:]) * changes).sum(axis=1) / 2 / np.maximum(sizes, 1e-12)
    jumps = np.zeros(len(sizes) + 2)
    jumps[1:-1] = sizes - np.maximum(common, 0)
    inner = jumps[1:-1]
    usual = int(_USUAL_STEP * len(sizes))
    bar = max(least_share * whole, _JUMP_NOISE * float(np.partition(sizes, usual)[usual]))
    for number in np.flatnonzero((inner > bar) & (inner >= jumps[:-2]) & (inner > jumps[2:])).tolist():
        more = min(1.0, max(0.0, float(inner[number]) / whole - least_share))
        yield Boundary(start + (number + 1) * period, "command", 0.7 + 0.3 * more)


def _motion_boundaries(path: NDArray[np.float64], start: float, period: float) -> Iterator[Boundary]:
    """Where an arm begins to rest or to move, and where one movement ends and another begins."""
    import numpy as np

    _, speed = _smooth_speeds(path, period)
    total = float(speed.sum())
    if total <= 0 or len(speed) < 3:
        return
    usual = float((speed * speed).sum()) / total
    floor = float(np.partition(speed, len(speed) // 20)[len(speed) // 20])
    bar = max(_REST_SHARE * usual, min(_REST_NOISE * floor, _MOST_REST_SHARE * usual))
    rests = _find_rests(speed, bar, period)
    # The change from one period to the next belongs to the instant between them.
    offset = start + period
    for first, stop in rests.tolist():
        depth = 1 - float(speed[first:stop].mean()) / usual
        sure = depth * min(1.0, 0.5 + (stop - first) * period)
        begins, ends = offset + first * period, offset + (stop - 1) * period
        if first > 0 and stop < len(speed) and ends - begins < _SHORT_REST_SECONDS:
            yield Boundary((begins + ends) / 2, "rest", sure)
            continue
        if first > 0:
            yield Boundary(begins, "rest", sure)
        if stop < len(speed):
            yield Boundary(ends, "rest", sure)
    least_way = _TURN_WAY * usual * _TURN_SECONDS
    for at, share in _find_dips(speed, rests):
        angle = _turn_angle(path, at + 1, max(1, round(_TURN_SECONDS / period)), least_way)
        source: BoundarySource = "direction" if angle >= _TURN_DEGREES else "speed"
        turn = min(1.0, max(0.0, angle - _STRAIGHT_DEGREES) / (90 - _STRAIGHT_DEGREES))
        sure = _DEPTH_WEIGHT * (1 - share / _DIP_SHARE) + (1 - _DEPTH_WEIGHT) * turn
        yield Boundary(offset + at * period, source, sure)


def _find_rests(speed: NDArray[np.float64], bar: float, period: float) -> NDArray[np.intp]:
    """(R, 2) runs below the bar, joined where it does not move clearly between them, that last long enough."""
    import numpy as np

    slow = find_runs(speed < bar)
    if not len(slow):
        return slow
    gaps = [
        bool(speed[a:b].max() >= _MOVES_AGAIN * bar) for a, b in zip(slow[:-1, 1], slow[1:, 0], strict=True)
    ]
    keep = np.array([True, *gaps])
    joined = np.column_stack([slow[keep, 0], slow[np.append(keep[1:], True), 1]])
    return np.asarray(joined[(joined[:, 1] - joined[:, 0]) * period >= _SHORTEST_REST])


def _find_dips(speed: NDArray[np.float64], rests: NDArray[np.intp]) -> list[tuple[int, float]]:
    """Index, and share of the lower peak beside it, of each dip of the speed that is no rest."""
    import numpy as np

    lows = np.flatnonzero((speed[1:-1] <= speed[:-2]) & (speed[1:-1] < speed[2:])) + 1
    if not len(lows):
        return []
    resting = np.zeros(len(speed), dtype=bool)
    for first, stop in rests.tolist():
        resting[first:stop] = True
    return [(at, share) for at, share in _deep_lows(speed, lows) if not resting[at]]


def _deep_lows(speed: NDArray[np.float64], lows: NDArray[np.intp]) -> list[tuple[int, float]]:
    """The dips whose share of the lower of the peaks beside them is small; a shallower one is part of a movement.

    The shallowest goes first, since the peaks beside the others change with it.
    """
    import numpy as np

    while len(lows):
        peaks = np.maximum.reduceat(speed, np.concatenate([[0], lows]))
        shares = speed[lows] / np.maximum(np.minimum(peaks[:-1], peaks[1:]), 1e-12)
        beside = np.concatenate([[0.0], shares, [0.0]])
        goes = (shares > _DIP_SHARE) & (shares >= beside[:-2]) & (shares > beside[2:])
        if not goes.any():
            return list(zip(lows.tolist(), shares.tolist(), strict=True))
        lows = lows[~goes]
    return []


def _turn_angle(path: NDArray[np.float64], at: int, reach: int, least_way: float) -> float:
    """Degrees between the ways before and after a period of the path (N, D); less where one is short, as of noise."""
    import numpy as np

    before = path[at] - path[max(0, at - reach)]
    after = path[min(len(path) - 1, at + reach)] - path[at]
    ways = np.sqrt([before @ before, after @ after])
    if not ways.all():
        return 0.0
    angle = float(np.degrees(np.arccos(np.clip(before @ after / ways.prod(), -1, 1))))
    return angle * min(1.0, float(ways.min()) / least_way)


def _end_boundaries(
    values: NDArray[np.float64], kind: DimensionKind, start: float, period: float
) -> Iterator[Boundary]:
    """Where a gripper or hand begins to move and where it has moved, once where that takes less than 0.3 s."""
    import numpy as np

    closure = _end_closure(values)
    change = np.diff(closure)
    spread = float(closure.max() - closure.min())
    noise = _typical_change(change)
    source: BoundarySource = "hand" if kind == "hand" else "gripper"
    bar = max(_END_SPEED * period * spread, 3 * noise)
    for first, stop in _join_movements(change, bar, max(1, round(_END_GAP / period))):
        size = abs(float(closure[stop] - closure[first]))
        if size < max(_LEAST_END_CHANGE * spread, _END_NOISE * noise):
            continue
        sure = 0.6 + 0.4 * min(1.0, size / spread)
        begins, ends = start + (first + 0.5) * period, start + (stop + 0.5) * period
        if ends - begins >= SHORTEST_SECONDS + period:
            yield Boundary(begins, source, sure)
            yield Boundary(ends, source, sure)
        else:
            yield Boundary((begins + ends) / 2, source, sure)


def _typical_change(changes: NDArray[np.float64]) -> float:
    """Standard deviation of changes of a signal that mostly has noise only."""
    import numpy as np

    middle = len(changes) // 2
    return 1.48 * float(np.partition(np.abs(changes), middle)[middle])


def _end_closure(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N,) how far a gripper or hand of D dimensions is along the way on which most of them move together."""
    import numpy as np

    if values.shape[1] == 1:
        return values[:, 0]
    shares = (values - values.mean(axis=0)) / np.maximum(np.ptp(values, axis=0).max(), 1e-12)
    _, vectors = np.linalg.eigh(shares.T @ shares)
    return np.asarray(shares @ vectors[:, -1])


def _join_movements(change: NDArray[np.float64], bar: float, gap: int) -> list[tuple[int, int]]:
    """First and one past the last of the changes (N - 1,) of each movement in one direction."""
    import numpy as np

    signs = (change > bar).astype(np.int8) - (change < -bar)
    padded = np.zeros(len(signs) + 2, dtype=np.int8)
    padded[1:-1] = signs
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    joined: list[tuple[int, int, int]] = []
    for first, stop in pairwise(edges.tolist()):
        sign = int(signs[first])
        if sign == 0:
            continue
        if joined and joined[-1][2] == sign and first - joined[-1][1] <= gap:
            joined[-1] = (joined[-1][0], stop, sign)
        else:
            joined.append((first, stop, sign))
    return [(first, stop) for first, stop, _ in joined]


def _contact_boundaries(values: NDArray[np.float64], start: float, period: float) -> Iterator[Boundary]:
    """Where contact begins and ends by a channel (N, D) of forces, torques or touch."""
    import numpy as np

    away = np.sqrt(((values - np.median(values, axis=0)) ** 2).sum(axis=1))
    noise = _typical_change(np.diff(away))
    top = float(np.partition(away, -max(1, len(away) // 50))[-max(1, len(away) // 50)])
    bar = float(np.median(away)) + max(_CONTACT_NOISE * noise, _CONTACT_SHARE * top)
    touching = find_runs(away > bar)
    for first, stop in _join_runs(touching, max(1, round(_SHORTEST_CONTACT / period))):
        if (stop - first) * period < _SHORTEST_CONTACT:
            continue
        sure = min(1.0, 0.4 + 0.6 * float(away[first:stop].mean()) / max(top, 1e-12))
        if first > 0:
            yield Boundary(start + first * period, "contact", sure)
        if stop < len(away):
            yield Boundary(start + stop * period, "contact", sure)


def _thing_boundaries(values: NDArray[np.float64], start: float, period: float) -> Iterator[Boundary]:
    """Where a thing (N, D) that rested begins to move."""
    import numpy as np

    if not values.size:
        return
    changes = np.diff(values, axis=0)
    speed = np.sqrt((changes * changes).sum(axis=1))
    noise = float(np.partition(speed, len(speed) // 4)[len(speed) // 4])
    moving = find_runs(speed > max(_THING_SHARE * float(speed.max()), _THING_NOISE * noise))
    for first, stop in _join_runs(moving, max(1, round(_THING_GAP / period))):
        if first > 0 and (stop - first) * period >= _SHORTEST_CONTACT:
            yield Boundary(start + (first + 1) * period, "thing", _THING_CONFIDENCE)


def _join_runs(runs: NDArray[np.intp], gap: int) -> Sequence[tuple[int, int]]:
    """Runs with a gap of at most so many periods as one."""
    joined: list[tuple[int, int]] = []
    for first, stop in runs.tolist():
        if joined and first - joined[-1][1] <= gap:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((first, stop))
    return joined
