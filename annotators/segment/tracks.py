"""What of an episode's signals tells of each arm: its path, its gripper or hand, and its channels of contact."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ares.signals import DimensionKind, name_tokens, parse_arm_name
from ares_annotators.motion import (
    JOINTS,
    OTHER_DIMENSIONS,
    MotionMeaning,
    divide_into_equal_periods,
    find_gripper_dimensions,
    find_motion_groups,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Signal, Trajectory

# Faster sources are averaged over so many seconds, slower ones keep their rate.
SHORTEST_PERIOD = 0.05
_END_PARTS = ("gripper", "hand")
_CONTACT_WORDS = frozenset(
    {
        "force",
        "forces",
        "wrench",
        "torque",
        "torques",
        "effort",
        "efforts",
        "tactile",
        "contact",
        "touch",
        "ft",
    }
)
# Names of a signal or dimension that is of things, as "environment_state" of LeRobot and "object" of robomimic.
_THING_WORDS = frozenset({"object", "objects", "obj", "environment"})
_FORCE_AXES = frozenset({"fx", "fy", "fz", "tx", "ty", "tz"})
# A dimension with a smaller range rests, in its unit or as a share of the widest.
_LEAST_RANGE = 1e-5
# Joints of a hand that move less rest: radians, or the share of a hand from 0 to 1; or a share of its widest joint.
_LEAST_HAND_RANGE, _LEAST_HAND_SHARE = 0.1, 0.3
# An arm whose path spreads less than this share of the widest is parked.
_PARKED_SHARE = 0.05
# An action that is nearer to zero than this share of its largest value in half of the steps is a change, no position.
_CHANGE_SHARE = 0.2
# A dimension of things rests, slower than this share of its fastest, in this share of the time in which the arm moves;
# it is one of the arm's where it goes with that by this correlation.
_STILL_SPEED, _LEAST_STILL, _SAME_DIMENSION = 0.02, 0.2, 0.99
# The speed of the state goes with an action that is a change by at least this correlation.
_LEAST_FOLLOW = 0.3


class SignalKey(NamedTuple):
    """Names and kinds of the dimensions of one signal, and whether it is the state, the action or another."""

    name: str
    names: tuple[str, ...]
    kinds: tuple[DimensionKind, ...]


@dataclass(frozen=True, slots=True)
class Channel:
    """Dimensions that are one thing of an arm.

    Attributes:
        part: "path", "gripper", "hand", "contact" or "thing".
        arm: The arm.
        space: Space of a path, see `find_motion_groups`; "" for another part.
        signal: Name of the signal.
        columns: Numbers of its dimensions.
    """

    part: str
    arm: str
    space: str
    signal: str
    columns: tuple[int, ...]


class _Track(NamedTuple):
    """A channel over N equal periods: its dimensions that move, and all of them as commands that hold to the next."""

    channel: Channel
    values: NDArray[np.float64]
    commanded: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArmTracks:
    """One arm over N equal periods.

    Attributes:
        arm: Its name, "" for the only one.
        path: (N, D) its path, or None.
        command: (N, D) the summed changes that were commanded beside a measured path, or None.
        velocity: (N, D) these changes themselves, each held until the next, or None.
        grips: Commands of the gripper or hand, each (N, D) and held until the next.
        ends: Gripper or hand, by kind, (N, D).
        contacts: Channels of contact, each (N, D).
        things: (N, D) what rests for a while as the arm moves, and is none of its dimensions; D may be 0.
    """

    arm: str
    path: NDArray[np.float64] | None
    command: NDArray[np.float64] | None
    velocity: NDArray[np.float64] | None
    grips: tuple[NDArray[np.float64], ...]
    ends: tuple[tuple[DimensionKind, NDArray[np.float64]], ...]
    contacts: tuple[NDArray[np.float64], ...]
    things: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpisodeTracks:
    """The arms of an episode, at equal periods.

    Attributes:
        start: Seconds at which the first period begins.
        period: Seconds.
        arms: The arms that move, or the only ones.
    """

    start: float
    period: float
    arms: tuple[ArmTracks, ...]


@functools.lru_cache(maxsize=256)
def find_channels(signals: tuple[SignalKey, ...]) -> tuple[Channel, ...]:
    """The channels of the signals of an episode; those of one part of an arm in order of preference."""
    channels: list[Channel] = []
    for key in signals:
        if key.name in ("state", "action"):
            channels += _path_channels(key)
            channels += _end_channels(key)
        channels += _contact_channels(key)
        things = tuple(number for number, _ in enumerate(key.names) if _is_of_things(key, number))
        if things and key.name != "action":
            channels.append(Channel("thing", "", "", key.name, things))
    return tuple(channels)


def _is_of_things(key: SignalKey, number: int) -> bool:
    signal = key.name if key.name not in ("state", "action") else ""
    return not _THING_WORDS.isdisjoint((*name_tokens(key.names[number]), *name_tokens(signal)))


def _path_channels(key: SignalKey) -> Iterator[Channel]:
    """Joints first, since they tell of rotations too; what belongs to no arm only where there is no arm with a name."""
    groups = [
        group
        for group in find_motion_groups(key.names, key.kinds)
        if group.space == OTHER_DIMENSIONS or not _is_of_things(key, group.columns[0])
    ]
    named = [group for group in groups if group.arm]
    for group in sorted(named or groups, key=lambda item: item.space != JOINTS):
        yield Channel("path", group.arm, group.space, key.name, group.columns)


def _end_channels(key: SignalKey) -> Iterator[Channel]:
    ends: tuple[DimensionKind, ...] = ("gripper", "hand")
    for kind in ends:
        for columns in find_gripper_dimensions(key.names, key.kinds, kind):
            yield Channel(kind, parse_arm_name(key.names[columns[0]]), "", key.name, columns)


def _contact_channels(key: SignalKey) -> Iterator[Channel]:
    by_arm: dict[str, list[int]] = {}
    for number, name in enumerate(key.names):
        words = {*name_tokens(name), *(name_tokens(key.name) if key.name not in ("state", "action") else ())}
        if words & _CONTACT_WORDS or words & _FORCE_AXES:
            by_arm.setdefault(parse_arm_name(name) or parse_arm_name(key.name), []).append(number)
    for arm, columns in by_arm.items():
        yield Channel("contact", arm, "", key.name, tuple(columns))


def read_tracks(trajectory: Trajectory, meaning: MotionMeaning) -> EpisodeTracks | None:
    """The tracks of an episode.

    None where it has fewer than two steps at different times, a clock that jumps too far, or nothing that moves.
    """
    import numpy as np

    signals = _named_signals(trajectory)
    keys = tuple(
        SignalKey(name, signal.names, _kinds_of(name, signal, meaning)) for name, signal in signals.items()
    )
    channels = find_channels(keys)
    seconds = np.asarray(trajectory.timestamps, dtype=np.float64)
    rising = _rising_steps(seconds)
    periods = divide_into_equal_periods(seconds[rising], SHORTEST_PERIOD) if rising.sum() > 1 else None
    if periods is None or periods.count < 3 or not channels:
        return None
    parts = [signals[channel.signal].values[:, list(channel.columns)] for channel in channels]
    values = np.concatenate(parts, axis=1, dtype=np.float64)
    values = fill_gaps(values if rising.all() else values[rising])
    commanded = periods.step_means(values)
    summed = _sum_changes(values, channels, periods.steps[:, 0], meaning)
    resampled, tracks, stop = periods.means(values - values[0]), [], 0
    for channel in channels:
        start, stop = stop, stop + len(channel.columns)
        channel_values = resampled[:, start:stop]
        moving = channel_values[:, _moving_dimensions(channel_values, channel.part)]
        tracks.append(_Track(channel, moving, commanded[:, start:stop]))
    arms = tuple(_gather_arms(tracks, summed))
    return EpisodeTracks(start=float(seconds[rising][0]), period=periods.period, arms=arms)


def _moving_dimensions(values: NDArray[np.float64], part: str) -> NDArray[np.bool_]:
    """(D,) which dimensions of a channel (N, D), counted from the first step, move."""
    ranges = find_ranges(values)
    if part == "hand":
        return ranges > max(_LEAST_HAND_RANGE, _LEAST_HAND_SHARE * float(ranges.max()))
    return ranges > _LEAST_RANGE * max(1.0, float(ranges.max()))


def _named_signals(trajectory: Trajectory) -> dict[str, Signal]:
    signals = {"state": trajectory.state, "action": trajectory.action, **trajectory.extra}
    return {name: signal for name, signal in signals.items() if signal is not None and signal.names}


def _kinds_of(name: str, signal: Signal, meaning: MotionMeaning) -> tuple[DimensionKind, ...]:
    kinds = {"state": meaning.state_kinds, "action": meaning.action_kinds}.get(name, ())
    unknown: DimensionKind = "unknown"
    return kinds if len(kinds) == len(signal.names) else (unknown,) * len(signal.names)


def _rising_steps(seconds: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(T,) the steps whose stamp is finite and later than all before it."""
    import numpy as np

    latest = np.fmax.accumulate(seconds)
    rising = np.isfinite(seconds)
    rising[1:] &= ~(seconds[1:] <= latest[:-1])
    return np.asarray(rising)


