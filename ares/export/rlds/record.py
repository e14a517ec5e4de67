"""One episode as the bytes of an RLDS record: written anew, or copied from its source with what ARES knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ares.annotation import canonical_json
from ares.episode import Json
from ares.errors import SourceError
from ares.export.base import NO_TASK, TASK_COLUMNS
from ares.export.grouped import ExportItem
from ares.export.plan import DatasetGroup
from ares.export.rlds.features import Tree, extended_features
from ares.export.rlds.images import step_images
from ares.export.rlds.keys import (
    ACTION_KEY,
    DISCOUNT_KEY,
    FLAG_KEYS,
    LANGUAGE_KEY,
    METADATA_PREFIX,
    REWARD_KEY,
    STATE_KEY,
    TERMINAL_KEY,
    RldsKeys,
)
from ares.formats import FEATURES_FILE, ExampleValues, RecordSpan, encode_example, read_record
from ares.input import read_json
from ares.io import is_url, parse_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ares.episode import MediaRef
    from ares.export.retime import RetimedEpisode

_CAPTION, _ACCEPTABLE = TASK_COLUMNS
_OUTCOMES = {True: 1, False: 0, None: -1}


@dataclass(frozen=True, slots=True)
class RldsRecord:
    """A record to write.

    Attributes:
        payload: Its bytes, a tf.train.Example.
        encoded_frames: Frames that were encoded for it.
        encoding_reasons: Why, for each camera.
    """

    payload: bytes
    encoded_frames: int = 0
    encoding_reasons: tuple[str, ...] = ()


def encode_record(group: DatasetGroup, keys: RldsKeys, item: ExportItem) -> RldsRecord:
    """An episode as a new record. Raises MediaError or SourceError when its frames cannot be read."""
    episode = item.retimed.episode
    values: dict[str, ExampleValues] = {**_step_values(group, keys, item), **_metadata(item)}
    values[METADATA_PREFIX + "success"] = _number(_OUTCOMES[episode.success])
    values[METADATA_PREFIX + "robot"] = [_encode(episode.robot)]
    reasons = []
    for name, key in keys.cameras.items():
        pictures = step_images(episode.camera(name), item.retimed)
        values[key] = pictures.images
        reasons += [pictures.encoding_reason] if pictures.encoding_reason else []
    return RldsRecord(encode_example(values), len(reasons) * episode.num_steps, tuple(reasons))


def _step_values(group: DatasetGroup, keys: RldsKeys, item: ExportItem) -> Mapping[str, ExampleValues]:
    """The texts and numbers of the steps; without other knowledge the last step is terminal and nothing discounted."""
    import numpy as np

    trajectory, count = item.retimed.trajectory, item.retimed.episode.num_steps
    steps = np.arange(count)
    text = "" if item.task.text == NO_TASK else item.task.text
    is_last = steps == count - 1
    values: dict[str, ExampleValues] = {
        LANGUAGE_KEY: [_encode(text)] * count,
        DISCOUNT_KEY: np.ones(count, np.float32),
        **dict(zip(FLAG_KEYS, (steps == 0, is_last, is_last), strict=True)),
    }
    for key, signal in ((STATE_KEY, trajectory.state), (ACTION_KEY, trajectory.action)):
        if signal is not None and signal.names:
            values[key] = signal.values
    if group.has_reward and trajectory.reward is not None:
        values[REWARD_KEY] = trajectory.reward
    values |= {key: trajectory.extra[name].values for name, key in keys.signals.items()}
    # Which step is the first and which the last follows from the steps that are written.
    if DISCOUNT_KEY in keys.standard.values():
        values[DISCOUNT_KEY] = trajectory.extra["discount"].values
    if TERMINAL_KEY in keys.standard.values():
        values[TERMINAL_KEY] = trajectory.extra["is_terminal"].values != 0
    return values


def _metadata(item: ExportItem) -> dict[str, ExampleValues]:
    """What ARES says of an episode, as `ares.export.rlds.features.ARES_METADATA` lists it."""
    episode = item.retimed.episode
    acceptable = item.values.get(_ACCEPTABLE)
    annotations = {
        name: value for name, value in item.values.items() if value is not None and name != "episode_id"
    }
    texts = {
        "ares_episode_id": episode.episode_id,
        "ares_dataset": episode.dataset,
        "ares_key": episode.key,
        "ares_caption": _text(item, _CAPTION),
        "ares_grade": _text(item, "grade"),
        "ares_grade_trust": _text(item, "grade_trust"),
        "ares_export": canonical_json(
            {"task": item.task.text, "task_source": item.task.source, "annotations": _plain(annotations)}
        ),
    }
    outcome = _number(_OUTCOMES[acceptable if isinstance(acceptable, bool) else None])
    return {
        **{METADATA_PREFIX + name: [_encode(text)] for name, text in texts.items()},
        METADATA_PREFIX + "ares_acceptable": outcome,
    }


def _text(item: ExportItem, column: str) -> str:
    """The value of a text column, or ""."""
    value = item.values.get(column)
    return value if isinstance(value, str) else ""


def _plain(value: Any) -> Json:
    """The value with texts in place of what JSON has no type for, such as times."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _number(value: int) -> Any:
    import numpy as np

    return np.array([value])


def copy_record(item: ExportItem) -> RldsRecord:
    """The record of the source, byte for byte, and behind it what ARES says of the episode.

    Raises:
        SourceError: The record cannot be read, or is another than the one that was ingested.
    """
    episode = item.retimed.episode
    media = episode.cameras[0].media
    payload, content_hash = read_record(media.uri, RecordSpan(media.byte_offset, media.byte_size))
    if content_hash != episode.content_hash:
        raise SourceError("the record has changed since it was ingested", f"{media.uri}, {episode.key}")
    return RldsRecord(payload + encode_example(_metadata(item)))


class CopyRule:
    """Says which episodes are copied as records: those of TFRecord files of which nothing is changed.

    It remembers the features of each source dataset.
    """

    def __init__(self) -> None:
        self._can_copy: dict[str, bool] = {}

    def __call__(self, retimed: RetimedEpisode, reasons: Sequence[str]) -> str:
        """The folder of the source dataset, or "" for an episode that is written anew."""
        media = next((camera.media for camera in retimed.source.cameras), None)
        if media is None or not _is_record(media) or reasons or not retimed.keeps_steps:
            return ""
        folder = (
            str(PurePosixPath(media.uri).parent) if not is_url(media.uri) else media.uri.rpartition("/")[0]
        )
        if folder not in self._can_copy:
            self._can_copy[folder] = copied_features(folder) is not None
        return folder if self._can_copy[folder] else ""


def _is_record(media: MediaRef) -> bool:
    return media.kind == "tfrecord" and ".tfrecord" in media.uri.rpartition("/")[2]


def copied_features(folder: str) -> Tree | None:
    """The features.json of a source dataset with what ARES adds; None where there is none that can be extended."""
    try:
        document = read_json(str(parse_path(folder) / FEATURES_FILE))
    except (OSError, SourceError):
        return None
    return extended_features(document) if isinstance(document, dict) else None
