"""The PyTorch datasets of a set: an item for each step, with windows, by number or as a stream in a frozen order."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Unpack, get_args

from ares.console import count_of
from ares.errors import RequestError, UnknownName
from ares.export import (
    SAMPLE_WEIGHT,
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
from ares.loader.ranks import Rank, RankOptions, find_rank
from ares.loader.step_store import WEIGHT, StepLayout, StepStore, StepStoreWriter, StoredSteps
from ares.media import OpenVideos, frames_at, frames_in_order
from ares.registry import did_you_mean, read_foreign_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch.utils.data import WeightedRandomSampler

    from ares.store import Stores


_SIGNAL_KEYS = {"state": STATE_KEY, "action": ACTION_KEY, "reward": REWARD_KEY, WEIGHT: SAMPLE_WEIGHT}
# How far a time may be from that of a step (LeRobot: the same).
_TOLERANCE_SECONDS = 1e-4
_CACHED_EPISODES = 64
# How the values of a signal are normalised: mean 0 and deviation 1, or from -1 to 1.
Normalisation = Literal["mean_std", "min_max"]
_NORMALISATIONS = get_args(Normalisation)
# Gives the frames of a camera, by its number, at some rows of an episode: (K, H, W, 3) uint8 RGB.
ReadFrames = Callable[[int, "NDArray[np.int64]", StoredSteps], "NDArray[np.uint8]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderRequest:
    """What items of a dataset have.

    Attributes:
        cameras: Cameras whose frames are decoded; None for all.
        delta_timestamps: By key, the times of a window relative to the step.
        normalise: By key of a signal, how its values are normalised.
    """

    cameras: Sequence[str] | None = None
    delta_timestamps: Mapping[str, Sequence[float]] = field(default_factory=dict)
    normalise: Mapping[str, Normalisation] = field(default_factory=dict)


class StepDataset:
    """The steps of a set, in the order of its episodes; `torch.utils.data.DataLoader` takes it as it is.

    An item has the keys of LeRobot: "observation.state", "action", "next.reward", "observation.images.CAMERA",
    "timestamp", "frame_index", "episode_index", "index", "task", and "episode_id". Signals are (D,) float32, frames are
    (3, H, W) uint8 RGB. A key of `delta_timestamps` has a window: (K, D) or (K, 3, H, W), and KEY_is_pad (K,) bool says
    where it reaches beyond the episode; there the first or the last step is repeated.

    It opens its files when it is first used in a process, and holds at most 16 videos open between items. Signals lie
    in a folder of temporary files that processes share, which is removed with the dataset.

    Args:
        folder: Folder of the step store.
        request: What items have.

    Raises:
        RequestError: A camera, a key or a normalisation does not exist, or a time is not that of a step.
    """

    def __init__(self, folder: Path, request: LoaderRequest) -> None:
        self._folder = folder
        self._opened: StepStore | None = None
        self._videos = OpenVideos()
        layout, cameras = self._store.layout, request.cameras
        self.rate_hz = layout.rate_hz
        self.cameras = layout.cameras if cameras is None else _known_cameras(cameras, layout.cameras)
        self._signals = {_SIGNAL_KEYS[name]: name for name in layout.widths}
        keys = [*self._signals, *map(camera_key, self.cameras)]
        self._windows = {
            key: _window_steps(key, seconds, layout.rate_hz, keys)
            for key, seconds in request.delta_timestamps.items()
        }
        self._scales = {key: self._make_scale(key, kind) for key, kind in request.normalise.items()}
        weakref.finalize(self, _remove_owned_folder, folder, os.getpid())

    def __getattr__(self, name: str) -> NoReturn:
        """Raises UnknownName with what does the work of a name of LeRobot."""
        form = read_foreign_names()["dataset"].get(name, "")
        raise UnknownName(f"{type(self).__name__!r} object has no attribute {name!r}", form and f"use {form}")

    def __len__(self) -> int:
        """Number of steps."""
        return len(self._store)

    @property
    def num_episodes(self) -> int:
        """Number of episodes."""
        return len(self._store.first_rows) - 1

    @property
    def statistics(self) -> dict[str, dict[str, list[float]]]:
        """By key of a signal its "mean", "std", "min" and "max" over all steps: exact, a number per dimension."""
        return {key: self._store.statistics[name] for key, name in self._signals.items()}

    def restore(self, key: str, values: Any) -> Any:
        """Values of a signal in the units of the source: the inverse of its normalisation.

        Args:
            key: The signal.
            values: (..., D) tensor or array.
        """
        import torch

        if key not in self._scales:
            return values
        offset, scale = self._scales[key]
        if isinstance(values, torch.Tensor):
            return values * torch.from_numpy(scale).to(values) + torch.from_numpy(offset).to(values)
        return values * scale + offset

    def stream(
        self,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        block_steps: int = 8,
        shuffle_blocks: int = 28,
        lanes: int = 4,
        **rank: Unpack[RankOptions],
    ) -> StepStream:
        """The steps in a frozen order, for a `DataLoader` with the same batch size; see `StepStream`.

        Raises RequestError where torch is not installed, a number is below 1, or `rank` is not below `world_size`.
        """
        import_optional("torch")
        order = StepOrder(shuffle, seed, block_steps, shuffle_blocks)
        return StepStream(self, batch_size, order, lanes, find_rank(rank))

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The item of a step.

        Raises:
            IndexError: There is no such step.
            MediaError: Its frames cannot be read.
        """
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"no step {index}; there are {len(self)}")
        return self.make_item(row, self._read_frames)

    def make_item(self, row: int, read_frames: ReadFrames) -> dict[str, Any]:
        """The item of a step, with frames from a function. Raises MediaError when they cannot be read."""
        number, first, stop = self.find_episode(row)
        episode = _read_episode(self._store, number)
        item: dict[str, Any] = {
            "index": row,
            "episode_index": number,
            "frame_index": row - first,
            "timestamp": (row - first) / self.rate_hz,
            "task": episode.task,
            "episode_id": episode.episode_id,
        }
        for key in (*self._signals, *map(camera_key, self.cameras)):
            rows, mask = self._window_rows(key, row, first, stop)
            values = self._values(key, rows, episode, read_frames)
            item |= {key: values[0]} if mask is None else {key: values, f"{key}_is_pad": mask}
        return item

    def make_weighted_sampler(self, num_samples: int | None = None, seed: int = 0) -> WeightedRandomSampler:
        """A sampler of `torch.utils.data` that draws steps with replacement, each by its weight.

        Args:
            num_samples: Steps of an epoch; None for as many as there are.
            seed: Of what is drawn.

        Raises:
            RequestError: The dataset has no weights, or all of them are 0.
        """
        import numpy as np
        import torch
        from torch.utils.data import WeightedRandomSampler

        if WEIGHT not in self._store.layout.widths:
            raise RequestError(
                "the dataset has no weights", "ws.torch_dataset(..., weights=COLUMN) adds them"
            )
        weights = self._store.signal(WEIGHT, np.arange(len(self))).ravel()
        if not weights.any():
            raise RequestError("every weight of the dataset is 0", "no step can be drawn")
        generator = torch.Generator().manual_seed(seed)
        count = len(self) if num_samples is None else num_samples
        return WeightedRandomSampler(weights.astype(np.float64).tolist(), count, True, generator)

    @property
    def first_rows(self) -> NDArray[np.int64]:
        """(E + 1,) the first row of each episode, and the number of rows."""
        return self._store.first_rows

    def find_episode(self, row: int) -> tuple[int, int, int]:
        """The number of the episode of a row, its first row and the one behind its last."""
        import numpy as np

        first_rows = self._store.first_rows
        number = int(np.searchsorted(first_rows, row, side="right")) - 1
        return number, int(first_rows[number]), int(first_rows[number + 1])

    def frame_reach(self, number: int) -> tuple[int, int]:
        """How many steps before and behind its step an item has frames of a camera, by the camera's number."""
        steps = self._windows.get(camera_key(self._store.layout.cameras[number]))
        return (0, 0) if steps is None else (min(int(steps.min()), 0), max(int(steps.max()), 0))

    def open_run(self, number: int, rows: range, episode: StoredSteps) -> Iterator[NDArray[np.uint8]]:
        """Yield the frames of a camera at consecutive rows of an episode, each decoded once, when it is asked for."""
        import numpy as np

        media = episode.media[number]
        seconds = self._store.camera_seconds(number, np.arange(rows.start, rows.stop))
        if seconds == sorted(seconds):
            return frames_in_order(media, seconds, self._videos)
        return iter(frames_at(media, seconds, self._videos))

    def content_hash(self) -> str:
        """Hash of its episodes and their order: two datasets with the same hash have the same steps."""
        return self._store.content_hash()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def __repr__(self) -> str:
        steps = count_of(len(self), "step", comma=True)
        size = f"{steps} of {count_of(self.num_episodes, 'episode', comma=True)}"
        return f"StepDataset({size}, cameras {', '.join(self.cameras) or 'none'})"

    @property
    def _store(self) -> StepStore:
        if self._opened is None:
            self._opened = StepStore(self._folder)
        return self._opened

    def _make_scale(self, key: str, kind: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """What is subtracted from a signal, and what it is divided by then: (D,) each. Raises RequestError."""
        import numpy as np

        if key not in self._signals:
            hint = did_you_mean(key, self._signals)
            raise RequestError(
                f"no signal {key!r} to normalise", f"{hint}there are: {', '.join(self._signals)}"
            )
        if kind not in _NORMALISATIONS:
            raise RequestError(f"no normalisation {kind!r}", f"there are: {', '.join(_NORMALISATIONS)}")
        stats = {name: np.array(values) for name, values in self.statistics[key].items()}
        offset, scale = stats["mean"], stats["std"]
        if kind == "min_max":
            offset, scale = (stats["max"] + stats["min"]) / 2, (stats["max"] - stats["min"]) / 2
        # A dimension that never changes becomes 0.
        return offset.astype(np.float32), np.where(scale > 0, scale, 1.0).astype(np.float32)

    def _window_rows(self, key: str, row: int, first: int, stop: int) -> tuple[NDArray[np.int64], Any]:
        """The rows of a key, and its padding mask (K,) where it has a window, else None."""
        import numpy as np
        import torch

        if key not in self._windows:
            return np.array([row]), None
        targets = row + self._windows[key]
        rows = targets.clip(first, stop - 1)
        return rows, torch.from_numpy(targets != rows)

    def _values(
        self, key: str, rows: NDArray[np.int64], episode: StoredSteps, read_frames: ReadFrames
    ) -> Any:
        """A tensor of a key at some rows: (K, D) float32 or (K, 3, H, W) uint8."""
        import numpy as np
        import torch

        if key in self._signals:
            values = self._store.signal(self._signals[key], rows)
            if key in self._scales:
                offset, scale = self._scales[key]
                values = (values - offset) / scale
            return torch.from_numpy(values)
        number = [camera_key(name) for name in self._store.layout.cameras].index(key)
        frames = read_frames(number, rows, episode)
        return torch.from_numpy(np.ascontiguousarray(frames.transpose(0, 3, 1, 2)))

    def _read_frames(self, number: int, rows: NDArray[np.int64], episode: StoredSteps) -> NDArray[np.uint8]:
        return frames_at(episode.media[number], self._store.camera_seconds(number, rows), self._videos)


@lru_cache(maxsize=_CACHED_EPISODES)
def _read_episode(store: StepStore, number: int) -> StoredSteps:
    return store.episode(number)


@dataclass(frozen=True, slots=True)
class StepOrder:
    """The order of the steps of an epoch: a function of these values, the episodes and the number of the epoch alone.

    Blocks of an episode are spread evenly over the epoch, so that blocks that follow one another are of as many
    episodes as there can be.

    Attributes:
        shuffle: Whether blocks are shuffled, and the steps of some blocks among each other.
        seed: Seed of the order.
        block_steps: Consecutive steps of a block, which are decoded together.
        shuffle_blocks: Blocks whose steps are shuffled among each other; so many are in memory.
    """

    shuffle: bool
    seed: int
    block_steps: int
    shuffle_blocks: int

    def rows(self, first_rows: NDArray[np.int64], epoch: int) -> NDArray[np.int64]:
        """(N,) the rows of an epoch in their order; of (E + 1,) first rows of episodes, and the number of rows."""
        import numpy as np

        if not self.shuffle:
            return np.arange(first_rows[-1])
        digest = hashlib.sha256(f"{self.seed} {epoch}".encode()).digest()
        # Of all generators of numpy this one is the same in every version.
        random = np.random.RandomState(np.frombuffer(digest, np.uint32).astype(np.uint32))
        counts = -(-np.diff(first_rows) // self.block_steps)
        episodes = np.repeat(np.arange(len(counts)), counts)
        ranks = np.arange(len(episodes)) - np.repeat(np.cumsum(counts) - counts, counts)
        # The blocks of each episode in an order of their own, at equal distances from a start of its own.
        shuffled = ranks[np.lexsort((random.random_sample(len(episodes)), episodes))]
        positions = (ranks + random.random_sample(len(counts))[episodes]) / counts[episodes]
        order = np.argsort(positions, kind="stable")
        episodes, starts = episodes[order], (first_rows[:-1][episodes] + shuffled * self.block_steps)[order]
        blocks = starts[:, None] + np.arange(self.block_steps)
        is_row = blocks < first_rows[1:][episodes][:, None]
        parts = range(0, len(blocks), self.shuffle_blocks)
        groups = (slice(start, start + self.shuffle_blocks) for start in parts)
        return np.concatenate([random.permutation(blocks[group][is_row[group]]) for group in groups])


class StepStream:
    """The steps of a dataset in a frozen order, which a `torch.utils.data.DataLoader` with its batch size reads.

    The order is the same on every machine and for every number of workers that divides `lanes`, and can be taken up
    in the middle of an epoch. Each rank of a training reads an equal part of the epoch, and no step of another; fewer
    steps than there are ranks are left out. Read in order, each frame is decoded once; shuffled, a block of steps is
    decoded at once. Every iteration is one pass over the epoch of `set_epoch`. In memory are the frames of
    `shuffle_blocks` + 2 blocks for each lane.

    Args:
        dataset: The dataset.
        batch_size: Items of a batch; give the `DataLoader` the same.
        order: The order of the steps.
        lanes: Parts of an epoch that are read side by side: batch j is of lane j mod `lanes`.
        rank: The process of a training that reads.

    Raises:
        RequestError: A number is below 1.
    """

    def __init__(
        self, dataset: StepDataset, batch_size: int, order: StepOrder, lanes: int, rank: Rank
    ) -> None:
        import torch

        torch.utils.data.IterableDataset.register(StepStream)
        numbers = {"batch_size": batch_size, "lanes": lanes, "block_steps": order.block_steps}
        for name, number in (numbers | {"shuffle_blocks": order.shuffle_blocks}).items():
            if number < 1:
                raise RequestError(f"{name} is a number from 1", f"got {number}")
        self._dataset, self._batch_size, self._order, self._lanes = dataset, batch_size, order, lanes
        self._rank, self._num_steps = rank, len(dataset) // rank.world_size
        self._epoch, self._batches, self._passes = 0, 0, 0

    def __len__(self) -> int:
        """Steps of an epoch of this rank; of the one that was taken up in the middle, those that are left."""
        return self._num_steps - self._batches * self._batch_size

    def state_dict(self, batches: int) -> dict[str, Any]:
        """Where the epoch is after some batches of the loader: as many as were trained on since the iteration began.

        Args:
            batches: Batches since the iteration began.
        """
        done = self._batches + batches
        total = -(-self._num_steps // self._batch_size)
        return {**self._identity(), "epoch": self._epoch + done // total, "batches": done % total}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken, with the next iteration.

        Raises:
            RequestError: The state is of other steps, or of another order.
        """
        for name, value in self._identity().items():
            if state.get(name) != value:
                detail = f"{name} was {state.get(name)!r} and is {value!r}"
                raise RequestError("the state is of another order", detail)
        self._epoch, self._batches = int(state["epoch"]), int(state["batches"])

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch with the next iteration."""
        self._epoch, self._batches = epoch, 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The items of this process: all of them, or in a worker of a loader those of its lanes.

        Raises:
            RequestError: The number of workers does not divide the lanes.
            MediaError: A frame cannot be read.
        """
        import torch

        worker = torch.utils.data.get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        if self._lanes % workers:
            lanes = f"{count_of(self._lanes, 'lane')}, {count_of(workers, 'worker')}"
            raise RequestError("the lanes are shared out evenly", lanes)
        batches = self._lane_batches()
        readers = [_BlockReader(self._dataset, self._order) for _ in range(self._lanes)]
        total = sum(map(len, batches))
        for batch in range(self._batches, total):
            lane = batch % self._lanes
            if (batch - self._batches) % workers == number:
                yield from readers[lane].items(batches[lane][batch // self._lanes])

    def _lane_batches(self) -> list[list[NDArray[np.int64]]]:
        """The rows of each batch of each lane, which is a part of the epoch's order."""
        rows = self._order.rows(self._dataset.first_rows, self._epoch)
        first = self._rank.number * self._num_steps
        rows = rows[first : first + self._num_steps]
        size = self._batch_size
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        whole, rest = divmod(len(parts), self._lanes)
        counts = [whole + (lane < rest) for lane in range(self._lanes)]
        starts = [sum(counts[:lane]) for lane in range(self._lanes)]
        lanes = [parts[start : start + count] for start, count in zip(starts, counts, strict=True)]
        # The last batch of the order, which may not be full, is the last that is read.
        holder, last = lanes[min(self._lanes, len(parts)) - 1], lanes[(len(parts) - 1) % self._lanes]
        holder[-1], last[-1] = last[-1], holder[-1]
        return lanes

    def _identity(self) -> dict[str, Any]:
        order = self._order
        return {
            "steps": self._dataset.content_hash(),
            "batch_size": self._batch_size,
            "lanes": self._lanes,
            "order": ["spread", order.shuffle, order.seed, order.block_steps, order.shuffle_blocks],
            "world_size": self._rank.world_size,
        }


class _FrameRun:
    """The frames of a camera at consecutive rows of an episode, decoded when they are asked for, each once."""

    def __init__(self, frames: Iterator[NDArray[np.uint8]], first: int) -> None:
        self._frames, self._next = frames, first
        self._decoded: dict[int, NDArray[np.uint8]] = {}

    def has(self, row: int) -> bool:
        """Whether a row can be read without going back."""
        return row in self._decoded or row == self._next

    def close(self) -> None:
        """Close the video, whose decoder takes more memory than a block; what was decoded stays."""
        self._frames = iter(())

    def read(self, rows: NDArray[np.int64], keep_from: int) -> NDArray[np.uint8]:
        """(K, H, W, 3) uint8 RGB at some rows; frames before another row are let go."""
        import numpy as np

        while self._next <= rows.max():
            self._decoded[self._next] = next(self._frames)
            self._next += 1
        frames = np.stack([self._decoded[row] for row in rows.tolist()])
        for row in [row for row in self._decoded if row < keep_from]:
            del self._decoded[row]
        return frames


class _BlockReader:
    """Reads the items of a lane: in order with the frames of a window at hand, shuffled with those of some blocks."""

    def __init__(self, dataset: StepDataset, order: StepOrder) -> None:
        self._dataset, self._order = dataset, order
        self._runs: dict[tuple[int, ...], _FrameRun] = {}
        blocks = order.shuffle_blocks + 2 if order.shuffle else 1
        self._most_runs = blocks * max(len(dataset.cameras), 1)

    def items(self, rows: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
        """Yield the items of some rows. Raises MediaError."""
        for row in rows.tolist():
            yield self._dataset.make_item(row, partial(self._read, row))

    def _read(
        self, row: int, camera: int, rows: NDArray[np.int64], episode: StoredSteps
    ) -> NDArray[np.uint8]:
        number, first, stop = self._dataset.find_episode(row)
        before, behind = self._dataset.frame_reach(camera)
        key: tuple[int, ...] = (number, camera)
        needed = range(max(row + before, first), stop)
        if self._order.shuffle:
            start = row - (row - first) % self._order.block_steps
            needed = range(max(start + before, first), min(start + self._order.block_steps + behind, stop))
            key = (number, camera, start)
        run = self._runs.pop(key, None)
        if run is None or not run.has(int(rows.min())):
            run = _FrameRun(self._dataset.open_run(camera, needed, episode), needed.start)
        self._runs[key] = run
        while len(self._runs) > self._most_runs:
            del self._runs[next(iter(self._runs))]
        if self._order.shuffle and not run.has(needed.stop - 1):
            run.read(_row_numbers(needed), needed.start)
            run.close()
        return run.read(rows, needed.start)


def _row_numbers(rows: range) -> NDArray[np.int64]:
    """The numbers of a range as an array."""
    import numpy as np

    return np.arange(rows.start, rows.stop)


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


def build_step_dataset(request: ExportRequest, stores: Stores, loading: LoaderRequest) -> StepDataset:
    """A set as a dataset for PyTorch; see `StepDataset`.

    Args:
        request: The set and what is read of it; the destination is replaced by a folder of temporary files.
        stores: Stores of the workspace.
        loading: What items have.

    Raises:
        ClashError: Signals of the set mean different things, and no conversion is named for them.
        RequestError: torch is not installed, the episodes have several layouts, or a camera or a key does not exist.
        MediaError: No episode can be read, or with `strict` one cannot.
        StoreError: The disk is full.
    """
    import_optional("torch")
    reader = open_reader(request, stores)
    format = GroupedFormat("steps", _write_steps, folders=_single_folder)
    parent = Path(tempfile.mkdtemp(prefix="ares-steps-"))
    try:
        export_groups(replace(request, destination=parent / _FOLDER), reader, lambda episodes: None, format)
        return StepDataset(parent / _FOLDER, loading)
    except BaseException:
        shutil.rmtree(parent, ignore_errors=True)
        raise


def _single_folder(plan: ExportPlan) -> list[str]:
    """The folder of the one group. Raises RequestError for several."""
    if len(plan.groups) > 1:
        layouts = "; ".join(f"{group.episodes} of {group.name}: {group.layout}" for group in plan.groups[:5])
        raise RequestError(
            "episodes of the set have several layouts",
            f"{layouts}; make a set of each, or give fps where only the rates differ",
        )
    return plan.folders


def _write_steps(export: GroupedExport, plan: ExportPlan, number: int) -> DatasetCounts:
    group, counts = plan.groups[number], DatasetCounts()
    with closing(StepStoreWriter(export.root, _step_layout(group))) as writer:
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
    widths |= {WEIGHT: 1} if SAMPLE_WEIGHT in group.common_signals else {}
    used = {name: width for name, width in widths.items() if width}
    return StepLayout(float(group.rate_hz), used, tuple(group.cameras))
