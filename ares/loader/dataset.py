"""Builds the PyTorch dataset of a set: one item per step, with windows around it and frames."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.errors import RequestError
from ares.export import (
    DatasetCounts,
    DatasetGroup,
    ExportPlan,
    ExportRequest,
    GroupedExport,
    GroupedFormat,
    export_groups,
    open_reader,
)
from ares.formats import ACTION_KEY, REWARD_KEY, STATE_KEY, camera_key
from ares.imports import import_optional
from ares.loader.step_store import StepLayout, StepStore, StepStoreWriter, StoredSteps
from ares.media import frames_at
from ares.registry import did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores


_SIGNAL_KEYS = {"state": STATE_KEY, "action": ACTION_KEY, "reward": REWARD_KEY}
# How far a time may be from that of a step (LeRobot: the same).
_TOLERANCE_SECONDS = 1e-4
_CACHED_EPISODES = 64


class StepDataset:
    """The steps of a set, in the order of its episodes; `torch.utils.data.DataLoader` takes it as it is.

    An item has the keys of LeRobot: "observation.state", "action", "next.reward", "observation.images.CAMERA",
    "timestamp", "frame_index", "episode_index", "index", "task", and "episode_id". Signals are (D,) float32, frames are
    (3, H, W) uint8 RGB. A key of `delta_seconds` has a window: (K, D) or (K, 3, H, W), and KEY_is_pad (K,) bool says
    where it reaches beyond the episode; there the first or the last step is repeated.

    It opens its files when it is first used in a process, and no video longer than one item takes. Signals lie in a
    folder of temporary files that processes share, which is removed with the dataset.

    Args:
        folder: Folder of the step store.
        cameras: Cameras whose frames are decoded; None for all.
        delta_seconds: By key, the times of a window relative to the step.

    Raises:
        RequestError: A camera or a key does not exist, or a time is not that of a step.
    """

    def __init__(
        self,
        folder: Path,
        cameras: Sequence[str] | None = None,
        delta_seconds: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        self._folder = folder
        self._opened: StepStore | None = None
        layout = self._store.layout
        self.rate_hz = layout.rate_hz
        self.cameras = layout.cameras if cameras is None else _known_cameras(cameras, layout.cameras)
        self._signals = {_SIGNAL_KEYS[name]: name for name in layout.widths}
        keys = [*self._signals, *map(camera_key, self.cameras)]
        self._windows = {
            key: _window_steps(key, seconds, layout.rate_hz, keys)
            for key, seconds in (delta_seconds or {}).items()
        }
        weakref.finalize(self, _remove_owned_folder, folder, os.getpid())

    def __len__(self) -> int:
        """Number of steps."""
        return len(self._store)

    @property
    def num_episodes(self) -> int:
        """Number of episodes."""
        return len(self._store.first_rows) - 1

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The item of a step.

        Raises:
            IndexError: There is no such step.
            MediaError: Its frames cannot be read.
        """
        import numpy as np

        store, row = self._store, index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"no step {index}; there are {len(self)}")
        number = int(np.searchsorted(store.first_rows, row, side="right")) - 1
        first, stop = int(store.first_rows[number]), int(store.first_rows[number + 1])
        episode = _read_episode(store, number)
        item: dict[str, Any] = {
            "index": row,
            "episode_index": number,
            "frame_index": row - first,
            "timestamp": (row - first) / self.rate_hz,
            "task": episode.task,
            "episode_id": episode.episode_id,
        }
        for key in (*self._signals, *map(camera_key, self.cameras)):
            item |= self._window_item(key, row, first, stop, episode)
        return item

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def __repr__(self) -> str:
        cameras = ", ".join(self.cameras) or "none"
        return f"StepDataset({len(self):,} steps of {self.num_episodes:,} episodes, cameras {cameras})"

    @property
    def _store(self) -> StepStore:
        if self._opened is None:
            self._opened = StepStore(self._folder)
        return self._opened

    def _window_item(self, key: str, row: int, first: int, stop: int, episode: StoredSteps) -> dict[str, Any]:
        """The values of a key, and its padding mask where it has a window."""
        import numpy as np
        import torch

        if key not in self._windows:
            return {key: self._values(key, np.array([row]), episode)[0]}
        targets = row + self._windows[key]
        rows = targets.clip(first, stop - 1)
        is_padding = torch.from_numpy(targets != rows)
        return {key: self._values(key, rows, episode), f"{key}_is_pad": is_padding}

    def _values(self, key: str, rows: NDArray[np.int64], episode: StoredSteps) -> Any:
        """A tensor of a key at some rows: (K, D) float32 or (K, 3, H, W) uint8."""
        import numpy as np
        import torch

        if key in self._signals:
            return torch.from_numpy(self._store.signal(self._signals[key], rows))
        number = [camera_key(name) for name in self._store.layout.cameras].index(key)
        frames = frames_at(episode.media[number], self._store.camera_seconds(number, rows))
        return torch.from_numpy(np.ascontiguousarray(frames.transpose(0, 3, 1, 2)))


