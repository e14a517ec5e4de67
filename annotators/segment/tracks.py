"""What of an episode's signals tells of each arm: its path, its gripper or hand, and its channels of contact."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from annotators.motion import (
    JOINTS,
    OTHER_DIMENSIONS,
    MotionMeaning,
    divide_into_equal_periods,
    find_gripper_dimensions,
    find_motion_groups,
)
from ares.signals import DimensionKind, name_tokens, parse_arm_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Signal, Trajectory

# Faster sources are averaged over so many seconds, slower ones keep their rate.
SHORTEST_PERIOD = 0.05
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
_FORCE_AXES = frozenset({"fx", "fy", "fz", "tx", "ty", "tz"})
# A dimension with a smaller range rests, in its unit or as a share of the widest.
_LEAST_RANGE = 1e-5
# Joints of a hand that move less rest: radians, or the share of a hand from 0 to 1; or a share of its widest joint.
_LEAST_HAND_RANGE, _LEAST_HAND_SHARE = 0.1, 0.3
# An arm whose path spreads less than this share of the widest is parked.
_PARKED_SHARE = 0.05
# An action that is nearer to zero than this share of its largest value in half of the steps is a change, no position.
_CHANGE_SHARE = 0.2
# The speed of the state goes with an action that is a change by at least this correlation.
_LEAST_FOLLOW = 0.4


class SignalKey(NamedTuple):
    """Names and kinds of the dimensions of one signal, and whether it is the state, the action or another."""

    name: str
    names: tuple[str, ...]
    kinds: tuple[DimensionKind, ...]


@dataclass(frozen=True, slots=True)
class Channel:
    """Dimensions that are one thing of an arm.

    Attributes:
        part: "path", "gripper", "hand" or "contact".
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
    """

    arm: str
    path: NDArray[np.float64] | None
    command: NDArray[np.float64] | None
    velocity: NDArray[np.float64] | None
    grips: tuple[NDArray[np.float64], ...]
    ends: tuple[tuple[DimensionKind, NDArray[np.float64]], ...]
    contacts: tuple[NDArray[np.float64], ...]


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
    return tuple(channels)


def _path_channels(key: SignalKey) -> Iterator[Channel]:
    """Joints first, since they tell of rotations too; what belongs to no arm only where there is no arm with a name."""
    groups = find_motion_groups(key.names, key.kinds)
    named = [group for group in groups if group.arm]
    for group in sorted(named or groups, key=lambda own: own.space != JOINTS):
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
    """The tracks of an episode; None where it has fewer than two steps at different times, or nothing that moves."""
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
    parts = [signals[own.signal].values[:, list(own.columns)] for own in channels]
    values = np.concatenate(parts, axis=1, dtype=np.float64)
    values = fill_gaps(values if rising.all() else values[rising])
    held = periods.held_means(values)
    summed = _sum_changes(values, channels, periods.steps[:, 0], meaning)
    resampled, tracks, stop = periods.means(values - values[0]), [], 0
    commands: dict[Channel, NDArray[np.float64]] = {}
    for channel in channels:
        start, stop = stop, stop + len(channel.columns)
        own = resampled[:, start:stop]
        tracks.append((channel, own[:, _moving_dimensions(own, channel.part)]))
        if channel.signal == "action":
            commands[channel] = held[:, start:stop]
    arms = tuple(_gather_arms(tracks, summed, commands))
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
        own = values[:, start:stop]
        largest = np.maximum(np.abs(own).max(axis=0), 1e-12)
        if (
            float((np.median(np.abs(own), axis=0) / largest).mean()) < _CHANGE_SHARE
            or _has_both_signs(own)
            or _follows_as_speed(own, channel, values, channels, steps)
        ):
            periods = np.concatenate([steps[:1], steps])[:, None]
            values[:, start:stop] = np.cumsum(own * periods, axis=0)
            summed.add(channel)
    return frozenset(summed)


def _follows_as_speed(
    own: NDArray[np.float64],
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
        if other.signal == "state" and is_like and stop - start == own.shape[1]:
            path = values[:, start:stop]
            speeds = np.diff(path, axis=0) / steps[:, None]
            return correlate(own[:-1], speeds) > max(_LEAST_FOLLOW, correlate(own, path))
    return False


def correlate(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Correlation of two signals (T, D), of all dimensions together, each about its mean."""
    import numpy as np

    first, second = first - first.mean(axis=0), second - second.mean(axis=0)
    return float((first * second).sum() / max(np.sqrt((first * first).sum() * (second * second).sum()), 1e-12))


