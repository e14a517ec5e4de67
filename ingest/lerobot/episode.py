"""Builds the record of a LeRobot episode: signals, timestamps, instructions, outcome, cameras and warnings."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ares.episode import Camera, Episode, RateSource, Record, Signal, Trajectory, make_episode_id
from ares.errors import SourceError
from ares.formats import DATA_FILE_COLUMNS
from ares.io import FileState
from ingest.lerobot.cameras import VideoSpan, image_cameras, video_cameras, video_span
from ingest.lerobot.feature_map import INDICES, CameraFeature, LeRobotFeatureMap, SignalColumn
from ingest.lerobot.language import episode_instructions, episode_notes, episode_outcome
from ingest.lerobot.metadata import LeRobotInfo, MetadataRow, as_count
from ingest.lerobot.names import dimension_names, short_name
from ingest.lerobot.rows import (
    data_file_by_episode,
    file_state_or_none,
    read_episode_file,
    read_from_shared_file,
)
from ingest.lerobot.source_arrays import source_arrays
from ingest.lerobot.values import EpisodeRows
from ingest.media_files import hash_media_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "lerobot"

# Seconds stored as float32 are this coarse after about an hour.
_TOLERANCE_SECONDS = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class LeRobotDataset:
    """What the loading of an episode needs to know about its dataset.

    Attributes:
        name: Name that is stored with the episodes.
        info: Content of info.json.
        feature_map: Roles of the columns.
        fps: Frames per second by info.json, else `rate_hz`.
        rate_hz: Steps per second.
        rate_source: Where the rate comes from.
        splits: Name, first episode and end (half open) of each split.
        has_data: Whether there is any data file.
    """

    name: str
    info: LeRobotInfo
    feature_map: LeRobotFeatureMap
    fps: float
    rate_hz: float
    rate_source: RateSource
    splits: tuple[tuple[str, int, int], ...]
    has_data: bool

    def identity(self, key: str) -> str:
        """Identity of an episode. It leaves out the split: splits move as a dataset grows, episode numbers do not."""
        return make_episode_id(format=FORMAT, dataset=self.name, version=self.info.version, split="", key=key)


def load_episode(dataset: LeRobotDataset, row: MetadataRow) -> Record:
    """Read an episode listed in the metadata.

    Raises SourceError when it has neither data nor video, or its data cannot be read.
    """
    index = int(row["episode_index"])
    warnings: list[str] = []
    source, rows = _read_rows(dataset, index, row, warnings)
    declared_length = as_count(row.get("length")) or 0
    steps = rows.count if rows else declared_length
    spans = _video_spans(dataset, index, row)
    cameras = tuple(video_cameras(spans, steps, dataset.fps, dataset.rate_hz, warnings))
    if rows and rows.count:
        cameras += tuple(
            image_cameras(dataset.feature_map.image_cameras, source, rows, dataset.rate_hz, warnings)
        )
    if rows is None and not cameras:
        raise SourceError(
            "episode has neither data nor video",
            f"{dataset.info.root}: episode {index}; {'; '.join(warnings)}",
        )
    if rows is None:
        media = cameras[0].media
        steps = max(round(media.num_frames / media.rate_hz * dataset.rate_hz), 1)
        source = media.uri
    elif declared_length and declared_length != steps:
        warnings.append("length in the metadata is not that of the data")
    if not steps:
        raise SourceError("episode holds no step", f"{source}: episode {index}")
    return _make_record(dataset, row, source, rows or EpisodeRows(steps, {}, {}), cameras, warnings)


def _read_rows(
    dataset: LeRobotDataset, index: int, row: MetadataRow, warnings: list[str]
) -> tuple[str, EpisodeRows | None]:
    """The data file of an episode and its rows, or None when there is no such file."""
    if dataset.info.shared_files:
        path, rows = _read_shared_rows(dataset, index, row, warnings)
    else:
        path, rows = _read_own_rows(dataset, index, warnings)
    if rows is None:
        warnings.append("data file is missing: no signals")
    else:
        warnings.extend(rows.warnings)
    return path, rows


def _read_own_rows(
    dataset: LeRobotDataset, index: int, warnings: list[str]
) -> tuple[str, EpisodeRows | None]:
    info = dataset.info
    chunk = index // info.chunk_size
    path = f"{info.root}/{info.data_path.format(episode_chunk=chunk, episode_index=index)}"
    rows = read_episode_file(path, dataset.feature_map.columns)
    if rows and "episode_index" in rows.numbers and (rows.numbers["episode_index"] != index).any():
        warnings.append("episode_index in the data is not that of the file")
    return path, rows


def _read_shared_rows(
    dataset: LeRobotDataset, index: int, row: MetadataRow, warnings: list[str]
) -> tuple[str, EpisodeRows | None]:
    """Rows from the file that the metadata names, else from the file that holds the episode."""
    info, columns = dataset.info, dataset.feature_map.columns
    chunk, file = (as_count(row.get(name)) for name in DATA_FILE_COLUMNS)
    path = f"{info.root}/{info.data_path.format(chunk_index=chunk or 0, file_index=file or 0)}"
    rows = read_from_shared_file(path, index, columns)
    if rows is None and dataset.has_data:
        path = data_file_by_episode(_data_file_paths(info)).get(index, path)
        rows = read_from_shared_file(path, index, columns)
        if rows:
            warnings.append("the metadata names another data file than the one that holds the episode")
    return path, rows


@functools.lru_cache(maxsize=8)
def _list_data_files(root: str, template: str) -> tuple[str, ...]:
    return tuple(LeRobotInfo(root, {}, True, template, "").data_files())


def _data_file_paths(info: LeRobotInfo) -> tuple[str, ...]:
    return _list_data_files(info.root, info.data_path)


def _video_spans(
    dataset: LeRobotDataset, index: int, row: MetadataRow
) -> Mapping[CameraFeature, VideoSpan | None]:
    info = dataset.info
    if info.shared_files:
        return {
            feature: video_span(info.video_path, info.root, feature, row)
            for feature in dataset.feature_map.video_cameras
        }
    return {
        feature: VideoSpan(f"{info.root}/{_video_path(info, index, feature.key)}")
        for feature in dataset.feature_map.video_cameras
    }


def _video_path(info: LeRobotInfo, index: int, video_key: str) -> str:
    """Relative path of a camera's video in a layout with one file per episode."""
    chunk = index // info.chunk_size
    return info.video_path.format(episode_chunk=chunk, episode_index=index, video_key=video_key)


