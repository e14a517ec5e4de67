"""What the topics of a recording hold: images, numbers, texts, and declared episodes."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from numbers import Real
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

from ares.console import count_of
from ares.episode import Json, Signal
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
    header_time,
    image_message_info,
    list_image_message_fields,
    message_times,
    message_type,
    publish_time,
    read_metadata,
    require_fields,
    scan_messages,
)
from ingest.depth import decode_depth_message, describe_depth
from ingest.signals import MAX_SIGNAL_WIDTH

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ingest.spec import DatasetSpec


# Fields that say when and how a message was made, and hold no values of it.
_STAMP_FIELDS = frozenset({"header", "timestamp", "stamp"})
_OTHER_FIELDS = _STAMP_FIELDS | {"layout"}
_JOINT_FIELDS = ("position", "velocity", "effort")
_DEEPEST_FIELD = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsOfSpec:
    """The topics that a spec names, beside those that the reader uses by itself.

    Attributes:
        numbers: Topics that are read as signals, whatever their type.
        texts: Topics whose texts become fields of the metadata.
        steps: Topic whose messages are the steps, or "".
    """

    numbers: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    steps: str = ""


NO_TOPICS = TopicsOfSpec()


def find_topics_of_spec(spec: DatasetSpec | None) -> TopicsOfSpec:
    """The topics that the keys of a spec name; "/joint_states.velocity" names the topic /joint_states."""
    if spec is None:
        return NO_TOPICS
    keys = [part.key for part in (*spec.state, *spec.action)] + [spec.reward, spec.success]
    return TopicsOfSpec(
        numbers=frozenset(_topic_of(key) for key in keys if key),
        texts=frozenset(part for part in spec.language if isinstance(part, str)),
        steps=spec.timestamps,
    )


def _topic_of(key: str) -> str:
    """The topic of a key. A topic may have dots itself: only the name of a field of joints is cut off."""
    topic, _, field = key.rpartition(".")
    return topic if field in _JOINT_FIELDS else key


def make_joint_message(message: Any) -> Any:
    """A message of any type as one of named positions, as joints have; its stamp is kept.

    Raises SourceError when it holds no number, or more than a signal may have.
    """
    values: dict[str, float] = {}
    for name, value in _named_numbers(message, "", 0):
        values[name] = value
        if len(values) > MAX_SIGNAL_WIDTH:
            raise SourceError("holds more numbers than a signal may have", f"at most {MAX_SIGNAL_WIDTH}")
    if not values:
        raise SourceError("holds no number")
    stamps = {name: getattr(message, name) for name in _STAMP_FIELDS if hasattr(message, name)}
    return SimpleNamespace(
        name=list(values), position=list(values.values()), velocity=[], effort=[], **stamps
    )


def _named_numbers(value: Any, name: str, depth: int) -> Iterator[tuple[str, float]]:
    """The numbers of a message or list, named by the way to them: "pose.position.x", "data_0"."""
    if isinstance(value, str | bytes) or depth > _DEEPEST_FIELD:
        return
    if isinstance(value, Real):
        yield name, float(value)
    elif fields := _field_names(value):
        for field in fields:
            if field not in _OTHER_FIELDS:
                yield from _named_numbers(
                    getattr(value, field), f"{name}.{field}" if name else field, depth + 1
                )
    elif hasattr(value, "__len__") and not isinstance(value, Mapping):
        for number, part in enumerate(value):
            yield from _named_numbers(part, f"{name}_{number}", depth + 1)


def _field_names(message: Any) -> list[str]:
    """The fields of a message as any of the decoders makes it; empty for a list."""
    if descriptor := getattr(message, "DESCRIPTOR", None):
        return [field.name for field in descriptor.fields]
    if fields := getattr(message, "__dataclass_fields__", None):
        return [name for name in fields if name != "__msgtype__"]
    slots = getattr(type(message), "__slots__", None)
    return list(slots) if slots else list(getattr(message, "__dict__", ()))


SIGNAL_FIELDS = ("position", "velocity", "effort")


@dataclass(slots=True)
class SignalTopicMessages:
    """The messages of a signal topic.

    Attributes:
        names: Column of every name that occurs, in order of appearance.
        last_names: Names of the last message. Most messages list the same names, which are then stored once.
        rows: Names and values of each message by field, None where the field is empty.
        header_times: Header time of each message in nanoseconds, None where it has none.
        publish_times: Time of publication of each message in nanoseconds.
    """

    names: dict[str, int] = field(default_factory=dict)
    last_names: list[str] = field(default_factory=list)
    rows: dict[str, list[tuple[list[str], Sequence[float]] | None]] = field(
        default_factory=lambda: {name: [] for name in SIGNAL_FIELDS}
    )
    header_times: list[int | None] = field(default_factory=list)
    publish_times: list[int] = field(default_factory=list)

    def add(self, entry: McapMessage, message: Any) -> str:
        """Add the numbers of a decoded message; returns why it is left out, or ""."""
        rows = {
            field_name: list(getattr(message, name, ()))
            for field_name, name in zip(SIGNAL_FIELDS, _value_attributes(message), strict=True)
        }
        names = list(getattr(message, "name", ()))
        names = names or [str(number) for number in range(max(map(len, rows.values())))]
        if len(set(names)) != len(names) or any(row and len(row) != len(names) for row in rows.values()):
            return "has messages whose names and values do not fit; they are left out"
        if not any(rows.values()):
            return "has messages without values; they are left out"
        if names != self.last_names:
            self.last_names = names  # shared by the rows that follow: a day of joints must fit into memory
            for name in names:
                self.names.setdefault(name, len(self.names))
        for field_name, row in rows.items():
            self.rows[field_name].append((self.last_names, array("d", row)) if row else None)
        self.header_times.append(header_time(message))
        self.publish_times.append(publish_time(entry.message))
        return ""

    def by_publication(self) -> SignalTopicMessages:
        """The same messages at the times at which they were published."""
        return replace(self, header_times=[None] * len(self.header_times))

    def fields(self) -> list[str]:
        """Those of position, velocity and effort that have values."""
        return [name for name in SIGNAL_FIELDS if any(row is not None for row in self.rows[name])]


def _value_attributes(message: Any) -> tuple[str, str, str]:
    """Names of the attributes in which a message stores positions, velocities and efforts."""
    if hasattr(message, "data"):
        return "data", "", ""
    if hasattr(message, "positions"):
        return "positions", "velocities", "effort"
    return SIGNAL_FIELDS


@dataclass(frozen=True, slots=True, eq=False)
class SignalTrack:
    """One field of a signal topic, ordered by time.

    Attributes:
        times: (N,) int64 nanoseconds, rising.
        signal: (N, D) float32.
        has_header_times: Whether the times are the header times of the messages.
        in_time_order: Whether the messages lie in the file in the order of their times.
        is_complete: Whether every message has a value for every name.
        overflows: Whether a value is beyond float32, and infinite here.
        is_rounded: Whether a value lost digits.
    """

    times: NDArray[np.int64]
    signal: Signal
    has_header_times: bool
    in_time_order: bool
    is_complete: bool
    overflows: bool
    is_rounded: bool


def build_signal_track(messages: SignalTopicMessages, field_name: str) -> SignalTrack:
    """A field of a topic. A joint that a message lacks keeps its last value, or its first value before any."""
    import numpy as np

    times, has_header_times = message_times(messages.header_times, messages.publish_times)
    rows = messages.rows[field_name]
    filled = [number for number, row in enumerate(rows) if row is not None]
    numbers = np.array(filled)[np.argsort(times[filled], kind="stable")]
    values, present = _value_matrix(messages, [rows[number] or ([], ()) for number in numbers])
    used = present.any(axis=0)
    values, present = values[:, used], present[:, used]
    names = tuple(np.array(tuple(messages.names))[used].tolist())
    is_complete = bool(present.all())
    if not is_complete:
        values = _fill_gaps(values, present)
    with np.errstate(over="ignore"):
        narrowed = values.astype(np.float32)
    return SignalTrack(
        times=times[numbers],
        signal=Signal(narrowed, names),
        has_header_times=has_header_times,
        in_time_order=bool((np.diff(times) >= 0).all()),
        is_complete=is_complete,
        overflows=bool((np.isinf(narrowed) & ~np.isinf(values)).any()),
        is_rounded=bool(((narrowed != values) & np.isfinite(narrowed) & np.isfinite(values)).any()),
    )


def _value_matrix(
    messages: SignalTopicMessages, rows: Sequence[tuple[list[str], Sequence[float]]]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """(N, D) values by row and name, NaN where a row lacks a name, and (N, D) whether it has the name."""
    import numpy as np

    all_names = list(messages.names)
    values = np.full((len(rows), len(all_names)), np.nan)
    present = np.zeros(values.shape, bool)
    for index, (row_names, row) in enumerate(rows):
        columns = slice(None) if row_names == all_names else [messages.names[name] for name in row_names]
        values[index, columns] = row
        present[index, columns] = True
    return values, present


def _fill_gaps(values: NDArray[np.float64], present: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Fill gaps with the value before them, and those at the start with the first value."""
    import numpy as np

    steps = np.arange(len(values))[:, None]
    last = np.maximum.accumulate(np.where(present, steps, -1), axis=0)
    first = np.argmax(present, axis=0)
    filled: NDArray[np.float64] = np.take_along_axis(values, np.where(last < 0, first, last), axis=0)
    return filled


