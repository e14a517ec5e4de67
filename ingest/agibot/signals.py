"""Reads the signals of an AgiBot World episode from proprio_stats.h5, and lists its arrays for specs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.clock import infer_stamp_unit
from ares.console import count_of
from ares.episode import ArrayUse, NotRead, RateSource, Signal, SourceArray, Trajectory
from ares.errors import SourceError
from ares.input import (
    has_own_storage,
    input_budgets,
    is_hard_link,
    open_hdf5,
    require_own_storage,
    translate_hdf5_errors,
)
from ares.io import file_state
from ares_ingest.folder_layouts import read_folder_layout
from ares_ingest.signals import (
    MAX_SIGNAL_WIDTH,
    NO_TIME,
    SpecTimeArray,
    StepTimes,
    compute_spec_step_times,
    compute_step_times,
    convert_to_seconds,
    missing_time_error,
    numbered_names,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_TIME_KEY = "timestamp"
# No filter of HDF5 compresses better than this; a damaged shape could otherwise claim all memory.
_LARGEST_COMPRESSION_RATIO = 1100
_SMALL_BYTES = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class AgibotSignals:
    """The signals of one episode.

    Attributes:
        trajectory: Its state, action and other signals.
        rate_hz: Steps per second.
        rate_source: Where the rate comes from.
        has_stamps: Whether the times of its steps are stamps.
        content_hash: 32 hex digits over everything that was read.
        warnings: Reasons to warn.
        arrays: Every array of the file, and its use.
    """

    trajectory: Trajectory
    rate_hz: float
    rate_source: RateSource
    content_hash: str
    has_stamps: bool = False
    warnings: tuple[str, ...] = ()
    arrays: tuple[SourceArray, ...] = ()


@dataclass(slots=True)
class _ProprioReader:
    """The file of one episode, and what was read of it so far."""

    path: str
    time: SpecTimeArray = NO_TIME
    steps: int = 0
    warnings: dict[str, None] = field(default_factory=dict)
    unused: dict[str, str] = field(default_factory=dict)
    hash: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=16))

    @property
    def time_key(self) -> str:
        """The array of the times, by the spec or the format."""
        return self.time.key or _TIME_KEY

    def leave_out(self, key: str, reason: str) -> None:
        """Note and warn why an array is not stored."""
        self.unused[key] = reason
        self.warnings[NotRead(f"{key} is not stored ({reason})", key)] = None

    def read(self, key: str, array: Any) -> NDArray[Any]:
        """All rows of an array, as stored. Raises SourceError when it is damaged or claims too much."""
        import numpy as np

        where = f"{self.path}, {key}"
        with translate_hdf5_errors(where):
            require_own_storage(array)
            too_large = array.nbytes > input_budgets().array_bytes or array.nbytes > max(
                _LARGEST_COMPRESSION_RATIO * file_state(self.path).size, _SMALL_BYTES
            )
            if too_large:
                raise SourceError(
                    "HDF5 file is cut or damaged", f"{where}: {array.shape} is more than it holds"
                )
            rows: NDArray[Any] = np.asarray(array[()])
        self.hash.update(f"\x1f{key} {rows.dtype} {rows.shape}\x1f".encode() + rows.tobytes())
        return rows

    def rows(self, key: str, array: Any) -> NDArray[np.float32] | None:
        """(T, D) of an array with a row for each step; None, and a warning, for one that cannot be used."""
        import numpy as np

        if array.dtype.kind not in "biuf" or not array.ndim:
            self.leave_out(key, "no numbers for each step")
            return None
        if not has_own_storage(array):
            self.leave_out(key, "its values are in another file")
            return None
        values = self.read(key, array)
        values = values.reshape(len(values), -1) if len(values) else values.reshape(0, 0)
        if values.shape[1] > MAX_SIGNAL_WIDTH:
            self.leave_out(key, "too wide for a signal")
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(np.float32)


def read_agibot_signals(path: str, rate_hz: float | None, time: SpecTimeArray = NO_TIME) -> AgibotSignals:
    """Read proprio_stats.h5.

    Args:
        path: The file.
        rate_hz: Rate set by the user, or None.
        time: The array of the times, by the spec of the user.

    Raises SourceError when the file is missing or damaged, holds no step, or lacks the times of the spec.
    """
    # Damaged types and shapes raise only where they are looked at.
    with open_hdf5(path) as file, translate_hdf5_errors(path):
        reader = _ProprioReader(path, time)
        arrays = dict(_walk_arrays(file, path))
        shapes = {key: (tuple(array.shape), str(array.dtype)) for key, array in arrays.items()}
        times = _find_step_times(reader, arrays, rate_hz)
        values = {**_read_state(reader, arrays), **_align_actions(reader, arrays)}
        masks = _command_masks(reader, arrays)
        values |= _read_others(reader, arrays)
        # A part of an action would be another action.
        family = read_folder_layout("agibot_world")
        action = [f"action/{key}" for key in family.action]
        is_whole = all(key in values for key in action if key in arrays and arrays[key].size)
    parts = [_Part("state", "", key, values[key]) for key in _state_keys() if key in values]
    parts += [_Part("action", "", key, values[key]) for key in action if is_whole and key in values]
    used = {part.key for part in parts}
    others = (key for key in values if key not in used)
    parts += [_Part("extra", key.replace("/", "."), key, values[key]) for key in others]
    parts += [
        _Part("extra", f"action.{_arm_part(key)}.is_sent", key, rows, True) for key, rows in masks.items()
    ]
    trajectory = Trajectory(
        timestamps=times.seconds,
        state=_join_parts(parts, "state"),
        action=_join_parts(parts, "action"),
        extra={part.name: Signal(part.values, part.names) for part in parts if part.use == "extra"},
    )
    return AgibotSignals(
        trajectory=trajectory,
        rate_hz=times.rate_hz,
        rate_source=times.rate_source,
        has_stamps=times.has_stamps,
        content_hash=reader.hash.hexdigest(),
        warnings=tuple(reader.warnings),
        arrays=tuple(_list_arrays(reader, shapes, parts)),
    )


class _Part(NamedTuple):
    """An array that is a signal, or a part of one.

    Attributes:
        use: What it is used as.
        name: Name of an extra signal, or "".
        key: Its key in the file.
        values: (T, D) rows, one for each step.
        is_mask: Whether they tell at which steps the commands of an index were sent.
    """

    use: ArrayUse
    name: str
    key: str
    values: NDArray[np.float32]
    is_mask: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its dimensions."""
        if self.is_mask:
            return (f"{_arm_part(self.key)}_is_sent",)
        key, width = self.key.removeprefix("state/").removeprefix("action/"), self.values.shape[1]
        names = read_folder_layout("agibot_world").action.get(key, {}).get(width)
        return tuple(names) if names else numbered_names(key.replace("/", "_"), width)


