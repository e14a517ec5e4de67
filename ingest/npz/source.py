"""Ingester for .npz files and folders of .npy files: an episode each, or several in one file with episode_ends."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import AresError, SourceError
from ares.formats import INFO_PATH
from ares.io import FolderEntries, absolute_path, folder_name, is_url, walk_folders
from ingest.arrays import find_ends
from ingest.base import FolderClaim, Ingester, IngestOptions, Item, Source, SourceFile, failing_item
from ingest.npz.episode import FORMAT, NpzEntry, load_episode
from ingest.npz.files import ARRAY_SUFFIX, SUFFIX, array_names, json_file, open_arrays, read_ends

if TYPE_CHECKING:
    from ingest.dataset_spec import DatasetSpec

# A single .npy file is more often an embedding or a calibration than an episode.
_FEWEST_ARRAYS = 2


def recognises(path: str) -> bool:
    """Whether a path is an .npz file, or a folder with such files or with folders of .npy files at any depth."""
    root = absolute_path(path)
    if is_url(str(root)):
        return False
    if root.is_file():
        return root.suffix.lower() == SUFFIX
    return not (root / INFO_PATH).exists() and next(_episode_paths(root), None) is not None


def claims(folder: FolderEntries) -> FolderClaim | None:
    """Whether .npz files, or several .npy files, lie in a folder."""
    if is_url(str(folder.path)):
        return None
    return "data" if SUFFIX in folder.suffixes or _is_array_folder(folder.files) else None


def _is_array_folder(names: Iterable[str]) -> bool:
    arrays = [name for name in names if name.lower().endswith(ARRAY_SUFFIX) and not name.startswith(".")]
    return len(arrays) >= _FEWEST_ARRAYS


def open_npz(path: str, options: IngestOptions) -> list[Source]:
    """Open a folder, or a single .npz file, as one dataset. Raises SourceError when it holds no arrays."""
    from ingest.dataset_spec import read_spec

    root = absolute_path(path)
    folder = root.parent if root.is_file() else root
    paths = [root] if root.is_file() else list(_episode_paths(root))
    if not paths:
        raise SourceError("folder holds no arrays", f"{path}: no {SUFFIX}, and no folder of {ARRAY_SUFFIX}")
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
    items = (item for file in paths for item in _items(file, folder, entry))
    return [
        Source(
            format=FORMAT,
            dataset=entry.dataset,
            version="",
            total=sum(max(len(_read_file_ends(file, ends_key)), 1) for file in paths)
            if ends_key
            else len(paths),
            items=items,
            fragile=paths[0].suffix.lower() == SUFFIX,
            folder=str(root),
            files=functools.partial(_list_files, tuple(paths)),
        )
    ]


def _episode_paths(folder: Path) -> Iterator[Path]:
    """The .npz files and folders of .npy files at or below a folder, in order."""
    for parent, subfolders, names in walk_folders(folder):
        subfolders.sort()
        files = sorted(name for name in names if name.lower().endswith(SUFFIX) and not name.startswith("."))
        yield from (parent / name for name in files)
        if not files and _is_array_folder(names):
            yield parent


def _list_files(paths: tuple[Path, ...]) -> Iterator[SourceFile]:
    """The files of arrays, and the JSON files that describe their episodes."""
    for path in paths:
        names = (
            [str(path)]
            if path.suffix.lower() == SUFFIX
            else [str(path / name) for name in array_names(str(path))]
        )
        yield from (SourceFile(path=name, use="data") for name in names)
        if document := json_file(str(path)):
            yield SourceFile(path=document, use="metadata")


def _ends_key(path: Path, spec: DatasetSpec | None) -> str:
    """The array that cuts the rows of each file into episodes, by the spec or by the names in the first file."""
    if spec and spec.episode_ends:
        return spec.episode_ends
    try:
        with open_arrays(str(path)) as members:
            return find_ends(members)
    except AresError:
        return ""  # loading the episode reports it


def _read_file_ends(path: Path, ends_key: str) -> tuple[int, ...]:
    """Where the episodes of a file end; empty for a file that cannot be read, or is one episode."""
    try:
        with open_arrays(str(path)) as members:
            return read_ends(members, ends_key, str(path))
    except AresError:
        return ()


def _items(path: Path, folder: Path, entry: NpzEntry) -> Iterator[Item]:
    """One item for each episode of a file."""
    key = path.relative_to(folder).as_posix() if path != folder else folder.name
    entry = replace(entry, key=key, path=str(path))
    ends: tuple[int, ...] = ()
    try:
        if entry.ends_key:
            with open_arrays(str(path)) as members:
                ends = read_ends(members, entry.ends_key, str(path))
    except SourceError as error:
        yield failing_item(entry.episode_id, str(path), SourceError(error.reason, error.detail))
        return
    if not ends:
        yield _item(entry)
    for number, (start, stop) in enumerate(zip((0, *ends), ends, strict=False)):
        yield _item(replace(entry, key=f"{key}/{number}", start=start, stop=stop))


def _item(entry: NpzEntry) -> Item:
    load = functools.partial(load_episode, entry)
    return Item(episode_id=entry.episode_id, location=f"{entry.path}, episode {entry.key}", load=load)


npz = Ingester(name=FORMAT, recognises=recognises, open=open_npz, claims=claims)
