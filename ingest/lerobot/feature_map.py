"""Which column or camera of a LeRobot dataset has which role, and which became which signal."""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ares.episode import ArrayUse, NotRead, SourceArray
from ares.formats import (
    ACTION_KEY,
    INDEX_DTYPES,
    LANGUAGE_EVENTS,
    LANGUAGE_PERSISTENT,
    REWARD_KEY,
    STATE_KEY,
    SUBTASK_INDEX,
    is_subtask_column,
)
from ares_ingest.lerobot.modality import (
    camera_names,
    flatten_names,
    has_nested_lists,
    list_modality_columns,
    list_modality_task_columns,
    read_modality_part_names,
    short_name,
)
from ares_ingest.lerobot.rows import (
    EpisodeRows,
    count_numbers_per_row,
    is_image,
    is_number,
    is_text,
    is_text_rows,
    value_type,
)
from ares_ingest.signals import MAX_SIGNAL_WIDTH

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


# Columns that number the rows: the same episode has other numbers in another dataset.
INDICES = tuple(INDEX_DTYPES)

_STATE_KEYS = (STATE_KEY, "state", "observation.qpos", "qpos", "observation.robot_state", "robot_state")
_ACTION_KEYS = (ACTION_KEY, "actions")
_REWARD_KEYS = (REWARD_KEY, "reward")
_OUTCOME_KEYS = ("next.success", "is_episode_successful")
_INSTRUCTION = re.compile(r"instruction|task_description|coarse_action|(^|\.)task$")


@dataclass(frozen=True, slots=True)
class NumericColumn:
    """A column of numbers.

    Attributes:
        key: Name of the column in the data files.
        names: Declared names of its dimensions, which may not match their number.
        shape: Of a step, where that is a table with several rows and columns; () else.
    """

    key: str
    names: tuple[str, ...]
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CameraFeature:
    """A camera as the metadata describes it.

    Attributes:
        key: Key of the feature.
        name: Short name of the camera.
        size: Width and height in pixels by info.json, or None.
        info: What info.json says of its video.
    """

    key: str
    name: str
    size: tuple[int, int] | None
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_depth(self) -> bool:
        """Whether info.json says that it is a depth map."""
        return any(self.info.get(name) is True for name in ("is_depth_map", "video.is_depth_map"))


@dataclass(frozen=True, slots=True)
class LeRobotFeatureMap:
    """The role of every column.

    Attributes:
        state: Columns that make up the state, in order.
        action: Columns that make up the action, in order.
        reward_column: Column of the reward, or "".
        outcome_column: Column that records success, or "".
        extra_signals: Other columns of numbers.
        text_columns: Columns of text.
        annotation_columns: Columns that hold task indices, as task_index does.
        video_cameras: Cameras whose frames are in videos.
        image_cameras: Cameras whose images are in the data files.
        lost_cameras: Names of cameras that have no video in the whole dataset.
        language_columns: Columns of rows of text, see `ares_ingest.lerobot.language`.
        subtask_columns: Columns of numbers that stand for the text of a subtask.
        unread: Type and numbers a row of each column that is not read.
        columns: All columns that are read from a data file, each once.
    """

    state: tuple[NumericColumn, ...]
    action: tuple[NumericColumn, ...]
    reward_column: str
    outcome_column: str
    extra_signals: tuple[NumericColumn, ...]
    text_columns: tuple[str, ...]
    annotation_columns: tuple[str, ...]
    video_cameras: tuple[CameraFeature, ...]
    image_cameras: tuple[CameraFeature, ...]
    lost_cameras: tuple[str, ...] = ()
    language_columns: tuple[str, ...] = ()
    subtask_columns: tuple[str, ...] = ()
    unread: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    columns: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        signals = (column.key for column in (*self.state, *self.action, *self.extra_signals))
        scalars = (key for key in (self.reward_column, self.outcome_column) if key)
        texts = (*self.text_columns, *self.annotation_columns, *self.language_columns, *self.subtask_columns)
        columns = (*INDICES, *signals, *scalars, *texts)
        object.__setattr__(
            self, "columns", tuple(dict.fromkeys(columns))
        )  # made once: every episode reads it


def is_instruction(key: str) -> bool:
    """Whether the texts of a column are instructions (and not, for example, whether the episode is valid)."""
    return _INSTRUCTION.search(key) is not None


