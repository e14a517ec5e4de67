"""Classifies the topics of an MCAP recording and collects their messages in one pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ares.errors import MediaError, SourceError
from ares.input import ImageInfo
from ares.media.mcap import (
    ImageCollector,
    McapMessage,
    MessageDecoders,
    TopicImages,
    decode_message,
    image_kind,
    image_message_info,
    message_type,
    require_fields,
    required_fields,
    scan_messages,
)
from ingest.mcap.tracks import SignalMessages

TopicUse = Literal["image", "joints", "action", "array", "text", ""]

_ACTION_TOPIC = re.compile(
    r"(?<![a-z])(action|command|cmd|target|desired|setpoint)s?(?![a-z])", re.IGNORECASE
)
_TASK_TOPIC = re.compile(r"(?<![a-z])(task|instruction|language|prompt)s?(?![a-z])", re.IGNORECASE)
_ARRAY_TYPES = frozenset({"std_msgs/Float64MultiArray", "std_msgs/Float32MultiArray"})
_TRAJECTORY_POINT = "trajectory_msgs/JointTrajectoryPoint"


def classify_topic(topic: str, schema: str) -> TopicUse:
    """What a topic is used as, by its schema and its name; "" for a topic that is not used."""
    if image_kind(schema):
        return "image"
    name = message_type(schema)
    if name == "sensor_msgs/JointState":
        return "action" if _ACTION_TOPIC.search(topic) else "joints"
    if name in _ARRAY_TYPES or name == _TRAJECTORY_POINT:
        return "array" if _ACTION_TOPIC.search(topic) else ""
    return "text" if name == "std_msgs/String" and _TASK_TOPIC.search(topic) else ""


@dataclass(slots=True)
class RecordingContents:
    """The messages of a recording by topic.

    Attributes:
        images: Images by topic.
        image_infos: Size and codec of the images of each topic.
        signals: Messages of each topic that is used as state or action.
        uses: What each of these topics is used as.
        texts: Log time in nanoseconds and text of each instruction.
        unused: Schema of each topic that is not used.
        skipped: Why a topic could not be read, by topic.
        warnings: Warnings about the recording, each once.
        num_messages: Number of all messages.
    """

    images: dict[str, TopicImages] = field(default_factory=dict)
    image_infos: dict[str, ImageInfo] = field(default_factory=dict)
    signals: dict[str, SignalMessages] = field(default_factory=dict)
    uses: dict[str, TopicUse] = field(default_factory=dict)
    texts: list[tuple[int, str]] = field(default_factory=list)
    unused: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, SourceError] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)
    num_messages: int = 0

    def warn(self, text: str) -> None:
        """Add a warning, unless it has been added already."""
        self.warnings[text] = None


def read_contents(files: Iterable[str]) -> RecordingContents:
    """Read every message of the files of one recording, in one pass.

    Raises SourceError for a file that is missing or is not an MCAP file.
    """
    contents, collector = RecordingContents(), ImageCollector()
    for number, path in enumerate(files):
        decoders = MessageDecoders()
        damage: list[str] = []
        for entry in scan_messages(path, damage):
            contents.num_messages += 1
            if entry.channel.topic not in contents.skipped:
                _add_entry(contents, collector, decoders, number, entry)
        for text in damage:
            contents.warn(text)
    contents.images = {
        topic: images for topic, images in collector.finish().items() if topic in contents.image_infos
    }
    return contents


def _add_entry(
    contents: RecordingContents,
    collector: ImageCollector,
    decoders: MessageDecoders,
    file_number: int,
    entry: McapMessage,
) -> None:
    """Decode a message and add it to the contents; a topic that cannot be decoded is skipped."""
    topic = entry.channel.topic
    schema = entry.schema.name if entry.schema else ""
    try:
        decoder = decoders.decoder_for(entry)
    except SourceError as error:
        contents.skipped[topic] = error
        contents.warn(f"topic {topic} is skipped: {error.reason}")
        return
    use = classify_topic(topic, schema)
    if not use:
        contents.unused[topic] = schema
        return
    try:
        message = decode_message(decoder, entry.message.data)
        require_fields(message, _expected_fields(schema))
    except SourceError as error:
        contents.warn(f"topic {topic}: {error.reason}")
        return
    if use == "image":
        _add_image(contents, collector, file_number, entry, decoder, message)
    elif use == "text":
        contents.texts.append((entry.message.log_time, message.data))
    else:
        contents.uses[topic] = use
        problem = contents.signals.setdefault(topic, SignalMessages()).add(entry, message)
        if problem:
            contents.warn(f"topic {topic} {problem}")


def _expected_fields(schema: str) -> Mapping[str, type]:
    """The fields that a message of a used topic must have, with their types."""
    kind = image_kind(schema)
    if kind:
        return required_fields(kind)
    name = message_type(schema)
    if name == "sensor_msgs/JointState":
        return {"name": list, "position": list, "velocity": list, "effort": list}
    if name == _TRAJECTORY_POINT:
        return {"positions": list, "velocities": list, "effort": list}
    return {"data": list if name in _ARRAY_TYPES else str}


def _add_image(
    contents: RecordingContents,
    collector: ImageCollector,
    file_number: int,
    entry: McapMessage,
    decoder: Callable[[bytes], Any],
    message: Any,
) -> None:
    topic = entry.channel.topic
    kind = image_kind(entry.schema.name if entry.schema else "")
    assert kind is not None
    if not collector.add(kind, file_number, entry, decoder, message):
        contents.warn(f"topic {topic} begins between keyframes; its frames before the first are left out")
        return
    if topic in contents.image_infos:
        return
    try:
        contents.image_infos[topic] = image_message_info(kind, message)
    except (SourceError, MediaError) as error:
        contents.skipped[topic] = SourceError(error.reason, error.detail)
        contents.warn(f"topic {topic} is left out: {error.reason}")
