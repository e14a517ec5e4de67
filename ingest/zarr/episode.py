"""Reads one episode of a Zarr store as a record: its rows of every array, and the videos beside the store."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import (
    Camera,
    Episode,
    MediaRef,
    Record,
    make_episode_id,
)
from ares.errors import SourceError
from ares.input import ImageInfo
from ares.media.readers import ZarrStore, image_size, open_zarr, translate_zarr_errors
from ingest.arrays import (
    ArrayReader,
    SignalKeys,
    guess_roles,
    list_arrays,
    make_trajectory,
    signal_widths,
    step_times,
)
from ingest.media_files import describe_camera, probe_once, whole_video
from ingest.stamps import missing_time_error

if TYPE_CHECKING:
    from ingest.dataset_spec import DatasetSpec

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
class ZarrEntry:
    """One episode of a store, before it is read: the steps [start, stop) of every array.

    Attributes:
        is_known: Whether the store has the layout of Diffusion Policy and UMI.
        ends_key: Array that cuts the rows into episodes, or "".
        spec: What the user knows of the dataset, or None.
    """

    dataset: str
    key: str
    path: str
    number: int
    start: int
    stop: int
    rate_hz: float | None = None
    is_known: bool = True
    ends_key: str = ""
    spec: DatasetSpec | None = None

    @property
    def episode_id(self) -> str:
        """Identity of the episode."""
        return make_episode_id(format=FORMAT, dataset=self.dataset, version="", split="", key=self.key)

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
    if not reader.numbers and not cameras:
        raise SourceError("episode holds no array that can be read", f"{entry.path}, episode {entry.number}")
    trajectory = make_trajectory(reader, roles, times.seconds)
    episode = Episode(
        episode_id=entry.episode_id,
        format=FORMAT,
        dataset=entry.dataset,
        version="",
        split="",
        key=entry.key,
        source=entry.path,
        content_hash=reader.hash.hexdigest(),
        instruction="",
        instructions=(),
        robot="",
        num_steps=entry.num_steps,
        rate_hz=times.rate_hz,
        rate_source=times.rate_source,
        cameras=tuple(cameras),
        state_names=trajectory.state.names if trajectory.state else (),
        action_names=trajectory.action.names if trajectory.action else (),
        metadata=reader.fields,
        # Only the images of the store are promised to be one per step; videos beside it have clocks of their own.
        frame_pairing="index" if all(camera.media.kind == "zarr" for camera in cameras) else "stamp",
    )
    arrays = tuple(list_arrays(reader, roles))
    record = Record(episode=episode, trajectory=trajectory, warnings=tuple(reader.warnings), arrays=arrays)
    return replace(record, has_stamps=times.has_stamps)


def _roles_by_spec(entry: ZarrEntry, reader: ArrayReader) -> SignalKeys:
    """The roles by the layout or by names, with the times that the spec names. Raises SourceError without these."""
    roles = _roles(reader) if entry.is_known else guess_roles(signal_widths(reader), entry.ends_key)
    key = entry.spec.timestamps if entry.spec else ""
    if key and key not in reader.numbers:
        raise missing_time_error(key, reader.shapes, entry.path)
    return replace(roles, time=key) if key else roles


def _read_arrays(entry: ZarrEntry, store: ZarrStore) -> ArrayReader:
    """The rows of the arrays in `data`; of all arrays of a store of another layout."""
    reader = ArrayReader(
        entry.path,
        entry.start,
        entry.stop,
        prefix=DATA_PREFIX if entry.is_known else "",
        translate_errors=translate_zarr_errors,
    )
    keys = [f"data/{key}" for key in store.names("data")] if entry.is_known else find_arrays(store)
    for key in keys:
        if key == entry.ends_key and not entry.is_known:
            array = store.array(key)
            reader.shapes[key] = (tuple(array.shape), str(array.dtype))
        elif store.has_array(key):
            reader.add(key.removeprefix(reader.prefix), store.array(key))
        else:
            reader.warnings[f"{key} is not stored (it is no array)"] = None
    return reader


def find_arrays(store: ZarrStore, group: str = "", depth: int = 6) -> list[str]:
    """The keys of the arrays in or below a group, in order; groups deeper than `depth` are not searched."""
    keys: list[str] = []
    for name in store.names(group):
        key = f"{group}/{name}".lstrip("/")
        if store.has_array(key):
            keys.append(key)
        elif depth and name != "c":
            keys += find_arrays(store, key, depth - 1)
    return keys


def _roles(reader: ArrayReader) -> SignalKeys:
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


def _video_cameras(entry: ZarrEntry, reader: ArrayReader) -> list[Camera]:
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
