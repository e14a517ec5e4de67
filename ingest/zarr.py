"""Ingester for Zarr stores, such as those of Diffusion Policy and UMI: finds their episodes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import Camera, NotRead, SourceArray
from ares.errors import SourceError
from ares.formats import is_zarr_folder, is_zarr_zip
from ares.imports import missing_extra
from ares.io import FolderEntries, absolute_path, folder_name, is_url, list_folder, walk_folders
from ares.media import ZarrStore, open_zarr, translate_zarr_errors
from ares_ingest.array_episode import (
    ArrayEntry,
    ArrayFormat,
    ArrayMember,
    list_array_items,
    unknown_family_error,
)
from ares_ingest.array_rows import ALL_ROWS, ArrayRowReader
from ares_ingest.base import (
    FolderClaim,
    FolderIngester,
    Item,
    Source,
    SourceFile,
    SourceOptions,
    failing_item,
)
from ares_ingest.episode_ends import NO_ENDS, EpisodeEnds, read_episode_ends
from ares_ingest.files import describe_camera, probe_once, whole_video
from ares_ingest.source_words import VideoRow

if TYPE_CHECKING:
    from ares_ingest.spec import DatasetSpec, LayoutSpec


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
            reader.warnings[NotRead(f"camera {path.stem} is left out: {error.reason}")] = None
            reader.missing.append(f"camera_{path.stem}")
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
        layout: Its layout; None where names and shapes are to tell it.
    """

    path: Path
    ends: EpisodeEnds = NO_ENDS
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
        for number in range(len(store.ends.ends)):
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
    from ares_ingest.spec import builtin_layouts

    layouts = [spec.layout] if spec and spec.layout else builtin_layouts().values()
    try:
        with open_zarr(str(path)) as store:
            for layout in layouts:
                if layout.ends and all(_has_name(store, key) for key in (layout.ends, layout.arrays)):
                    ends = _read_ends(store, {layout.ends: store.array(layout.ends)}, layout.ends, spec)
                    return _Store(path=path, ends=ends, layout=layout)
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
    ends = _read_ends(store, arrays, spec.episode_ends if spec else "", spec)
    if ends.ends:
        return _Store(path=path, ends=ends)
    if not any(array.ndim and array.shape[0] for array in arrays.values()):
        raise SourceError("store holds no array with rows", f"{path}: holds {', '.join(keys) or 'nothing'}")
    return _Store(path=path, ends=EpisodeEnds(ends=(ALL_ROWS,), steps=ALL_ROWS))


def _read_ends(
    store: ZarrStore, arrays: Mapping[str, Any], key: str, spec: DatasetSpec | None
) -> EpisodeEnds:
    """Where the episodes of a store end, by the array of a key, or by those whose names say so. Raises SourceError."""
    in_data = [f"data/{name}" for name in store.names("data")]
    rows = {name: store.claimed_rows(name) for name in in_data or find_zarr_arrays(store)}
    with translate_zarr_errors(str(store.path)):
        return read_episode_ends(arrays, rows, str(store.path), key, spec, must_rise=False)


def _store_items(store: _Store, entry: ArrayEntry) -> Iterator[Item]:
    """One item for each episode of a store; one that fails for a store that cannot be read."""
    if store.error:
        yield failing_item(entry.episode_id, str(store.path), store.error)
        return
    yield from list_array_items(replace(entry, layout=store.layout), store.ends, _ARRAYS)


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
        from ares_ingest.spec import read_spec

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
                total=sum(store.ends.num_items for store in stores),
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