def fill_gaps(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T, D) values with a straight line over each gap that is not finite; 0 for a dimension without a finite value."""
    import numpy as np

    if np.isfinite(values.sum()):
        return values
    filled, steps = values.copy(), np.arange(len(values))
    for number in np.flatnonzero(~np.isfinite(values).all(axis=0)):
        finite = np.isfinite(values[:, number])
        filled[:, number] = np.interp(steps, steps[finite], values[finite, number]) if finite.any() else 0.0
    return filled


def _sum_changes(
    values: NDArray[np.float64],
    channels: Sequence[Channel],
    steps: NDArray[np.float64],
    meaning: MotionMeaning,
) -> frozenset[Channel]:
    """Turn paths of actions that are changes or speeds into positions, in place; which channels these are."""
    import numpy as np

    stop, summed = 0, set[Channel]()
    for channel in channels:
        start, stop = stop, stop + len(channel.columns)
        if channel.part != "path" or channel.signal != "action" or meaning.path_signal == "action":
            continue
        channel_values = values[:, start:stop]
        largest = np.maximum(np.abs(channel_values).max(axis=0), 1e-12)
        if (
            float((np.median(np.abs(channel_values), axis=0) / largest).mean()) < _CHANGE_SHARE
            or _has_both_signs(channel_values)
            or _follows_as_speed(channel_values, channel, values, channels, steps)
        ):
            periods = np.concatenate([steps[:1], steps])[:, None]
            values[:, start:stop] = np.cumsum(channel_values * periods, axis=0)
            summed.add(channel)
    return frozenset(summed)


def _follows_as_speed(
    channel_values: NDArray[np.float64],
    channel: Channel,
    values: NDArray[np.float64],
    channels: Sequence[Channel],
    steps: NDArray[np.float64],
) -> bool:
    """Whether the measured path of the same dimensions goes as fast as the action (T, D) says, not where it says."""
    import numpy as np

    stop = 0
    for other in channels:
        start, stop = stop, stop + len(other.columns)
        is_like = (other.part, other.arm, other.space) == (channel.part, channel.arm, channel.space)
        if other.signal == "state" and is_like and stop - start == channel_values.shape[1]:
            path = values[:, start:stop]
            speeds = np.diff(path, axis=0) / steps[:, None]
            return correlate(channel_values[:-1], speeds) > max(
                _LEAST_FOLLOW, correlate(channel_values, path)
            )
    return False


def correlate(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Correlation of two signals (T, D), of all dimensions together, each about its mean."""
    import numpy as np

    first, second = first - first.mean(axis=0), second - second.mean(axis=0)
    return float(
        (first * second).sum() / max(np.sqrt((first * first).sum() * (second * second).sum()), 1e-12)
    )


