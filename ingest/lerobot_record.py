"""One episode of a LeRobot dataset made into a record: signals, clock, tasks, outcome, and what is odd about it."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ares.episode import Camera, Episode, RateSource, Record, Signal, Trajectory, episode_id
from ares.errors import SourceError
from ares.files import State
from ingest.lerobot_data import file_of_episode, of_shared_file, stamp, whole_file
from ingest.lerobot_image import image_cameras
from ingest.lerobot_meta import Info, Row, whole_number
from ingest.lerobot_names import dimension_names, short_name
from ingest.lerobot_plan import INDICES, Column, Plan, View
from ingest.lerobot_text import instructions, metadata, outcome
from ingest.lerobot_values import Rows
from ingest.lerobot_video import Span, cameras, span_of
from ingest.video_record import content_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "lerobot"

# float32 seconds of an hour are this coarse.
_SAME_SECONDS = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A LeRobot dataset that has been opened, as far as its episodes need it.

    Attributes:
        name: As stored with its episodes.
        info: Its info.json and layout.
        plan: What its columns are.
        fps: Frames per second as info.json says, else `rate_hz`.
        rate_hz: Steps per second.
        rate_source: Who says so.
        splits: Name, first episode and episode after the last of each split.
        has_data: Whether there is a data file at all.
    """

    name: str
    info: Info
    plan: Plan
    fps: float
    rate_hz: float
    rate_source: RateSource
    splits: tuple[tuple[str, int, int], ...]
    has_data: bool

    def identity(self, key: str) -> str:
        """Identity of an episode; its number is unique in all splits, whose bounds move as a dataset grows."""
        return episode_id(format=FORMAT, dataset=self.name, version=self.info.version, split="", key=key)


def load_episode(dataset: Dataset, row: Row) -> Record:
    """Read an episode of the metadata. Raises SourceError when nothing of it is there or its data are broken."""
    index = int(row["episode_index"])
    warnings: list[str] = []
    source, rows = _rows(dataset, index, row, warnings)
    told = whole_number(row.get("length")) or 0
    steps = rows.count if rows else told
    spans = _spans(dataset, index, row)
    made = tuple(cameras(spans, steps, dataset.fps, dataset.rate_hz, warnings))
    if rows and rows.count:
        made += tuple(image_cameras(dataset.plan.pictures, source, rows, dataset.rate_hz, warnings))
    if rows is None and not made:
        raise SourceError(
            "episode has neither data nor video",
            f"{dataset.info.root}: episode {index}; {'; '.join(warnings)}",
        )
    if rows is None:
        media = made[0].media
        steps = max(round(media.num_frames / media.rate_hz * dataset.rate_hz), 1)
        source = media.uri
    elif told and told != steps:
        warnings.append("length in the metadata is not that of the data")
    if not steps:
        raise SourceError("episode holds no step", f"{source}: episode {index}")
    return _record(dataset, row, source, rows or Rows(steps, {}, {}), made, warnings)


def _rows(dataset: Dataset, index: int, row: Row, warnings: list[str]) -> tuple[str, Rows | None]:
    """The data file of an episode and its rows, or None when there is no such file."""
    info, columns = dataset.info, dataset.plan.columns
    if not info.shared:
        chunk = index // info.chunk_files
        path = f"{info.root}/{info.data_path.format(episode_chunk=chunk, episode_index=index)}"
        rows = whole_file(path, columns)
        if rows and "episode_index" in rows.numbers and (rows.numbers["episode_index"] != index).any():
            warnings.append("episode_index in the data is not that of the file")
    else:
        place = [whole_number(row.get(f"data/{name}")) for name in ("chunk_index", "file_index")]
        path = f"{info.root}/{info.data_path.format(chunk_index=place[0] or 0, file_index=place[1] or 0)}"
        rows = of_shared_file(path, index, columns)
        if rows is None and dataset.has_data:
            path = file_of_episode(_data_files(info)).get(index, path)
            rows = of_shared_file(path, index, columns)
            if rows:
                warnings.append("the metadata names another data file than the one that holds the episode")
    if rows is None:
        warnings.append("data file is missing: no signals")
    else:
        warnings.extend(rows.odd)
    return path, rows


@functools.lru_cache(maxsize=8)
def _listed(root: str, template: str) -> tuple[str, ...]:
    return tuple(Info(root, {}, True, template, "").data_files())


def _data_files(info: Info) -> tuple[str, ...]:
    return _listed(info.root, info.data_path)


def _spans(dataset: Dataset, index: int, row: Row) -> Mapping[View, Span | None]:
    info = dataset.info
    if info.shared:
        return {view: span_of(info.video_path, info.root, view, row) for view in dataset.plan.cameras}
    chunk = index // info.chunk_files
    return {
        view: (
            f"{info.root}/{info.video_path.format(episode_chunk=chunk, episode_index=index, video_key=view.key)}",
            0.0,
            None,
        )
        for view in dataset.plan.cameras
    }