def map_features(
    features: Mapping[str, Mapping[str, Any]],
    schema: pa.Schema | None,
    modality: Mapping[str, Any],
    *,
    has_subtasks: bool = False,
) -> tuple[LeRobotFeatureMap, list[str]]:
    """Assign a role to every column.

    Args:
        features: Features of info.json.
        schema: Schema of a data file, or None where there is none.
        modality: Content of modality.json, or empty.
        has_subtasks: Whether the dataset lists the texts that the numbers of `subtask_index` stand for.

    Returns:
        The roles, and warnings about the dataset and about columns that are left out.
    """
    column_types = {} if schema is None else {name: schema.field(name).type for name in schema.names}
    number_columns = {
        key: kind for key, kind in column_types.items() if is_number(kind) and key not in INDICES
    }

    def to_columns(keys: tuple[str, ...]) -> tuple[NumericColumn, ...]:
        return tuple(_signal_column(key, column_types, features, modality) for key in keys)

    state = _signal_keys(number_columns, _STATE_KEYS, modality, "state")
    action = _signal_keys(number_columns, _ACTION_KEYS, modality, "action")
    task_keys = {*list_modality_task_columns(modality), *filter(_is_annotation, column_types)}
    reward = next((key for key in _REWARD_KEYS if key in number_columns), "")
    subtasks = _subtask_keys(number_columns, task_keys, has_subtasks=has_subtasks)
    assigned = {*state, *action, *task_keys, *subtasks, reward}
    extra, wide = _split_by_width(set(number_columns) - assigned, number_columns, features)
    video_cameras, image_cameras = _camera_features(features, column_types, camera_names(modality))
    feature_map = LeRobotFeatureMap(
        state=to_columns(state),
        action=to_columns(action),
        extra_signals=to_columns(extra),
        reward_column=reward,
        outcome_column=next((key for key in _OUTCOME_KEYS if key in number_columns), ""),
        text_columns=tuple(key for key, column_type in column_types.items() if is_text(column_type)),
        annotation_columns=tuple(key for key in number_columns if key in task_keys),
        video_cameras=video_cameras,
        image_cameras=image_cameras,
        language_columns=_language_keys(column_types),
        subtask_columns=subtasks,
    )
    stored = {*number_columns, *feature_map.columns, *(camera.key for camera in image_cameras)}
    unread = {key: (str(column_types[key]), 1) for key in column_types if key not in stored}
    unread |= {
        key: (str(number_columns[key]), count_numbers_per_row(number_columns[key], features.get(key, {})))
        for key in wide
    }
    return replace(feature_map, unread=unread), [
        *_dataset_warnings(features, column_types, number_columns),
        *(NotRead(f"column {key} is wider than {MAX_SIGNAL_WIDTH}, left out", key) for key in sorted(wide)),
        *_unsupported_columns(column_types, stored),
    ]


