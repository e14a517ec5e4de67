"""Ingester for Zarr stores, such as those of Diffusion Policy and UMI: finds their episodes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.episode import Camera, SourceArray
from ares.errors import SourceError
from ares.formats import is_zarr_folder, is_zarr_zip
from ares.imports import missing_extra
from ares.io import FolderEntries, absolute_path, folder_name, is_url, list_folder, walk_folders
from ares.media import ZarrStore, open_zarr, translate_zarr_errors
from ingest.array_episode import (
    ALL_ROWS,
    ArrayEntry,
    ArrayFormat,
    ArrayMember,
    ArrayRowReader,
    find_episode_ends_array,
    list_array_entries,
    make_array_item,
    read_ends,
    unknown_family_error,
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
from ingest.files import describe_camera, probe_once, whole_video
from ingest.source_words import VideoRow

if TYPE_CHECKING:
    from ingest.spec import DatasetSpec, LayoutSpec


FORMAT = "zarr"
VIDEO_FOLDER = "videos"


@contextmanager
def _open_members(entry: ArrayEntry) -> Iterator[Mapping[str, ArrayMember]]:
    """The arrays of the group that the layout names, without that group; all arrays of a store of another layout."""
    with open_zarr(entry.path) as store:
        keys = [f"{entry.prefix}{key}" for key in store.names(entry.prefix.rstrip("/"))]
        yield {
            key.removeprefix(entry.prefix): ArrayMember(
                store.array(key) if store.has_array(key) else None, entry.path, key
            )
            for key in (keys if entry.layout else find_zarr_arrays(store))
        }


def _read_row(entry: ArrayEntry, reader: ArrayRowReader) -> VideoRow:
    return VideoRow(videos={}, metadata=reader.fields)


def find_zarr_arrays(store: ZarrStore, group: str = "", depth: int = 6) -> list[str]:
    """The keys of the arrays in or below a group, in order; groups deeper than `depth` are not searched."""
    keys: list[str] = []
    for name in store.names(group):
        key = f"{group}/{name}".lstrip("/")
        if store.has_array(key):
            keys.append(key)
        elif depth and name != "c":
            keys += find_zarr_arrays(store, key, depth - 1)
    return keys


def _video_cameras(entry: ArrayEntry, reader: ArrayRowReader) -> list[Camera]:
    """The videos of Diffusion Policy's real robots, `videos/EPISODE/CAMERA.mp4` beside the store."""
    folder = Path(entry.path).parent / VIDEO_FOLDER / str(entry.number)
    cameras = []
    for path in sorted(folder.glob("*.mp4")) if folder.is_dir() else ():
        try:
            info = probe_once(str(path))
        except SourceError as error:
            reader.warnings[f"camera {path.stem} is left out: {error.reason}"] = None
            continue
        cameras.append(describe_camera(f"camera_{path.stem}", info, whole_video(str(path), info)))
    return cameras