def _record(
    dataset: Dataset, row: Row, source: str, rows: Rows, made: tuple[Camera, ...], warnings: list[str]
) -> Record:
    plan, index = dataset.plan, int(row["episode_index"])
    state = _joined(rows, plan.state, warnings)
    action = _joined(rows, plan.action, warnings)
    texts = instructions(dataset.info.root, plan, rows, row, warnings)
    success, success_source = outcome(plan, rows, row)
    episode = Episode(
        episode_id=dataset.identity(str(index)),
        format=FORMAT,
        dataset=dataset.name,
        version=dataset.info.version,
        split=next((name for name, start, stop in dataset.splits if start <= index < stop), ""),
        key=str(index),
        source=source,
        content_hash=_content_hash(rows, made, (*plan.state, *plan.action)),
        instruction=texts[0] if texts else "",
        instructions=texts,
        robot=str(dataset.info.document.get("robot_type") or ""),
        num_steps=rows.count,
        rate_hz=dataset.rate_hz,
        rate_source=dataset.rate_source,
        cameras=made,
        success=success,
        success_source=success_source,
        state_names=state.names if state else (),
        action_names=action.names if action else (),
        metadata=metadata(dataset.info.root, plan, rows, row),
    )
    trajectory = _trajectory(dataset, rows, state, action, warnings)
    return Record(episode=episode, trajectory=trajectory, warnings=tuple(warnings))


def _trajectory(
    dataset: Dataset, rows: Rows, state: Signal | None, action: Signal | None, warnings: list[str]
) -> Trajectory:
    reward = rows.numbers.get(dataset.plan.reward)
    extra = [column for column in dataset.plan.extra if column.key in rows.numbers]
    return Trajectory(
        timestamps=_timestamps(dataset, rows, warnings),
        state=state,
        action=action,
        reward=None if reward is None else reward[:, 0].astype("float32"),
        extra={
            short_name(column.key): _signal(rows.numbers[column.key], column, warnings) for column in extra
        },
    )


def _joined(rows: Rows, columns: Sequence[Column], warnings: list[str]) -> Signal | None:
    """State or action: its columns side by side."""
    import numpy as np

    parts = [
        _signal(rows.numbers[column.key], column, warnings)
        for column in columns
        if column.key in rows.numbers
    ]
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    names = tuple(name for part in parts for name in part.names)
    if len(set(names)) < len(names):
        keys = [column.key for column in columns if column.key in rows.numbers]
        names = tuple(
            f"{short_name(key)}.{name}" for key, part in zip(keys, parts, strict=True) for name in part.names
        )
    return Signal(np.concatenate([part.values for part in parts], axis=1), names)


def _signal(values: NDArray[Any], column: Column, warnings: list[str]) -> Signal:
    import numpy as np

    if values.dtype.kind == "f" and not np.isfinite(values).all():
        warnings.append(f"column {column.key} holds numbers that are not finite")
    if values.dtype != np.float32:
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
    return Signal(values, dimension_names(short_name(column.key), column.names, values.shape[1]))


def _timestamps(dataset: Dataset, rows: Rows, warnings: list[str]) -> NDArray[np.float64]:
    """(T,) seconds from the first step: frame / fps exactly where the source says so up to float32, else as it says."""
    import numpy as np

    clock = np.arange(rows.count, dtype=np.float64) / dataset.rate_hz
    stored = rows.numbers.get("timestamp")
    if stored is None or stored.shape[1] != 1:
        return clock
    told: NDArray[np.float64] = stored[:, 0].astype(np.float64)
    if not np.isfinite(told).all():
        warnings.append("timestamps are not finite, fps is used")
        return clock
    if abs(told[0]) > _SAME_SECONDS:
        warnings.append("timestamps do not begin at 0, shifted")
    coarse = max(_SAME_SECONDS, float(np.spacing(np.float32(np.abs(told).max()))))
    told = (told - told[0]) * (dataset.fps / dataset.rate_hz)
    if np.abs(told - clock).max() <= coarse:
        return clock
    increasing = bool((np.diff(told) > 0).all())
    warnings.append("timestamps are not even" if increasing else "timestamps do not increase")
    return told


def _content_hash(rows: Rows, made: Sequence[Camera], signals: Sequence[Column]) -> str:
    """Hash of the rows without their numbering, 32 hex digits.

    A robot never moves twice the same way, so state and action tell episodes apart and the same episode is known
    in another dataset, whose videos are joined otherwise. Where they say nothing, the video's content does.
    """
    total = hashlib.blake2b(digest_size=16)
    telling = False
    for key in sorted(rows.numbers):
        if key in INDICES:
            continue
        values = rows.numbers[key]
        total.update(f"{key}\x1f{values.dtype.str}\x1f{values.shape}\x1f".encode())
        total.update(values.tobytes())
    for column in signals:
        found = rows.numbers.get(column.key)
        telling = telling or (found is not None and bool((found != found[0]).any()))
    for camera in made:
        total.update(f"{camera.name}\x1f{camera.media.num_frames}\x1f".encode())
        if not telling:
            found_stamp = stamp(camera.media.uri)
            total.update(f"{camera.media.start_seconds:.6f}".encode())
            total.update(_video_hash(camera.media.uri, found_stamp or State(0, "")).encode())
    return total.hexdigest()


@functools.lru_cache(maxsize=256)
def _video_hash(path: str, stamp: State) -> str:
    return content_hash([path])
