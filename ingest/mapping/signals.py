"""Signals of a record by the keys of their arrays, and signals made of slices of these arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ares.episode import ArrayUse, Record, Signal, SourceArray, Trajectory
from ares.errors import SourceError
from ares.registry import did_you_mean
from ingest.base import MISSING
from ingest.signals import numbered_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ingest.dataset_spec import DatasetSpec, SliceSpec


def signal_arrays(record: Record) -> tuple[SourceArray, ...]:
    """The arrays of the signals; a signal whose arrays the reader does not tell counts as one array."""
    return tuple(
        array for use, name, signal in _signals(record) for array in _parts(record, use, name, signal)
    )


def _signals(record: Record) -> Iterator[tuple[ArrayUse, str, Signal]]:
    """Use, name (of extra signals) and values of each signal."""
    trajectory = record.trajectory
    if trajectory.state is not None:
        yield "state", "", trajectory.state
    if trajectory.action is not None:
        yield "action", "", trajectory.action
    if trajectory.reward is not None:
        yield "reward", "", Signal(trajectory.reward[:, None], ("reward",))
    for name, signal in trajectory.extra.items():
        yield "extra", name, signal


def _parts(record: Record, use: ArrayUse, name: str, signal: Signal) -> list[SourceArray]:
    parts = [array for array in record.arrays if array.use == use and array.name == name]
    if sum(array.width for array in parts) == signal.values.shape[1]:
        return parts
    return [SourceArray(key=name or use, use=use, name=name, shape=signal.values.shape, dtype="float32")]


def signals_by_key(record: Record) -> dict[str, Signal]:
    """(T, D) of each array of the signals, with the names of its numbers."""
    signals: dict[str, Signal] = {}
    for use, name, signal in _signals(record):
        start = 0
        for array in _parts(record, use, name, signal):
            stop = start + array.width
            signals[array.key] = Signal(signal.values[:, start:stop], signal.names[start:stop])
            start = stop
    return signals


def full_slices(record: Record, use: ArrayUse, name: str = "") -> tuple[SliceSpec, ...]:
    """The slices of which a signal of the record is made: all numbers of each of its arrays."""
    from ingest.dataset_spec import SliceSpec

    signals = signals_by_key(record)
    return tuple(
        SliceSpec(key=array.key, names=_shortest_names(signals[array.key].names))
        for array in signal_arrays(record)
        if (array.use, array.name) == (use, name)
    )


def _shortest_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """One name for numbered ones: it also fits the arrays of other records, which may be wider."""
    base = names[0].removesuffix("_0")
    return (base,) if names == numbered_names(base, len(names)) else names


def map_signals(record: Record, spec: DatasetSpec) -> Trajectory:
    """The signals as the spec assigns them; arrays that it does not name stay what they are, or become extra signals.

    Raises SourceError where the spec names an array that does not exist, or more numbers than it has.
    """
    from ingest.dataset_spec import SliceSpec

    signals = signals_by_key(record)
    arrays = {array.key: array for array in signal_arrays(record)}
    others = {array.key: array for array in record.arrays if array.use not in ("time", "ends")} | arrays
    state = spec.state or _remaining(full_slices(record, "state"), spec)
    action = spec.action or _remaining(full_slices(record, "action"), spec)
    own_reward = [key for key, array in arrays.items() if array.use == "reward" and key not in spec.left_out]
    reward = spec.reward or next(iter(own_reward), "")
    where = record.episode.source
    trajectory = replace(
        record.trajectory,
        state=_join(state, signals, "state", where, others),
        action=_join(action, signals, "action", where, others),
        reward=_single_numbers(reward, signals, where, others) if reward else None,
    )
    used = [*state, *action, *([SliceSpec(key=reward, names=(reward,))] if reward else [])]
    unused = {
        key: array
        for key, array in arrays.items()
        if key not in spec.left_out and not _is_covered(signals[key], key, used)
    }
    return replace(trajectory, extra=_extra_signals(unused, signals))


def _remaining(slices: Sequence[SliceSpec], spec: DatasetSpec) -> tuple[SliceSpec, ...]:
    return tuple(part for part in slices if part.key not in spec.left_out)


def _is_covered(signal: Signal, key: str, slices: Sequence[SliceSpec]) -> bool:
    """Whether the slices take every number of an array."""
    width = signal.values.shape[1]
    covered = {
        number for part in slices if part.key == key for number in range(part.start, part.stop or width)
    }
    return len(covered) == int(width)


def _extra_signals(arrays: Mapping[str, SourceArray], signals: Mapping[str, Signal]) -> dict[str, Signal]:
    """Extra signals of arrays without another use, under their own names or their keys."""
    keys_by_name: dict[str, list[str]] = {}
    for key, array in arrays.items():
        keys_by_name.setdefault(array.name if array.use == "extra" else key, []).append(key)
    return {name: _concatenate([signals[key] for key in keys]) for name, keys in keys_by_name.items()}


def _single_numbers(
    key: str, signals: Mapping[str, Signal], where: str, arrays: Mapping[str, SourceArray]
) -> NDArray[np.float32]:
    signal = _find(key, signals, "reward", where, arrays)
    if signal.values.shape[1] != 1:
        raise SourceError(
            "reward of the spec is not one number per step", f"{where}: {key} has {signal.values.shape[1]}"
        )
    return signal.values[:, 0]


def _join(
    slices: Sequence[SliceSpec],
    signals: Mapping[str, Signal],
    role: str,
    where: str,
    arrays: Mapping[str, SourceArray],
) -> Signal | None:
    """The slices side by side; None for no slice."""
    if not slices:
        return None
    parts = [_cut(part, _find(part.key, signals, role, where, arrays), role, where) for part in slices]
    signal = _concatenate(parts)
    if len(set(signal.names)) < len(signal.names):
        duplicate = next(name for name in signal.names if signal.names.count(name) > 1)
        raise SourceError(
            "two numbers of the spec have one name", f"{where}: {role} names {duplicate!r} twice"
        )
    return signal


def _find(
    key: str, signals: Mapping[str, Signal], role: str, where: str, arrays: Mapping[str, SourceArray]
) -> Signal:
    if key in signals:
        return signals[key]
    contents = ", ".join(
        f"{name} (T x {signals[name].values.shape[1]})"
        if name in signals
        else f"{name} ({array.dtype}, no signal)"
        for name, array in arrays.items()
    )
    reason = "it holds no numbers for each step; " if key in arrays else did_you_mean(key, arrays)
    raise SourceError(MISSING, f"{where}: {role} names {key!r}; {reason}it holds {contents or 'no signal'}")


def _cut(part: SliceSpec, signal: Signal, role: str, where: str) -> Signal:
    """The numbers of a slice with their names. Raises SourceError when they lie outside the array."""
    width = signal.values.shape[1]
    stop = width if part.stop is None else part.stop
    if not part.start < stop <= width:
        raise SourceError(
            "slice of the spec is outside its array",
            f"{where}: {role} takes {part.start} to {stop} of {part.key}, which has {width} numbers",
        )
    if len(part.names) not in (1, stop - part.start):
        raise SourceError(
            "names of the spec are not as many as the numbers",
            f"{where}: {role} has {len(part.names)} names for {stop - part.start} numbers of {part.key}",
        )
    names = (
        part.names
        if len(part.names) == stop - part.start
        else numbered_names(part.names[0], stop - part.start)
    )
    return Signal(signal.values[:, part.start : stop], names)


def _concatenate(parts: Sequence[Signal]) -> Signal:
    import numpy as np

    if len(parts) == 1:
        return Signal(np.ascontiguousarray(parts[0].values), parts[0].names)
    names = tuple(name for part in parts for name in part.names)
    return Signal(np.concatenate([part.values for part in parts], axis=1), names)
