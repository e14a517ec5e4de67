"""What the topics of an MCAP recording are taken for, and their messages collected in one pass."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ares.episode import Signal
from ares.errors import MediaError, SourceError
from ares.media.imageinfo import ImageInfo
from ares.media.mcap_file import Decoders, Heard, decode, expect, header_stamp, published, scan, times
from ares.media.mcap_image import fields_of, image_kind, look, short_name
from ares.media.mcap_index import Collector, Images

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Use = Literal["image", "joints", "action", "array", "text", ""]

_ACTION = re.compile(r"(?<![a-z])(action|command|cmd|target|desired|setpoint)s?(?![a-z])", re.IGNORECASE)
_TASK = re.compile(r"(?<![a-z])(task|instruction|language|prompt)s?(?![a-z])", re.IGNORECASE)
_ARRAYS = frozenset({"std_msgs/Float64MultiArray", "std_msgs/Float32MultiArray"})
_POINT = "trajectory_msgs/JointTrajectoryPoint"
_FIELDS = ("position", "velocity", "effort")


def use_of(topic: str, schema: str) -> Use:
    """What a topic is taken for, by its schema and its name; "" for what is not used."""
    if image_kind(schema):
        return "image"
    name = short_name(schema)
    if name == "sensor_msgs/JointState":
        return "action" if _ACTION.search(topic) else "joints"
    if name in _ARRAYS or name == _POINT:
        return "array" if _ACTION.search(topic) else ""
    return "text" if name == "std_msgs/String" and _TASK.search(topic) else ""


@dataclass(slots=True)
class Values:
    """The messages of a signal topic.

    Attributes:
        names: Every name that occurred, in order of appearance.
        last: Names of the last message; most messages name all in one order.
        rows: Names and values of each message by field, None where the field is empty.
        stamps: Stamp of each row, nanoseconds.
        published: When each was published.
        fields: Fields of a JointState in which there are values.
    """

    names: dict[str, int] = field(default_factory=dict)
    last: list[str] = field(default_factory=list)
    rows: dict[str, list[tuple[list[str], Sequence[float]] | None]] = field(
        default_factory=lambda: {name: [] for name in _FIELDS}
    )
    stamps: list[int | None] = field(default_factory=list)
    published: list[int] = field(default_factory=list)

    def fields(self) -> list[str]:
        """Those of position, velocity and effort in which there are values."""
        return [name for name in _FIELDS if any(row is not None for row in self.rows[name])]


@dataclass(slots=True)
class Heardings:
    """What a recording says.

    Attributes:
        images: Images by topic, with size and codec.
        infos: Size and codec of each.
        signals: Messages by topic, of those taken for state or action.
        uses: What each of these topics is taken for.
        texts: When, and what was to be done.
        unused: Schema of each topic that is not used.
        skipped: Why a topic could not be read, by topic.
        warnings: What is odd, in words that can be counted.
        messages: How many there are.
    """

    images: dict[str, Images] = field(default_factory=dict)
    infos: dict[str, ImageInfo] = field(default_factory=dict)
    signals: dict[str, Values] = field(default_factory=dict)
    uses: dict[str, Use] = field(default_factory=dict)
    texts: list[tuple[int, str]] = field(default_factory=list)
    unused: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, SourceError] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)
    messages: int = 0

    def warn(self, text: str) -> None:
        """Say something, once."""
        self.warnings[text] = None


def listen(files: Iterable[str]) -> Heardings:
    """Every message of some files that are one recording, in one pass.

    Raises SourceError for a file that is missing or no MCAP.
    """
    found, collector = Heardings(), Collector()
    for number, path in enumerate(files):
        decoders = Decoders()
        damage: list[str] = []
        for heard in scan(path, damage):
            found.messages += 1
            if heard.channel.topic not in found.skipped:
                _hear(found, collector, decoders, number, heard)
        for text in damage:
            found.warn(text)
    found.images = {name: images for name, images in collector.images().items() if name in found.infos}
    return found


def _hear(found: Heardings, collector: Collector, decoders: Decoders, number: int, heard: Heard) -> None:
    topic = heard.channel.topic
    schema = heard.schema.name if heard.schema else ""
    try:
        decoder = decoders.of(heard)
    except SourceError as error:
        found.skipped[topic] = error
        found.warn(f"topic {topic} is skipped: {error.reason}")
        return
    use = use_of(topic, schema)
    if not use:
        found.unused[topic] = schema
        return
    try:
        message = decode(decoder, heard.message.data)
        expect(message, _fields(schema))
    except SourceError as error:
        found.warn(f"topic {topic}: {error.reason}")
        return
    if use == "image":
        _image(found, collector, number, heard, decoder, message)
    elif use == "text":
        found.texts.append((heard.message.log_time, message.data))
    else:
        found.uses[topic] = use
        _values(found, found.signals.setdefault(topic, Values()), heard, message)


def _fields(schema: str) -> Mapping[str, type]:
    """The fields that a message of a type that is used has."""
    kind = image_kind(schema)
    if kind:
        return fields_of(kind)
    name = short_name(schema)
    if name == "sensor_msgs/JointState":
        return {"name": list, "position": list, "velocity": list, "effort": list}
    if name == _POINT:
        return {"positions": list, "velocities": list, "effort": list}
    return {"data": list if name in _ARRAYS else str}


def _image(
    found: Heardings,
    collector: Collector,
    number: int,
    heard: Heard,
    decoder: Callable[[bytes], Any],
    message: Any,
) -> None:
    topic = heard.channel.topic
    kind = image_kind(heard.schema.name if heard.schema else "")
    assert kind is not None
    if not collector.take(kind, number, heard, decoder, message):
        found.warn(f"topic {topic} begins between keyframes; its frames before the first are left out")
        return
    if topic in found.infos:
        return
    try:
        found.infos[topic] = look(kind, message)
    except (SourceError, MediaError) as error:
        found.skipped[topic] = SourceError(error.reason, error.detail)
        found.warn(f"topic {topic} is left out: {error.reason}")


def _values(found: Heardings, values: Values, heard: Heard, message: Any) -> None:
    """Enter the numbers of a message; those that do not fit their names are said and left out."""
    topic = heard.channel.topic
    given = {
        field: list(getattr(message, name, ()))
        for field, name in zip(_FIELDS, _names_of_fields(message), strict=True)
    }
    names = list(getattr(message, "name", ())) or [str(k) for k in range(max(map(len, given.values())))]
    bad = [field for field, row in given.items() if row and len(row) != len(names)]
    if bad or len(set(names)) != len(names):
        found.warn(f"topic {topic} has messages whose names and values do not fit; they are left out")
        return
    if not any(given.values()):
        found.warn(f"topic {topic} has messages without values; they are left out")
        return
    if names != values.last:
        values.last = names  # one list for all the rows that follow: a day of joints must fit the memory
        for name in names:
            values.names.setdefault(name, len(values.names))
    for field_name, row in given.items():
        values.rows[field_name].append((values.last, array("d", row)) if row else None)
    values.stamps.append(header_stamp(message))
    values.published.append(published(heard.message))


def _names_of_fields(message: Any) -> tuple[str, str, str]:
    """Where a message keeps positions, velocities and efforts."""
    if hasattr(message, "data"):
        return "data", "", ""
    if hasattr(message, "positions"):
        return "positions", "velocities", "effort"
    return _FIELDS


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """One field of a signal topic, in the order of its stamps.

    Attributes:
        at: (N,) int64 nanoseconds, rising.
        signal: (N, D) float32.
        stamped: Whether the messages' own stamps give the times.
        sorted: Whether the messages stand in the file in that order.
        complete: Whether every message had a value for every name.
        too_large: Whether a value is beyond float32, and infinite here.
        rounded: Whether a value lost digits.
    """

    at: NDArray[np.int64]
    signal: Signal
    stamped: bool
    sorted: bool
    complete: bool
    too_large: bool
    rounded: bool


def track(values: Values, name: str) -> Track:
    """A field of a topic: a joint that a message lacks keeps its last value (its first one before any)."""
    import numpy as np

    at, stamped = times(values.stamps, values.published)
    rows = values.rows[name]
    good = [number for number, row in enumerate(rows) if row is not None]
    order = np.argsort(at[good], kind="stable")
    numbers = np.array(good)[order]
    names = tuple(values.names)
    wide = np.full((len(good), len(names)), np.nan)
    there = np.zeros(wide.shape, bool)
    whole = list(names)
    for place, number in enumerate(numbers):
        given, row = rows[number] or ([], ())
        columns = slice(None) if given == whole else [values.names[each] for each in given]
        wide[place, columns] = row
        there[place, columns] = True
    kept = there.any(axis=0)
    wide, there, names = wide[:, kept], there[:, kept], tuple(np.array(names)[kept].tolist())
    complete = bool(there.all())
    if not complete:
        wide = _held(wide, there)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    return Track(
        at=at[numbers],
        signal=Signal(narrow, names),
        stamped=stamped,
        sorted=bool((np.diff(at) >= 0).all()),
        complete=complete,
        too_large=bool((np.isinf(narrow) & ~np.isinf(wide)).any()),
        rounded=bool(((narrow != wide) & np.isfinite(narrow) & np.isfinite(wide)).any()),
    )


def _held(values: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Gaps filled with the value before them; those at the start with the first one."""
    import numpy as np

    steps = np.arange(len(values))[:, None]
    last = np.maximum.accumulate(np.where(there, steps, -1), axis=0)
    first = np.argmax(there, axis=0)
    held: NDArray[np.float64] = np.take_along_axis(values, np.where(last < 0, first, last), axis=0)
    return held
