"""What the topics of a recording hold: images, numbers and texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from ares.console import count_of
from ares.episode import Json, NotRead
from ares.errors import MediaError, SourceError
from ares.input import ImageInfo
from ares.media import (
    HOLDS_DEPTH,
    ImageCollector,
    McapMessage,
    MessageDecoders,
    TopicImages,
    classify_image_message,
    decode_message,
    image_message_info,
    list_image_message_fields,
    message_type,
    require_fields,
    scan_messages,
    settle_image_kind,
)
from ares_ingest.depth import decode_depth_message, describe_depth
from ares_ingest.recordings.signal_tracks import SignalTopicMessages
from ares_ingest.recordings.spec_topics import TopicsOfSpec, find_only_text, make_joint_message

TopicUse = Literal["image", "joints", "action", "array", "text", "spec", "spec_text", "named", ""]

_ACTION_TOPIC = re.compile(
    r"(?<![a-z])(action|command|cmd|target|desired|setpoint)s?(?![a-z])", re.IGNORECASE
)
_STATE_TOPIC = re.compile(r"(?<![a-z])(state|joint|qpos|proprio|proprioception)s?(?![a-z])", re.IGNORECASE)
_TASK_TOPIC = re.compile(r"(?<![a-z])(task|instruction|language|prompt)s?(?![a-z])", re.IGNORECASE)
_USES_OF_ROLE: Mapping[str, frozenset[TopicUse]] = {
    "state": frozenset({"joints", "spec"}),
    "action": frozenset({"action", "array", "spec"}),
}
_ARRAY_TYPES = frozenset({"std_msgs/Float64MultiArray", "std_msgs/Float32MultiArray"})
# Types whose numbers are no measurement or command of a robot.
_NO_SIGNALS = re.compile(
    r"(^|[/.])(tf2?_msgs|rcl_interfaces|rosgraph_msgs|diagnostic_msgs|visualization_msgs|lifecycle_msgs|std_msgs)"
    r"|FrameTransform|Camera(Info|Calibration)|PointCloud|LaserScan|OccupancyGrid|ParameterEvent|Log$|Bond|Clock"
)
_TRAJECTORY_POINT = "trajectory_msgs/JointTrajectoryPoint"


def classify_topic(topic: str, schema: str) -> TopicUse:
    """What a topic is used as, by its schema and its name; "" for a topic that is not used."""
    if classify_image_message(schema):
        return "image"
    name = message_type(schema)
    if name == "sensor_msgs/JointState":
        return "action" if _ACTION_TOPIC.search(topic) else "joints"
    if name in _ARRAY_TYPES or name == _TRAJECTORY_POINT:
        return "array" if _ACTION_TOPIC.search(topic) else ""
    return "text" if name == "std_msgs/String" and _TASK_TOPIC.search(topic) else ""


def describe_topic_use(topic: str, schema: str, spec_topics: TopicsOfSpec) -> TopicUse:
    """What a topic is used as: as `classify_topic` says, and where that is nothing, as a spec does."""
    use = classify_topic(topic, schema)
    is_text = message_type(schema) == "std_msgs/String"
    if topic in spec_topics.texts and is_text:
        return "spec_text"
    if use in ("", "text") and topic in spec_topics.numbers and not is_text:
        return "spec"
    if use or _NO_SIGNALS.search(schema):
        return use
    return "text" if _TASK_TOPIC.search(topic) else "named"


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
        return f"{self.schema or 'no type'}, {count_of(self.count, 'message')}{rate}"


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
        named: Messages of each topic of another type that holds numbers, before its name tells its use.
        reasons: Why each of them is not used.
        skipped: Why a topic could not be read, by topic.
        depth: Where the depth of a topic is, with its range and unit.
        num_depth_frames: Pictures of each such topic.
        warnings: Warnings about the recording, each once.
        num_messages: Number of all messages.
        published: Topics with header stamps that go by their times of publication.
    """

    images: dict[str, TopicImages] = field(default_factory=dict)
    image_infos: dict[str, ImageInfo] = field(default_factory=dict)
    signals: dict[str, SignalTopicMessages] = field(default_factory=dict)
    uses: dict[str, TopicUse] = field(default_factory=dict)
    texts: list[tuple[int, str]] = field(default_factory=list)
    spec_texts: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    named: dict[str, SignalTopicMessages] = field(default_factory=dict)
    summaries: dict[str, TopicSummary] = field(default_factory=dict)
    unused: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, SourceError] = field(default_factory=dict)
    depth: dict[str, dict[str, Json]] = field(default_factory=dict)
    num_depth_frames: dict[str, int] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)
    num_messages: int = 0
    published: frozenset[str] = frozenset()

    def count(self, topic: str, schema: str, log_time: int, spec_topics: TopicsOfSpec) -> None:
        """Count a message of a topic; the first one tells what the topic is used as."""
        if topic not in self.summaries:
            self.summaries[topic] = TopicSummary(schema, log_time, log_time)
            self.uses[topic] = describe_topic_use(topic, schema, spec_topics)
        self.summaries[topic].add(log_time)

    def leave_unused(self, topic: str, reason: str = "its type has no known meaning") -> None:
        """Note a topic that is not used."""
        self.unused[topic], self.reasons[topic] = self.summaries[topic].schema, reason

    def count_depth(self, topic: str) -> None:
        """Count a further picture of a topic of depth."""
        if topic in self.num_depth_frames:
            self.num_depth_frames[topic] += 1

    def warn(self, text: str) -> None:
        """Add a warning, unless it has been added already."""
        self.warnings[text] = None


