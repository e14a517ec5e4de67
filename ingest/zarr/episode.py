"""Reads one episode of a Zarr store as a record: its rows of every array, and the videos beside the store."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import (
    Camera,
    Episode,
    MediaRef,
    RateSource,
    Record,
    Signal,
    Trajectory,
    make_episode_id,
)
from ares.errors import SourceError
from ares.input import ImageInfo
from ares.media.readers import ZarrStore, has_images, image_size, open_zarr, translate_zarr_errors
from ingest.media_files import describe_camera, probe_once
from ingest.signals import MAX_SIGNAL_WIDTH, numbered_names, resolve_rate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "zarr"
VIDEO_FOLDER = "videos"
_TIME_KEY = "timestamp"
_ACTION_KEYS = ("action", "actions")
_STATE_KEYS = ("state", "states", "agent_pos")
# Diffusion Policy's robots and UMI's grippers; the poses at which UMI's demonstrations begin and end are no state.
_ROBOT_KEY = re.compile(r"robot(\d+)?_(?!demo_)")
_REWARD_KEYS = ("reward", "rewards")
_MAX_STEPS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ZarrEntry:
    """One episode of a store, before it is read: the steps [start, stop) of every array."""

    dataset: str
    key: str
    path: str
    number: int
    start: int
    stop: int
    rate_hz: float | None = None

    @property
    def episode_id(self) -> str:
        """Identity of the episode."""
        return make_episode_id(format=FORMAT, dataset=self.dataset, version="", split="", key=self.key)

    @property
    def num_steps(self) -> int:
        """Steps of the episode."""
        return self.stop - self.start


class _EpisodeReader:
    """The arrays of one episode, read, hashed and warned about."""

    def __init__(self, entry: ZarrEntry, store: ZarrStore) -> None:
        self.entry, self.warnings = entry, dict[str, None]()
        self.hash = hashlib.blake2b(digest_size=16)
        self.images: dict[str, Any] = {}
        self.numbers: dict[str, NDArray[Any]] = {}
        for key in store.names("data"):
            if store.has_array(f"data/{key}"):
                self._add(key, store.array(f"data/{key}"))
            else:
                self.warnings[f"data/{key} is not stored (it is no array)"] = None

    def _add(self, key: str, array: Any) -> None:
        reason = self._reason_unusable(array)
        if reason:
            self.warnings[f"data/{key} {reason}"] = None
        elif has_images(array):
            self.images[key] = array
        else:
            self.numbers[key] = self._read(key, array)

    def _reason_unusable(self, array: Any) -> str:
        """Why an array is not stored, or ""."""
        if not array.ndim or array.dtype.kind not in "biuf":
            return "is not stored (no numbers for each step)"
        if array.shape[0] < self.entry.stop:
            return "is not stored (it ends before the episode does)"
        if has_images(array):
            return ""
        width = int(array.size // array.shape[0])
        return "" if 0 < width <= MAX_SIGNAL_WIDTH else "is not stored (too wide for a signal, or empty)"

    def _read(self, key: str, array: Any) -> NDArray[Any]:
        """(T, D) numbers of the episode, as stored."""
        import numpy as np

        with translate_zarr_errors(f"{self.entry.path}, data/{key}"):
            rows: NDArray[Any] = np.asarray(array[self.entry.start : self.entry.stop])
        self.hash.update(f"\x1f{key} {rows.dtype} {rows.shape}\x1f".encode() + rows.tobytes())
        return rows.reshape(len(rows), -1)

    def signal(self, keys: list[str]) -> Signal | None:
        """Arrays joined side by side as one signal; None for no array."""
        import numpy as np

        if not keys:
            return None
        parts = [self._to_float32(key) for key in keys]
        names = [
            name for key, part in zip(keys, parts, strict=True) for name in numbered_names(key, part.shape[1])
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


def load_episode(entry: ZarrEntry) -> Record:
    """Read an episode: signals as numbers, images by reference.

    Raises SourceError when its span is not valid, or when an array cannot be read.
    """
    if not 0 <= entry.start < entry.stop or entry.num_steps > _MAX_STEPS:
        span = f"steps {entry.start} to {entry.stop}"
        raise SourceError("episode has no valid span in episode_ends", f"{entry.path}: {span}")
    with open_zarr(entry.path) as store:
        reader = _EpisodeReader(entry, store)
        rate_hz, rate_source, seconds = _clock(reader)
        cameras = [_array_camera(reader, key, rate_hz) for key in reader.images]
        cameras += _video_cameras(reader)
        _hash_images(reader)
    if not reader.numbers and not cameras:
        raise SourceError("episode holds no array that can be read", f"{entry.path}, episode {entry.number}")
    return _make_record(reader, rate_hz, rate_source, seconds, cameras)


def _make_record(
    reader: _EpisodeReader,
    rate_hz: float,
    rate_source: RateSource,
    seconds: NDArray[np.float64],
    cameras: list[Camera],
) -> Record:
    entry, trajectory = reader.entry, _make_trajectory(reader, seconds)
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
        rate_hz=rate_hz,
        rate_source=rate_source,
        cameras=tuple(cameras),
        state_names=trajectory.state.names if trajectory.state else (),
        action_names=trajectory.action.names if trajectory.action else (),
    )
    return Record(episode=episode, trajectory=trajectory, warnings=tuple(reader.warnings))


def _make_trajectory(reader: _EpisodeReader, seconds: NDArray[np.float64]) -> Trajectory:
    """The signals by their roles, which the names of the arrays imply."""
    keys = list(reader.numbers)
    action_keys = [key for key in _ACTION_KEYS if key in keys][:1]
    state_keys = [key for key in _STATE_KEYS if key in keys][:1]
    state_keys = state_keys or [key for key in keys if _ROBOT_KEY.match(key)]
    reward_keys = [key for key in _REWARD_KEYS if key in keys and reader.numbers[key].shape[1] == 1][:1]
    used = {*action_keys, *state_keys, *reward_keys, _TIME_KEY}
    reward = reader.signal(reward_keys)
    return Trajectory(
        timestamps=seconds,
        state=reader.signal(state_keys),
        action=reader.signal(action_keys),
        reward=reward.values[:, 0] if reward else None,
        extra={key: signal for key in keys if key not in used and (signal := reader.signal([key]))},
    )


def _clock(reader: _EpisodeReader) -> tuple[float, RateSource, NDArray[np.float64]]:
    """Rate, its origin, and (T,) seconds from the start: by data/timestamp where it rises, else evenly spaced."""
    import numpy as np

    count = reader.entry.num_steps
    stamps = reader.numbers.get(_TIME_KEY)
    measured: float | None = None
    if stamps is not None and stamps.shape[1] == 1 and count > 1:
        times = stamps[:, 0].astype(np.float64)
        if np.isfinite(times).all() and (np.diff(times) > 0).all():
            measured = float((count - 1) / (times[-1] - times[0]))
            if reader.entry.rate_hz is None:
                return measured, "source", times - times[0]
        else:
            reader.warnings["data/timestamp does not rise; steps are evenly spaced"] = None
    rate_hz, source = resolve_rate(reader.entry.rate_hz, measured, "source")
    if source == "assumed":
        reader.warnings[f"rate is not known, {rate_hz:g} Hz assumed (give --rate)"] = None
    return rate_hz, source, np.arange(count) / rate_hz


def _array_camera(reader: _EpisodeReader, key: str, rate_hz: float) -> Camera:
    """A camera whose images are rows of an array."""
    entry, (height, width) = reader.entry, image_size(reader.images[key])
    start = entry.start / rate_hz
    media = MediaRef(
        kind="zarr",
        uri=entry.path,
        start_seconds=start,
        stop_seconds=start + entry.num_steps / rate_hz,
        num_frames=entry.num_steps,
        rate_hz=rate_hz,
        key=f"data/{key}",
    )
    return describe_camera(key, ImageInfo(int(width), int(height), "raw"), media)


def _hash_images(reader: _EpisodeReader) -> None:
    """Add three images of every camera to the content hash. Raises SourceError when one cannot be decoded."""
    entry = reader.entry
    for key, array in reader.images.items():
        for row in (entry.start, (entry.start + entry.stop) // 2, entry.stop - 1):
            with translate_zarr_errors(f"{entry.path}, data/{key} row {row}"):
                reader.hash.update(array[row].tobytes())


def _video_cameras(reader: _EpisodeReader) -> list[Camera]:
    """The videos of Diffusion Policy's real robots, `videos/EPISODE/CAMERA.mp4` beside the store."""
    folder = Path(reader.entry.path).parent / VIDEO_FOLDER / str(reader.entry.number)
    cameras = []
    for path in sorted(folder.glob("*.mp4")) if folder.is_dir() else ():
        try:
            info = probe_once(str(path))
        except SourceError as error:
            reader.warnings[f"camera {path.stem} is left out: {error.reason}"] = None
            continue
        media = MediaRef(
            kind="mp4",
            uri=str(path),
            start_seconds=0.0,
            stop_seconds=info.num_frames / info.rate_hz,
            num_frames=info.num_frames,
            rate_hz=info.rate_hz,
        )
        cameras.append(describe_camera(f"camera_{path.stem}", info, media))
    return cameras