def _make_record(
    dataset: LeRobotDataset,
    row: MetadataRow,
    source: str,
    rows: EpisodeRows,
    cameras: tuple[Camera, ...],
    warnings: list[str],
) -> Record:
    feature_map, index = dataset.feature_map, int(row["episode_index"])
    state = _join_columns(rows, feature_map.state, warnings)
    action = _join_columns(rows, feature_map.action, warnings)
    texts = episode_instructions(dataset.info.root, feature_map, rows, row, warnings)
    success, success_source = episode_outcome(feature_map, rows, row)
    episode = Episode(
        episode_id=dataset.identity(str(index)),
        format=FORMAT,
        dataset=dataset.name,
        version=dataset.info.version,
        split=next((name for name, start, stop in dataset.splits if start <= index < stop), ""),
        key=str(index),
        source=source,
        content_hash=_content_hash(rows, cameras, (*feature_map.state, *feature_map.action)),
        instruction=texts[0] if texts else "",
        instructions=texts,
        robot=str(dataset.info.document.get("robot_type") or ""),
        num_steps=rows.count,
        rate_hz=dataset.rate_hz,
        rate_source=dataset.rate_source,
        cameras=cameras,
        success=success,
        success_source=success_source,
        state_names=state.names if state else (),
        action_names=action.names if action else (),
        metadata=episode_notes(dataset.info.root, feature_map, rows, row),
    )
    trajectory = _make_trajectory(dataset, rows, state, action, warnings)
    arrays = tuple(source_arrays(feature_map, rows))
    return Record(episode=episode, trajectory=trajectory, warnings=tuple(warnings), arrays=arrays)