TopicUse = Literal["image", "joints", "action", "array", "text", "spec", "spec_text", ""]

_ACTION_TOPIC = re.compile(
    r"(?<![a-z])(action|command|cmd|target|desired|setpoint)s?(?![a-z])", re.IGNORECASE
)
_TASK_TOPIC = re.compile(r"(?<![a-z])(task|instruction|language|prompt)s?(?![a-z])", re.IGNORECASE)
_ARRAY_TYPES = frozenset({"std_msgs/Float64MultiArray", "std_msgs/Float32MultiArray"})
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
    summaries: dict[str, TopicSummary] = field(default_factory=dict)
    unused: dict[str, str] = field(default_factory=dict)
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
    return contents


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
        contents.warn(f"topic {topic} is skipped: {error.reason}")
        return
    use = contents.uses[topic]
    if not use:
        contents.unused[topic] = schema
        return
    try:
        message = decode_message(decoder, entry.message.data)
        require_fields(message, {} if use == "spec" else _expected_fields(schema))
        message = make_joint_message(message) if use == "spec" else message
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
        problem = contents.signals.setdefault(topic, SignalTopicMessages()).add(entry, message)
        if problem:
            contents.warn(f"topic {topic} {problem}")


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
    kind = classify_image_message(entry.schema.name if entry.schema else "")
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
        if error.reason == HOLDS_DEPTH:
            with suppress(SourceError):
                picture = decode_depth_message(message)
                contents.depth[topic] = describe_depth([picture], {"topic": topic}, frames=1)
                contents.num_depth_frames[topic] = 1


