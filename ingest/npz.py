"""Ingester for .npz files and folders of .npy files: finds their episodes and reads each."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import Json
from ares.errors import AresError, SourceError
from ares.input import read_json
from ares.io import (
    FolderEntries,
    absolute_path,
    describe_os_error,
    folder_name,
    is_url,
    list_folder,
    walk_folders,
)
from ares.media import NpyArray, has_zarr_images, open_npy, translate_npy_errors
from ingest.array_episode import (
    ArrayEntry,
    ArrayFormat,
    ArrayMember,
    ArrayRowReader,
    find_episode_ends_array,
    list_array_entries,
    make_array_item,
    read_ends,
)
from ingest.base import (
    FolderClaim,
    FolderIngester,
    Item,
    Source,
    SourceFile,
    SourceOptions,
    failing_item,
)
from ingest.depth import is_depth_array
from ingest.source_words import InvalidRowError, VideoRow, parse_video_row
from ingest.step_files import StepEpisodes, group_step_files, read_step_arrays, require_rows_of_steps

if TYPE_CHECKING:
    from ingest.spec import DatasetSpec


SUFFIX, ARRAY_SUFFIX = ".npz", ".npy"


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


def take_episode(members: Mapping[str, ArrayMember], axis: int, number: int) -> dict[str, ArrayMember]:
    """One episode of every array that has several along an axis, and all other arrays as they are; no images."""
    count = count_episodes_along(members, axis)
    of_episode = dict(members)
    for key, member in members.items():
        part: Any = member.array
        if not isinstance(part, NpyArray):
            continue
        has_axis = part.ndim > axis + 1 and part.shape[axis] == count
        if has_axis:
            part = ArrayOfEpisode(part, axis, number)
        if has_zarr_images(part) or is_depth_array(key, part):
            part = SourceError(f"images {'along an' if has_axis else 'without the'} axis of episodes", "")
        of_episode[key] = member._replace(array=part)
    return of_episode


def count_episodes_along(members: Mapping[str, ArrayMember], axis: int) -> int:
    """The most frequent length of the arrays along an axis; 0 where none has steps beside it."""
    arrays = [member.array for member in members.values() if isinstance(member.array, NpyArray)]
    counts = Counter(array.shape[axis] for array in arrays if array.ndim > max(axis + 1, 1))
    return max(counts.items(), key=lambda pair: (pair[1], -pair[0]), default=(0, 0))[0]


@contextmanager
def open_arrays(path: str) -> Iterator[dict[str, ArrayMember]]:
    """The arrays of an .npz file by name, or those of the .npy files of a folder by their names.

    Raises SourceError for a file that cannot be read.
    """
    is_file = path.lower().endswith(SUFFIX)
    paths = [path] if is_file else [str(Path(path) / name) for name in list_npy_files(path)]
    with ExitStack() as files:
        members: dict[str, ArrayMember] = {}
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
                members[name or Path(file_path).stem] = ArrayMember(array, file_path, name)
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


@contextmanager
def _open_entry_arrays(entry: ArrayEntry) -> Iterator[Mapping[str, ArrayMember]]:
    """The arrays of an episode, of one file, of a part of it, or of a file a step. Raises SourceError."""
    if entry.num_files:
        arrays = read_step_arrays(entry.path, entry.num_files)
        yield {key: ArrayMember(array, entry.path, key) for key, array in arrays.items()}
        return
    axis = entry.spec.episode_axis if entry.spec else None
    with open_arrays(entry.path) as members:
        of_episode = members if axis is None else take_episode(members, axis, entry.number or 0)
        if not (entry.is_shown or entry.ends_key):
            stated = [part.key for part in (*entry.spec.state, *entry.spec.action)] if entry.spec else []
            require_rows_of_steps(
                {key: member.array for key, member in of_episode.items()}, stated, entry.path
            )
        if not entry.has_all_rows and entry.ends_key:
            read_episode_ends(members, entry.ends_key, entry.path)
        yield of_episode


def read_episode_ends(members: Mapping[str, ArrayMember], key: str, path: str) -> tuple[int, ...]:
    """The steps at which the episodes of a file end; empty where there is no such array. Raises SourceError."""
    member = members.get(key)
    if member is None:
        return ()
    if isinstance(member.array, SourceError):
        raise member.array
    return read_ends(member.array, f"{path}: {key}", must_rise=True)


def _read_row(entry: ArrayEntry, reader: ArrayRowReader) -> VideoRow:
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


FORMAT = "npz"
_ARRAYS = ArrayFormat(
    kind="npy",
    open_members=_open_entry_arrays,
    translate_errors=translate_npy_errors,
    read_row=_read_row,
)


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


def _list_entries(entry: ArrayEntry) -> list[ArrayEntry]:
    """The episodes of a file, along an axis or by their ends. Raises SourceError where it cannot be read."""
    axis = entry.spec.episode_axis if entry.spec else None
    if axis is None and not entry.ends_key:
        return [entry]
    with open_arrays(entry.path) as members:
        if axis is None:
            ends = read_episode_ends(members, entry.ends_key, entry.path)
            return list_array_entries(entry, ends)
        count = count_episodes_along(members, axis)
    if not count:
        raise SourceError(
            "no array has the axis of episodes", f"{entry.path}: episode_axis: {axis} in the spec"
        )
    return [replace(entry, key=f"{entry.key}/{number}", number=number) for number in range(count)]


def _file_items(path: Path, folder: Path, entry: ArrayEntry) -> Iterator[Item]:
    """One item for each episode of a file."""
    key = path.relative_to(folder).as_posix() if path != folder else folder.name
    entry = replace(entry, key=key, path=str(path))
    try:
        entries = _list_entries(entry)
    except SourceError as error:
        yield failing_item(entry.episode_id, str(path), SourceError(error.reason, error.detail))
        return
    yield from (make_array_item(of_episode, _ARRAYS) for of_episode in entries)


def _step_items(steps: StepEpisodes, folder: Path, entry: ArrayEntry) -> Iterator[Item]:
    """One item for each episode of a folder of files of one time step each."""
    for part in steps.episodes:
        key = f"{part.first.relative_to(folder).as_posix()}#steps"
        of_part = replace(entry, key=key, path=str(part.first), num_files=part.num_steps)
        if part.missing:
            detail = f"{len(part.missing)} of {part.num_steps}, the first {part.missing[0]}"
            error = SourceError("files of steps are missing", detail)
            yield failing_item(of_part.episode_id, str(part.first), error)
        else:
            yield make_array_item(of_part, _ARRAYS)


def _count_group(group: Path | StepEpisodes, entry: ArrayEntry) -> int:
    """How many episodes a file or a folder of steps is; 1 for one that cannot be read."""
    if isinstance(group, StepEpisodes):
        return len(group.episodes)
    try:
        return max(len(_list_entries(replace(entry, path=str(group)))), 1)
    except AresError:
        return 1


def _group_items(group: Path | StepEpisodes, folder: Path, entry: ArrayEntry) -> Iterator[Item]:
    return _file_items(group, folder, entry) if isinstance(group, Path) else _step_items(group, folder, entry)


class NpzIngester(FolderIngester):
    """Opens datasets of the format `npz`."""

    name = FORMAT
    opens_files = True

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
        entry = ArrayEntry(
            format=FORMAT,
            dataset=options.dataset or folder_name(folder),
            key="",
            path="",
            ends_key=ends_key,
            rate_hz=options.rate_hz,
            spec=spec,
            is_shown=options.reads_unknown,
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
