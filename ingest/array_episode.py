"""Makes an episode of arrays under any keys: its signals, its times, its cameras."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ares.clock import TimeUnit
from ares.console import count_of
from ares.episode import ArrayUse, Camera, MediaRef, NotRead, Record, SourceArray, Trajectory
from ares.errors import SourceError
from ares.input import ImageInfo
from ares.media import has_zarr_images, image_size
from ares_ingest.array_roles import SignalKeys, choose_complete_labels, guess_array_roles, match_labels
from ares_ingest.array_rows import ALL_ROWS, ArrayRowReader
from ares_ingest.base import EpisodeEntry, Item, make_episode
from ares_ingest.depth import add_depth
from ares_ingest.episode_ends import EpisodeEnds, count_array_rows, find_steps_key
from ares_ingest.files import add_missing_cameras, describe_camera
from ares_ingest.show_spec import describe_arrays
from ares_ingest.signals import (
    StepTimes,
    compute_step_times,
    convert_to_seconds,
    missing_time_error,
)
from ares_ingest.source_words import VideoRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares_ingest.spec import DatasetSpec, LayoutSpec


_MOST_STEPS = 10_000_000


def unknown_family_error(where: str, arrays: Iterable[SourceArray]) -> SourceError:
    """The error for a file of no known family: what it holds, and how to go on."""
    return SourceError(
        "data is of no known family",
        f"{where} holds {describe_arrays(arrays)}; write `ares ingest PATH --show-spec > spec.yaml`,"
        " say in that file which array is what, and read it with --spec spec.yaml",
    )


def step_times(
    reader: ArrayRowReader,
    time_key: str,
    rate_hz: float | None,
    *,
    unit: TimeUnit | None = None,
    known_hz: float | None = None,
) -> StepTimes:
    """The times of the steps: by an array of times where it rises, else evenly spaced.

    Args:
        reader: The arrays of the episode.
        time_key: Key of the times, or "".
        rate_hz: Rate set by the user, or None.
        unit: Unit of the times; None to tell it by their name, size or rate.
        known_hz: Rate that the source states, or None.
    """
    stamps = reader.numbers.get(time_key)
    is_single = stamps is not None and stamps.shape[1] == 1
    name = f"{reader.prefix}{time_key}"
    seconds = (
        convert_to_seconds(stamps, unit, name, reader.warnings, known_hz)
        if stamps is not None and is_single and rate_hz is None
        else None
    )
    return compute_step_times(
        seconds,
        reader.stop - reader.start,
        reader.warnings,
        name=name,
        user_rate_hz=rate_hz,
        stated_rate_hz=known_hz,
    )


def make_trajectory(reader: ArrayRowReader, roles: SignalKeys, seconds: NDArray[np.float64]) -> Trajectory:
    """The signals by their roles; arrays without a role become extra signals."""
    used = {*roles.state, *roles.action, roles.reward, roles.time}
    reward = reader.signal((roles.reward,) if roles.reward else ())
    return Trajectory(
        timestamps=seconds,
        state=reader.signal(roles.state),
        action=reader.signal(roles.action),
        reward=reward.values[:, 0] if reward else None,
        extra={
            key: signal
            for key in reader.numbers
            if key not in used and (signal := reader.signal((key,), reader.shapes[key][0][1:]))
        },
    )


def require_whole_signals(reader: ArrayRowReader, spec: DatasetSpec | None, *, is_shown: bool) -> None:
    """Check that no state or action is lost, and that each of their rows is one step.

    Args:
        reader: The arrays of the episode; it is warned of others of more than two dimensions.
        spec: What the user says of the arrays, or None.
        is_shown: Whether the arrays are only shown, which warns in place of an error.

    Raises SourceError for a signal that cannot be stored, or has more than two dimensions, unless the spec names it.
    """
    states, actions = (
        ([part.key for part in spec.state], [part.key for part in spec.action]) if spec else ([], [])
    )
    stated = {*states, *actions}
    left_out = set(spec.left_out) if spec else set()
    widths = dict.fromkeys([key for key in reader.unused if key not in left_out], 2)
    roles = guess_array_roles(count_array_dimensions(reader) | widths)
    used = dict.fromkeys((*(states or roles.state), *(actions or roles.action)))
    signals = [key for key in used if key not in left_out]
    _tell_many_axes(reader, stated | left_out, is_shown=is_shown)
    lost = [key for key in signals if key in reader.unused]
    if lost and not is_shown:
        reasons = ", ".join(f"{reader.prefix}{key} {reader.unused[key]}" for key in lost)
        detail = f"{reader.where}, rows {reader.start} to {reader.stop}: {reasons}"
        raise SourceError("a signal cannot be stored", f"{detail}; left_out in a spec reads it without")
    for key in signals:
        if (
            key in reader.numbers
            and _has_many_axes(reader.shapes[key][0])
            and key not in stated
            and not is_shown
        ):
            raise _axes_error(reader, key)


def _tell_many_axes(reader: ArrayRowReader, stated: set[str], *, is_shown: bool) -> None:
    """Warn of the arrays of more than two dimensions that no spec names."""
    hint = "; episode_axis in a spec says along which axis episodes lie" if is_shown else ""
    for key, (shape, _) in reader.shapes.items():
        if key in stated or not _has_many_axes(shape):
            continue
        text = (
            f"{reader.prefix}{key} has more than two dimensions ({' x '.join(['T', *map(str, shape[1:])])})"
        )
        if key in reader.numbers:
            reader.warnings[f"{text}; the numbers of a step stand side by side{hint}"] = None
        elif key in reader.unused and is_shown:
            reader.warnings[text + hint] = None


def _has_many_axes(shape: tuple[int, ...]) -> bool:
    """Whether each row of an array has more than one axis with more than one number."""
    return sum(size > 1 for size in shape[1:]) > 1


def _axes_error(reader: ArrayRowReader, key: str) -> SourceError:
    shape = " x ".join(map(str, reader.shapes[key][0]))
    return SourceError(
        "a signal has more than two dimensions",
        f"{reader.where}: {reader.prefix}{key} is {shape}; say in a spec, read with --spec, what a row is: name"
        " the array under state or action where it is one step, episode_axis where it is an episode, left_out for"
        " neither (a chunk of steps, an independent sample)",
    )


def count_array_dimensions(reader: ArrayRowReader) -> dict[str, int]:
    """Numbers per step of each array of numbers, by key."""
    return {key: values.shape[1] for key, values in reader.numbers.items()}


def list_arrays(reader: ArrayRowReader, roles: SignalKeys) -> Iterator[SourceArray]:
    """What each array of the episode is used as."""
    uses: dict[str, ArrayUse] = {roles.ends: "ends", roles.time: "time", roles.reward: "reward"}
    uses |= dict.fromkeys(roles.action, "action")
    uses |= dict.fromkeys(roles.state, "state")
    for key in dict.fromkeys((*roles.state, *roles.action, *reader.shapes)):
        shape, dtype = reader.shapes[key]
        if key in reader.numbers:
            use = uses.get(key, "extra")
            name = key if use == "extra" else ""
            yield SourceArray(
                key=key, use=use, name=name, shape=(reader.stop - reader.start, *shape[1:]), dtype=dtype
            )
        elif key not in reader.images:
            note = reader.unused.get(key, "").removeprefix("is not stored").strip(" ()")
            is_kept = key in reader.fields or key in reader.depth
            note = note or ("field of the metadata" if key in reader.fields else "")
            use = uses.get(key, "kept" if is_kept else "unused")
            yield SourceArray(key=key, use=use, shape=shape, dtype=dtype, note=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayEntry(EpisodeEntry):
    """One episode of a file or folder of arrays, before it is read.

    Attributes:
        path: The file or folder.
        number: Its number in the file, or None where the file is one episode.
        start: First row of the episode.
        stop: End of its rows, half open; -1 for all rows.
        ends_key: Array that cuts the rows into episodes, or "".
        spec: What the user knows of the dataset, or None.
        layout: Where the file keeps what; None where names and shapes are to tell it.
        is_shown: Whether arrays without a known role are read, to show them.
        num_files: Files of one time step each that it is, the first of them at `path`; 0 for none.
    """

    path: str
    number: int | None = None
    start: int = 0
    stop: int = ALL_ROWS
    ends_key: str = ""
    spec: DatasetSpec | None = None
    layout: LayoutSpec | None = None
    is_shown: bool = False
    num_files: int = 0

    @property
    def has_all_rows(self) -> bool:
        """Whether all rows of its arrays are the episode."""
        return self.stop == ALL_ROWS

    @property
    def prefix(self) -> str:
        """What stands before the keys of its arrays in the file."""
        return f"{self.layout.arrays}/" if self.layout else ""


class ArrayMember(NamedTuple):
    """An array of an episode, or why it cannot be read, and where its rows are.

    Attributes:
        array: The array; None for what is no array.
        path: Its file.
        name: Its name in that file; "" for an .npy file.
    """

    array: Any
    path: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFormat:
    """How the arrays of a format are reached; functions of modules, which workers import.

    Attributes:
        kind: Kind of the references to frames.
        open_members: Opens the arrays of an episode by key. Raises SourceError.
        translate_errors: Turns what the library raises for damaged data into a SourceError, for a place in words.
        read_row: What fields, and files beside the episode, say of it.
        find_videos: Cameras whose frames are in videos beside the file.
    """

    kind: Literal["npy", "zarr"]
    open_members: Callable[[ArrayEntry], AbstractContextManager[Mapping[str, ArrayMember]]]
    translate_errors: Callable[[str], AbstractContextManager[None]]
    read_row: Callable[[ArrayEntry, ArrayRowReader], VideoRow]
    find_videos: Callable[[ArrayEntry, ArrayRowReader], list[Camera]] | None = None


def list_array_items(entry: ArrayEntry, ends: EpisodeEnds, array_format: ArrayFormat) -> Iterator[Item]:
    """The episodes of a file by where they end, the file itself where there is no end; and rows after the last one."""
    entry = replace(entry, ends_key=ends.key)
    for number, (start, stop) in enumerate(zip((0, *ends.ends), ends.ends, strict=False)):
        part = replace(entry, key=f"{entry.key}/{number}", number=number, start=start, stop=stop)
        yield make_array_item(part, array_format)
    if not ends.ends:
        yield make_array_item(entry, array_format)
    yield from ends.items_of_unread_rows(entry, entry.path)


def make_array_item(entry: ArrayEntry, array_format: ArrayFormat) -> Item:
    """The item of an episode."""
    load = functools.partial(load_array_episode, entry, array_format)
    location = entry.path if entry.number is None else f"{entry.path}, episode {entry.number}"
    return Item(episode_id=entry.episode_id, location=location, load=load, key=entry.key)


def load_array_episode(entry: ArrayEntry, array_format: ArrayFormat) -> Record:
    """Read an episode: signals as numbers, images by reference.

    Raises SourceError when its files cannot be read, or when no array is of a known name and there is no spec.
    """
    if not entry.has_all_rows and not (
        0 <= entry.start < entry.stop and entry.stop - entry.start <= _MOST_STEPS
    ):
        span = f"steps {entry.start} to {entry.stop}"
        raise SourceError("episode has no valid span in episode_ends", f"{entry.path}: {span}")
    with array_format.open_members(entry) as members:
        locations = {key: {"path": member.path, "key": member.name} for key, member in members.items()}
        reader = _read_members(entry, members, array_format)
        roles, row = _choose_roles(entry, reader), array_format.read_row(entry, reader)
        unit = entry.spec.time_unit if entry.spec else None
        times = step_times(reader, roles.time, entry.rate_hz, unit=unit, known_hz=row.fps)
        cameras = [
            _array_camera(reader, key, members[key], times.rate_hz, array_format) for key in reader.images
        ]
        if array_format.find_videos:
            cameras += array_format.find_videos(entry, reader)
        reader.hash_images()
        depth = reader.describe_depth(locations)
    arrays = tuple(list_arrays(reader, roles))
    if not (roles.state or roles.action or cameras or entry.spec or entry.layout or entry.is_shown):
        raise unknown_family_error(entry.path, arrays)
    if not reader.numbers and not cameras and not entry.is_shown:
        raise SourceError("episode holds no array that can be read", entry.path)
    trajectory = make_trajectory(reader, roles, times.seconds)
    episode = make_episode(
        entry,
        trajectory,
        [row.instruction],
        source=entry.path if entry.layout else next(iter(members.values())).path,
        content_hash=reader.hash.hexdigest(),
        robot=row.robot,
        rate_hz=times.rate_hz,
        rate_source=times.rate_source,
        cameras=tuple(cameras),
        success=row.success,
        success_source=row.success_source,
        metadata=add_missing_cameras(add_depth(row.metadata, depth), reader.missing),
        # Only images in arrays are promised to be one per step; videos beside them have separate clocks.
        frame_pairing="index"
        if all(camera.media.kind == array_format.kind for camera in cameras)
        else "stamp",
    )
    return Record(
        episode=episode,
        trajectory=trajectory,
        warnings=tuple(dict.fromkeys((*reader.warnings, *row.warnings))),
        arrays=arrays,
        has_stamps=times.has_stamps,
    )


def _read_members(
    entry: ArrayEntry, members: Mapping[str, ArrayMember], array_format: ArrayFormat
) -> ArrayRowReader:
    """Read the arrays; texts and single numbers of npz files become fields."""
    stop = _count_steps(entry, members) if entry.has_all_rows else entry.stop
    reader = ArrayRowReader(
        entry.path, entry.start, stop, prefix=entry.prefix, translate_errors=array_format.translate_errors
    )
    for key, member in members.items():
        array = member.array
        if array is None:
            reader.warnings[NotRead(f"{entry.prefix}{key} is not stored (it is no array)")] = None
        elif isinstance(array, SourceError):
            reader.leave_out(key, f"is not stored ({array.reason})")
        elif array.dtype.kind in "SU" or not array.ndim:
            # The steps of all episodes of a Zarr store lie one after the other: lists of its texts are of none of them.
            (reader.add_field if array_format.kind == "npy" or not array.ndim else reader.add)(key, array)
        elif key == entry.ends_key:
            reader.shapes[key] = (tuple(array.shape), str(array.dtype))
        else:
            _read_rows(entry, reader, key, array, array.shape[0] - stop if entry.has_all_rows else 0)
    require_whole_signals(reader, entry.spec, is_shown=entry.is_shown)
    return reader


def _read_rows(entry: ArrayEntry, reader: ArrayRowReader, key: str, array: Any, surplus: int) -> None:
    """Read an array with so many rows more than there are steps. Raises SourceError for a camera with two or more."""
    if surplus <= 1:
        reader.add(key, array)
        if surplus == 1:
            text = f"{key} has one row more than there are actions: the terminal one is not stored"
            reader.warnings[text] = None
        return
    reader.shapes[key] = (tuple(array.shape), str(array.dtype))
    reader.leave_out(
        key,
        f"is not stored ({count_of(array.shape[0], 'row')} for {count_of(reader.stop - reader.start, 'step')})",
    )
    if has_zarr_images(array):
        raise SourceError("a camera cannot be stored", f"{entry.path}: {key} {reader.unused[key]}")


def _count_steps(entry: ArrayEntry, members: Mapping[str, ArrayMember]) -> int:
    """Steps of an episode by the rows of its arrays. Raises SourceError for none."""
    arrays = {key: member.array for key, member in members.items()}
    rows = count_array_rows(arrays)
    if not (key := find_steps_key(rows, entry.spec)):
        unread = (f"{key} ({array})"[:200] for key, array in arrays.items() if isinstance(array, SourceError))
        empty = ", ".join([*unread, *(name for name, count in rows.items() if not count)])
        raise SourceError("episode holds no step", f"{entry.path}: no row in {empty or 'any array'}")
    return rows[key]


def _choose_roles(entry: ArrayEntry, reader: ArrayRowReader) -> SignalKeys:
    """The roles by the layout or by names, with the times that the spec names. Raises SourceError without these."""
    widths = count_array_dimensions(reader)
    if entry.layout is None:
        roles = guess_array_roles(widths, entry.ends_key)
    else:
        singles = [key for key in widths if widths[key] == 1]
        roles = SignalKeys(
            state=tuple(choose_complete_labels(entry.layout.state, widths)),
            action=tuple(choose_complete_labels(entry.layout.action, widths)),
            reward="".join(match_labels(entry.layout.reward, singles)[:1]),
            time="".join(match_labels(entry.layout.time, widths)[:1]),
        )
    key = entry.spec.timestamps if entry.spec else ""
    if key and key not in reader.numbers:
        raise missing_time_error(key, reader.shapes, entry.path)
    return replace(roles, time=key) if key else roles


def _array_camera(
    reader: ArrayRowReader, key: str, member: ArrayMember, rate_hz: float, array_format: ArrayFormat
) -> Camera:
    """A camera whose images are rows of an array."""
    height, width = image_size(reader.images[key])
    frames = reader.stop - reader.start
    media = MediaRef(
        kind=array_format.kind,
        uri=member.path,
        start_seconds=reader.start / rate_hz,
        stop_seconds=reader.start / rate_hz + frames / rate_hz,
        num_frames=frames,
        rate_hz=rate_hz,
        key=member.name,
    )
    return describe_camera(key.replace("/", "."), ImageInfo(int(width), int(height), "raw"), media)