@lru_cache(maxsize=_CACHED_EPISODES)
def _read_episode(store: StepStore, number: int) -> StoredSteps:
    return store.episode(number)


def _known_cameras(cameras: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    for name in cameras:
        if name not in known:
            hint = did_you_mean(name, known)
            raise RequestError(f"no camera {name!r} in the set", f"{hint}there are: {', '.join(known)}")
    return tuple(cameras)


def _window_steps(
    key: str, seconds: Sequence[float], rate_hz: float, keys: Sequence[str]
) -> NDArray[np.int64]:
    """(K,) steps relative to that of an item."""
    import numpy as np

    if key not in keys:
        raise RequestError(
            f"no key {key!r} for a window", f"{did_you_mean(key, keys)}there are: {', '.join(keys)}"
        )
    times = np.asarray(seconds, np.float64)
    steps = np.round(times * rate_hz)
    off = np.abs(times - steps / rate_hz) > _TOLERANCE_SECONDS
    if times.ndim != 1 or not len(times) or not np.isfinite(times).all() or off.any():
        shown = times[off][0] if off.any() else seconds
        raise RequestError(
            f"the times of {key} are not those of steps", f"got {shown} s; steps are {1 / rate_hz:g} s apart"
        )
    return steps.astype(np.int64)


def _remove_owned_folder(folder: Path, owner: int) -> None:
    """Remove the files, in the process that wrote them."""
    if os.getpid() == owner:
        shutil.rmtree(folder.parent, ignore_errors=True)


_FOLDER = "steps"


def build_step_dataset(
    request: ExportRequest,
    stores: Stores,
    cameras: Sequence[str] | None = None,
    delta_seconds: Mapping[str, Sequence[float]] | None = None,
) -> StepDataset:
    """A set as a dataset for PyTorch; see `StepDataset`.

    Args:
        request: The set and what is read of it; the destination is replaced by a folder of temporary files.
        stores: Stores of the workspace.
        cameras: Cameras whose frames are decoded; None for all.
        delta_seconds: By key, the times of a window relative to the step.

    Raises:
        ClashError: Signals of the set mean different things, and no conversion is named for them.
        RequestError: torch is not installed, the episodes have several layouts, or a camera or a key does not exist.
        MediaError: No episode can be read, or with `strict` one cannot.
        StoreError: The disk is full.
    """
    import_optional("torch")
    reader, format = (
        open_reader(request, stores),
        GroupedFormat("steps", _write_steps, folders=_single_folder),
    )
    parent = Path(tempfile.mkdtemp(prefix="ares-steps-"))
    try:
        export_groups(replace(request, destination=parent / _FOLDER), reader, lambda episodes: None, format)
        return StepDataset(parent / _FOLDER, cameras, delta_seconds)
    except BaseException:
        shutil.rmtree(parent, ignore_errors=True)
        raise


def _single_folder(plan: ExportPlan) -> list[str]:
    """The folder of the one group. Raises RequestError for several."""
    if len(plan.groups) > 1:
        layouts = "; ".join(f"{group.episodes} of {group.name}: {group.layout}" for group in plan.groups[:5])
        raise RequestError(
            "episodes of the set have several layouts", f"{layouts}; make a set of each, or give fps"
        )
    return plan.folders


def _write_steps(export: GroupedExport, plan: ExportPlan, number: int) -> DatasetCounts:
    group, counts = plan.groups[number], DatasetCounts()
    with closing(StepStoreWriter(export.staged.folder, _step_layout(group))) as writer:
        for item in export.items(plan, number):
            writer.add(item)
            export.note_written(item, plan.folders[number], counts.episodes)
            counts.add(item)
            export.progress(1)
        writer.finish()
    return counts


def _step_layout(group: DatasetGroup) -> StepLayout:
    widths = {"state": len(group.layout.state_names), "action": len(group.layout.action_names)}
    widths |= {"reward": 1} if group.has_reward else {}
    used = {name: width for name, width in widths.items() if width}
    return StepLayout(float(group.rate_hz), used, tuple(group.cameras))