def _has_both_signs(values: NDArray[np.float64]) -> bool:
    """Whether most dimensions (T, D) go about as far above zero as below it, and begin near it."""
    import numpy as np

    high, low = values.max(axis=0), -values.min(axis=0)
    balanced = (np.minimum(high, low) > 0.4 * np.maximum(high, low)) & (
        np.abs(values[0]) < 0.3 * np.maximum(high, low)
    )
    return bool(balanced.mean() > 0.5)


def _gather_arms(tracks: Sequence[_Track], summed: Collection[Channel]) -> Iterator[ArmTracks]:
    """The arms that move; the first channel of each part that changes is the one that counts.

    The action counts for what the state does not have: of a part that the state has, it may name no arm.
    """
    moving = [track for track in tracks if track.values.shape[1]]
    known = {track.channel.part for track in moving if track.channel.signal == "state"}
    actions = [track for track in moving if track.channel.signal == "action"]
    changes = [track for track in actions if track.channel in summed and "path" in known]
    things = [track.values for track in moving if track.channel.part == "thing"]
    by_arm = _divide_by_arm(
        track
        for track in moving
        if track.channel.part != "thing"
        and (track.channel.signal != "action" or track.channel.part not in known)
    )
    paths, ends = _widest_ranges(by_arm, ("path",)), _widest_ranges(by_arm, ("gripper", "hand"))
    for arm, parts in by_arm.items():
        if paths[arm] < _PARKED_SHARE * max(paths.values()) and ends[arm] <= _PARKED_SHARE * max(
            ends.values()
        ):
            continue
        path = next((track.values for track in parts if track.channel.part == "path"), None)
        of_arm = _first_of(parts, "gripper") + _first_of(parts, "hand")
        change = next((track for name in (arm, "") for track in changes if track.channel.arm == name), None)
        names = {arm, ""} if len(by_arm) == 1 else {arm}
        yield ArmTracks(
            arm=arm,
            path=_scale_unknown(parts, path),
            command=change.values if change else None,
            velocity=change.commanded if change else None,
            grips=tuple(
                track.commanded
                for track in actions
                if track.channel.part in _END_PARTS and track.channel.arm in names
            ),
            ends=of_arm,
            contacts=tuple(track.values for track in parts if track.channel.part == "contact"),
            things=_find_things(things if len(by_arm) == 1 else (), path, of_arm),
        )


