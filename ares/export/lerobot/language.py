"""The texts of segments in a LeRobot dataset: columns of the data files, subtasks, and what these cannot hold.

The columns are those of lerobot 0.6: `language_persistent` repeats on every step of an episode the rows of states that
hold until the next row of their style, `language_events` has those of an instant on its step. An author, an end, an
overlap and a second arm have no place in them: SEGMENTS_PATH lists every segment with all of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.annotation import canonical_json
from ares.clock import time_tolerance
from ares.episode import Json
from ares.export.layout_groups import DatasetGroup, ExportItem
from ares.export.segment_tracks import TrackArrangement
from ares.export.segments import SOURCE, SUBTASK, ExportSegment
from ares.formats import (
    EVENTS_COLUMN,
    PERSISTENT_COLUMN,
    SEGMENTS_PATH,
    SUBTASK_INDEX,
    camera_key,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.export.retime import RetimedEpisode


# What info.json calls the type of a column of texts.
LANGUAGE_DTYPE = "language"
# Styles of states, of instants, and of instants in the picture of a camera, as lerobot 0.6 knows them.
PERSISTENT_STYLES = frozenset({"subtask", "plan", "memory", "motion", "task_aug"})
CAMERA_STYLES = frozenset({"vqa", "trace"})
EVENT_STYLES = CAMERA_STYLES | {"interjection", ""}
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
        not_held: By annotation_id, what the columns cannot hold of a segment.
    """

    persistent: list[LanguageRow] = field(default_factory=list)
    events: list[LanguageRow] = field(default_factory=list)
    subtasks: list[str] = field(default_factory=list)
    not_held: dict[str, str] = field(default_factory=dict)


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
    own_rows = [segment for segment in segments if _column_of_source(segment)]
    own_rows.sort(key=_order_in_source)
    for segment in own_rows:
        row = _make_row(segment, retimed)
        is_event = _column_of_source(segment) == EVENTS_COLUMN
        (language.events if is_event else language.persistent).append(row)
    others = [segment for segment in segments if not _column_of_source(segment)]
    states = [segment for segment in others if segment.style in PERSISTENT_STYLES]
    tracks = TrackArrangement(states, retimed, own_rows)
    language.persistent.extend(_make_row(segment, retimed) for segment in tracks.placed)
    language.not_held.update(tracks.not_held)
    for segment in others:
        if segment.style not in PERSISTENT_STYLES:
            _place_event(segment, retimed, cameras, language)
    # Rows of sources that stand in order keep their order: the sort is stable.
    language.persistent.sort(key=attrgetter("seconds"))
    language.events.sort(key=attrgetter("step"))
    language.subtasks.extend(tracks.texts_of_steps(SUBTASK))
    return language


def _column_of_source(segment: ExportSegment) -> str:
    """The column that a source had a segment in, "" for any other place."""
    column = segment.text_field("column") if segment.state == SOURCE else ""
    return column if column in (PERSISTENT_COLUMN, EVENTS_COLUMN) else ""


def _order_in_source(segment: ExportSegment) -> tuple[float, float]:
    row = segment.value.get("row")
    seconds = _seconds_of_source(segment)
    return seconds, float(row) if isinstance(row, int | float) else 0.0


def _seconds_of_source(segment: ExportSegment) -> float:
    """The time that a source states, which is a float32; that of the span elsewhere."""
    stated = segment.value.get("timestamp")
    return float(stated) if isinstance(stated, int | float) else segment.start_seconds


def _make_row(segment: ExportSegment, retimed: RetimedEpisode) -> LanguageRow:
    calls, content = segment.value.get("tool_calls"), segment.value.get("content", segment.text or None)
    seconds = _seconds_of_source(segment)
    step = retimed.steps_of_span(seconds, segment.stop_seconds).start
    written = retimed.written_seconds(seconds)
    # A reader compares without a tolerance: what begins with a step has the time of that step.
    at_step = step / retimed.episode.rate_hz
    if not _column_of_source(segment) and abs(at_step - written) <= time_tolerance(retimed.episode.rate_hz):
        written = at_step
    return LanguageRow(
        role=segment.text_field("role") or _ROLES.get(segment.style, _ROLE),
        content=content if isinstance(content, str) else None,
        style=segment.style or None,
        seconds=written,
        camera=camera_key(segment.camera) if segment.camera else None,
        tool_calls=calls if isinstance(calls, list) else None,
        step=min(step, max(0, len(retimed.steps) - 1)),
    )


def _place_event(
    segment: ExportSegment, retimed: RetimedEpisode, cameras: Sequence[str], language: EpisodeLanguage
) -> None:
    if segment.style not in EVENT_STYLES:
        language.not_held[segment.annotation_id] = _UNKNOWN_STYLE
    elif (segment.style in CAMERA_STYLES) != (segment.camera in cameras):
        language.not_held[segment.annotation_id] = _NEEDS_CAMERA
    else:
        language.events.append(_make_row(segment, retimed))
        if len(retimed.steps_of_span(segment.start_seconds, segment.stop_seconds)) > 1:
            language.not_held[segment.annotation_id] = _ENDS_AT_ONCE


def text_features(group: DatasetGroup) -> dict[str, dict[str, Any]]:
    """The features of the texts of a group; none where no episode has any, so that older versions can read it."""
    features: dict[str, dict[str, Any]] = {}
    if group.episodes_with_subtasks:
        features[SUBTASK_INDEX] = {"dtype": "int64", "shape": [1], "names": None}
    if group.episodes_with_segments:
        language = {"dtype": LANGUAGE_DTYPE, "shape": [1], "names": None}
        features |= {PERSISTENT_COLUMN: language, EVENTS_COLUMN: dict(language)}
    return features


