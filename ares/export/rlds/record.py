"""How one episode becomes the bytes of an RLDS record, and the features by which TFDS decodes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ares.annotation import canonical_json
from ares.episode import Camera, Json
from ares.errors import MediaError, SourceError
from ares.export.base import SAMPLE_WEIGHT, TASK_COLUMNS
from ares.export.layout_groups import DatasetGroup, ExportItem
from ares.export.retime import RetimedEpisode, describe_part, step_frames
from ares.export.segments import SOURCE, describe_segment, subtasks_of_steps
from ares.export.signal_columns import SignalColumn
from ares.formats import (
    FEATURES_FILE,
    ExampleValues,
    RecordLocation,
    append_identity,
    encode_example,
    parse_tf_example,
    read_record,
)
from ares.imitation import NO_TASK
from ares.input import is_cut_image, parse_image_header, read_json
from ares.io import is_url, parse_path
from ares.media import encoded_frames

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import MediaRef


JPEG_QUALITY = 95
# Sources that hold each frame as a separate image.
_IMAGE_KINDS = frozenset({"tfrecord", "hdf5", "parquet", "images"})
_IMAGE_CODECS = frozenset({"jpeg", "png"})
STATE_KEY = "steps/observation/state"
ACTION_KEY = "steps/action"
REWARD_KEY = "steps/reward"
DISCOUNT_KEY = "steps/discount"
LANGUAGE_KEY = "steps/language_instruction"
# The text of the subtask of a step, "" for none: in a dataset of which any episode has subtasks.
SUBTASK_KEY = "steps/subtask"
TERMINAL_KEY = "steps/is_terminal"
FLAG_KEYS = ("steps/is_first", "steps/is_last", TERMINAL_KEY)
METADATA_PREFIX = "episode_metadata/"
_OBSERVATION_PREFIX = "steps/observation/"
# Extra signals that RLDS has separate keys for.
WEIGHT_KEY = "steps/sample_weight"
_STANDARD_SIGNALS = {
    "discount": DISCOUNT_KEY,
    SAMPLE_WEIGHT: WEIGHT_KEY,
    **{key.removeprefix("steps/"): key for key in FLAG_KEYS},
}
_MODULE = "tensorflow_datasets.core.features"
# What ARES says of every episode, also of one whose record is copied.
ARES_METADATA = {
    "ares_episode_id": "text",
    "ares_dataset": "text",
    "ares_key": "text",
    "ares_caption": "text",
    "ares_acceptable": "int64",
    "ares_grade": "text",
    "ares_grade_refuted": "int64",
    "ares_export": "text",
}
# What records that are copied say besides, where people correct the outcome of one: 1, 0, or -1 where it is not known.
CORRECTED_OUTCOME = {"ares_success": "int64"}
# What rewritten records say; the outcome is 1, 0, or -1 where it is not known.
_WRITTEN_METADATA = {"success": "int64", "robot": "text"}
_OUTCOMES = {True: 1, False: 0, None: -1}


@dataclass(frozen=True, slots=True)
class StepImages:
    """The images of a camera.

    Attributes:
        images: (T,) JPEG or PNG, one for each step.
        encoding_reason: Why they were encoded, which changes their pixels; "" where they are the bytes of the source.
    """

    images: list[bytes]
    encoding_reason: str


def step_images(camera: Camera, retimed: RetimedEpisode) -> StepImages:
    """The images of the steps of an episode. Raises MediaError or SourceError when they cannot be read."""
    reason = _reason_to_encode(camera, retimed)
    if not reason:
        images = encoded_frames(camera.media)
        if len(images) <= int(retimed.steps.max(initial=-1)):
            raise MediaError("the source has fewer frames than it had", f"{camera.media.uri}: {len(images)}")
        selected = [images[step] for step in retimed.steps]
        cut = [number for number, image in enumerate(selected) if is_cut_image(image)]
        if cut:
            shown = ", ".join(map(str, cut[:8]))
            raise MediaError("images are cut", f"{camera.media.uri}: camera {camera.name}, steps {shown}")
        if all(_has_size(image, camera) for image in dict.fromkeys(selected)):
            return StepImages(selected, "")
        reason = "images of another size or kind than the first"
    seconds = retimed.camera_seconds(camera)
    frames, first = list[bytes](), None
    for number, frame in enumerate(step_frames(camera, retimed, seconds)):
        first = first or frame.shape
        if frame.shape != first:
            detail = f"{camera.media.uri}: {first} and {frame.shape} at frame {number}"
            raise MediaError("frames of several sizes", detail)
        frames.append(encode_jpeg(frame))
    if len(frames) != len(retimed.steps):
        raise MediaError("the source has fewer frames than it had", f"{camera.media.uri}: {len(frames)}")
    return StepImages(frames, f"{reason}: encoded as JPEG of quality {JPEG_QUALITY}")


def _reason_to_encode(camera: Camera, retimed: RetimedEpisode) -> str:
    if camera.media.kind not in _IMAGE_KINDS or camera.codec not in _IMAGE_CODECS:
        return f"the source has {camera.codec or camera.media.kind}, not images that RLDS holds"
    if not camera.media.is_as_stored:
        is_fitted = camera.media.pixel_order == "rgb"
        return "the plan has another size" if is_fitted else "colours are swapped or pictures are turned"
    if retimed.source.frame_pairing != "index":
        return "frames are paired with steps by their stamps"
    return ""


def _has_size(image: bytes, camera: Camera) -> bool:
    info = parse_image_header(image)
    return info is not None and (info.width, info.height) == (camera.width, camera.height)


def encode_jpeg(frame: NDArray[np.uint8]) -> bytes:
    """A JPEG of a frame, (H, W, 3) uint8 RGB. Raises MediaError for one that no JPEG can hold."""
    import cv2

    try:
        is_encoded, data = cv2.imencode(
            ".jpg", cv2.cvtColor(frame, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY]
        )
    except cv2.error as error:
        raise MediaError("the frame cannot be encoded as JPEG", f"{frame.shape}: {error}") from None
    if not is_encoded:
        raise MediaError("the frame cannot be encoded as JPEG", f"its shape is {frame.shape}")
    return data.tobytes()


@dataclass(frozen=True, slots=True)
class RldsKeys:
    """Keys of the features of one group.

    Attributes:
        cameras: Key of each camera.
        signals: Key of each extra signal that has a place, those with a key of RLDS left out.
        standard: Extra signals that RLDS has a key for.
        columns: How each extra signal that all episodes have is written.
    """

    cameras: Mapping[str, str]
    signals: Mapping[str, str]
    standard: Mapping[str, str]
    columns: Mapping[str, SignalColumn]


def rlds_keys(group: DatasetGroup) -> RldsKeys:
    """The keys of a group; "/" in the name of a signal leads into a folder of features."""
    signals = group.common_signals
    standard = {
        name: _STANDARD_SIGNALS[name]
        for name, names in signals.items()
        if name in _STANDARD_SIGNALS and len(names) == 1
    }
    reserved = {
        STATE_KEY,
        ACTION_KEY,
        REWARD_KEY,
        DISCOUNT_KEY,
        LANGUAGE_KEY,
        SUBTASK_KEY,
        WEIGHT_KEY,
        *FLAG_KEYS,
    }
    cameras = {name: _free_key(name.replace("/", "_"), reserved) for name in group.cameras}
    columns = group.common_columns
    keys = {
        name: key
        for name, column in columns.items()
        if name not in standard and (key := _signal_key(column.key, reserved))
    }
    return RldsKeys(cameras, keys, standard, columns)


def _signal_key(source_key: str, reserved: set[str]) -> str:
    """The key of a further signal, under `observation` only where its source has it there; "" where it is not free."""
    is_observed = source_key.startswith(("observation/", "observation."))
    key = _key_of(source_key[len("observation/") :]) if is_observed else f"steps/{_safe_key(source_key)}"
    if _collides_with_reserved(key, reserved):
        return ""
    reserved.add(key)
    return key


def _free_key(name: str, reserved: set[str]) -> str:
    """A key for a name that no other feature has; it is reserved then."""
    key = base = _key_of(name)
    number = 2
    while _collides_with_reserved(key, reserved):
        key, number = f"{base}_{number}", number + 1
    reserved.add(key)
    return key


def _key_of(name: str) -> str:
    return _OBSERVATION_PREFIX + _safe_key(name)


def _safe_key(name: str) -> str:
    parts = [re.sub(r"[^\w.-]+", "_", part) for part in name.split("/")]
    return "/".join(part or "_" for part in parts)


def _collides_with_reserved(key: str, reserved: Iterable[str]) -> bool:
    """Whether a key is reserved, lies in one that is, or has one in it."""
    return any(f"{key}/".startswith(f"{other}/") or f"{other}/".startswith(f"{key}/") for other in reserved)


Tree = dict[str, Any]


def make_rlds_features(group: DatasetGroup, keys: RldsKeys) -> Tree:
    """The features of rewritten records."""
    layout = group.layout
    leaves: dict[str, Tree] = {LANGUAGE_KEY: _text_feature(), DISCOUNT_KEY: _scalar_feature("float32")}
    leaves |= {key: _scalar_feature("bool") for key in FLAG_KEYS}
    if group.episodes_with_subtasks:
        leaves[SUBTASK_KEY] = _text_feature()
    if layout.state_names:
        leaves[STATE_KEY] = _vector_feature(len(layout.state_names))
    if layout.action_names:
        leaves[ACTION_KEY] = _vector_feature(len(layout.action_names))
    if group.has_reward:
        leaves[REWARD_KEY] = _scalar_feature("float32")
    if SAMPLE_WEIGHT in keys.standard:
        leaves[WEIGHT_KEY] = _scalar_feature("float32")
    sizes = {name: (height, width) for name, width, height in layout.cameras}
    leaves |= {key: _image_feature(*sizes[name]) for name, key in keys.cameras.items()}
    leaves |= {
        key: _tensor_feature(keys.columns[name].dtype, keys.columns[name].shape)
        for name, key in keys.signals.items()
    }
    leaves |= {
        METADATA_PREFIX + name: _text_or_scalar_feature(kind) for name, kind in _metadata_types().items()
    }
    return _feature_tree(leaves)


def _metadata_types() -> dict[str, str]:
    return ARES_METADATA | _WRITTEN_METADATA


def extended_features(source: Tree, added: Mapping[str, str] = ARES_METADATA) -> Tree | None:
    """The features of a dataset with those that ARES adds to its records; None where they cannot be added."""
    features = _child_features(source)
    if features is None or "steps" not in features:
        return None
    metadata = features.get("episode_metadata", _dictionary_feature({}))
    existing = _child_features(metadata)
    if existing is None or added.keys() & existing.keys():
        return None
    new = {name: _text_or_scalar_feature(kind) for name, kind in added.items()}
    extended = metadata | {"featuresDict": {"features": existing | new}}
    return source | {"featuresDict": {"features": features | {"episode_metadata": extended}}}


def _child_features(node: Tree) -> dict[str, Any] | None:
    """The features of a dictionary of features; None for any other node, and in the form that TFDS had until 2022."""
    content = node.get("featuresDict") if isinstance(node, dict) else None
    features = content.get("features") if isinstance(content, dict) else None
    return features if isinstance(features, dict) else None


def _feature_tree(leaves: Mapping[str, Tree]) -> Tree:
    """The tree of some leaves by key; "steps" is a sequence."""
    folders: dict[str, dict[str, Tree]] = {}
    for key, leaf in leaves.items():
        first, _, rest = key.partition("/")
        folders.setdefault(first, {})[rest] = leaf
    nodes = {name: _feature_node(name, inner) for name, inner in sorted(folders.items())}
    return _dictionary_feature(nodes)


def _feature_node(name: str, inner: Mapping[str, Tree]) -> Tree:
    if "" in inner:
        return inner[""]
    tree = _feature_tree(inner)
    if name != "steps":
        return tree
    sequence = {"feature": tree, "length": "-1"}
    return {"pythonClassName": f"{_MODULE}.dataset_feature.Dataset", "sequence": sequence}


def _dictionary_feature(features: Mapping[str, Tree]) -> Tree:
    return {
        "pythonClassName": f"{_MODULE}.features_dict.FeaturesDict",
        "featuresDict": {"features": dict(features)},
    }


def _text_or_scalar_feature(kind: str) -> Tree:
    return _text_feature() if kind == "text" else _scalar_feature(kind)


def _text_feature() -> Tree:
    return {"pythonClassName": f"{_MODULE}.text_feature.Text", "text": {}}


def _scalar_feature(dtype: str) -> Tree:
    tensor = {"shape": {}, "dtype": dtype, "encoding": "none"}
    return {"pythonClassName": f"{_MODULE}.scalar.Scalar", "tensor": tensor}


def _vector_feature(size: int) -> Tree:
    return _tensor_feature("float32", (size,))


def _tensor_feature(dtype: str, shape: Sequence[int]) -> Tree:
    if not shape:
        return _scalar_feature(dtype)
    tensor = {"shape": {"dimensions": list(map(str, shape))}, "dtype": dtype, "encoding": "none"}
    return {"pythonClassName": f"{_MODULE}.tensor_feature.Tensor", "tensor": tensor}


def _image_feature(height: int, width: int) -> Tree:
    shape = {"dimensions": [str(height), str(width), "3"]}
    image = {"shape": shape, "dtype": "uint8", "encodingFormat": "jpeg"}
    return {"pythonClassName": f"{_MODULE}.image_feature.Image", "image": image}


_CAPTION, _ACCEPTABLE, *_ = TASK_COLUMNS


@dataclass(frozen=True, slots=True)
class RldsRecord:
    """A record to write.

    Attributes:
        payload: Its bytes, a tf.train.Example.
        encoded_frames: Frames that were encoded for it.
        encoding_reasons: Why, for each camera.
        older_embeddings: Features that are still the embedding of an instruction that people have corrected.
    """

    payload: bytes
    encoded_frames: int = 0
    encoding_reasons: tuple[str, ...] = ()
    older_embeddings: tuple[str, ...] = ()


def encode_rlds_record(group: DatasetGroup, keys: RldsKeys, item: ExportItem) -> RldsRecord:
    """An episode as a new record. Raises MediaError or SourceError when its frames cannot be read."""
    episode = item.retimed.episode
    values: dict[str, ExampleValues] = {**_step_values(group, keys, item), **_metadata_values(item)}
    values[METADATA_PREFIX + "success"] = _number_array(_OUTCOMES[episode.success])
    values[METADATA_PREFIX + "robot"] = [_encode_text(episode.robot)]
    reasons = []
    for name, key in keys.cameras.items():
        pictures = step_images(episode.camera(name), item.retimed)
        values[key] = pictures.images
        reasons += [pictures.encoding_reason] if pictures.encoding_reason else []
    payload = encode_example(values)
    if item.retimed.keeps_steps and not item.reasons and episode.content_hash:
        payload = append_identity(payload, episode.content_hash)
    return RldsRecord(payload, len(reasons) * episode.num_steps, tuple(reasons))


def _step_values(group: DatasetGroup, keys: RldsKeys, item: ExportItem) -> Mapping[str, ExampleValues]:
    """The texts and numbers of the steps.

    Without other knowledge nothing is discounted and the last step is terminal, unless the episode goes on behind it.
    """
    import numpy as np

    trajectory, count = item.retimed.trajectory, item.retimed.episode.num_steps
    steps = np.arange(count)
    is_last = steps == count - 1
    reaches_end = item.retimed.reaches_end or (item.span is not None and item.span.stands_for_episode)
    values: dict[str, ExampleValues] = {
        LANGUAGE_KEY: [_encode_text(text) for text in _instructions_of_steps(item)],
        DISCOUNT_KEY: np.ones(count, np.float32),
        **dict(zip(FLAG_KEYS, (steps == 0, is_last, is_last & reaches_end), strict=True)),
    }
    if group.episodes_with_subtasks:
        subtasks = subtasks_of_steps(item.texts.segments, item.retimed)
        values[SUBTASK_KEY] = [_encode_text(text) for text in subtasks]
    for key, signal in ((STATE_KEY, trajectory.state), (ACTION_KEY, trajectory.action)):
        if signal is not None and signal.names:
            values[key] = signal.values
    if group.has_reward and trajectory.reward is not None:
        values[REWARD_KEY] = trajectory.reward
    values |= {
        key: trajectory.extra[name].values.astype(keys.columns[name].dtype)
        for name, key in keys.signals.items()
    }
    # Which step is the first and which the last follows from the steps that are written.
    if DISCOUNT_KEY in keys.standard.values():
        values[DISCOUNT_KEY] = trajectory.extra["discount"].values
    if SAMPLE_WEIGHT in keys.standard:
        values[WEIGHT_KEY] = trajectory.extra[SAMPLE_WEIGHT].values
    if TERMINAL_KEY in keys.standard.values():
        values[TERMINAL_KEY] = trajectory.extra["is_terminal"].values != 0
    return values


def _instructions_of_steps(item: ExportItem) -> list[str]:
    """The task at every step; where the source has an instruction for each step, and the task is that, its own."""
    key = LANGUAGE_KEY.rpartition("/")[2]
    subtasks = [
        segment
        for segment in item.texts.segments
        if segment.state == SOURCE and segment.text_field("feature").rpartition("/")[2] == key
    ]
    if subtasks and item.task.source == "instruction":
        return subtasks_of_steps(subtasks, item.retimed)
    return ["" if item.task.text == NO_TASK else item.task.text] * len(item.retimed.steps)


def _metadata_values(item: ExportItem) -> dict[str, ExampleValues]:
    """What ARES says of an episode, as `ares.export.rlds.record.ARES_METADATA` lists it."""
    episode, steps = item.retimed.episode, len(item.retimed.steps)
    acceptable = item.values.get(_ACCEPTABLE)
    annotations = {
        name: value for name, value in item.values.items() if value is not None and name != "episode_id"
    }
    texts = {
        "ares_episode_id": episode.episode_id,
        "ares_dataset": episode.dataset,
        "ares_key": episode.key,
        "ares_caption": _text_column_value(item, _CAPTION),
        "ares_grade": _text_column_value(item, "grade"),
        "ares_export": canonical_json(
            {
                "task": item.task.text,
                "task_source": item.task.source,
                "annotations": _to_json_value(annotations),
                **({"span": describe_part(item.span, item.retimed.kept, steps)} if item.span else {}),
                **_describe_segments(item),
            }
        ),
    }
    outcome = _number_array(_OUTCOMES[acceptable if isinstance(acceptable, bool) else None])
    return {
        **{METADATA_PREFIX + name: [_encode_text(text)] for name, text in texts.items()},
        METADATA_PREFIX + "ares_acceptable": outcome,
        METADATA_PREFIX + "ares_grade_refuted": _number_array(int(item.values.get("grade_refuted") is True)),
    }


def _describe_segments(item: ExportItem) -> dict[str, Json]:
    """Every segment with its exact span, its author and its grade; nothing where there is none."""
    segments: list[Json] = [
        {
            **describe_segment(segment),
            "start_seconds": item.retimed.written_seconds(segment.start_seconds),
            "stop_seconds": item.retimed.written_seconds(segment.stop_seconds),
        }
        for segment in item.texts.segments
    ]
    return {"segments": segments} if segments else {}


def _text_column_value(item: ExportItem, column: str) -> str:
    """The value of a text column, or ""."""
    value = item.values.get(column)
    return value if isinstance(value, str) else ""


def _to_json_value(value: Any) -> Json:
    """The value with texts in place of what JSON has no type for, such as times."""
    if isinstance(value, Mapping):
        return {str(name): _to_json_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_value(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _number_array(*values: int) -> Any:
    import numpy as np

    return np.array(values)


def copy_rlds_record(group: DatasetGroup, item: ExportItem) -> RldsRecord:
    """The record of the source, byte for byte, and behind it what ARES says of the episode, and its last step.

    A feature that is written again takes the place of the one before it (Protocol Buffers, maps): an instruction that
    people correct is written so wherever the record has it.

    Raises:
        SourceError: The record cannot be read, or is another than the one that was ingested.
    """
    episode = item.retimed.episode
    media = episode.cameras[0].media
    payload, content_hash = read_record(media.uri, RecordLocation(media.byte_offset, media.byte_size))
    if content_hash != episode.content_hash:
        raise SourceError("the record has changed since it was ingested", f"{media.uri}, {episode.key}")
    features = parse_tf_example(payload, item.member)
    values = _metadata_values(item) | _set_last_step(features)
    if group.corrected_outcomes:
        values[METADATA_PREFIX + "ares_success"] = _number_array(_OUTCOMES[episode.success])
    recorded, embeddings = str(episode.recorded.get("instruction", "")), list[str]()
    if recorded not in ("", item.task.text):
        text = b"" if item.task.text == NO_TASK else _encode_text(item.task.text)
        values |= _replace_text(features, _encode_text(recorded), text)
        embeddings = [key for key in features if "language_embedding" in key]
    payload = append_identity(payload + encode_example(values), content_hash)
    return RldsRecord(payload, older_embeddings=tuple(embeddings))


def _set_last_step(features: Mapping[str, Any]) -> dict[str, ExampleValues]:
    """The flags of the last step where the record sets none."""
    key = FLAG_KEYS[1]
    flags = [*features[key].int64_list.value] if key in features else []
    return {key: _number_array(*flags[:-1], 1)} if flags and not any(flags) else {}


def _replace_text(features: Mapping[str, Any], before: bytes, after: bytes) -> dict[str, ExampleValues]:
    """The features of a record that have a text, with another in its place."""
    texts = {key: feature.bytes_list.value for key, feature in features.items()}
    return {
        key: [after if value == before else value for value in values]
        for key, values in texts.items()
        if before in values
    }


class RecordCopyRule:
    """Says which episodes are copied as records: those of TFRecord files of which nothing is changed.

    It remembers the features of each source dataset.
    """

    def __init__(self) -> None:
        self._can_copy: dict[str, bool] = {}

    def __call__(self, retimed: RetimedEpisode, reasons: Sequence[str]) -> str:
        """The folder of the source dataset, or "" for an episode that is rewritten."""
        media = next((camera.media for camera in retimed.source.cameras), None)
        if media is None or not _is_record(media) or reasons or not retimed.keeps_steps:
            return ""
        folder = (
            str(PurePosixPath(media.uri).parent) if not is_url(media.uri) else media.uri.rpartition("/")[0]
        )
        if folder not in self._can_copy:
            self._can_copy[folder] = extend_features_json(folder) is not None
        return folder if self._can_copy[folder] else ""


def _is_record(media: MediaRef) -> bool:
    return media.kind == "tfrecord" and ".tfrecord" in media.uri.rpartition("/")[2]


def extend_features_json(folder: str, *, has_outcomes: bool = False) -> Tree | None:
    """The features.json of a source dataset with what ARES adds; None where there is none that can be extended."""
    try:
        document = read_json(str(parse_path(folder) / FEATURES_FILE))
    except (OSError, SourceError):
        return None
    added = ARES_METADATA | (CORRECTED_OUTCOME if has_outcomes else {})
    return extended_features(document, added) if isinstance(document, dict) else None
