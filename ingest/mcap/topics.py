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
from ingest.mcap.spec_topics import SpecTopics, number_message
from ingest.mcap.tracks import SignalMessages

TopicUse = Literal["image", "joints", "action", "array", "text", "spec", "spec_text", ""]

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


def topic_use(topic: str, schema: str, spec_topics: SpecTopics) -> TopicUse:
    """What a topic is used as: as `classify_topic` says, and where that is nothing, as a spec does."""
    use = classify_topic(topic, schema)
    is_text = message_type(schema) == "std_msgs/String"
    if topic in spec_topics.texts and is_text:
        return "spec_text"
    if use in ("", "text") and topic in spec_topics.numbers and not is_text:
        return "spec"
    return use


@dataclass(slots=True)
class TopicSummary:
    """How many messages a topic has, and when the first and the last were logged, in nanoseconds."""

    schema: str
    first: int
    last: int
    count: int = 0

    def add(self, log_time: int) -> None:
        """Count a message."""
        self.count += 1
        self.first, self.last = min(self.first, log_time), max(self.last, log_time)

    def __str__(self) -> str:
        seconds = (self.last - self.first) / 1e9
        rate = f", {(self.count - 1) / seconds:.4g} Hz" if self.count > 1 and seconds > 0 else ""
        return f"{self.schema or 'no type'}, {self.count} messages{rate}"


@dataclass(slots=True)
class RecordingContents:
    """The messages of a recording by topic.

    Attributes:
        images: Images by topic.
        image_infos: Size and codec of the images of each topic.
        signals: Messages of each topic that is used as state or action.
        uses: What each topic is used as.
        texts: Log time in nanoseconds and text of each instruction.
        spec_texts: The same of each topic that a spec names as language.
        summaries: Type, number and times of the messages of each topic.
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
    spec_texts: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    summaries: dict[str, TopicSummary] = field(default_factory=dict)
    unused: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, SourceError] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)
    num_messages: int = 0

    def count(self, topic: str, schema: str, log_time: int, spec_topics: SpecTopics) -> None:
        """Count a message of a topic; the first one tells what the topic is used as."""
        if topic not in self.summaries:
            self.summaries[topic] = TopicSummary(schema, log_time, log_time)
            self.uses[topic] = topic_use(topic, schema, spec_topics)
        self.summaries[topic].add(log_time)

    def warn(self, text: str) -> None:
        """Add a warning, unless it has been added already."""
        self.warnings[text] = None


def read_contents(files: Iterable[str], spec_topics: SpecTopics) -> RecordingContents:
    """Read every message of the files of one recording, in one pass.

    Args:
        files: Paths of the files.
        spec_topics: Topics that a spec names.

    Raises SourceError for a file that is missing or is not an MCAP file.
    """
    contents, collector = RecordingContents(), ImageCollector()
    for number, path in enumerate(files):
        decoders = MessageDecoders()
        damage: list[str] = []
        for entry in scan_messages(path, damage):
            contents.num_messages += 1
            if entry.channel.topic not in contents.skipped:
                _add_entry(contents, collector, decoders, number, entry, spec_topics)
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
    spec_topics: SpecTopics,
) -> None:
    """Decode a message and add it to the contents; a topic that cannot be decoded is skipped."""
    topic = entry.channel.topic
    schema = entry.schema.name if entry.schema else ""
    contents.count(topic, schema, entry.message.log_time, spec_topics)
    try:
        decoder = decoders.decoder_for(entry)
    except SourceError as error:
        contents.skipped[topic] = error
        contents.warn(f"topic {topic} is skipped: {error.reason}")
        return
    use = contents.uses[topic]
    if not use:
        contents.unused[topic] = schema
        return
    try:
        message = decode_message(decoder, entry.message.data)
        require_fields(message, {} if use == "spec" else _expected_fields(schema))
        message = number_message(message) if use == "spec" else message
    except SourceError as error:
        contents.warn(f"topic {topic}: {error.reason}")
        return
    if use == "image":
        _add_image(contents, collector, file_number, entry, decoder, message)
    elif use == "text":
        contents.texts.append((entry.message.log_time, message.data))
    elif use == "spec_text":
        contents.spec_texts.setdefault(topic, []).append((entry.message.log_time, message.data))
    else:
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