def _make_trajectory(
    dataset: LeRobotDataset,
    rows: EpisodeRows,
    state: Signal | None,
    action: Signal | None,
    warnings: list[str],
) -> Trajectory:
    reward = rows.numbers.get(dataset.feature_map.reward_column)
    extra = [column for column in dataset.feature_map.extra_signals if column.key in rows.numbers]
    return Trajectory(
        timestamps=_step_seconds(dataset, rows, warnings),
        state=state,
        action=action,
        reward=None if reward is None else reward[:, 0].astype("float32"),
        extra={
            short_name(column.key): _make_signal(rows.numbers[column.key], column, warnings)
            for column in extra
        },
    )


def _join_columns(rows: EpisodeRows, columns: Sequence[SignalColumn], warnings: list[str]) -> Signal | None:
    """Join columns side by side as one signal; None when the rows have none of them."""
    import numpy as np

    parts = [
        _make_signal(rows.numbers[column.key], column, warnings)
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


def _make_signal(values: NDArray[Any], column: SignalColumn, warnings: list[str]) -> Signal:
    import numpy as np

    if values.dtype.kind == "f" and not np.isfinite(values).all():
        warnings.append(f"column {column.key} holds numbers that are not finite")
    if values.dtype != np.float32:
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
    return Signal(values, dimension_names(short_name(column.key), column.names, values.shape[1]))


def _step_seconds(dataset: LeRobotDataset, rows: EpisodeRows, warnings: list[str]) -> NDArray[np.float64]:
    """(T,) seconds from the first step: exactly step / rate where the stored seconds agree, else as stored."""
    import numpy as np

    clock = np.arange(rows.count, dtype=np.float64) / dataset.rate_hz
    stored = rows.numbers.get("timestamp")
    if stored is None or stored.shape[1] != 1:
        return clock
    seconds: NDArray[np.float64] = stored[:, 0].astype(np.float64)
    if not np.isfinite(seconds).all():
        warnings.append("timestamps are not finite, fps is used")
        return clock
    if abs(seconds[0]) > _TOLERANCE_SECONDS:
        warnings.append("timestamps do not begin at 0, shifted")
    tolerance = max(_TOLERANCE_SECONDS, float(np.spacing(np.float32(np.abs(seconds).max()))))
    seconds = (seconds - seconds[0]) * (dataset.fps / dataset.rate_hz)
    if np.abs(seconds - clock).max() <= tolerance:
        return clock
    is_increasing = bool((np.diff(seconds) > 0).all())
    warnings.append("timestamps are not even" if is_increasing else "timestamps do not increase")
    return seconds


def _content_hash(
    rows: EpisodeRows, cameras: Sequence[Camera], signal_columns: Sequence[SignalColumn]
) -> str:
    """Hash of the rows without their index columns, 32 hex digits.

    A robot never moves twice in exactly the same way, so state and action identify an episode. It is recognised in
    another dataset too, where its videos may be joined differently. Where no signal varies, the content of the
    videos is hashed as well.
    """
    digest = hashlib.blake2b(digest_size=16)
    signals_vary = False
    for key in sorted(rows.numbers):
        if key in INDICES:
            continue
        values = rows.numbers[key]
        digest.update(f"{key}\x1f{values.dtype.str}\x1f{values.shape}\x1f".encode())
        digest.update(values.tobytes())
    for column in signal_columns:
        column_values = rows.numbers.get(column.key)
        signals_vary = signals_vary or (
            column_values is not None and bool((column_values != column_values[0]).any())
        )
    for camera in cameras:
        digest.update(f"{camera.name}\x1f{camera.media.num_frames}\x1f".encode())
        if not signals_vary:
            state = file_state_or_none(camera.media.uri)
            digest.update(f"{camera.media.start_seconds:.6f}".encode())
            digest.update(hash_media_file(camera.media.uri, state or FileState(0, "")).encode())
    return digest.hexdigest()
