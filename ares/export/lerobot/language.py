"""The texts of segments in a LeRobot dataset: columns of the data files, subtasks, and what these cannot hold.

The columns are those of lerobot 0.6: `language_persistent` repeats on every step of an episode the rows of states that
hold until the next row of their style, `language_events` has those of an instant on its step. An author, an end, an
overlap and a second arm have no place in them: `segment_file` lists every segment with all of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.annotation import canonical_json
from ares.clock import time_tolerance
from ares.episode import Json
from ares.export.layout_groups import DatasetGroup, ExportItem
from ares.export.segments import SOURCE, SUBTASK, TASK, ExportSegment, TrackArrangement
from ares.formats import (
    LANGUAGE_EVENTS,
    LANGUAGE_PERSISTENT,
    SUBTASK_INDEX,
    camera_key,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.export.retime import RetimedEpisode


# What info.json calls the type of a column of texts.
LANGUAGE_DTYPE = "language"
# Styles of states, of instants, and of instants in the picture of a camera, as lerobot 0.6 knows them.
PERSISTENT_STYLES = frozenset({"subtask", "plan", "memory", "motion", "task_aug"})
CAMERA_STYLES = frozenset({"vqa", "trace"})
EVENT_STYLES = CAMERA_STYLES | {"interjection", ""}
# What a segment says of the column of its source that it stood in, see `ares_ingest.lerobot.language`.
PERSISTENT, EVENTS = "persistent", "events"
_COLUMNS = (PERSISTENT, EVENTS)
# Seconds by which float32 and rounding may move a start.
_ROUNDING = 1e-3
# Who speaks where nothing says so.
_ROLES, _ROLE = {"task_aug": "user"}, "assistant"
# What the columns cannot hold of a segment.
_UNKNOWN_STYLE = "style that lerobot does not know"
_NEEDS_CAMERA = "style that needs a camera of the dataset"
_ENDS_AT_ONCE = "event with an end"
NO_COLUMNS = "no columns of texts in this version"


class LanguageRow(NamedTuple):
    """A row of one of the columns, and the step of an event."""

    role: str
    content: str | None
    style: str | None
    seconds: float
    camera: str | None
    tool_calls: Sequence[Json] | None
    step: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeLanguage:
    """The texts of an episode as the files have them.

    Attributes:
        persistent: Rows of `language_persistent`, in order.
        events: Rows of `language_events`, in the order of their steps.
        subtasks: Text of the subtask of each step, "" where there is none.
        lacks: By annotation_id, what the columns cannot hold of a segment.
    """

    persistent: list[LanguageRow] = field(default_factory=list)
    events: list[LanguageRow] = field(default_factory=list)
    subtasks: list[str] = field(default_factory=list)
    lacks: dict[str, str] = field(default_factory=dict)


def arrange_language(item: ExportItem, cameras: Sequence[str]) -> EpisodeLanguage:
    """Place the segments of an episode.

    Rows that a source had in these columns go back as they were. Every other segment of a state is written at its
    start: what people say first, then sources, then models. One that overlaps another of its style is left beside.

    Args:
        item: The episode with its segments.
        cameras: Names of the cameras of the dataset.
    """
    segments, retimed = item.texts.segments, item.retimed
    language = EpisodeLanguage()
    source_rows = sorted(
        (segment for segment in segments if _column_of_source(segment) in _COLUMNS), key=_order_in_source
    )
    for segment in source_rows:
        is_event = _column_of_source(segment) == EVENTS
        (language.events if is_event else language.persistent).append(_make_row(segment, retimed))
    others = [segment for segment in segments if _column_of_source(segment) not in _COLUMNS]
    states = [segment for segment in others if segment.style in PERSISTENT_STYLES]
    # Of a source that has its subtasks in both forms, each goes back to its place.
    indexed = [segment for segment in states if _column_of_source(segment) and segment.style == SUBTASK]
    has_both_forms = bool(indexed) and any(segment.style == SUBTASK for segment in source_rows)
    added = [segment for segment in states if segment not in indexed] if has_both_forms else states
    tracks = TrackArrangement(added, retimed, source_rows)
    language.lacks.update(tracks.lacks)
    if tracks.arranged:
        language.persistent.extend(_make_row(segment, retimed) for segment in tracks.arranged)
        language.persistent.sort(key=attrgetter("seconds"))
    for segment in others:
        if segment.style not in (*PERSISTENT_STYLES, TASK):  # tasks stand in the rows
            _add_event(segment, retimed, cameras, language)
    language.events.sort(key=attrgetter("step"))
    of_steps = TrackArrangement(indexed, retimed) if has_both_forms else tracks
    language.subtasks.extend(of_steps.texts_of_steps(SUBTASK))
    return language


def _column_of_source(segment: ExportSegment) -> str:
    """Where a source has a segment: PERSISTENT, EVENTS, a column of subtasks, or "" for any other place."""
    return segment.text_field("column") if segment.state == SOURCE else ""


def _order_in_source(segment: ExportSegment) -> tuple[float, float]:
    """Number of the step of an event, and of the row among those of the episode or the step."""
    return segment.number_field("frame") or 0.0, segment.number_field("row") or 0.0


def _seconds_of_source(segment: ExportSegment) -> float:
    """The time that a source states, which is a float32; the start of the span where it counts from elsewhere."""
    stated, span = segment.number_field("timestamp"), segment.value.get("stated_span")
    start = span[0] if isinstance(span, list) and span else segment.start_seconds
    if stated is not None and isinstance(start, float) and abs(stated - start) <= _ROUNDING:
        return stated
    return segment.start_seconds


def _make_row(segment: ExportSegment, retimed: RetimedEpisode) -> LanguageRow:
    """The row of a segment; of one that a source had in these columns with the values that it had."""
    value, empty = segment.value, segment.value.get("empty")
    empty_names = empty if isinstance(empty, list) else []
    calls, camera = value.get("tool_calls"), segment.text_field("camera")
    key = (
        camera
        if camera or "camera" in empty_names
        else camera_key(segment.camera)
        if segment.camera
        else None
    )
    default_role = "" if "role" in empty_names else _ROLES.get(segment.style, _ROLE)
    step = retimed.steps_of_span(segment.start_seconds, segment.stop_seconds).start
    return LanguageRow(
        role=segment.text_field("role") or default_role,
        content=segment.text if segment.text or "content" in empty_names else None,
        style=segment.style if segment.style or "style" in empty_names else None,
        seconds=_written_start(segment, retimed, step),
        camera=key,
        tool_calls=calls if isinstance(calls, list) else None,
        step=min(step, max(0, len(retimed.steps) - 1)),
    )


def _written_start(segment: ExportSegment, retimed: RetimedEpisode, step: int) -> float:
    """The time of a row. A reader compares without a tolerance: what begins with a step has the time of that step."""
    written, at_step = retimed.written_seconds(_seconds_of_source(segment)), step / retimed.episode.rate_hz
    is_stated = _column_of_source(segment) in _COLUMNS
    is_near = abs(at_step - written) <= time_tolerance(retimed.episode.rate_hz)
    return at_step if is_near and (retimed.is_cut or not is_stated) else written


def _add_event(
    segment: ExportSegment, retimed: RetimedEpisode, cameras: Sequence[str], language: EpisodeLanguage
) -> None:
    if segment.style not in EVENT_STYLES:
        language.lacks[segment.annotation_id] = _UNKNOWN_STYLE
    elif (segment.style in CAMERA_STYLES) != (segment.camera in cameras):
        language.lacks[segment.annotation_id] = _NEEDS_CAMERA
    else:
        language.events.append(_make_row(segment, retimed))
        if len(retimed.steps_of_span(segment.start_seconds, segment.stop_seconds)) > 1:
            language.lacks[segment.annotation_id] = _ENDS_AT_ONCE


def text_features(group: DatasetGroup) -> dict[str, dict[str, Any]]:
    """The features of the texts of a group; none where no episode has any, so that older versions can read it."""
    features: dict[str, dict[str, Any]] = {}
    if group.episodes_with_subtasks:
        features[SUBTASK_INDEX] = {"dtype": "int64", "shape": [1], "names": None}
    if group.episodes_with_segments:
        language = {"dtype": LANGUAGE_DTYPE, "shape": [1], "names": None}
        features |= {LANGUAGE_PERSISTENT: language, LANGUAGE_EVENTS: dict(language)}
    return features


@cache
def language_type(column: str) -> pa.DataType:
    """The type of a column of texts, which is that of lerobot 0.6."""
    import pyarrow as pa

    fields = [pa.field("role", pa.string(), nullable=False), ("content", pa.string()), ("style", pa.string())]
    if column == LANGUAGE_PERSISTENT:
        fields.append(pa.field("timestamp", pa.float32(), nullable=False))
    return pa.list_(pa.struct([*fields, ("camera", pa.string()), ("tool_calls", pa.list_(pa.json_()))]))


def describe_language(column: str) -> dict[str, Any]:
    """The same for the metadata that Hugging Face `datasets` reads."""
    text = {"dtype": "string", "_type": "Value"}
    row: dict[str, Any] = {"role": text, "content": text, "style": text}
    if column == LANGUAGE_PERSISTENT:
        row["timestamp"] = {"dtype": "float32", "_type": "Value"}
    calls = {"feature": {"_type": "Json"}, "_type": "List"}
    return {"feature": row | {"camera": text, "tool_calls": calls}, "_type": "List"}


def language_columns(language: EpisodeLanguage, count: int) -> dict[str, pa.Array]:
    """The columns of texts of an episode: every row of a state on each of its `count` steps, events on one."""
    import numpy as np
    import pyarrow as pa

    size = len(language.persistent)
    states = _row_array(language.persistent, LANGUAGE_PERSISTENT)
    repeated = states.take(pa.array(np.tile(np.arange(size), count))) if size else states
    columns = {LANGUAGE_PERSISTENT: _list_array(np.arange(count + 1) * size, repeated, LANGUAGE_PERSISTENT)}
    if not language.events:
        return {**columns, LANGUAGE_EVENTS: _no_events(count)}
    steps = np.array([row.step for row in language.events], np.int64)
    ends = np.searchsorted(steps, np.arange(count + 1), side="left")
    events = _list_array(ends, _row_array(language.events, LANGUAGE_EVENTS), LANGUAGE_EVENTS)
    return {**columns, LANGUAGE_EVENTS: events}


def _list_array(offsets: NDArray[np.int64], values: pa.Array, column: str) -> pa.ListArray:
    import numpy as np
    import pyarrow as pa

    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, type=language_type(column))


@lru_cache(maxsize=64)
def _no_events(count: int) -> pa.ListArray:
    """The column of events of an episode of so many steps that has none, which is usual."""
    import numpy as np

    return _list_array(np.zeros(count + 1, np.int64), _row_array([], LANGUAGE_EVENTS), LANGUAGE_EVENTS)


def _row_array(rows: Sequence[LanguageRow], column: str) -> pa.StructArray:
    import pyarrow as pa

    kind = language_type(column).value_type
    fields: dict[str, Sequence[Any]] = {
        "role": [row.role for row in rows],
        "content": [row.content for row in rows],
        "style": [row.style for row in rows],
        "timestamp": [row.seconds for row in rows],
        "camera": [row.camera for row in rows],
    }
    arrays = {
        name: _plain_array(values, kind.field(name).type)
        for name, values in fields.items()
        if name in kind.names
    }
    arrays["tool_calls"] = _call_array([row.tool_calls for row in rows])
    return pa.StructArray.from_arrays([arrays[field.name] for field in kind], fields=list(kind))


def _plain_array(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    """The values as an array; of nulls alone without looking at each."""
    import pyarrow as pa

    return (
        pa.array(values, type) if any(value is not None for value in values) else pa.nulls(len(values), type)
    )


def _call_array(calls: Sequence[Sequence[Json] | None]) -> pa.ListArray:
    """Lists of JSON texts, null where there are none."""
    import pyarrow as pa

    if all(row_calls is None for row_calls in calls):
        return pa.nulls(len(calls), pa.list_(pa.json_()))
    texts = [canonical_json(call) for row_calls in calls for call in row_calls or ()]
    offsets, stop = [], 0
    for row_calls in calls:
        offsets.append(None if row_calls is None else stop)
        stop += len(row_calls or ())
    stored = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))
    return pa.ListArray.from_arrays(pa.array([*offsets, stop], pa.int32()), stored)