_ARRAYS = ArrayFormat(
    kind="zarr",
    open_members=_open_members,
    translate_errors=translate_zarr_errors,
    read_row=_read_row,
    find_videos=_video_cameras,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    """A store, and where each of its episodes ends; an error for a store that cannot be read.

    Attributes:
        ends_key: Array of these ends, or "".
        layout: Its layout; None where names and shapes are to tell it.
    """

    path: Path
    ends: tuple[int, ...] = ()
    ends_key: str = ""
    layout: LayoutSpec | None = None
    error: SourceError | None = None


def _list_files(stores: Iterable[_Store]) -> Iterator[SourceFile]:
    """The stores, each folder as one, and the videos beside them."""
    for store in stores:
        if store.error is None:
            yield SourceFile(path=str(store.path), use="data")
        else:
            yield SourceFile(path=str(store.path), use="unreadable", detail=str(store.error))
        videos = store.path.parent / VIDEO_FOLDER
        for number in range(len(store.ends)):
            names = list_folder(videos / str(number)).files
            for name in names:
                if name.endswith(".mp4"):
                    yield SourceFile(path=str(videos / str(number) / name), use="data")


def _find_stores(folder: Path) -> Iterator[Path]:
    """The stores at or below a folder, in order; groups inside a store are part of it."""
    for parent, subfolders, names in walk_folders(folder):
        if is_zarr_folder(names):
            subfolders.clear()
            yield parent
            continue
        subfolders.sort()
        yield from (parent / name for name in sorted(names) if is_zarr_zip(parent / name))


def _inspect_store(path: Path, spec: DatasetSpec | None, reads_unknown: bool) -> _Store:
    """Where the episodes of a store end."""
    from ingest.spec import builtin_layouts

    layouts = [spec.layout] if spec and spec.layout else builtin_layouts().values()
    try:
        with open_zarr(str(path)) as store:
            for layout in layouts:
                if layout.ends and all(_has_name(store, key) for key in (layout.ends, layout.arrays)):
                    ends = _read_ends(store, layout.ends, must_rise=False)
                    return _Store(path=path, ends=ends, ends_key=layout.ends, layout=layout)
            return _inspect_unknown(store, path, spec, reads_unknown)
    except SourceError as error:
        return _Store(path=path, error=SourceError(error.reason, error.detail))


def _has_name(store: ZarrStore, key: str) -> bool:
    folder, _, name = key.rpartition("/")
    return name in store.names(folder)


def _inspect_unknown(store: ZarrStore, path: Path, spec: DatasetSpec | None, reads_unknown: bool) -> _Store:
    """A store of another layout: by the spec, else by the names of its arrays. Raises SourceError."""
    keys = find_zarr_arrays(store)
    arrays = {key: store.array(key) for key in keys}
    if not reads_unknown:
        known = (
            f"{spec.layout.arrays}/* with {spec.layout.ends}, by the layout of the spec"
            if spec and spec.layout
            else "data/* with meta/episode_ends, as of Diffusion Policy and UMI"
        )
        raise unknown_family_error(
            f"{path} (known is {known})",
            [
                SourceArray(key=key, use="unused", shape=array.shape, dtype=str(array.dtype))
                for key, array in arrays.items()
            ],
        )
    ends_key = (spec.episode_ends if spec else "") or find_episode_ends_array(keys)
    if ends_key:
        return _Store(path=path, ends=_read_ends(store, ends_key, must_rise=False), ends_key=ends_key)
    if not any(array.ndim and array.shape[0] for array in arrays.values()):
        raise SourceError("store holds no array with rows", f"{path}: holds {', '.join(keys) or 'nothing'}")
    return _Store(path=path, ends=(ALL_ROWS,))


def _read_ends(store: ZarrStore, key: str, *, must_rise: bool) -> tuple[int, ...]:
    """The step at which each episode ends. Raises SourceError for anything else than whole numbers."""
    array, rows = store.array(key), _most_rows(store)
    if array.ndim == 1 and array.shape[0] > rows:
        raise SourceError(
            "store has more episodes than steps",
            f"{store.path}: {count_of(array.shape[0], 'end')}, {count_of(rows, 'step')}",
        )
    with translate_zarr_errors(str(store.path)):
        return read_ends(array, f"{store.path}: {key}", must_rise=must_rise)


def _most_rows(store: ZarrStore) -> int:
    """Rows of the longest array in `data`, or anywhere in a store of another layout, as their metadata claim them."""
    keys = [f"data/{name}" for name in store.names("data")] or find_zarr_arrays(store)
    return max(map(store.claimed_rows, keys), default=0)


def _store_items(store: _Store, entry: ArrayEntry) -> Iterator[Item]:
    """One item for each episode of a store; one that fails for a store that cannot be read."""
    if store.error:
        yield failing_item(entry.episode_id, str(store.path), store.error)
        return
    entry = replace(entry, ends_key=store.ends_key, layout=store.layout)
    yield from (make_array_item(episode, _ARRAYS) for episode in list_array_entries(entry, store.ends))


class ZarrIngester(FolderIngester):
    """Opens datasets of the format `zarr`."""

    name = FORMAT
    uses = frozenset({"video"})
    opens_files = True

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """Whether a folder is a Zarr store, or zipped stores lie in it."""
        if is_url(str(folder.path)):
            return None
        if is_zarr_folder(folder.files):
            return "store"
        is_data = ".zip" in folder.suffixes and any(is_zarr_zip(folder.path / name) for name in folder.files)
        return "data" if is_data else None

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open a folder with stores, or a single store, as one dataset.

        Raises:
            SourceError: There is no Zarr store.
            RequestError: The library zarr is not installed.
        """
        from ingest.spec import read_spec

        if find_spec("zarr") is None:
            raise missing_extra("zarr", "zarr")
        root = absolute_path(path)
        spec = read_spec(Path(options.spec)) if options.spec else None
        reads_unknown = options.reads_unknown or (spec is not None and spec.layout is None)
        stores = [
            _inspect_store(store, spec, reads_unknown)
            for store in ([root] if root.is_file() else _find_stores(root))
        ]
        if not stores:
            raise SourceError("folder holds no Zarr store", f"{path}: no .zarr and no .zarr.zip")
        is_store = [store.path for store in stores] == [root]
        folder = root.parent if is_store else root
        dataset = options.dataset or (root.name.partition(".zarr")[0] if is_store else folder_name(folder))
        entries = (
            ArrayEntry(
                format=FORMAT,
                dataset=dataset,
                key=store.path.relative_to(folder).as_posix(),
                path=str(store.path),
                rate_hz=options.rate_hz,
                spec=spec,
                is_shown=options.reads_unknown,
            )
            for store in stores
        )
        return [
            Source(
                format=FORMAT,
                dataset=dataset,
                total=sum(max(len(store.ends), 1) for store in stores),
                items=(
                    item
                    for store, entry in zip(stores, entries, strict=True)
                    for item in _store_items(store, entry)
                ),
                fragile=True,
                folder=str(folder),
                files=functools.partial(_list_files, tuple(stores)),
            )
        ]


zarr = ZarrIngester()
