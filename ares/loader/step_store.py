"""The steps of a set in memory-mapped files: signals and frame times by row, and where the frames of episodes are."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ares.episode import MediaRef
from ares.export import SAMPLE_WEIGHT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.export import ExportItem


_INFO_FILE, _EPISODES_FILE, _FIRST_ROWS = "steps.json", "episodes.bin", "first_rows"
# Starts of the lines of the episodes file.
_OFFSETS = "offsets"
# Rows that are read at once for statistics.
_BLOCK_ROWS = 65_536
_STATE, _REWARD = "state", "reward"
# The signal of the weights of steps.
WEIGHT = "weight"


@dataclass(frozen=True, slots=True)
class StoredSteps:
    """An episode of a step store.

    Attributes:
        episode_id: Id of the episode.
        task: Its task.
        media: Where the frames of each camera are.
    """

    episode_id: str
    task: str
    media: tuple[MediaRef, ...]


@dataclass(frozen=True, slots=True)
class StepLayout:
    """What every row of a step store has.

    Attributes:
        rate_hz: Steps per second.
        widths: Numbers per step of each signal: "state", "action", "reward" and WEIGHT, as far as there are any.
        cameras: Names of the cameras.
    """

    rate_hz: float
    widths: dict[str, int]
    cameras: tuple[str, ...]


class StepStoreWriter:
    """Writes a step store, episode by episode.

    Args:
        folder: The folder, which is created.
        layout: What every row has.
    """

    def __init__(self, folder: Path, layout: StepLayout) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._layout = folder, layout
        names = [*layout.widths, _FIRST_ROWS, _OFFSETS, *map(_camera_file, range(len(layout.cameras)))]
        self._files: dict[str, BinaryIO] = {name: (folder / f"{name}.bin").open("wb") for name in names}
        self._episodes = (folder / _EPISODES_FILE).open("wb")
        self._rows = 0

    def add(self, item: ExportItem) -> None:
        """Append the steps of an episode."""
        import numpy as np

        retimed, episode = item.retimed, item.retimed.episode
        for name in self._layout.widths:
            self._files[name].write(np.ascontiguousarray(_signal_values(item, name), np.float32).tobytes())
        cameras = [episode.camera(name) for name in self._layout.cameras]
        for number, camera in enumerate(cameras):
            seconds = np.array(retimed.camera_seconds(camera), np.float64)
            self._files[_camera_file(number)].write(seconds.tobytes())
        self._files[_FIRST_ROWS].write(np.int64(self._rows).tobytes())
        self._files[_OFFSETS].write(np.int64(self._episodes.tell()).tobytes())
        row = {
            "episode_id": episode.episode_id,
            "task": item.task.text,
            "media": [asdict(c.media) for c in cameras],
        }
        self._episodes.write(json.dumps(row).encode() + b"\n")
        self._rows += episode.num_steps

    def finish(self) -> None:
        """Write what needs all episodes."""
        import numpy as np

        self._files[_FIRST_ROWS].write(np.int64(self._rows).tobytes())
        self._files[_OFFSETS].write(np.int64(self._episodes.tell()).tobytes())
        self.close()
        document = {**asdict(self._layout), "statistics": self._statistics()}
        (self._folder / _INFO_FILE).write_text(json.dumps(document), encoding="utf-8")

    def _statistics(self) -> dict[str, dict[str, list[float]]]:
        """Exact statistics of each signal over all rows, in two passes over blocks of them."""
        import numpy as np

        statistics = {}
        for name, width in self._layout.widths.items():
            path = self._folder / f"{name}.bin"
            values = np.memmap(path, dtype=np.float32, mode="r").reshape(-1, width)
            blocks = [values[start : start + _BLOCK_ROWS] for start in range(0, len(values), _BLOCK_ROWS)]
            mean = sum(block.sum(axis=0, dtype=np.float64) for block in blocks) / len(values)
            variance = sum(((block - mean) ** 2).sum(axis=0) for block in blocks) / len(values)
            statistics[name] = {
                "mean": mean.tolist(),
                "std": np.sqrt(variance).tolist(),
                "min": np.min([block.min(axis=0) for block in blocks], axis=0).tolist(),
                "max": np.max([block.max(axis=0) for block in blocks], axis=0).tolist(),
            }
        return statistics

    def close(self) -> None:
        """Close all files; may be called twice."""
        for file in (*self._files.values(), self._episodes):
            file.close()


def _camera_file(number: int) -> str:
    return f"camera-{number}"


def _signal_values(item: ExportItem, name: str) -> NDArray[np.float32]:
    trajectory = item.retimed.trajectory
    if name == _REWARD:
        assert trajectory.reward is not None
        return trajectory.reward
    if name == WEIGHT:
        return trajectory.extra[SAMPLE_WEIGHT].values
    signal = trajectory.state if name == _STATE else trajectory.action
    assert signal is not None
    return signal.values


class StepStore:
    """A step store, read by memory maps: its pages are shared by all processes that read it.

    Args:
        folder: The folder.

    Attributes:
        layout: What every row has.
        statistics: By signal the mean, the standard deviation (divided by the number of rows), the smallest and the
            largest value of each dimension over all rows.
        first_rows: (E + 1,) int64, the first row of each episode, and the number of rows.
    """

    def __init__(self, folder: Path) -> None:
        document: dict[str, Any] = json.loads((folder / _INFO_FILE).read_text(encoding="utf-8"))
        self.layout = StepLayout(
            float(document["rate_hz"]), dict(document["widths"]), tuple(document["cameras"])
        )
        self.statistics: dict[str, dict[str, list[float]]] = document["statistics"]
        self._folder = folder
        self.first_rows = self._map(_FIRST_ROWS, "int64")
        self._offsets = self._map(_OFFSETS, "int64")
        self._episodes = self._map_bytes()
        self._signals = {
            name: self._map(name, "float32").reshape(-1, width) for name, width in self.layout.widths.items()
        }
        self._seconds = [self._map(_camera_file(n), "float64") for n in range(len(self.layout.cameras))]

    def __len__(self) -> int:
        """Number of steps."""
        return int(self.first_rows[-1])

    def episode(self, number: int) -> StoredSteps:
        """An episode by its number."""
        line = self._episodes[int(self._offsets[number]) : int(self._offsets[number + 1])].tobytes()
        row = json.loads(line)
        return StoredSteps(row["episode_id"], row["task"], tuple(map(_media_from_json, row["media"])))

    def signal(self, name: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """(N, D) float32 of a signal at some rows."""
        values: NDArray[np.float32] = self._signals[name][rows]
        return values

    def camera_seconds(self, number: int, rows: NDArray[np.int64]) -> list[float]:
        """The seconds at which `frames_at` has the frames of a camera for some rows."""
        seconds: list[float] = self._seconds[number][rows].tolist()
        return seconds

    def content_hash(self) -> str:
        """Hash of the episodes and their steps, in their order; the same wherever the same episodes are read."""
        digest = hashlib.sha256(self.first_rows.tobytes())
        for number in range(len(self.first_rows) - 1):
            digest.update(self.episode(number).episode_id.encode())
        return digest.hexdigest()[:16]

    def _map(self, name: str, dtype: str) -> NDArray[Any]:
        import numpy as np

        path = self._folder / f"{name}.bin"
        return np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)

    def _map_bytes(self) -> NDArray[np.uint8]:
        import numpy as np

        return np.memmap(self._folder / _EPISODES_FILE, dtype=np.uint8, mode="r")


def _media_from_json(document: dict[str, Any]) -> MediaRef:
    """What `asdict` made of a `MediaRef`; JSON has no tuples."""
    fit = document.get("fit")
    return MediaRef(**{**document, "fit": tuple(fit) if fit else None})