def _has_both_signs(values: NDArray[np.float64]) -> bool:
    """Whether most dimensions (T, D) go about as far above zero as below it, and begin near it."""
    import numpy as np

    high, low = values.max(axis=0), -values.min(axis=0)
    balanced = (np.minimum(high, low) > 0.4 * np.maximum(high, low)) & (
        np.abs(values[0]) < 0.3 * np.maximum(high, low)
    )
    return bool(balanced.mean() > 0.5)


def _gather_arms(
    tracks: Sequence[tuple[Channel, NDArray[np.float64]]],
    summed: Collection[Channel],
    held: Mapping[Channel, NDArray[np.float64]],
) -> Iterator[ArmTracks]:
    """The arms that move; the first channel of each part that changes is the one that counts.

    The action counts for what the state does not have: of a part that the state has, it may name no arm.
    """
    moving = [(channel, own) for channel, own in tracks if own.shape[1]]
    commands = {
        channel.arm: own for channel, own in reversed(moving) if channel.part == "path" and channel in summed
    }
    velocities = {
        channel.arm: held[channel] for channel, own in reversed(moving) if channel.part == "path" and channel in summed
    }
    grips: dict[str, list[NDArray[np.float64]]] = {}
    for channel, own in moving:
        if channel.signal == "action" and channel.part in ("gripper", "hand"):
            grips.setdefault(channel.arm, []).append(held[channel])
    known = {channel.part for channel, _ in moving if channel.signal == "state"}
    moving = [
        (channel, own) for channel, own in moving if channel.signal != "action" or channel.part not in known
    ]
    arms = dict.fromkeys(channel.arm for channel, _ in moving if channel.part == "path")
    only = next(iter(arms)) if len(arms) == 1 else None
    by_arm: dict[str, list[tuple[Channel, NDArray[np.float64]]]] = {arm: [] for arm in arms}
    for channel, own in moving:
        arm = only if only is not None and not channel.arm else channel.arm
        by_arm.setdefault(arm, []).append((channel, own))
    paths, ends = _widest_ranges(by_arm, ("path",)), _widest_ranges(by_arm, ("gripper", "hand"))
    for arm, parts in by_arm.items():
        if paths[arm] < _PARKED_SHARE * max(paths.values()) and ends[arm] <= _PARKED_SHARE * max(
            ends.values()
        ):
            continue
        path = next((values for channel, values in parts if channel.part == "path"), None)
        contacts = tuple(values for channel, values in parts if channel.part == "contact")
        yield ArmTracks(
            arm=arm,
            path=_scale_unknown(parts, path),
            command=commands.get(arm, commands.get("")) if "path" in known else None,
            velocity=velocities.get(arm, velocities.get("")) if "path" in known else None,
            grips=tuple(grips.get(arm, grips.get("", ()) if len(by_arm) == 1 else ())),
            ends=_first_of(parts, "gripper") + _first_of(parts, "hand"),
            contacts=contacts,
        )


def _widest_ranges(
    by_arm: Mapping[str, Sequence[tuple[Channel, NDArray[np.float64]]]], parts: Collection[str]
) -> dict[str, float]:
    """Of each arm, the largest range of a dimension of the first channel of some parts."""
    return {
        arm: next((float(find_ranges(values).max()) for channel, values in own if channel.part in parts), 0.0)
        for arm, own in by_arm.items()
    }


def find_ranges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(D,) ranges of the dimensions (N, D); as `np.ptp`, in less time."""
    ranges: NDArray[np.float64] = values.max(axis=0) - values.min(axis=0)
    return ranges


def _first_of(
    tracks: Sequence[tuple[Channel, NDArray[np.float64]]], part: DimensionKind
) -> tuple[tuple[DimensionKind, NDArray[np.float64]], ...]:
    return tuple((part, values) for channel, values in tracks if channel.part == part)[:1]


def _scale_unknown(
    tracks: Sequence[tuple[Channel, NDArray[np.float64]]], path: NDArray[np.float64] | None
) -> NDArray[np.float64] | None:
    """The path; dimensions of which nothing is known each as a share of its range."""
    import numpy as np

    channel = next((channel for channel, _ in tracks if channel.part == "path"), None)
    if path is None or channel is None or channel.space != OTHER_DIMENSIONS:
        return path
    return np.asarray(path / np.maximum(find_ranges(path), 1e-12))