def _state_keys() -> list[str]:
    return [f"state/{key}" for key in read_folder_layout("agibot_world").state]


def _arm_part(key: str) -> str:
    """The part of the robot in the key of an array: "joint" of "action/joint/index"."""
    return key.split("/")[1]


def _join_parts(parts: Iterable[_Part], use: ArrayUse) -> Signal | None:
    """The parts of one use side by side; None for no part."""
    import numpy as np

    used = [part for part in parts if part.use == use]
    names = tuple(name for part in used for name in part.names)
    return Signal(np.concatenate([part.values for part in used], axis=1), names) if used else None


def _list_arrays(
    reader: _ProprioReader, shapes: Mapping[str, tuple[tuple[int, ...], str]], parts: Sequence[_Part]
) -> Iterator[SourceArray]:
    """Every array of the file, those of signals first and in their order; of the others why they are not stored."""
    for part in parts:
        shape, dtype = shapes[part.key]
        # The index of commands becomes a number for each step, and commands are repeated for each step.
        per_step = () if part.is_mask else shape[1:]
        yield SourceArray(
            key=part.key, use=part.use, name=part.name, shape=(reader.steps, *per_step), dtype=dtype
        )
    used = {part.key for part in parts}
    for key, (shape, dtype) in shapes.items():
        if key not in used:
            use: ArrayUse = "time" if key == reader.time_key else "unused"
            note = reader.unused.get(key) or ("empty" if 0 in shape else "")
            yield SourceArray(key=key, use=use, shape=shape, dtype=dtype, note=note)