def read_recording_messages(files: Iterable[str], spec_topics: TopicsOfSpec) -> RecordingContents:
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
            else:
                contents.count_depth(entry.channel.topic)
        for text in damage:
            contents.warn(text)
    contents.images = {
        topic: images for topic, images in collector.finish().items() if topic in contents.image_infos
    }
    _settle_named_topics(contents)
    return contents


def _settle_named_topics(contents: RecordingContents) -> None:
    """Use topics of other types: state and action by their names where no known type is, the rest beside these."""
    known = {contents.uses[topic] for topic in contents.signals}
    named = [topic for topic in sorted(contents.named) if contents.summaries[topic].count > 1]
    # Sensors of a known type, such as a battery, are no robot by their names.
    robots = [topic for topic in named if not contents.summaries[topic].schema.startswith("sensor_msgs/")]
    guesses: tuple[tuple[str, TopicUse, re.Pattern[str]], ...] = (
        ("action", "action", _ACTION_TOPIC),
        ("state", "joints", _STATE_TOPIC),
    )
    for role, use, expression in guesses:
        topics = [topic for topic in robots if contents.uses[topic] == "named" and expression.search(topic)]
        if topics and known.isdisjoint(_USES_OF_ROLE[role]):
            contents.uses |= dict.fromkeys(topics, use)
            contents.warn(f"by their names the {role} is {', '.join(topics)}; a spec says otherwise")
    has_content = bool(contents.images or known) or any(contents.uses[topic] != "named" for topic in named)
    for topic, messages in contents.named.items():
        if topic in named and has_content:
            contents.uses[topic] = "spec" if contents.uses[topic] == "named" else contents.uses[topic]
            contents.signals[topic] = messages
        else:
            contents.leave_unused(topic, "a single message is no signal")


def _add_entry(
    contents: RecordingContents,
    collector: ImageCollector,
    decoders: MessageDecoders,
    file_number: int,
    entry: McapMessage,
    spec_topics: TopicsOfSpec,
) -> None:
    """Decode a message and add it to the contents; a topic that cannot be decoded is skipped."""
    topic = entry.channel.topic
    schema = entry.schema.name if entry.schema else ""
    contents.count(topic, schema, entry.message.log_time, spec_topics)
    try:
        decoder = decoders.decoder_for(entry)
    except SourceError as error:
        contents.skipped[topic] = error
        contents.warn(NotRead(f"topic {topic} is skipped: {error}", topic))
        return
    use = contents.uses[topic]
    if not use:
        if topic not in contents.unused:
            contents.leave_unused(topic)
        return
    try:
        message = decode_message(decoder, entry.message.data)
        require_fields(message, {} if use in ("spec", "named") else _expected_fields(schema))
        message = make_joint_message(message) if use in ("spec", "named") else message
    except SourceError as error:
        if use == "named" and topic not in contents.named:
            contents.uses[topic] = ""
            contents.leave_unused(topic, error.reason)
            return
        contents.warn(f"topic {topic}: {error.reason}")
        return
    if use == "image":
        _add_image(contents, collector, file_number, entry, decoder, message)
    elif use == "text":
        contents.texts.append((entry.message.log_time, find_only_text(message)))
    elif use == "spec_text":
        contents.spec_texts.setdefault(topic, []).append((entry.message.log_time, message.data))
    else:
        signals = contents.named if use == "named" else contents.signals
        problem = signals.setdefault(topic, SignalTopicMessages()).add(entry, message)
        if problem:
            contents.warn(NotRead(f"topic {topic} {problem}", topic))


def _expected_fields(schema: str) -> Mapping[str, type]:
    """The fields that a message of a used topic must have, with their types."""
    kind = classify_image_message(schema)
    if kind:
        return list_image_message_fields(kind)
    name = message_type(schema)
    if name == "sensor_msgs/JointState":
        return {"name": list, "position": list, "velocity": list, "effort": list}
    if name == _TRAJECTORY_POINT:
        return {"positions": list, "velocities": list, "effort": list}
    kinds = {"std_msgs/String": str, **dict.fromkeys(_ARRAY_TYPES, list)}
    return {"data": kinds[name]} if name in kinds else {}


def _add_image(
    contents: RecordingContents,
    collector: ImageCollector,
    file_number: int,
    entry: McapMessage,
    decoder: Callable[[bytes], Any],
    message: Any,
) -> None:
    topic = entry.channel.topic
    kind = classify_image_message(entry.schema.name if entry.schema else "")
    assert kind is not None
    kind = settle_image_kind(kind, message)
    if not collector.add(kind, file_number, entry, decoder, message):
        contents.warn(
            NotRead(f"topic {topic} begins between keyframes; its frames before the first are left out")
        )
        return
    if topic in contents.image_infos:
        return
    try:
        contents.image_infos[topic] = image_message_info(kind, message)
    except (SourceError, MediaError) as error:
        contents.skipped[topic] = SourceError(error.reason, error.detail)
        contents.warn(NotRead(f"topic {topic} is left out: {error.reason}", topic))
        if error.reason == HOLDS_DEPTH:
            with suppress(SourceError):
                picture = decode_depth_message(message)
                contents.depth[topic] = describe_depth([picture], {"topic": topic}, frames=1)
                contents.num_depth_frames[topic] = 1