def language_type(column: str) -> pa.DataType:
    """The type of a column of texts, which is that of lerobot 0.6."""
    import pyarrow as pa

    fields = [pa.field("role", pa.string(), nullable=False), ("content", pa.string()), ("style", pa.string())]
    if column == PERSISTENT_COLUMN:
        fields.append(pa.field("timestamp", pa.float32(), nullable=False))
    return pa.list_(pa.struct([*fields, ("camera", pa.string()), ("tool_calls", pa.list_(pa.json_()))]))


def describe_language(column: str) -> dict[str, Any]:
    """The same for the metadata that Hugging Face `datasets` reads."""
    text = {"dtype": "string", "_type": "Value"}
    row: dict[str, Any] = {"role": text, "content": text, "style": text}
    if column == PERSISTENT_COLUMN:
        row["timestamp"] = {"dtype": "float32", "_type": "Value"}
    calls = {"feature": {"_type": "Json"}, "_type": "List"}
    return {"feature": row | {"camera": text, "tool_calls": calls}, "_type": "List"}


def language_columns(language: EpisodeLanguage, count: int) -> dict[str, pa.Array]:
    """The columns of texts of an episode: every row of a state on each of its `count` steps, events on their own."""
    import numpy as np
    import pyarrow as pa

    size = len(language.persistent)
    states = _row_array(language.persistent, PERSISTENT_COLUMN)
    repeated = states.take(pa.array(np.tile(np.arange(size), count)))
    steps = np.array([row.step for row in language.events], np.int64)
    ends = np.searchsorted(steps, np.arange(count + 1), side="left")
    offsets = {PERSISTENT_COLUMN: np.arange(count + 1) * size, EVENTS_COLUMN: ends}
    values = {PERSISTENT_COLUMN: repeated, EVENTS_COLUMN: _row_array(language.events, EVENTS_COLUMN)}
    return {
        name: pa.ListArray.from_arrays(
            pa.array(offsets[name].astype(np.int32)), values[name], type=language_type(name)
        )
        for name in offsets
    }


def _row_array(rows: Sequence[LanguageRow], column: str) -> pa.StructArray:
    import pyarrow as pa

    kind = language_type(column).value_type
    own = {
        "role": [row.role for row in rows],
        "content": [row.content for row in rows],
        "style": [row.style for row in rows],
        "timestamp": [row.seconds for row in rows],
        "camera": [row.camera for row in rows],
    }
    arrays = {
        name: pa.array(values, kind.field(name).type) for name, values in own.items() if name in kind.names
    }
    arrays["tool_calls"] = _call_array([row.tool_calls for row in rows])
    return pa.StructArray.from_arrays([arrays[field.name] for field in kind], fields=list(kind))


def _call_array(calls: Sequence[Sequence[Json] | None]) -> pa.ListArray:
    """Lists of JSON texts, null where there are none."""
    import pyarrow as pa

    texts = [canonical_json(call) for own in calls for call in own or ()]
    offsets, stop = [], 0
    for own in calls:
        offsets.append(None if own is None else stop)
        stop += len(own or ())
    stored = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))
    return pa.ListArray.from_arrays(pa.array([*offsets, stop], pa.int32()), stored)


class SegmentFileWriter:
    """Writes SEGMENTS_PATH: every segment of a dataset with its author, its exact span and its grade.

    Args:
        root: Dataset folder.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / SEGMENTS_PATH
        self._rows: list[dict[str, Any]] = []

    def add(self, number: int, item: ExportItem, not_held: Mapping[str, str]) -> None:
        """Add the segments of an episode.

        Args:
            number: Its number in the dataset.
            item: The episode.
            not_held: By annotation_id, what the columns of the dataset cannot hold of a segment.
        """
        self._rows.extend(
            _segment_row(number, segment, item.retimed, not_held.get(segment.annotation_id))
            for segment in item.texts.segments
        )

    def finish(self) -> None:
        """Write the file, where there is any segment."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._rows:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(self._rows, schema=_segment_file_schema()), self._path)


_TEXT_COLUMNS = (
    "episode_id",
    "segment_id",
    "annotation_id",
    "annotator",
    "maker_id",
    "style",
    "text",
    "author",
    "state",
)
_GRADE_COLUMNS = ("grade", "grade_trust", "grade_verdicts")


def _segment_file_schema() -> pa.Schema:
    import pyarrow as pa

    texts = (*_TEXT_COLUMNS, "role", "camera", "arm", *_GRADE_COLUMNS, "not_held")
    spans = [("start_seconds", pa.float64()), ("stop_seconds", pa.float64())]
    return pa.schema([("episode_index", pa.int64()), *spans, *((name, pa.string()) for name in texts)])


def _segment_row(
    number: int, segment: ExportSegment, retimed: RetimedEpisode, not_held: str | None
) -> dict[str, Any]:
    return {
        "episode_index": number,
        "start_seconds": retimed.written_seconds(segment.start_seconds),
        "stop_seconds": retimed.written_seconds(segment.stop_seconds),
        **{name: getattr(segment, name) for name in _TEXT_COLUMNS},
        "role": segment.text_field("role"),
        "camera": segment.camera,
        "arm": segment.arm,
        **{name: segment.grade.get(name) for name in _GRADE_COLUMNS},
        "not_held": not_held,
    }