def _divide_by_arm(tracks: Iterable[_Track]) -> dict[str, list[_Track]]:
    """The tracks of each arm; those without an arm are of the only one that has a path."""
    tracks = list(tracks)
    arms = dict.fromkeys(track.channel.arm for track in tracks if track.channel.part == "path")
    only = next(iter(arms)) if len(arms) == 1 else None
    by_arm: dict[str, list[_Track]] = {arm: [] for arm in arms}
    for track in tracks:
        arm = only if only is not None and not track.channel.arm else track.channel.arm
        by_arm.setdefault(arm, []).append(track)
    return by_arm


def _find_things(
    values: Sequence[NDArray[np.float64]],
    path: NDArray[np.float64] | None,
    ends: Sequence[tuple[DimensionKind, NDArray[np.float64]]],
) -> NDArray[np.float64]:
    """(N, D) the dimensions that rest while the path of the only arm moves, and are no copies of it."""
    import numpy as np

    if not values or path is None:
        return np.zeros((0, 0))
    things = np.concatenate(values, axis=1)
    changes, steps = np.abs(np.diff(things, axis=0)), np.diff(path, axis=0)
    speed = np.sqrt((steps * steps).sum(axis=1))
    is_moving = speed > _STILL_SPEED * speed.max()
    is_still = changes <= _STILL_SPEED * changes.max(axis=0)
    motion = _standardise_dimensions(np.concatenate([path, *(end for _, end in ends)], axis=1))
    # A copy may be late by a step, as that of the frame before.
    same = np.maximum(
        np.abs(_standardise_dimensions(things).T @ motion),
        np.abs(_standardise_dimensions(things[1:]).T @ _standardise_dimensions(motion[:-1])),
    ).max(axis=1)
    return np.asarray(
        things[:, (is_still[is_moving].mean(axis=0) >= _LEAST_STILL) & (same < _SAME_DIMENSION)]
    )


def _standardise_dimensions(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Dimensions (N, D) about their mean, each of length 1; a constant one stays 0."""
    import numpy as np

    about = values - values.mean(axis=0)
    return np.asarray(about / np.maximum(np.sqrt((about * about).sum(axis=0)), 1e-12))


def _widest_ranges(by_arm: Mapping[str, Sequence[_Track]], parts: Collection[str]) -> dict[str, float]:
    """Of each arm, the largest range of a dimension of the first channel of some parts."""
    return {
        arm: next(
            (float(find_ranges(track.values).max()) for track in tracks if track.channel.part in parts), 0.0
        )
        for arm, tracks in by_arm.items()
    }


def find_ranges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(D,) ranges of the dimensions (N, D); as `np.ptp`, in less time."""
    ranges: NDArray[np.float64] = values.max(axis=0) - values.min(axis=0)
    return ranges


def _first_of(
    tracks: Sequence[_Track], part: DimensionKind
) -> tuple[tuple[DimensionKind, NDArray[np.float64]], ...]:
    return tuple((part, track.values) for track in tracks if track.channel.part == part)[:1]


def _scale_unknown(tracks: Sequence[_Track], path: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """The path; dimensions of which nothing is known each as a share of its range."""
    import numpy as np

    channel = next((track.channel for track in tracks if track.channel.part == "path"), None)
    if path is None or channel is None or channel.space != OTHER_DIMENSIONS:
        return path
    return np.asarray(path / np.maximum(find_ranges(path), 1e-12))