METADATA_NAME = "episode"
_OUTCOMES = {"true": True, "1": True, "success": True, "false": False, "0": False, "failure": False}
_USED_FIELDS = frozenset({"key", "start_ns", "stop_ns", "instruction", "success", "robot"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSpan:
    """A part of a recording that is one episode.

    Attributes:
        key: Name of the episode in the recording; its number where it has none.
        start: Nanoseconds at which it begins.
        stop: Nanoseconds at which it ends, half open.
        instruction: Instruction, or "".
        success: Whether it succeeded, or None.
        robot: Name of the robot, or "".
        metadata: Other fields of the record.
    """

    key: str
    start: int
    stop: int
    instruction: str = ""
    success: bool | None = None
    robot: str = ""
    metadata: Mapping[str, Json]


def read_episode_spans(files: list[str]) -> list[RecordedSpan | SourceError]:
    """The episodes that a recording declares, in file order; empty where the recording is itself one episode.

    A record without a valid span is an error in the list. Raises SourceError for a file that is missing or is not
    an MCAP file.
    """
    documents = [document for path in files for document in read_metadata(path, METADATA_NAME)]
    spans = [_parse_span(number, document) for number, document in enumerate(documents)]
    seen_keys: set[str] = set()
    for number, span in enumerate(spans):
        if isinstance(span, RecordedSpan) and span.key in seen_keys:
            spans[number] = SourceError("episode is declared twice", f"{files[0]}: {span.key!r}")
        elif isinstance(span, RecordedSpan):
            seen_keys.add(span.key)
    return spans


def _parse_span(number: int, document: Mapping[str, str]) -> RecordedSpan | SourceError:
    """Parse a record. Details of errors are part of the identities of failing items: change them with care."""
    try:
        start, stop = int(document["start_ns"]), int(document["stop_ns"])
    except (KeyError, ValueError):
        return SourceError(
            "episode is declared without its span", f"start_ns and stop_ns in {dict(document)}"
        )
    if not 0 <= start < stop < 2**62:
        return SourceError("episode is declared with an empty span", f"start_ns {start}, stop_ns {stop}")
    return RecordedSpan(
        key=document.get("key") or str(number),
        start=start,
        stop=stop,
        instruction=document.get("instruction", ""),
        success=_OUTCOMES.get(document.get("success", "").lower()),
        robot=document.get("robot", ""),
        metadata={name: text for name, text in document.items() if name not in _USED_FIELDS},
    )
