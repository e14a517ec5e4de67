"""Ingester for Zarr stores of Diffusion Policy and UMI: finds their episodes and reads each."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.console import count_of
from ares.episode import Camera, MediaRef, Record, SourceArray
from ares.errors import SourceError
from ares.formats import INFO_PATH, is_zarr_folder, is_zarr_zip
from ares.imports import missing_extra
from ares.input import ImageInfo
from ares.io import FolderEntries, absolute_path, folder_name, is_url, list_folder, walk_folders
from ares.media import ZarrStore, image_size, open_zarr, translate_zarr_errors
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
from ingest.depth import add_depth
from ingest.files import describe_camera, probe_once, whole_video
from ingest.signals import missing_time_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ingest.spec import DatasetSpec


FORMAT = "zarr"
VIDEO_FOLDER = "videos"
_TIME_KEY = "timestamp"
_ACTION_KEYS = ("action", "actions")
_STATE_KEYS = ("state", "states", "agent_pos")
# Diffusion Policy's robots and UMI's grippers; the poses at which UMI's demonstrations begin and end are no state.
_ROBOT_KEY = re.compile(r"robot(\d+)?_(?!demo_)")
_REWARD_KEYS = ("reward", "rewards")
DATA_PREFIX = "data/"
_MAX_STEPS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ZarrEntry(EpisodeEntry):
    """One episode of a store, before it is read: the steps [start, stop) of every array.

    Attributes:
        is_known: Whether the store has the layout of Diffusion Policy and UMI.
        ends_key: Array that cuts the rows into episodes, or "".
        spec: What the user knows of the dataset, or None.
        is_shown: Whether its arrays are only shown.
    """

    format: str = FORMAT
    path: str
    number: int
    start: int
    stop: int
    is_known: bool = True
    ends_key: str = ""
    spec: DatasetSpec | None = None
    is_shown: bool = False

    @property
    def num_steps(self) -> int:
        """Steps of the episode."""
        return self.stop - self.start


def load_episode(entry: ZarrEntry) -> Record:
    """Read an episode: signals as numbers, images by reference.

    Raises SourceError when its span is not valid, or when an array cannot be read.
    """
    if not 0 <= entry.start < entry.stop or entry.num_steps > _MAX_STEPS:
        span = f"steps {entry.start} to {entry.stop}"
        raise SourceError("episode has no valid span in episode_ends", f"{entry.path}: {span}")
    with open_zarr(entry.path) as store:
        reader = _read_arrays(entry, store)
        roles = _roles_by_spec(entry, reader)
        unit = entry.spec.time_unit if entry.spec else None
        times = step_times(reader, roles.time, entry.rate_hz, unit=unit)
        cameras = [_array_camera(entry, key, reader.images[key], times.rate_hz) for key in reader.images]
        cameras += _video_cameras(entry, reader)
        reader.hash_images()
        depth = reader.describe_depth({})
    if not reader.numbers and not cameras:
        raise SourceError("episode holds no array that can be read", f"{entry.path}, episode {entry.number}")
    trajectory = make_trajectory(reader, roles, times.seconds)
    episode = make_episode(
        entry,
        trajectory,
        source=entry.path,
        content_hash=reader.hash.hexdigest(),
        rate_hz=times.rate_hz,
        rate_source=times.rate_source,
        cameras=tuple(cameras),
        metadata=add_depth(reader.fields, depth),
        # Only the images of the store are promised to be one per step; videos beside it have clocks of their own.
        frame_pairing="index" if all(camera.media.kind == "zarr" for camera in cameras) else "stamp",
    )
    arrays = tuple(list_arrays(reader, roles))
    record = Record(episode=episode, trajectory=trajectory, warnings=tuple(reader.warnings), arrays=arrays)
    return replace(record, has_stamps=times.has_stamps)


def _roles_by_spec(entry: ZarrEntry, reader: ArrayRowReader) -> SignalKeys:
    """The roles by the layout or by names, with the times that the spec names. Raises SourceError without these."""
    roles = (
        _signal_roles(reader)
        if entry.is_known
        else guess_array_roles(count_array_dimensions(reader), entry.ends_key)
    )
    key = entry.spec.timestamps if entry.spec else ""
    if key and key not in reader.numbers:
        raise missing_time_error(key, reader.shapes, entry.path)
    return replace(roles, time=key) if key else roles


def _read_arrays(entry: ZarrEntry, store: ZarrStore) -> ArrayRowReader:
    """The rows of the arrays in `data`; of all arrays of a store of another layout."""
    reader = ArrayRowReader(
        entry.path,
        entry.start,
        entry.stop,
        prefix=DATA_PREFIX if entry.is_known else "",
        translate_errors=translate_zarr_errors,
    )
    keys = [f"data/{key}" for key in store.names("data")] if entry.is_known else find_zarr_arrays(store)
    for key in keys:
        if key == entry.ends_key and not entry.is_known:
            array = store.array(key)
            reader.shapes[key] = (tuple(array.shape), str(array.dtype))
        elif store.has_array(key):
            reader.add(key.removeprefix(reader.prefix), store.array(key))
        else:
            reader.warnings[f"{key} is not stored (it is no array)"] = None
    require_whole_signals(reader, entry.spec, is_shown=entry.is_shown)
    return reader


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


def _signal_roles(reader: ArrayRowReader) -> SignalKeys:
    """The roles of Diffusion Policy and UMI."""
    keys = list(reader.numbers)
    state = [key for key in _STATE_KEYS if key in keys][:1]
    reward = [key for key in _REWARD_KEYS if key in keys and reader.numbers[key].shape[1] == 1][:1]
    return SignalKeys(
        state=tuple(state or [key for key in keys if _ROBOT_KEY.match(key)]),
        action=tuple([key for key in _ACTION_KEYS if key in keys][:1]),
        reward="".join(reward),
        time=_TIME_KEY if _TIME_KEY in keys else "",
    )


def _array_camera(entry: ZarrEntry, key: str, array: Any, rate_hz: float) -> Camera:
    """A camera whose images are rows of an array."""
    height, width = image_size(array)
    start = entry.start / rate_hz
    media = MediaRef(
        kind="zarr",
        uri=entry.path,
        start_seconds=start,
        stop_seconds=start + entry.num_steps / rate_hz,
        num_frames=entry.num_steps,
        rate_hz=rate_hz,
        key=f"{DATA_PREFIX}{key}" if entry.is_known else key,
    )
    return describe_camera(key.replace("/", "."), ImageInfo(int(width), int(height), "raw"), media)


def _video_cameras(entry: ZarrEntry, reader: ArrayRowReader) -> list[Camera]:
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
    try:
        with open_zarr(str(path)) as store:
            if "data" in store.names() and "episode_ends" in store.names("meta"):
                return _Store(path=path, ends=_read_ends(store, ENDS_KEY))
            return _inspect_unknown(store, path, spec, reads_unknown)
    except SourceError as error:
        return _Store(path=path, error=SourceError(error.reason, error.detail))


def _inspect_unknown(store: ZarrStore, path: Path, spec: DatasetSpec | None, reads_unknown: bool) -> _Store:
    """A store of another layout: by the spec, else by the names of its arrays. Raises SourceError."""
    keys = find_zarr_arrays(store)
    arrays = {key: store.array(key) for key in keys}
    if not reads_unknown:
        raise unknown_family_error(
            f"{path} (known is data/* with {ENDS_KEY}, as of Diffusion Policy and UMI)",
            [
                SourceArray(key=key, use="unused", shape=array.shape, dtype=str(array.dtype))
                for key, array in arrays.items()
            ],
        )
    ends_key = (spec.episode_ends if spec else "") or find_episode_ends_array(keys)
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
            "store has more episodes than steps",
            f"{where}: {count_of(array.shape[0], 'end')}, {count_of(rows, 'step')}",
        )
    with translate_zarr_errors(where):
        ends: NDArray[np.int64] = np.asarray(array[:], np.int64)
    if not ends.size:
        raise SourceError("store holds no episode", f"{where}: {key} is empty")
    return tuple(ends.tolist())


def _most_rows(store: ZarrStore) -> int:
    """Rows of the longest array in `data`, or anywhere in a store of another layout, as their metadata claim them."""
    keys = [f"data/{name}" for name in store.names("data")] or find_zarr_arrays(store)
    return max(map(store.claimed_rows, keys), default=0)


def _store_items(
    store: _Store, folder: Path, dataset: str, options: SourceOptions, spec: DatasetSpec | None
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
            is_shown=options.reads_unknown,
        )
        location = str(store.path) if store.error else f"{store.path}, episode {number}"
        if store.error:
            yield failing_item(entry.episode_id, location, store.error)
        else:
            load = functools.partial(load_episode, entry)
            yield Item(episode_id=entry.episode_id, location=location, load=load, key=entry.key)


class ZarrIngester(FolderIngester):
    """Opens datasets of the format `zarr`."""

    name = FORMAT
    uses = frozenset({"video"})

    def recognises(self, path: str) -> bool:
        """Whether a path is a Zarr store, or a folder with stores at any depth that is not a LeRobot dataset."""
        root = absolute_path(path)
        if is_url(str(root)):
            return False
        if root.is_file():
            return is_zarr_zip(root)
        return not (root / INFO_PATH).exists() and next(_find_stores(root), None) is not None

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
        reads_unknown = options.reads_unknown or spec is not None
        stores = [
            _inspect_store(store, spec, reads_unknown)
            for store in ([root] if root.is_file() else _find_stores(root))
        ]
        if not stores:
            raise SourceError("folder holds no Zarr store", f"{path}: no .zarr and no .zarr.zip")
        is_store = [store.path for store in stores] == [root]
        folder = root.parent if is_store else root
        dataset = options.dataset or (root.name.partition(".zarr")[0] if is_store else folder_name(folder))
        return [
            Source(
                format=FORMAT,
                dataset=dataset,
                total=sum(max(len(store.ends), 1) for store in stores),
                items=(
                    item for store in stores for item in _store_items(store, folder, dataset, options, spec)
                ),
                fragile=True,
                folder=str(folder),
                files=functools.partial(_list_files, tuple(stores)),
            )
        ]


zarr = ZarrIngester()
