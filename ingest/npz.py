"""Ingester for .npz files and folders of .npy files."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from ares.console import count_of
from ares.episode import Json
from ares.errors import AresError, SourceError
from ares.io import (
    FolderEntries,
    absolute_path,
    folder_name,
    is_url,
    walk_folders,
)
from ares.media import translate_npy_errors
from ares_ingest.array_episode import (
    ArrayEntry,
    ArrayFormat,
    ArrayMember,
    list_array_items,
    make_array_item,
)
from ares_ingest.array_files import (
    ARRAY_SUFFIX,
    SUFFIX,
    count_episodes_along,
    find_json_file,
    list_npy_files,
    open_arrays,
    read_episode_json,
    take_episode,
)
from ares_ingest.array_rows import ArrayRowReader
from ares_ingest.base import (
    FolderClaim,
    FolderIngester,
    Item,
    Source,
    SourceFile,
    SourceOptions,
    failing_item,
)
from ares_ingest.episode_ends import NO_ENDS, EpisodeEnds, count_array_rows, find_ends_keys, read_episode_ends
from ares_ingest.files import local_files
from ares_ingest.source_words import InvalidRowError, VideoRow, parse_video_row
from ares_ingest.step_files import StepEpisodes, group_step_files, read_step_arrays, require_rows_of_steps


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
        if entry.has_all_rows and not entry.is_shown:
            stated = [part.key for part in (*entry.spec.state, *entry.spec.action)] if entry.spec else []
            require_rows_of_steps(
                {key: member.array for key, member in of_episode.items()}, stated, entry.path
            )
            if axis is None and not entry.ends_key and find_ends_keys(members):
                _refuse_several_episodes(_read_ends(entry, members, entry.path), entry.path)
        yield of_episode


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


def _count_along_axis(entry: ArrayEntry, axis: int) -> int:
    """Episodes of a file along an axis of its arrays. Raises SourceError where it cannot be read."""
    with open_arrays(entry.path) as members:
        count = count_episodes_along(members, axis)
    if not count:
        raise SourceError(
            "no array has the axis of episodes", f"{entry.path}: episode_axis: {axis} in the spec"
        )
    return count


def _find_ends(entry: ArrayEntry, path: Path) -> EpisodeEnds:
    """Where the episodes of a file end. Raises SourceError where it cannot be read."""
    with open_arrays(str(path)) as members:
        return _read_ends(entry, members, str(path))


def _read_ends(entry: ArrayEntry, members: Mapping[str, ArrayMember], path: str) -> EpisodeEnds:
    arrays = {key: member.array for key, member in members.items()}
    key = entry.spec.episode_ends if entry.spec else ""
    return read_episode_ends(arrays, count_array_rows(arrays), path, key, entry.spec)


def _refuse_several_episodes(ends: EpisodeEnds, path: str) -> None:
    """Raises SourceError for a file of several episodes in a folder whose first file is one."""
    if ends.num_items > 1:
        cut = f"{path}: {count_of(len(ends.ends), 'end')} in {ends.key}; move it to another folder"
        raise SourceError("file of several episodes in a folder whose first file is one", cut)


def _file_items(path: Path, folder: Path, entry: ArrayEntry) -> Iterator[Item]:
    """One item for each episode of a file."""
    key = path.relative_to(folder).as_posix() if path != folder else folder.name
    entry = replace(entry, key=key, path=str(path))
    axis = entry.spec.episode_axis if entry.spec else None
    try:
        if axis is None:
            ends = _find_ends(entry, path) if entry.ends_key else NO_ENDS
            items = list_array_items(entry, ends, _ARRAYS)
        else:
            parts = range(_count_along_axis(entry, axis))
            entries = (replace(entry, key=f"{entry.key}/{number}", number=number) for number in parts)
            items = (make_array_item(part, _ARRAYS) for part in entries)
        described_by = local_files(filter(None, [find_json_file(str(path))]))
        yield from (replace(item, described_by=described_by) for item in items)
    except SourceError as error:
        yield failing_item(entry.episode_id, str(path), SourceError(error.reason, error.detail))


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
    """How many items a file or a folder of steps is; 1 for a file that cannot be read."""
    if isinstance(group, StepEpisodes):
        return len(group.episodes)
    axis = entry.spec.episode_axis if entry.spec else None
    try:
        if axis is not None:
            return _count_along_axis(replace(entry, path=str(group)), axis)
        return _find_ends(entry, group).num_items if entry.ends_key else 1
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
        from ares_ingest.spec import read_spec

        root = absolute_path(path)
        folder = root.parent if root.is_file() else root
        paths = [root] if root.is_file() else list(_episode_paths(root))
        if not paths:
            raise SourceError(
                "folder holds no arrays", f"{path}: no {SUFFIX}, and no folder of {ARRAY_SUFFIX}"
            )
        spec = read_spec(Path(options.spec)) if options.spec else None
        entry = ArrayEntry(
            format=FORMAT,
            dataset=options.dataset or folder_name(folder),
            key="",
            path="",
            ends_key=spec.episode_ends if spec else "",
            rate_hz=options.rate_hz,
            spec=spec,
            is_shown=options.reads_unknown,
        )
        with suppress(AresError):  # loading the episode reports it
            entry = replace(entry, ends_key=entry.ends_key or _find_ends(entry, paths[0]).key)
        is_cut = bool(entry.ends_key) or bool(spec and spec.episode_axis is not None)
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
