"""Makes an episode of arrays under any keys: which array has which role, its signals, its times."""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ares.clock import SECONDS_BY_UNIT, TimeUnit
from ares.console import count_of
from ares.episode import ArrayUse, Camera, Json, MediaRef, Record, Signal, SourceArray, Trajectory
from ares.errors import SourceError
from ares.input import ImageInfo
from ares.media import HOLDS_DEPTH, has_zarr_images, image_size
from ingest.base import EpisodeEntry, Item, make_episode
from ingest.depth import add_depth, as_depth_picture, describe_depth, is_depth_array, sampled_rows
from ingest.files import describe_camera
from ingest.show_spec import describe_arrays
from ingest.signals import (
    MAX_SIGNAL_WIDTH,
    StepTimes,
    compute_step_times,
    convert_to_seconds,
    missing_time_error,
    numbered_names,
)
from ingest.source_words import VideoRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ingest.spec import DatasetSpec, LayoutSpec


# Longest text, and most texts, that become metadata of an episode.
_LONGEST_TEXT, _MOST_TEXTS = 1000, 64
_MOST_DIGITS = 1_000
_MOST_STEPS = 10_000_000
ALL_ROWS = -1
_SHORTER = "is not stored (it ends before the episode does)"


class ArrayRowReader:
    """The rows [start, stop) of some arrays: read, hashed and warned about.

    Args:
        where: The file, for messages.
        start: First row of the episode.
        stop: End of its rows, half open.
        prefix: What stands before a key in messages: "data/".
        translate_errors: Turns what the library raises for damaged data into a SourceError, for a place in words.

    Attributes:
        numbers: (T, D) by key, as stored.
        images: Arrays of images, of which no row was read.
        depth: Arrays of depth, of which no row was read.
        fields: Texts and single numbers that are no signals, by key.
        shapes: Shape and type of every array that was offered.
        unused: Why an array is not stored, by key.
        warnings: Problems, each once.
        hash: Over everything read.
    """

    def __init__(
        self,
        where: str,
        start: int,
        stop: int,
        *,
        prefix: str = "",
        translate_errors: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self.where, self.start, self.stop, self.prefix = where, start, stop, prefix
        self.translate_errors = translate_errors
        self.numbers: dict[str, NDArray[Any]] = {}
        self.images: dict[str, Any] = {}
        self.depth: dict[str, Any] = {}
        self._hashed: dict[str, Any] = {}
        self.fields: dict[str, Json] = {}
        self.shapes: dict[str, tuple[tuple[int, ...], str]] = {}
        self.unused: dict[str, str] = {}
        self.warnings: dict[str, None] = {}
        self.hash = hashlib.blake2b(digest_size=16)

    def add(self, key: str, array: Any) -> None:
        """Read an array with numbers for each step; keep one of images for later; warn of any other."""
        self.shapes[key] = (tuple(array.shape), str(array.dtype))
        is_depth = is_depth_array(key, array) and array.shape[0] >= self.stop
        reason = "" if is_depth else self._reason_unusable(array)
        if not reason and has_zarr_images(array):
            self._hashed[key] = array
        if reason:
            self.leave_out(key, reason)
        elif is_depth:
            self.depth[key] = array
        elif has_zarr_images(array):
            self.images[key] = array
        else:
            self.numbers[key] = self._read(key, array)

    def add_field(self, key: str, array: Any) -> None:
        """Keep a text, a single number or a short list of texts as a field of the metadata."""
        self.shapes[key] = (tuple(array.shape), str(array.dtype))
        with self.translate_errors(f"{self.where}, {self.prefix}{key}"):
            value = array[()].tolist() if array.size <= _MOST_TEXTS else None
        texts = value if isinstance(value, list) else [value]
        texts = [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in texts]
        if (
            value is None
            or not texts
            or any(isinstance(text, str) and len(text) > _LONGEST_TEXT for text in texts)
        ):
            self.leave_out(key, "is not stored (too long for metadata)")
            return
        self.fields[key] = texts if isinstance(value, list) else texts[0]
        self.hash.update(f"\x1f{key} {texts!r}\x1f".encode("utf-8", "replace"))

    def leave_out(self, key: str, reason: str) -> None:
        """Note why an array is not stored."""
        self.unused[key] = reason
        self.warnings[f"{self.prefix}{key} {reason}"] = None

    def _reason_unusable(self, array: Any) -> str:
        """Why an array is not stored, or ""."""
        if not array.ndim or array.dtype.kind not in "biuf":
            return "is not stored (no numbers for each step)"
        if array.shape[0] < self.stop:
            return _SHORTER
        if has_zarr_images(array):
            return ""
        width = int(array.size // array.shape[0])
        return "" if 0 < width <= MAX_SIGNAL_WIDTH else "is not stored (too wide for a signal, or empty)"

    def _read(self, key: str, array: Any) -> NDArray[Any]:
        """(T, D) numbers of the episode, as stored."""
        import numpy as np

        with self.translate_errors(f"{self.where}, {self.prefix}{key}"):
            rows: NDArray[Any] = np.asarray(array[self.start : self.stop])
        self.hash.update(f"\x1f{key} {rows.dtype} {rows.shape}\x1f".encode() + rows.tobytes())
        return rows.reshape(len(rows), -1)

    def hash_images(self) -> None:
        """Add three images of every camera to the hash. Raises SourceError when one cannot be decoded."""
        for key, array in self._hashed.items():
            for row in (self.start, (self.start + self.stop) // 2, self.stop - 1):
                with self.translate_errors(f"{self.where}, {self.prefix}{key} row {row}"):
                    self.hash.update(array[row].tobytes())

    def describe_depth(self, locations: Mapping[str, Mapping[str, Json]]) -> dict[str, Json]:
        """Where the depth is, its range and its unit, by name of the camera; what cannot be read is warned of.

        Args:
            locations: The file of each array, and its name there, where that is not the key.
        """
        described: dict[str, Json] = {}
        for key, array in self.depth.items():
            name, frames = key.replace("/", "."), self.stop - self.start
            try:
                with self.translate_errors(f"{self.where}, {self.prefix}{key}"):
                    pictures = [as_depth_picture(array[self.start + row]) for row in sampled_rows(frames)]
            except SourceError as error:
                self.warnings[f"camera {name} left out: {error.reason}"] = None
                continue
            location: dict[str, Json] = {
                "path": self.where,
                "key": f"{self.prefix}{key}",
                "first_row": self.start,
            }
            described[name] = describe_depth(pictures, {**location, **locations.get(key, {})}, frames=frames)
            self.warnings[f"camera {name} left out: {HOLDS_DEPTH}"] = None
        return described

    def signal(self, keys: tuple[str, ...], shape: tuple[int, ...] = ()) -> Signal | None:
        """Arrays joined side by side as one signal, named by the shape of a step where it counts; None for no array."""
        import numpy as np

        if not keys:
            return None
        parts = [self._to_float32(key) for key in keys]
        names = [
            name
            for key, part in zip(keys, parts, strict=True)
            for name in numbered_names(key, part.shape[1], shape)
        ]
        return Signal(np.concatenate(parts, axis=1), tuple(names))

    def _to_float32(self, key: str) -> NDArray[np.float32]:
        import numpy as np

        rows = self.numbers[key]
        with np.errstate(over="ignore", invalid="ignore"):
            values = rows.astype(np.float32)
            if (values.astype(rows.dtype) != rows)[np.isfinite(rows)].any():
                self.warnings["numbers of the source lose digits as float32"] = None
        return values


# Names of which the first that occurs is the signal; then patterns of which all that match are its parts.
_STATE_NAMES = (
    *("state", "states", "agent_pos", "qpos", "joint_positions", "joint_position", "joint_pos"),
    *("proprio", "proprioception", "robot_state", "observation"),
)
_STATE_PARTS = (
    r"(.*/)?(state|states|proprio|proprioception)/[^/]+",
    r"(.*/)?states?_[^/]*",
    r"(.*/)?robot(\d+)?_(?!demo_)[^/]*",
    r"(.*/)?((left|right)_)?(qpos|joint|eef|ee|tcp|gripper|cartesian|proprio)(_[^/]*)?",
)
_ACTION_NAMES = ("action", "actions", "act", "command", "commands")
_ACTION_PARTS = (r"(.*/)?actions?/[^/]+", r"(.*/)?actions?_[^/]*")
_REWARD_NAMES = ("reward", "rewards")
_TIME_WORDS = ("timestamp", "timestamps", "time", "times", "t", "stamp", "stamps")
_TIME_NAMES = (*_TIME_WORDS, *(f"{word}_{unit}" for word in _TIME_WORDS for unit in SECONDS_BY_UNIT))
_ENDS_NAMES = ("episode_ends", "episode_end", "ends", "episode_lengths")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalKeys:
    """Keys of the arrays that are signals.

    Attributes:
        state: Arrays that make up the state, in order.
        action: Arrays that make up the action, in order.
        reward: Array of one number per step, or "".
        time: Array of the time of each step, or "".
        ends: Array that cuts the rows into episodes, or "".
    """

    state: tuple[str, ...] = ()
    action: tuple[str, ...] = ()
    reward: str = ""
    time: str = ""
    ends: str = ""


def guess_array_roles(widths: Mapping[str, int], ends: str = "") -> SignalKeys:
    """Roles by names: "obs/qpos" is the state, "actions_i" the action.

    Args:
        widths: Numbers per step of each array that can be a signal, by key; levels of a key are parted by "/".
        ends: Array that cuts the rows into episodes, or "".
    """
    action = _matching_keys(widths, _ACTION_NAMES, _ACTION_PARTS)
    rest = [key for key in widths if key not in action]
    singles = [key for key in rest if widths[key] == 1]
    time = _matching_keys(singles, _TIME_NAMES, ())
    reward = _matching_keys(singles, _REWARD_NAMES, ())
    state = _matching_keys([key for key in rest if key not in (*time, *reward)], _STATE_NAMES, _STATE_PARTS)
    return SignalKeys(state=state, action=action, reward="".join(reward), time="".join(time), ends=ends)


def natural_key(text: str) -> tuple[tuple[int, str], ...]:
    """Sort key under which "demo_10" comes after "demo_2"."""
    parts = re.findall(r"\d+|\D+", text)
    # Python refuses to convert numbers of more than 4,300 digits.
    return tuple((int(part[:_MOST_DIGITS]), "") if part.isdecimal() else (-1, part) for part in parts)


def match_labels(pattern: str, labels: Iterable[str]) -> list[str]:
    """The labels that match a pattern with wildcards, or a regular expression after "re:"."""
    if pattern.startswith("re:"):
        expression = re.compile(pattern.removeprefix("re:"))
        return [label for label in labels if expression.fullmatch(label)]
    return [label for label in labels if fnmatchcase(label, pattern)]


def choose_complete_labels(choices: Sequence[Sequence[str]], labels: Iterable[str]) -> list[str]:
    """The labels of the first choice that is complete, else of the first of which some are there."""
    ordered = sorted(labels, key=natural_key)
    matches = [[match_labels(pattern, ordered) for pattern in choice] for choice in choices]
    best = next((parts for parts in matches if all(parts)), None) or next(filter(any, matches), [])
    return [label for part in best for label in part]


def find_episode_ends_array(keys: Iterable[str]) -> str:
    """The array that seems to cut the rows into episodes, by its name; "" for none."""
    return "".join(_matching_keys(list(keys), _ENDS_NAMES, ()))


def _matching_keys(keys: Collection[str], names: tuple[str, ...], parts: tuple[str, ...]) -> tuple[str, ...]:
    """The key that ends with the first of the names that occurs, else all keys of the first pattern that matches."""
    for name in names:
        for key in keys:
            if key.rpartition("/")[2].lower() == name:
                return (key,)
    for pattern in parts:
        matches = tuple(key for key in keys if re.fullmatch(pattern, key.lower()))
        if matches:
            return matches
    return ()


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
            note = note or ("field of the metadata" if key in reader.fields else "")
            note = "depth, kept by reference" if key in reader.depth else note
            yield SourceArray(key=key, use=uses.get(key, "unused"), shape=shape, dtype=dtype, note=note)


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


def list_array_entries(entry: ArrayEntry, ends: Sequence[int]) -> list[ArrayEntry]:
    """The episodes of a file by the steps at which they end; the file itself where there is no end."""
    spans = enumerate(zip((0, *ends), ends, strict=False))
    return [
        replace(entry, key=f"{entry.key}/{number}", number=number, start=start, stop=stop)
        for number, (start, stop) in spans
    ] or [entry]


def make_array_item(entry: ArrayEntry, array_format: ArrayFormat) -> Item:
    """The item of an episode."""
    load = functools.partial(load_array_episode, entry, array_format)
    location = entry.path if entry.number is None else f"{entry.path}, episode {entry.number}"
    return Item(episode_id=entry.episode_id, location=location, load=load, key=entry.key)


def read_ends(array: Any, where: str, *, must_rise: bool) -> tuple[int, ...]:
    """The steps at which the episodes of a file end. Raises SourceError for anything else than whole numbers."""
    if not array.size:
        raise SourceError("episode_ends lists no episode", f"{where} is empty")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise SourceError("episode_ends is no list of whole numbers", f"{where}: {array.dtype} {array.shape}")
    ends = tuple(array[:].tolist())
    if must_rise and (list(ends) != sorted(set(ends)) or ends[0] <= 0):
        raise SourceError("episode_ends does not rise", f"{where} is {list(ends[:10])!s}")
    return ends


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
        metadata=add_depth(row.metadata, depth),
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
            reader.warnings[f"{entry.prefix}{key} is not stored (it is no array)"] = None
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
    """Steps of an episode: the rows of its action, else of its state, else the most frequent number of rows.

    The observations may have one row more than there are actions. Raises SourceError for no array with rows.
    """
    rows = {
        key: member.array.shape[0]
        for key, member in members.items()
        if member.array is not None
        and not isinstance(member.array, SourceError)
        and member.array.ndim
        and member.array.dtype.kind in "biuf"
    }
    roles = guess_array_roles(dict.fromkeys(rows, 2))
    slices = (*entry.spec.action, *entry.spec.state) if entry.spec else ()
    keys = [key for key in (*(part.key for part in slices), *roles.action, *roles.state) if rows.get(key)]
    if keys:
        return int(rows[keys[0]])
    counts = Counter(count for count in rows.values() if count > 0)
    if not counts:
        arrays = ", ".join(
            f"{key} ({member.array})"[:200]
            for key, member in members.items()
            if isinstance(member.array, SourceError)
        )
        raise SourceError("episode holds no array with rows", f"{entry.path}: {arrays or 'there is none'}")
    return int(max(counts.items(), key=lambda pair: (pair[1], pair[0]))[0])


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
