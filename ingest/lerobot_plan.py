"""Plan: which column of a LeRobot dataset is what; settled once from info.json, a data file and modality.json."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ingest.lerobot_names import (
    annotation_keys,
    camera_names,
    flat_names,
    modality_columns,
    nested_too_deep,
    part_names,
    short_name,
)

if TYPE_CHECKING:
    import pyarrow as pa

# More numbers a step than this is no signal but a picture, a cloud of points or an embedding.
WIDEST_SIGNAL = 256
# Numbering, not content: the same record has others in another dataset.
INDICES = ("timestamp", "frame_index", "episode_index", "index", "task_index")

_STATE = ("observation.state", "state", "observation.qpos", "qpos", "observation.robot_state", "robot_state")
_ACTION = ("action", "actions")
_REWARD = ("next.reward", "reward")
_OUTCOME = ("next.success", "is_episode_successful")
_INSTRUCTION = re.compile(r"instruction|task_description|coarse_action|(^|\.)task$")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers.

    Attributes:
        key: Its name in the data files.
        names: Names of its dimensions as told, which may not fit.
    """

    key: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A camera as the metadata describes it.

    Attributes:
        key: Feature name.
        name: The camera's own name.
        codec: What info.json says, or "".
        size: Width and height that info.json says, or None.
    """

    key: str
    name: str
    codec: str
    size: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The role of every column.

    Attributes:
        state: Columns that make up the state, in order.
        action: Columns that make up the action, in order.
        reward: The reward's column, or "".
        outcome: Column of an honest outcome, or "".
        extra: Further numbers.
        texts: Columns of text.
        annotations: Columns that hold numbers of tasks.
        cameras: The cameras whose frames are in videos.
        pictures: The cameras whose images are in the data files.
        columns: All that is read of a data file.
    """

    state: tuple[Column, ...]
    action: tuple[Column, ...]
    reward: str
    outcome: str
    extra: tuple[Column, ...]
    texts: tuple[str, ...]
    annotations: tuple[str, ...]
    cameras: tuple[View, ...]
    pictures: tuple[View, ...]
    columns: tuple[str, ...]


def is_instruction(key: str) -> bool:
    """Whether the texts of a column say what is to be done (and not, say, whether the episode is valid)."""
    return _INSTRUCTION.search(key) is not None


def make_plan(
    features: Mapping[str, Mapping[str, Any]], schema: pa.Schema | None, modality: Mapping[str, Any]
) -> tuple[Plan, list[str]]:
    """Give every column its place.

    Args:
        features: Of info.json.
        schema: Of a data file, or None where there is none.
        modality: Of modality.json, or empty.

    Returns:
        The plan, and what is odd about the dataset or left out of it, in words.
    """
    kinds = {} if schema is None else {name: schema.field(name).type for name in schema.names}
    numbers = {key: kind for key, kind in kinds.items() if _is_number(kind) and key not in INDICES}
    odd = list(_oddities(features, kinds, numbers))
    wide = {key for key in numbers if _width(numbers[key], features.get(key, {})) > WIDEST_SIGNAL}
    state = _group(numbers, _STATE, modality, "state")
    action = _group(numbers, _ACTION, modality, "action")
    texts_of = tuple(
        key for key in kinds if key in annotation_keys(modality) or key.startswith("annotation.")
    )
    reward = next((key for key in _REWARD if key in numbers), "")
    taken = {*state, *action, *texts_of, reward}
    odd += [f"column {key} is wider than {WIDEST_SIGNAL}, left out" for key in sorted(wide - taken)]
    extra = tuple(key for key in numbers if key not in taken and key not in wide)
    signals = [
        tuple(_column(key, kinds, features, modality) for key in keys) for keys in (state, action, extra)
    ]
    outcome = next((key for key in _OUTCOME if key in numbers), "")
    texts = tuple(key for key, kind in kinds.items() if _is_text(kind))
    annotations = tuple(key for key in texts_of if key in numbers)
    single = tuple(key for key in (reward, outcome) if key)
    cameras, pictures = _views(features, kinds, camera_names(modality))
    plan = Plan(
        state=signals[0],
        action=signals[1],
        extra=signals[2],
        reward=reward,
        outcome=outcome,
        texts=texts,
        annotations=annotations,
        cameras=cameras,
        pictures=pictures,
        columns=tuple(dict.fromkeys((*INDICES, *state, *action, *extra, *single, *texts, *annotations))),
    )
    odd += _left_out(kinds, {*numbers, *texts, *INDICES, *(view.key for view in pictures)})
    return plan, odd


def _left_out(kinds: Mapping[str, pa.DataType], known: set[str]) -> list[str]:
    """Columns of which nothing is stored, each with its reason."""
    return [f"column {key} is of type {kinds[key]}, left out" for key in kinds if key not in known]


