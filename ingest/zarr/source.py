"""Ingester for Zarr stores of Diffusion Policy and UMI: `data/` holds the steps, `meta/episode_ends` cuts them."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ares.episode import SourceArray
from ares.errors import SourceError
from ares.extras import missing_extra
from ares.formats import INFO_PATH, is_zarr_folder, is_zarr_zip
from ares.io import FolderEntries, absolute_path, folder_name, is_url, list_folder, walk_folders
from ares.media.readers import ZarrStore, open_zarr, translate_zarr_errors
from ingest.arrays import find_ends, unknown_family_error
from ingest.base import (
    FolderClaim,
    Ingester,
    IngestOptions,
    Item,
    Source,
    SourceFile,
    failing_item,
)
from ingest.zarr.episode import FORMAT, VIDEO_FOLDER, ZarrEntry, find_arrays, load_episode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ingest.dataset_spec import DatasetSpec

ENDS_KEY = "meta/episode_ends"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    """A store, and where each of its episodes ends; an error for a store that cannot be read.

    Attributes:
        is_known: Whether it has the layout of Diffusion Policy and UMI.
        ends_key: Array of these ends, or "".
    """

    path: Path
    ends: tuple[int, ...] = ()
    is_known: bool = True
    ends_key: str = ENDS_KEY
    error: SourceError | None = None


def recognises(path: str) -> bool:
    """Whether a path is a Zarr store, or a folder with stores at any depth that is not a LeRobot dataset."""
    root = absolute_path(path)
    if is_url(str(root)):
        return False
    if root.is_file():
        return is_zarr_zip(root)
    return not (root / INFO_PATH).exists() and next(_stores(root), None) is not None


def claims(folder: FolderEntries) -> FolderClaim | None:
    """Whether a folder is a Zarr store, or zipped stores lie in it."""
    if is_url(str(folder.path)):
        return None
    if is_zarr_folder(folder.files):
        return "store"
    is_data = ".zip" in folder.suffixes and any(is_zarr_zip(folder.path / name) for name in folder.files)
    return "data" if is_data else None


def open_zarr_dataset(path: str, options: IngestOptions) -> list[Source]:
    """Open a folder with stores, or a single store, as one dataset.

    Raises:
        SourceError: There is no Zarr store.
        RequestError: The library zarr is not installed.
    """
    from ingest.dataset_spec import read_spec

    if find_spec("zarr") is None:
        raise missing_extra("zarr", "zarr")
    root = absolute_path(path)
    spec = read_spec(Path(options.spec)) if options.spec else None
    reads_unknown = options.reads_unknown or spec is not None
    stores = [_inspect(store, spec, reads_unknown) for store in ([root] if root.is_file() else _stores(root))]
    if not stores:
        raise SourceError("folder holds no Zarr store", f"{path}: no .zarr and no .zarr.zip")
    is_store = [store.path for store in stores] == [root]
    folder = root.parent if is_store else root
    dataset = options.dataset or (root.name.partition(".zarr")[0] if is_store else folder_name(folder))
    return [
        Source(
            format=FORMAT,
            dataset=dataset,
            version="",
            total=sum(max(len(store.ends), 1) for store in stores),
            items=(item for store in stores for item in _items(store, folder, dataset, options, spec)),
            fragile=True,
            folder=str(folder),
            files=functools.partial(_list_files, tuple(stores)),
        )
    ]


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


def _stores(folder: Path) -> Iterator[Path]:
    """The stores at or below a folder, in order; groups inside a store are part of it."""
    for parent, subfolders, names in walk_folders(folder):
        if is_zarr_folder(names):
            subfolders.clear()
            yield parent
            continue
        subfolders.sort()
        yield from (parent / name for name in sorted(names) if is_zarr_zip(parent / name))


def _inspect(path: Path, spec: DatasetSpec | None, reads_unknown: bool) -> _Store:
    """Where the episodes of a store end."""
    try:
        with open_zarr(str(path)) as store:
            if "data" in store.names() and "episode_ends" in store.names("meta"):
                return _Store(path=path, ends=_read_ends(store, ENDS_KEY))
            return _inspect_unknown(store, path, spec, reads_unknown)
    except SourceError as error:
        return _Store(path=path, error=SourceError(error.reason, error.detail))


def _inspect_unknown(store: ZarrStore, path: Path, spec: DatasetSpec | None, reads_unknown: bool) -> _Store:
    """A store of another layout: by the spec, else by the names of its arrays. Raises SourceError."""
    keys = find_arrays(store)
    arrays = {key: store.array(key) for key in keys}
    if not reads_unknown:
        raise unknown_family_error(
            f"{path} (known is data/* with {ENDS_KEY}, as of Diffusion Policy and UMI)",
            [
                SourceArray(key=key, use="unused", shape=array.shape, dtype=str(array.dtype))
                for key, array in arrays.items()
            ],
        )
    ends_key = (spec.episode_ends if spec else "") or find_ends(keys)
    if ends_key:
        return _Store(path=path, ends=_read_ends(store, ends_key), is_known=False, ends_key=ends_key)
    rows = Counter(array.shape[0] for array in arrays.values() if array.ndim and array.shape[0])
    if not rows:
        raise SourceError("store holds no array with rows", f"{path}: holds {', '.join(keys) or 'nothing'}")
    slices = (*spec.action, *spec.state) if spec else ()
    steps = next((arrays[part.key].shape[0] for part in slices if part.key in arrays), 0)
    steps = steps or max(rows.items(), key=lambda pair: (pair[1], pair[0]))[0]
    return _Store(path=path, ends=(steps,), is_known=False, ends_key="")


def _read_ends(store: ZarrStore, key: str) -> tuple[int, ...]:
    """The step at which each episode ends. Raises SourceError for anything else than rising whole numbers."""
    import numpy as np

    where = store.path
    array = store.array(key)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise SourceError("episode_ends is no list of whole numbers", f"{where}: {array.dtype} {array.shape}")
    rows = _most_rows(store)
    if array.shape[0] > rows:
        raise SourceError(
            "store has more episodes than steps", f"{where}: {array.shape[0]} ends, {rows} steps"
        )
    with translate_zarr_errors(where):
        ends: NDArray[np.int64] = np.asarray(array[:], np.int64)
    if not ends.size:
        raise SourceError("store holds no episode", f"{where}: {key} is empty")
    return tuple(ends.tolist())


def _most_rows(store: ZarrStore) -> int:
    """Rows of the longest array in `data`, or anywhere in a store of another layout, as their metadata claim them."""
    keys = [f"data/{name}" for name in store.names("data")] or find_arrays(store)
    return max(map(store.claimed_rows, keys), default=0)


def _items(
    store: _Store, folder: Path, dataset: str, options: IngestOptions, spec: DatasetSpec | None
) -> Iterator[Item]:
    """One item for each episode of a store; one that fails for a store that cannot be read."""
    prefix = store.path.relative_to(folder).as_posix()
    starts = (0, *store.ends)
    for number in range(max(len(store.ends), 1)):
        start, stop = (0, 0) if store.error else (starts[number], starts[number + 1])
        entry = ZarrEntry(
            dataset=dataset,
            key=prefix if store.error else f"{prefix}/{number}",
            path=str(store.path),
            number=number,
            start=start,
            stop=stop,
            rate_hz=options.rate_hz,
            is_known=store.is_known,
            ends_key=store.ends_key,
            spec=spec,
        )
        location = str(store.path) if store.error else f"{store.path}, episode {number}"
        if store.error:
            yield failing_item(entry.episode_id, location, store.error)
        else:
            load = functools.partial(load_episode, entry)
            yield Item(episode_id=entry.episode_id, location=location, load=load)


zarr = Ingester(
    name=FORMAT, recognises=recognises, open=open_zarr_dataset, claims=claims, uses=frozenset({"video"})
)