def _split_by_width(
    keys: Container[str],
    number_columns: Mapping[str, pa.DataType],
    features: Mapping[str, Mapping[str, Any]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of some columns those that can be signals, in the order of the file, and those that are too wide."""
    widths = {
        key: count_numbers_per_row(column_type, features.get(key, {}))
        for key, column_type in number_columns.items()
        if key in keys
    }
    wide = tuple(key for key, width in widths.items() if width > MAX_SIGNAL_WIDTH)
    return tuple(key for key in widths if key not in wide), wide


def _is_annotation(key: str) -> bool:
    return key.startswith("annotation.")


def _subtask_keys(
    number_columns: Iterable[str], task_keys: Container[str], *, has_subtasks: bool
) -> tuple[str, ...]:
    """Columns of numbers that stand for subtasks, whose texts the dataset lists as such or as tasks."""
    return tuple(
        key
        for key in number_columns
        if (key == SUBTASK_INDEX and has_subtasks) or (key in task_keys and is_subtask_column(key))
    )


def _language_keys(column_types: Mapping[str, pa.DataType]) -> tuple[str, ...]:
    """The language columns of LeRobot, where they hold what their names say."""
    names = (LANGUAGE_PERSISTENT, LANGUAGE_EVENTS)
    return tuple(key for key in names if key in column_types and is_text_rows(column_types[key]))


def _unsupported_columns(column_types: Mapping[str, pa.DataType], stored_keys: set[str]) -> list[str]:
    """A warning for each column whose type is not supported."""
    return [
        NotRead(f"column {key} is of type {column_types[key]}, left out", key)
        for key in column_types
        if key not in stored_keys
    ]


def _dataset_warnings(
    features: Mapping[str, Mapping[str, Any]],
    column_types: Mapping[str, pa.DataType],
    number_columns: Mapping[str, pa.DataType],
) -> Iterator[str]:
    for key, column_type in number_columns.items():
        if str(value_type(column_type)) == "double":
            yield f"column {key} is float64, stored as float32"
    for key, feature in features.items():
        yield from _feature_warnings(key, feature, column_types, number_columns)
    if column_types and "frame_index" not in column_types:
        yield "there is no column frame_index"
    if column_types and not any(key.startswith("observation.") for key in {*column_types, *features}):
        yield "keys have no prefix observation."


def _feature_warnings(
    key: str,
    feature: Mapping[str, Any],
    column_types: Mapping[str, pa.DataType],
    number_columns: Mapping[str, pa.DataType],
) -> Iterator[str]:
    names, flat_names = feature.get("names"), flatten_names(feature.get("names"))
    if feature.get("dtype") in ("video", "image"):
        if _escapes_dataset(key):
            yield NotRead(f"camera {key!r} points outside the dataset, left out")
        if feature.get("dtype") == "image" and column_types and key not in column_types:
            yield f"feature {key} of info.json has no column"
        return
    if has_nested_lists(names):
        yield f"names of {key} lie in lists of lists; they are taken in their order"
    if column_types and key not in column_types and key not in INDICES:
        yield f"feature {key} of info.json has no column"
    if (
        flat_names
        and len(flat_names) != len(_table_shape(feature))
        and key in number_columns
        and len(flat_names) != count_numbers_per_row(number_columns[key], feature)
    ):
        yield f"names of {key} are not as many as its dimensions"


def _signal_keys(
    number_columns: Mapping[str, pa.DataType],
    known_keys: tuple[str, ...],
    modality: Mapping[str, Any],
    group: str,
) -> tuple[str, ...]:
    """Keys of state or action: a column with a known key, else those of modality.json, else parts of a known key."""
    for key in known_keys:
        if key in number_columns:
            return (key,)
    named = tuple(key for key in list_modality_columns(modality, group) if key in number_columns)
    if named:
        return named
    for key in known_keys:
        parts = tuple(name for name in number_columns if name.startswith((f"{key}.", f"{key}s.")))
        if parts:
            return parts
    return ()


def _signal_column(
    key: str,
    column_types: Mapping[str, pa.DataType],
    features: Mapping[str, Mapping[str, Any]],
    modality: Mapping[str, Any],
) -> NumericColumn:
    feature = features.get(key, {})
    declared_names = flatten_names(feature.get("names"))
    return NumericColumn(
        key,
        read_modality_part_names(
            modality, key, declared_names, count_numbers_per_row(column_types[key], feature)
        )
        or declared_names,
        _table_shape(feature),
    )


def _table_shape(feature: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of a step with several axes, such as that of a tactile array; () for any other."""
    shape = feature.get("shape")
    sizes = tuple(size for size in shape if isinstance(size, int)) if isinstance(shape, list) else ()
    return sizes if sum(size > 1 for size in sizes) > 1 else ()


def _camera_features(
    features: Mapping[str, Mapping[str, Any]],
    column_types: Mapping[str, pa.DataType],
    names: Mapping[str, str],
) -> tuple[tuple[CameraFeature, ...], tuple[CameraFeature, ...]]:
    """The cameras with videos, and those with images in the data files."""
    videos = [
        key
        for key, feature in features.items()
        if feature.get("dtype") == "video" and not _escapes_dataset(key)
    ]
    images = [
        key
        for key, column_type in column_types.items()
        if key not in videos and is_image(column_type) and not _escapes_dataset(key)
    ]
    used_names: set[str] = set()
    cameras = []
    for key in (*videos, *images):
        feature = features.get(key, {})
        video_info = feature.get("info") or feature.get("video_info") or {}
        video_info = video_info if isinstance(video_info, dict) else {}
        name = names.get(key) or short_name(key)
        name = key if name in used_names else name
        used_names.add(name)
        if feature.get("is_depth_map") is True:
            video_info = {**video_info, "is_depth_map": True}
        cameras.append(CameraFeature(key, name, _image_size(feature), video_info))
    return tuple(cameras[: len(videos)]), tuple(cameras[len(videos) :])


def _escapes_dataset(key: str) -> bool:
    """Whether a camera's key, which is a folder name, points outside the dataset."""
    return ".." in key.split("/") or "\x00" in key


def _image_size(feature: Mapping[str, Any]) -> tuple[int, int] | None:
    """Width and height of an image whose shape is (H, W, C) or (C, H, W)."""
    shape = feature.get("shape")
    if not isinstance(shape, list) or len(shape) != 3 or not all(isinstance(size, int) for size in shape):
        return None
    if shape[2] in (1, 3, 4):
        return shape[1], shape[0]
    return (shape[2], shape[1]) if shape[0] in (1, 3, 4) else None


def source_arrays(feature_map: LeRobotFeatureMap, rows: EpisodeRows) -> Iterator[SourceArray]:
    """The columns of each signal, in the order of its dimensions."""
    roles: list[tuple[ArrayUse, str, str]] = [("state", "", column.key) for column in feature_map.state]
    roles += [("action", "", column.key) for column in feature_map.action]
    roles += [("reward", "", feature_map.reward_column)]
    roles += [("extra", short_name(column.key), column.key) for column in feature_map.extra_signals]
    for use, name, key in roles:
        if key in rows.numbers:
            values = rows.numbers[key]
            yield SourceArray(
                key=key, use=use, name=name, shape=values.shape, dtype=_dtype_name(values.dtype)
            )

    for key, (dtype, width) in feature_map.unread.items():
        yield SourceArray(key=key, use="unused", shape=(rows.count, width), dtype=dtype)


@functools.lru_cache(maxsize=64)
def _dtype_name(dtype: np.dtype[np.generic]) -> str:
    """The name of a dtype, which NumPy composes again each time."""
    return str(dtype)