def _walk_arrays(group: Any, path: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every array at or below a group by its key; links to other objects or files are not followed."""
    import h5py  # type: ignore[import-untyped]

    with translate_hdf5_errors(f"{path} {prefix}"):
        names = [name for name in group if is_hard_link(group, name)]
        children = [(str(name), group[name]) for name in names]
    for name, child in children:
        key = f"{prefix}{name}"
        if isinstance(child, h5py.Group):
            yield from _walk_arrays(child, path, f"{key}/") if key.count("/") < 4 else ()
        elif isinstance(child, h5py.Dataset) and child.shape is not None:
            yield key, child


def _find_step_times(reader: _ProprioReader, arrays: dict[str, Any], user_rate_hz: float | None) -> StepTimes:
    """The times of the steps: by the stamps where they rise, else evenly spaced. Raises as `_times_of_spec`."""
    reader.steps = _count_steps(reader, arrays)
    if reader.time_key != _TIME_KEY and (times := _times_of_spec(reader, arrays, user_rate_hz)):
        return times
    stamps, seconds = arrays.get(_TIME_KEY), None
    if stamps is not None and stamps.shape == (reader.steps,) and stamps.dtype.kind in "iuf":
        values = reader.read(_TIME_KEY, stamps)
        unit, evidence = infer_stamp_unit(values, _TIME_KEY, read_folder_layout("agibot_world").rate_hz)
        # Those of the format are whole nanoseconds since 1970; somebody may have converted them.
        if evidence and unit != "ns" and reader.time.unit is None:
            reader.warnings[evidence] = None
        seconds = convert_to_seconds(values, reader.time.unit or unit, _TIME_KEY, reader.warnings)
    return compute_step_times(
        seconds,
        reader.steps,
        reader.warnings,
        name=_TIME_KEY,
        user_rate_hz=user_rate_hz,
        usual_rate_hz=read_folder_layout("agibot_world").rate_hz,
    )


def _times_of_spec(
    reader: _ProprioReader, arrays: dict[str, Any], user_rate_hz: float | None
) -> StepTimes | None:
    """The times by the array that the spec names; None at a rate of the user, or for a single step.

    Raises SourceError where there is no such array, or its values are no times of the steps.
    """
    key, unit = reader.time_key, reader.time.unit
    if key not in arrays:
        raise missing_time_error(key, arrays, reader.path)
    array = arrays[key]
    if array.dtype.kind not in "iuf" or array.shape[:1] != (reader.steps,):
        raise SourceError(
            "timestamps of the spec are not one number per step",
            f"{reader.path}: {key} has {array.shape} {array.dtype}, and there are {count_of(reader.steps, 'step')}",
        )
    return compute_spec_step_times(
        reader.read(key, array), key, unit, user_rate_hz, reader.path, reader.warnings
    )


def _count_steps(reader: _ProprioReader, arrays: dict[str, Any]) -> int:
    """Rows of the timestamps, else of the joints' state. Raises SourceError for no step, also with times alone."""
    signals = [array for key, array in arrays.items() if key.startswith(("state/", "action/"))]
    if signals and not any(array.size for array in signals):
        raise SourceError("episode holds no step", f"{reader.path}: state and action hold no row")
    for key in (reader.time_key, _TIME_KEY, *_state_keys()):
        if key in arrays and arrays[key].ndim and len(arrays[key]):
            return len(arrays[key])
    arrays_text = ", ".join(arrays) or "no arrays"
    raise SourceError(
        "episode holds no step",
        f"{reader.path}: no row in timestamp and state; it holds {arrays_text}",
    )


def _read_state(reader: _ProprioReader, arrays: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    """The arrays of the state that have a row for each step, by key."""
    result: dict[str, NDArray[np.float32]] = {}
    for key, array in arrays.items():
        if not key.startswith("state/") or key == reader.time_key or not array.size:
            continue
        values = reader.rows(key, array)
        if values is not None and len(values) != reader.steps:
            reader.leave_out(key, "it has no row for each step")
        elif values is not None:
            result[key] = values
    return result


def _read_others(reader: _ProprioReader, arrays: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    """Arrays beside the groups of the format that have a row for each step, by key."""
    result: dict[str, NDArray[np.float32]] = {}
    for key, array in arrays.items():
        is_other = not key.startswith(("state/", "action/")) and key != reader.time_key
        if not is_other or array.shape[:1] != (reader.steps,) or not array.size:
            continue
        values = reader.rows(key, array)
        if values is not None:
            result[key] = values
    return result


def _align_actions(reader: _ProprioReader, arrays: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    """The arrays of the action by key; a step without a command has the last one."""
    result: dict[str, NDArray[np.float32]] = {}
    for key, array in arrays.items():
        is_command = key.startswith("action/") and not key.endswith("/index") and key != reader.time_key
        values = reader.rows(key, array) if is_command and array.size else None
        if values is not None and len(values) < reader.steps:
            values = _repeat_commands(reader, arrays, key, values)
        elif values is not None and len(values) > reader.steps:
            reader.leave_out(key, "it is longer than the state")
            continue
        if values is not None:
            result[key] = values
    return result


def _repeat_commands(
    reader: _ProprioReader, arrays: dict[str, Any], key: str, values: NDArray[np.float32]
) -> NDArray[np.float32] | None:
    """Commands at the steps that the array's index names, repeated until the next one; the first also before it."""
    import numpy as np

    steps = _command_steps(reader, arrays, _arm_part(key))
    if steps is None or len(steps) != len(values):
        reader.leave_out(key, "it has no row for each step, and no index that names them")
        return None
    reader.warnings[f"{key} has a command for some steps only; between them the last one is repeated"] = None
    latest = np.searchsorted(steps, np.arange(reader.steps), side="right") - 1
    return values[np.maximum(latest, 0)]


def _command_steps(reader: _ProprioReader, arrays: dict[str, Any], part: str) -> NDArray[np.int64] | None:
    """The rising steps at which a part was commanded; None where the index is absent, empty or not valid."""
    import numpy as np

    # The index of the end effectors' poses may be lost; it is that of the joints.
    for name in (part, "joint") if part == "end" else (part,):
        index = arrays.get(f"action/{name}/index")
        if index is not None and index.size and index.ndim == 1 and index.dtype.kind in "iu":
            steps = reader.read(f"action/{name}/index", index).astype(np.int64)
            is_valid = (np.diff(steps) > 0).all() and steps[0] >= 0 and steps[-1] < reader.steps
            return steps if is_valid else None
    return None


def _command_masks(reader: _ProprioReader, arrays: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    """By index, (T, 1) of 1 at the steps at which the control source sent a command, else 0."""
    import numpy as np

    masks = {}
    for key in (key for key in arrays if key.startswith("action/") and key.endswith("/index")):
        steps = _command_steps(reader, arrays, _arm_part(key))
        if steps is not None:
            masks[key] = np.zeros((reader.steps, 1), np.float32)
            masks[key][steps] = 1.0
    return masks