def _oddities(
    features: Mapping[str, Mapping[str, Any]],
    kinds: Mapping[str, pa.DataType],
    numbers: Mapping[str, pa.DataType],
) -> Iterator[str]:
    for key, kind in numbers.items():
        if str(_leaf(kind)) == "double":
            yield f"column {key} is float64, stored as float32"
    for key, feature in features.items():
        yield from _odd_feature(key, feature, kinds, numbers)
    if kinds and "frame_index" not in kinds:
        yield "there is no column frame_index"
    if kinds and not any(key.startswith("observation.") for key in {*kinds, *features}):
        yield "keys have no prefix observation."


def _odd_feature(
    key: str,
    feature: Mapping[str, Any],
    kinds: Mapping[str, pa.DataType],
    numbers: Mapping[str, pa.DataType],
) -> Iterator[str]:
    names, told = feature.get("names"), flat_names(feature.get("names"))
    if feature.get("dtype") in ("video", "image"):
        if _leads_out(key):
            yield f"camera {key!r} leads out of the dataset, left out"
        if feature.get("dtype") == "image" and kinds and key not in kinds:
            yield f"feature {key} of info.json has no column"
        return
    if nested_too_deep(names):
        yield f"names of {key} are nested too deep"
    if kinds and key not in kinds and key not in INDICES:
        yield f"feature {key} of info.json has no column"
    if told and key in numbers and len(told) != _width(numbers[key], feature):
        yield f"names of {key} are not as many as its dimensions"


def _group(
    numbers: Mapping[str, pa.DataType], usual: tuple[str, ...], modality: Mapping[str, Any], group: str
) -> tuple[str, ...]:
    """The columns of state or action: one of the usual name, else what modality.json names, else parts of that name."""
    for key in usual:
        if key in numbers:
            return (key,)
    named = tuple(key for key in modality_columns(modality, group) if key in numbers)
    if named:
        return named
    for key in usual:
        parts = tuple(name for name in numbers if name.startswith((f"{key}.", f"{key}s.")))
        if parts:
            return parts
    return ()


def _column(
    key: str,
    kinds: Mapping[str, pa.DataType],
    features: Mapping[str, Mapping[str, Any]],
    modality: Mapping[str, Any],
) -> Column:
    feature = features.get(key, {})
    told = flat_names(feature.get("names"))
    return Column(key, part_names(modality, key, told, _width(kinds[key], feature)) or told)


def _views(
    features: Mapping[str, Mapping[str, Any]], kinds: Mapping[str, pa.DataType], names: Mapping[str, str]
) -> tuple[tuple[View, ...], tuple[View, ...]]:
    """The cameras with videos, and those with images in the data files."""
    videos = [
        key for key, feature in features.items() if feature.get("dtype") == "video" and not _leads_out(key)
    ]
    pictures = [
        key for key, kind in kinds.items() if key not in videos and _is_picture(kind) and not _leads_out(key)
    ]
    seen: set[str] = set()
    made = []
    for key in (*videos, *pictures):
        feature = features.get(key, {})
        told = feature.get("info") or feature.get("video_info") or {}
        codec = str(told.get("video.codec") or "") if isinstance(told, dict) else ""
        name = names.get(key) or short_name(key)
        name = key if name in seen else name
        seen.add(name)
        made.append(View(key, name, codec, _size(feature)))
    return tuple(made[: len(videos)]), tuple(made[len(videos) :])


def _leads_out(key: str) -> bool:
    """Whether a camera's name, which is a folder's, names one outside of the dataset."""
    return ".." in key.split("/") or "\x00" in key


def _size(feature: Mapping[str, Any]) -> tuple[int, int] | None:
    """Width and height of a picture whose shape is (H, W, C) or (C, H, W)."""
    shape = feature.get("shape")
    if not isinstance(shape, list) or len(shape) != 3 or not all(isinstance(size, int) for size in shape):
        return None
    if shape[2] in (1, 3, 4):
        return shape[1], shape[0]
    return (shape[2], shape[1]) if shape[0] in (1, 3, 4) else None


def _width(kind: pa.DataType, feature: Mapping[str, Any]) -> int:
    """Numbers a step: by the type where it tells, else by the shape of info.json; 1 when neither does."""
    import pyarrow.types as types

    width, inner = 1, _stored(kind)
    while types.is_fixed_size_list(inner):
        width, inner = width * inner.list_size, _stored(inner.value_type)
    if not _is_list(inner):
        return width
    shape = feature.get("shape")
    told = shape if isinstance(shape, list) and all(isinstance(size, int) for size in shape) else ()
    return math.prod(told)


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type below Hugging Face's Array2D and the like."""
    return getattr(kind, "storage_type", kind)


def _leaf(kind: pa.DataType) -> pa.DataType:
    inner = _stored(kind)
    while _is_list(inner):
        inner = _stored(inner.value_type)
    return inner


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    leaf = _leaf(kind)
    return bool(types.is_integer(leaf) or types.is_floating(leaf) or types.is_boolean(leaf))


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_picture(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    return bool(types.is_struct(kind) and any(field.name == "bytes" for field in kind))
