"""The messages of a topic as one signal with stamps."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ares.episode import Signal
from ares.media import (
    McapMessage,
    header_time,
    message_times,
    publish_time,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
