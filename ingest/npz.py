"""Ingester for .npz files and folders of .npy files: finds their episodes and reads each."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.console import count_of
from ares.episode import Camera, Episode, Json, MediaRef, Record, SourceArray, Trajectory
from ares.errors import AresError, SourceError
from ares.formats import INFO_PATH
from ares.input import ImageInfo, read_json
from ares.io import (
    FolderEntries,
    absolute_path,
    describe_os_error,
    folder_name,
    is_url,
    list_folder,
    walk_folders,
)
from ares.media import (
    NpyArray,
    StackedSteps,
    has_zarr_images,
    image_size,
    open_npy,
    translate_npy_errors,
)
from ingest.array_episode import (
    ArrayRowReader,
    SignalKeys,
    count_array_dimensions,
    find_episode_ends_array,
    guess_array_roles,
    list_arrays,
    make_trajectory,
    require_whole_signals,
    step_times,
    unknown_family_error,
)
from ingest.base import (
    EpisodeEntry,
    FolderClaim,
    FolderIngester,
    Item,
    Source,
    SourceFile,
    SourceOptions,
    failing_item,
    make_episode,
)
from ingest.depth import add_depth, is_depth_array
from ingest.files import describe_camera
from ingest.signals import StepTimes, missing_time_error
from ingest.source_words import InvalidRowError, VideoRow, parse_video_row
from ingest.step_files import StepEpisodes, group_step_files, read_step_arrays, require_rows_of_steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ingest.spec import DatasetSpec


SUFFIX, ARRAY_SUFFIX = ".npz", ".npy"


class NpyMember(NamedTuple):
    """An array of an episode, or why it cannot be read, and where its rows are.

    Attributes:
        array: The array.
        path: Its file.
        name: Its name in that file; "" for an .npy file.
    """

    array: NpyArray | ArrayOfEpisode | StackedSteps | NDArray[Any] | SourceError
    path: str
    name: str


class ArrayOfEpisode:
    """What an array that holds several episodes along an axis has of one of them.

    Args:
        array: The array.
        axis: The axis of the episodes.
        number: Number of the episode.
    """

    def __init__(self, array: NpyArray, axis: int, number: int) -> None:
        self._array, self._axis, self._number = array, axis, number
        self.shape = (*array.shape[:axis], *array.shape[axis + 1 :])
        self.ndim, self.dtype, self.size = array.ndim - 1, array.dtype, array.size // array.shape[axis]

    def __getitem__(self, rows: Any) -> Any:
        """Rows of the episode by a slice, or all of them."""
        if self._axis == 0:
            return self._array[self._number][rows]
        return self._array[rows].take(self._number, axis=self._axis)


def take_episode(members: Mapping[str, NpyMember], axis: int, number: int) -> dict[str, NpyMember]:
    """One episode of every array of numbers that has several along an axis, and all other arrays as they are."""
    count = count_episodes_along(members, axis)
    of_episode = dict(members)
    for key, member in members.items():
        array = member.array
        if isinstance(array, NpyArray) and array.ndim > axis + 1 and array.shape[axis] == count:
            of_episode[key] = member._replace(array=ArrayOfEpisode(array, axis, number))
    return of_episode


def count_episodes_along(members: Mapping[str, NpyMember], axis: int) -> int:
    """The most frequent length of the arrays along an axis; 0 where none has steps beside it."""
    arrays = [member.array for member in members.values() if isinstance(member.array, NpyArray)]
    counts = Counter(array.shape[axis] for array in arrays if array.ndim > max(axis + 1, 1))
    return max(counts.items(), key=lambda pair: (pair[1], -pair[0]), default=(0, 0))[0]


@contextmanager
def open_arrays(path: str) -> Iterator[dict[str, NpyMember]]:
    """The arrays of an .npz file by name, or those of the .npy files of a folder by their names.

    Raises SourceError for a file that cannot be read.
    """
    is_file = path.lower().endswith(SUFFIX)
    paths = [path] if is_file else [str(Path(path) / name) for name in list_npy_files(path)]
    with ExitStack() as files:
        members: dict[str, NpyMember] = {}
        for file_path in paths:
            try:
                arrays: Mapping[str, NpyArray | SourceError] = files.enter_context(open_npy(file_path))
            except OSError as error:
                raise SourceError("file cannot be read", f"{file_path}: {describe_os_error(error)}") from None
            except SourceError as error:
                if is_file:
                    raise
                arrays = {"": error}
            for name, array in arrays.items():
                members[name or Path(file_path).stem] = NpyMember(array, file_path, name)
        yield members


def list_npy_files(folder: str) -> list[str]:
    """The .npy files of a folder, in order."""
    names = list_folder(Path(folder)).files
    return sorted(name for name in names if name.lower().endswith(ARRAY_SUFFIX) and not name.startswith("."))


def find_json_file(path: str) -> str:
    """The JSON file of an episode: of the same name, or the only one in its folder of .npy files; "" for none."""
    if path.lower().endswith(SUFFIX):
        beside = Path(path).with_suffix(".json")
        # Not Path.is_file: it raises where the name is too long for a file.
        return str(beside) if os.path.isfile(beside) else ""  # noqa: PTH113
    names = [name for name in list_folder(Path(path)).files if name.endswith(".json")]
    return str(Path(path) / names[0]) if len(names) == 1 else ""


def read_episode_json(path: str) -> dict[str, Json]:
    """The JSON object of an episode; empty for no file. Raises SourceError for anything else than an object."""
    if not path:
        return {}
    try:
        document: Any = read_json(path)
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {describe_os_error(error)}") from None
    except ValueError as error:
        raise SourceError("JSON file of an episode is not JSON", f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise SourceError("JSON file of an episode holds no object", f"{path}: {type(document).__name__}")
    return document


def read_episode_ends(members: Mapping[str, NpyMember], key: str, path: str) -> tuple[int, ...]:
    """The steps at which the episodes of a file end; empty where there is no such array. Raises SourceError."""
    member = members.get(key)
    if member is None:
        return ()
    array = member.array
    if isinstance(array, SourceError):
        raise array
    if array.ndim != 1 or array.dtype.kind not in "iu" or not array.size:
        raise SourceError("episode_ends is no list of whole numbers", f"{path}: {array.dtype} {array.shape}")
    ends = array[:].tolist()
    if ends != sorted(set(ends)) or ends[0] <= 0:
        raise SourceError("episode_ends does not rise", f"{path}: {key} is {ends[:10]!s}")
    return tuple(ends)


FORMAT = "npz"
_ALL_ROWS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class NpzEntry(EpisodeEntry):
    """One episode, before it is read.

    Attributes:
        path: The .npz file, or the folder of .npy files.
        start: First row of the episode.
        stop: End of its rows, half open; -1 for all rows.
        ends_key: Array that cuts the rows into episodes, or "".
        spec: What the user knows of the dataset, or None.
        reads_unknown: Whether arrays without a known role are read, to show them.
        number: Its number along the axis of episodes that the spec names, or None.
        num_files: Files of one time step each that it is, the first of them at `path`; 0 for none.
    """

    format: str = FORMAT
    path: str
    start: int = 0
    stop: int = _ALL_ROWS
    ends_key: str = ""
    spec: DatasetSpec | None = None
    reads_unknown: bool = False
    number: int | None = None
    num_files: int = 0


def load_episode(entry: NpzEntry) -> Record:
    """Read an episode: signals as numbers, images by reference.

    Raises SourceError when its files cannot be read, or when no array is of a known name and there is no spec.
    """
    with _open_entry(entry) as members:
        locations = {key: {"path": npy.path, "key": npy.name} for key, npy in members.items()}
        reader = _read_arrays(entry, members)
        roles, row = _signal_roles(entry, reader), _read_row(entry, reader)
        times = _step_times(entry, reader, roles, row)
        cameras = tuple(_array_camera(reader, key, members[key], times.rate_hz) for key in reader.images)
        reader.hash_images()
        depth = reader.describe_depth(locations)
    arrays = tuple(list_arrays(reader, roles))
    if not (roles.state or roles.action or cameras or entry.spec or entry.reads_unknown):
        raise unknown_family_error(entry.path, arrays)
    if not reader.numbers and not cameras and not entry.reads_unknown:
        raise SourceError("episode holds no array that can be read", entry.path)
    trajectory = make_trajectory(reader, roles, times.seconds)
    episode = make_episode(
        entry,
        trajectory,
        [row.instruction],
        source=next(iter(members.values())).path,
        content_hash=reader.hash.hexdigest(),
        robot=row.robot,
        rate_hz=times.rate_hz,
        rate_source=times.rate_source,
        cameras=cameras,
        success=row.success,
        success_source=row.success_source,
        metadata=add_depth(row.metadata, depth),
        frame_pairing="index",
    )
    return _make_record(episode, trajectory, (*reader.warnings, *row.warnings), arrays, times)


@contextmanager
def _open_entry(entry: NpzEntry) -> Iterator[dict[str, NpyMember]]:
    """The arrays of an episode, of one file or of a file a step. Raises SourceError."""
    if not entry.num_files:
        with open_arrays(entry.path) as members:
            yield members
        return
    arrays = read_step_arrays(entry.path, entry.num_files)
    yield {key: NpyMember(array, entry.path, key) for key, array in arrays.items()}


def _make_record(
    episode: Episode,
    trajectory: Trajectory,
    warnings: Iterable[str],
    arrays: tuple[SourceArray, ...],
    times: StepTimes,
) -> Record:
    return Record(
        episode=episode,
        trajectory=trajectory,
        warnings=tuple(dict.fromkeys(warnings)),
        arrays=arrays,
        has_stamps=times.has_stamps,
    )


def _read_arrays(entry: NpzEntry, members: Mapping[str, NpyMember]) -> ArrayRowReader:
    """Read the arrays; texts and single numbers become fields. Raises SourceError for a file of one step."""
    if entry.number is not None and entry.spec:
        members = take_episode(members, entry.spec.episode_axis or 0, entry.number)
    if not (entry.reads_unknown or entry.ends_key):
        stated = [part.key for part in (*entry.spec.state, *entry.spec.action)] if entry.spec else []
        require_rows_of_steps({key: member.array for key, member in members.items()}, stated, entry.path)
    whole = entry.stop == _ALL_ROWS
    stop = _count_steps(entry, members) if whole else entry.stop
    reader = ArrayRowReader(entry.path, entry.start, stop, translate_errors=translate_npy_errors)
    if not whole and entry.ends_key:
        read_episode_ends(members, entry.ends_key, entry.path)
    for key, member in members.items():
        array = member.array
        if isinstance(array, SourceError):
            reader.leave_out(key, f"is not stored ({array.reason})")
        elif array.dtype.kind in "SU" or not array.ndim:
            reader.add_field(key, array)
        elif key == entry.ends_key:
            reader.shapes[key] = (array.shape, str(array.dtype))
        elif entry.number is not None and (has_zarr_images(array) or is_depth_array(key, array)):
            reader.leave_out(key, "is not stored (images along an axis of episodes)")
        else:
            _read_rows(entry, reader, key, array, array.shape[0] - stop if whole else 0)
    require_whole_signals(reader, entry.spec, is_shown=entry.reads_unknown)
    return reader


def _read_rows(entry: NpzEntry, reader: ArrayRowReader, key: str, array: Any, surplus: int) -> None:
    """Read an array with so many rows more than there are steps. Raises SourceError for a camera with two or more."""
    if surplus <= 1:
        reader.add(key, array)
        if surplus == 1:
            text = f"{key} has one row more than there are actions: the terminal one is not stored"
            reader.warnings[text] = None
        return
    reader.shapes[key] = (array.shape, str(array.dtype))
    reader.leave_out(
        key,
        f"is not stored ({count_of(array.shape[0], 'row')} for {count_of(reader.stop - reader.start, 'step')})",
    )
    if has_zarr_images(array):
        raise SourceError("a camera cannot be stored", f"{entry.path}: {key} {reader.unused[key]}")


def _count_steps(entry: NpzEntry, members: Mapping[str, NpyMember]) -> int:
    """Steps of an episode: the rows of its action, else of its state, else the most frequent number of rows.

    The observations may have one row more than there are actions. Raises SourceError for no array with rows.
    """
    rows = {
        key: member.array.shape[0]
        for key, member in members.items()
        if not isinstance(member.array, SourceError)
        and member.array.ndim
        and member.array.dtype.kind in "biuf"
    }
    roles = guess_array_roles(dict.fromkeys(rows, 2))
    slices = (*entry.spec.action, *entry.spec.state) if entry.spec else ()
    keys = [key for key in (*(part.key for part in slices), *roles.action, *roles.state) if rows.get(key)]
    if keys:
        return rows[keys[0]]
    counts = Counter(count for count in rows.values() if count > 0)
    if not counts:
        arrays = ", ".join(
            f"{key} ({member.array})"[:200]
            for key, member in members.items()
            if isinstance(member.array, SourceError)
        )
        raise SourceError("episode holds no array with rows", f"{entry.path}: {arrays or 'there is none'}")
    return max(counts.items(), key=lambda pair: (pair[1], pair[0]))[0]


def _signal_roles(entry: NpzEntry, reader: ArrayRowReader) -> SignalKeys:
    roles = guess_array_roles(count_array_dimensions(reader), entry.ends_key)
    key = entry.spec.timestamps if entry.spec else ""
    if key and key not in reader.numbers:
        raise missing_time_error(key, reader.shapes, entry.path)
    return replace(roles, time=key) if key else roles


def _step_times(entry: NpzEntry, reader: ArrayRowReader, roles: SignalKeys, row: VideoRow) -> StepTimes:
    unit = entry.spec.time_unit if entry.spec else None
    return step_times(reader, roles.time, entry.rate_hz, unit=unit, known_hz=row.fps)


def _read_row(entry: NpzEntry, reader: ArrayRowReader) -> VideoRow:
    """Instruction, outcome, robot and rate, from the JSON file and from the texts of the file itself."""
    document: dict[str, Json] = {key.rpartition("/")[2]: value for key, value in reader.fields.items()}
    document |= read_episode_json(find_json_file(entry.path))
    nested = {key: value for key, value in document.items() if isinstance(value, Mapping | list)}
    flat = {key: value for key, value in document.items() if key not in nested and key != "video"}
    try:
        row = parse_video_row({"video": entry.path, **flat})  # the row of a video names its file
        return replace(row, metadata={**row.metadata, **nested})
    except InvalidRowError as error:
        raise SourceError("JSON file of an episode has a wrong form", f"{entry.path}: {error}") from None


def _array_camera(reader: ArrayRowReader, key: str, member: NpyMember, rate_hz: float) -> Camera:
    """A camera whose images are rows of an array."""
    height, width = image_size(reader.images[key])
    media = MediaRef(
        kind="npy",
        uri=member.path,
        start_seconds=reader.start / rate_hz,
        stop_seconds=reader.stop / rate_hz,
        num_frames=reader.stop - reader.start,
        rate_hz=rate_hz,
        key=member.name,
    )
    return describe_camera(key.replace("/", "."), ImageInfo(width, height, "raw"), media)


# A single .npy file is more often an embedding or a calibration than an episode.
_FEWEST_ARRAYS = 2


def _is_array_folder(names: Iterable[str]) -> bool:
    arrays = [name for name in names if name.lower().endswith(ARRAY_SUFFIX) and not name.startswith(".")]
    return len(arrays) >= _FEWEST_ARRAYS


def _episode_paths(folder: Path) -> Iterator[Path]:
    """The .npz files and folders of .npy files at or below a folder, in order."""
    for parent, subfolders, names in walk_folders(folder):
        subfolders.sort()
        files = sorted(name for name in names if name.lower().endswith(SUFFIX) and not name.startswith("."))
        yield from (parent / name for name in files)
        if not files and _is_array_folder(names):
            yield parent


def _list_files(paths: tuple[Path, ...], tables: tuple[Path, ...]) -> Iterator[SourceFile]:
    """The files of arrays, the JSON files that describe their episodes, and tables of the steps of episodes."""
    yield from (SourceFile(path=str(table), use="metadata") for table in tables)
    for path in paths:
        names = (
            [str(path)]
            if path.suffix.lower() == SUFFIX
            else [str(path / name) for name in list_npy_files(str(path))]
        )
        yield from (SourceFile(path=name, use="data") for name in names)
        if document := find_json_file(str(path)):
            yield SourceFile(path=document, use="metadata")


def _ends_key(path: Path, spec: DatasetSpec | None) -> str:
    """The array that cuts the rows of each file into episodes, by the spec or by the names in the first file."""
    if spec and spec.episode_ends:
        return spec.episode_ends
    try:
        with open_arrays(str(path)) as members:
            return find_episode_ends_array(members)
    except AresError:
        return ""  # loading the episode reports it


def _read_file_ends(path: Path, ends_key: str) -> tuple[int, ...]:
    """Where the episodes of a file end; empty for a file that cannot be read, or is one episode."""
    try:
        with open_arrays(str(path)) as members:
            return read_episode_ends(members, ends_key, str(path))
    except AresError:
        return ()


def _count_axis_episodes(path: Path, axis: int) -> int:
    """Episodes of a file along an axis. Raises SourceError where no array has the axis."""
    with open_arrays(str(path)) as members:
        count = count_episodes_along(members, axis)
    if not count:
        raise SourceError("no array has the axis of episodes", f"{path}: episode_axis: {axis} in the spec")
    return count


def _count_file_episodes(path: Path, entry: NpzEntry) -> int:
    """How many episodes a file is; 1 for one that cannot be read."""
    if entry.spec and entry.spec.episode_axis is not None:
        try:
            return _count_axis_episodes(path, entry.spec.episode_axis)
        except AresError:
            return 1
    return max(len(_read_file_ends(path, entry.ends_key)), 1) if entry.ends_key else 1


def _file_items(path: Path, folder: Path, entry: NpzEntry) -> Iterator[Item]:
    """One item for each episode of a file."""
    key = path.relative_to(folder).as_posix() if path != folder else folder.name
    entry = replace(entry, key=key, path=str(path))
    ends: tuple[int, ...] = ()
    try:
        if entry.spec and entry.spec.episode_axis is not None:
            for number in range(_count_axis_episodes(path, entry.spec.episode_axis)):
                yield _episode_item(replace(entry, key=f"{key}/{number}", number=number))
            return
        if entry.ends_key:
            with open_arrays(str(path)) as members:
                ends = read_episode_ends(members, entry.ends_key, str(path))
    except SourceError as error:
        yield failing_item(entry.episode_id, str(path), SourceError(error.reason, error.detail))
        return
    if not ends:
        yield _episode_item(entry)
    for number, (start, stop) in enumerate(zip((0, *ends), ends, strict=False)):
        yield _episode_item(replace(entry, key=f"{key}/{number}", start=start, stop=stop))


def _step_items(steps: StepEpisodes, folder: Path, entry: NpzEntry) -> Iterator[Item]:
    """One item for each episode of a folder of files of one time step each."""
    for part in steps.episodes:
        key = f"{part.first.relative_to(folder).as_posix()}#steps"
        of_part = replace(entry, key=key, path=str(part.first), num_files=part.num_steps)
        if part.missing:
            detail = f"{len(part.missing)} of {part.num_steps}, the first {part.missing[0]}"
            error = SourceError("files of steps are missing", detail)
            yield failing_item(of_part.episode_id, str(part.first), error)
        else:
            yield _episode_item(of_part)


def _count_group(group: Path | StepEpisodes, entry: NpzEntry) -> int:
    return _count_file_episodes(group, entry) if isinstance(group, Path) else len(group.episodes)


def _group_items(group: Path | StepEpisodes, folder: Path, entry: NpzEntry) -> Iterator[Item]:
    return _file_items(group, folder, entry) if isinstance(group, Path) else _step_items(group, folder, entry)


def _episode_item(entry: NpzEntry) -> Item:
    load = functools.partial(load_episode, entry)
    location = f"{entry.path}, episode {entry.key}"
    return Item(episode_id=entry.episode_id, location=location, load=load, key=entry.key)


class NpzIngester(FolderIngester):
    """Opens datasets of the format `npz`."""

    name = FORMAT

    def recognises(self, path: str) -> bool:
        """Whether a path is an .npz file, or a folder with such files or with folders of .npy files at any depth."""
        root = absolute_path(path)
        if is_url(str(root)):
            return False
        if root.is_file():
            return root.suffix.lower() == SUFFIX
        return not (root / INFO_PATH).exists() and next(_episode_paths(root), None) is not None

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """Whether .npz files, or several .npy files, lie in a folder."""
        if is_url(str(folder.path)):
            return None
        return "data" if SUFFIX in folder.suffixes or _is_array_folder(folder.files) else None

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open a folder, or a single .npz file, as one dataset. Raises SourceError when it holds no arrays."""
        from ingest.spec import read_spec

        root = absolute_path(path)
        folder = root.parent if root.is_file() else root
        paths = [root] if root.is_file() else list(_episode_paths(root))
        if not paths:
            raise SourceError(
                "folder holds no arrays", f"{path}: no {SUFFIX}, and no folder of {ARRAY_SUFFIX}"
            )
        spec = read_spec(Path(options.spec)) if options.spec else None
        ends_key = _ends_key(paths[0], spec)
        entry = NpzEntry(
            dataset=options.dataset or folder_name(folder),
            key="",
            path="",
            ends_key=ends_key,
            rate_hz=options.rate_hz,
            spec=spec,
            reads_unknown=options.reads_unknown,
        )
        is_cut = bool(ends_key) or bool(spec and spec.episode_axis is not None)
        groups = [*paths] if is_cut else group_step_files(paths)
        steps = [group for group in groups if isinstance(group, StepEpisodes)]
        items = (item for group in groups for item in _group_items(group, folder, entry))
        return [
            Source(
                format=FORMAT,
                dataset=entry.dataset,
                total=sum(_count_group(group, entry) for group in groups),
                items=items,
                warnings=tuple(warning for group in steps for warning in group.warnings),
                fragile=paths[0].suffix.lower() == SUFFIX,
                folder=str(root),
                files=functools.partial(
                    _list_files, tuple(paths), tuple(group.table for group in steps if group.table)
                ),
            )
        ]


npz = NpzIngester()
