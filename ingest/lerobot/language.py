"""Reads what a LeRobot dataset says of spans: its language columns, and subtasks by index or by text.

Types and meaning are those of lerobot 0.6. A row of `language_persistent` stands in every frame of its episode, and
holds from its `timestamp` until the next of its style and camera; a row of `language_events` stands in the frame that
it is about. A segment keeps all that its row says, so that an exporter can write the same row again;
`SourceSegment.fields` has

- `column`: where it stood: "persistent", "events", or the name of a column of subtasks;
- `row`: its number among the rows of the column, of an event among those of its frame;
- `timestamp`: the float32 of the row, of an event that of its frame, as a Python float of the same value;
- `frame`: of an event, the number of its frame;
- `camera`, `tool_calls`: as stored, where they are not null; JSON text is decoded;
- `empty`: names of the fields that hold "", since a null is no different from it in the segment itself;
- `more`: fields that no version of lerobot known here has;
- `subtask_index`: of a subtask, its number, where the column holds numbers.

Subtasks of the list of episodes (`dense_subtask_names` with `_start_times` and `_end_times`) have the name of their
column and their `row` in it.

An event becomes a span of one frame: it is about what that frame shows, and a span [t, t) would hold no frame to be
shown, captioned or searched. It is found again by `frame` and `timestamp`, whatever its span.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from ares.episode import Json, NotRead, SourceSegment
from ares.errors import SourceError
from ares.formats import ARES_PREFIX, LANGUAGE_EVENTS, LANGUAGE_PERSISTENT, is_subtask_column
from ares.input import parse_json
from ares_ingest.lerobot.episode_list import list_lengths
from ares_ingest.lerobot.feature_map import is_instruction
from ares_ingest.lerobot.metadata import MetadataRow, read_exported_segments, read_texts_by_column
from ares_ingest.lerobot.modality import short_name

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares_ingest.lerobot.feature_map import LeRobotFeatureMap
    from ares_ingest.lerobot.metadata import LeRobotInfo
    from ares_ingest.lerobot.rows import EpisodeRows


SUBTASK_STYLE, TASK_STYLE = "subtask", "task"
# A text that changes is one of spans where these have at least so many rows on average.
_FEWEST_ROWS = 2
# End of the names of the columns of the list of episodes that hold subtasks.
LISTED_SUBTASKS = "subtask_names"
# What a segment says of the column that it stood in.
PERSISTENT, EVENTS = "persistent", "events"
# The id under which ARES exported an episode.
_EXPORTED_ID = f"{ARES_PREFIX}episode_id"
# Fields of a row in some version of lerobot.
_KNOWN_FIELDS = frozenset({"role", "content", "style", "timestamp", "camera", "tool_calls"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameClock:
    """The times of the frames of an episode.

    Attributes:
        seconds: (T,) seconds from the start of the episode.
        stamps: (T,) timestamps as stored, or None where there are none that are numbers.
        scale: Seconds of the episode per stored second.
    """

    seconds: NDArray[np.float64]
    stamps: NDArray[Any] | None
    scale: float

    @property
    def end(self) -> float:
        """About when the last frame ends."""
        count = len(self.seconds)
        period = float(self.seconds[-1] - self.seconds[0]) / (count - 1) if count > 1 else 0.0
        return float(self.seconds[-1]) + period

    def seconds_at(self, stamp: float) -> float:
        """Seconds of a stored timestamp: those of the frame that has it, else by its distance from the first frame."""
        import numpy as np

        if self.stamps is None:
            return stamp
        frame = int(np.searchsorted(self.stamps, stamp))
        if frame < len(self.stamps) and float(self.stamps[frame]) == stamp:
            return float(self.seconds[frame])
        return float(self.seconds[0]) + (stamp - float(self.stamps[0])) * self.scale

    def frame_end(self, frame: int) -> float:
        """When a frame ends; infinity for the last."""
        return float(self.seconds[frame + 1]) if frame + 1 < len(self.seconds) else math.inf

    def stamp_of(self, frame: int) -> float:
        """The stored timestamp of a frame, else its seconds."""
        return float((self.seconds if self.stamps is None else self.stamps)[frame])


def make_frame_clock(rows: EpisodeRows, seconds: NDArray[np.float64], scale: float) -> FrameClock:
    """The clock of the rows of an episode.

    Args:
        rows: The rows.
        seconds: (T,) seconds of its steps.
        scale: Seconds of the episode per stored second.
    """
    stored = rows.numbers.get("timestamp")
    has_stamps = stored is not None and stored.shape[1] == 1 and stored.dtype.kind in "iuf"
    return FrameClock(
        seconds=seconds, stamps=stored[:, 0] if has_stamps and stored is not None else None, scale=scale
    )


def read_segments(
    info: LeRobotInfo,
    feature_map: LeRobotFeatureMap,
    rows: EpisodeRows,
    row: MetadataRow,
    clock: FrameClock,
    warnings: list[str],
) -> Iterator[SourceSegment]:
    """What a dataset says of spans of an episode.

    Args:
        info: The dataset.
        feature_map: Its columns.
        rows: The rows of the episode.
        row: Its entry in the list of episodes.
        clock: The times of its frames.
        warnings: Gets why something is left out, each once.
    """
    yield from read_listed_subtasks(row, warnings)
    exported = read_exported_segments(info.root, info.opened_at).get(str(row.get(_EXPORTED_ID)))
    tasks = list(_changing_numbers(rows, ("task_index", *feature_map.annotation_columns)))
    if not (rows.arrays or feature_map.subtask_columns or exported or tasks) or not rows.count:
        return
    cameras = {camera.key: camera.name for camera in (*feature_map.video_cameras, *feature_map.image_cameras)}
    states = list(read_language_segments(rows, clock, cameras, warnings))
    texts_by_column = read_texts_by_column(info, dict.fromkeys((*feature_map.subtask_columns, *tasks)))
    runs = list(read_run_segments(rows, texts_by_column, clock, warnings))
    subtasks = [run for run in runs if run.style == SUBTASK_STYLE]
    segments = [
        *join_subtask_forms(states, subtasks, clock),
        *(run for run in runs if run.style != SUBTASK_STYLE),
    ]
    yield from restore_exported_segments(segments, exported, clock) if exported else segments


def read_language_segments(
    rows: EpisodeRows, clock: FrameClock, cameras: Mapping[str, str], warnings: list[str]
) -> Iterator[SourceSegment]:
    """What the language columns of an episode say.

    Args:
        rows: Its rows.
        clock: The times of its frames.
        cameras: Name of each camera by its key.
        warnings: Gets why rows are left out, each once.
    """
    if LANGUAGE_PERSISTENT in rows.arrays:
        documents = _persistent_documents(rows.arrays[LANGUAGE_PERSISTENT], warnings)
        yield from _persistent_segments(documents, clock, cameras, warnings)
    if LANGUAGE_EVENTS in rows.arrays:
        yield from _event_segments(rows.arrays[LANGUAGE_EVENTS], clock, cameras, warnings)


def _persistent_documents(column: pa.Array, warnings: list[str]) -> list[Any]:
    """The rows that hold in every frame, read once; where frames differ, those of the first frame that has any."""
    import numpy as np

    lengths, flat = list_lengths(column), column.flatten()
    filled = np.flatnonzero(lengths)
    if not len(filled):
        return []
    count, end = int(lengths[filled[0]]), len(flat)
    if len(filled) < len(lengths) or (lengths != count).any() or not _repeats_rows(flat, count, end):
        warnings.append(
            f"{LANGUAGE_PERSISTENT} differs between frames of an episode: read from the first with rows"
        )
    return cast("list[Any]", flat.slice(0, count).to_pylist())


def _repeats_rows(flat: pa.Array, count: int, end: int) -> bool:
    """Whether an array of `end` values is its first `count` values over and over."""
    return bool(flat.slice(0, end - count).equals(flat.slice(count)))


def _persistent_segments(
    documents: Sequence[Any], clock: FrameClock, cameras: Mapping[str, str], warnings: list[str]
) -> Iterator[SourceSegment]:
    """Each row until the next of its style and camera begins."""
    readable = [
        (number, document, clock.seconds_at(float(document["timestamp"])))
        for number, document in enumerate(documents)
        if _is_readable(document, LANGUAGE_PERSISTENT, warnings) and _has_timestamp(document, warnings)
    ]
    starts: dict[tuple[Any, Any], set[float]] = {}
    for _, document, start in readable:
        starts.setdefault(_lane_of(document), set()).add(start)
    stops: dict[tuple[Any, Any], dict[float, float]] = {}
    for lane, seconds in starts.items():
        in_order = sorted(seconds)
        following = [stop if stop < clock.end else math.inf for stop in in_order[1:]]
        stops[lane] = dict(zip(in_order, [*following, math.inf], strict=True))
    for number, document, start in readable:
        fields: dict[str, Json] = {
            "column": PERSISTENT,
            "row": number,
            "timestamp": float(document["timestamp"]),
        }
        yield _to_segment(document, (start, stops[_lane_of(document)][start]), fields, cameras)


def _lane_of(document: Mapping[str, Any]) -> tuple[Any, Any]:
    """What a row takes the place of: the one before of the same style and camera."""
    return document.get("style"), document.get("camera")


def _event_segments(
    column: pa.Array, clock: FrameClock, cameras: Mapping[str, str], warnings: list[str]
) -> Iterator[SourceSegment]:
    """Each event as a span of its frame."""
    import numpy as np

    lengths = list_lengths(column).astype(np.int64)
    documents = column.flatten().to_pylist() if lengths.any() else []
    position = 0
    for frame in np.flatnonzero(lengths).tolist():
        for number in range(int(lengths[frame])):
            document, position = documents[position], position + 1
            if not _is_readable(document, LANGUAGE_EVENTS, warnings):
                continue
            fields: dict[str, Json] = {
                "column": EVENTS,
                "row": number,
                "frame": frame,
                "timestamp": clock.stamp_of(frame),
            }
            span = (float(clock.seconds[frame]), clock.frame_end(frame))
            yield _to_segment(document, span, fields, cameras)


def _is_readable(document: Any, column: str, warnings: list[str]) -> bool:
    """Whether a row says anything, in texts; otherwise with a warning."""
    says = isinstance(document, dict) and any(
        document.get(name) is not None for name in ("content", "tool_calls")
    )
    if not says:
        _warn_once(warnings, NotRead(f"a row of {column} says nothing, left out"))
        return False
    names = ("role", "content", "style", "camera")
    if not all(isinstance(document.get(name), str | None) for name in names):
        _warn_once(warnings, NotRead(f"a row of {column} holds no text where one belongs, left out"))
        return False
    return True


def _has_timestamp(document: Mapping[str, Any], warnings: list[str]) -> bool:
    stamp = document.get("timestamp")
    if isinstance(stamp, int | float) and math.isfinite(stamp):
        return True
    _warn_once(warnings, NotRead(f"a row of {LANGUAGE_PERSISTENT} has no timestamp, left out"))
    return False


def _warn_once(warnings: list[str], text: str) -> None:
    if text not in warnings:
        warnings.append(text)


def _to_segment(
    document: Mapping[str, Any],
    span: tuple[float, float],
    fields: dict[str, Json],
    cameras: Mapping[str, str],
) -> SourceSegment:
    camera, tool_calls = document.get("camera"), document.get("tool_calls")
    if camera is not None:
        fields["camera"] = camera
    if tool_calls is not None:
        fields["tool_calls"] = [_decode_call(call) for call in tool_calls]
    empty: list[Json] = [name for name in ("role", "content", "style", "camera") if document.get(name) == ""]
    more = {
        name: value for name, value in document.items() if name not in _KNOWN_FIELDS and value is not None
    }
    fields |= {name: value for name, value in (("empty", empty), ("more", more)) if value}
    return SourceSegment(
        style=document.get("style") or "",
        text=document.get("content") or "",
        start_seconds=span[0],
        stop_seconds=span[1],
        role=document.get("role") or "",
        camera=cameras.get(camera or "", camera or ""),
        fields=fields,
    )


def _decode_call(call: Any) -> Json:
    """A tool call, decoded where it is the text of a JSON object or array."""
    if isinstance(call, str) and call[:1] in ("{", "["):
        try:
            return cast("Json", parse_json(call, "a tool call"))
        except (ValueError, SourceError):
            return call
    return cast("Json", call)


def _changing_numbers(rows: EpisodeRows, columns: Sequence[str]) -> Iterator[str]:
    """The columns of numbers of tasks that are not the same in all rows."""
    for column in columns:
        values = rows.numbers.get(column)
        if values is not None and values.size and (values != values.flat[0]).any():
            yield column


def _run_style(column: str) -> str:
    """What kind of text a column holds: a subtask, a task, or what its name says."""
    if is_subtask_column(column):
        return SUBTASK_STYLE
    return TASK_STYLE if column == "task_index" or is_instruction(column) else short_name(column)


def read_run_segments(
    rows: EpisodeRows,
    texts_by_column: Mapping[str, Mapping[int, str]],
    clock: FrameClock,
    warnings: list[str],
) -> Iterator[SourceSegment]:
    """The spans in which a frame has the same text as the one before, of every column of subtasks or other texts.

    Frames with a negative number, no number or no text have none. A text for nearly every frame is no span.

    Args:
        rows: The rows of an episode.
        texts_by_column: Of each column of numbers, the text by number.
        clock: The times of its frames.
        warnings: Gets a line where a number has no text.
    """
    for column, texts in texts_by_column.items():
        values = rows.numbers.get(column)
        for start, stop in _find_runs(None if values is None else values[:, 0]):
            assert values is not None
            value = float(values[start, 0])
            if not math.isfinite(value) or value < 0:
                continue
            if int(value) not in texts:
                _warn_once(warnings, f"a number of {column} stands for no text")
            elif not texts[int(value)]:
                continue
            fields: dict[str, Json] = {"column": column, "subtask_index": int(value)}
            yield _make_run(texts.get(int(value), ""), (start, stop), fields, clock)
    yield from _read_text_runs(rows, clock, warnings)


def _read_text_runs(rows: EpisodeRows, clock: FrameClock, warnings: list[str]) -> Iterator[SourceSegment]:
    """The spans of equal texts of the columns of texts."""
    for column, array in rows.arrays.items():
        if column in (LANGUAGE_PERSISTENT, LANGUAGE_EVENTS):
            continue
        encoded = array.fill_null("").dictionary_encode()
        words = encoded.dictionary.to_pylist()
        codes = encoded.indices.to_numpy()
        spans = list(_find_runs(codes))
        if len(spans) * _FEWEST_ROWS > rows.count and not is_subtask_column(column):
            _warn_once(
                warnings, NotRead(f"texts of column {column} change with nearly every row, not read as spans")
            )
            continue
        for start, stop in spans:
            if text := words[codes[start]]:
                yield _make_run(text, (start, stop), {"column": column}, clock)


def join_subtask_forms(
    states: Sequence[SourceSegment], runs: Sequence[SourceSegment], clock: FrameClock
) -> Iterator[SourceSegment]:
    """The subtasks of both columns, each once where both say the same: the same texts, with starts within a frame.

    The column of states has no ends; that of numbers says then where a subtask ends. Where they differ both are kept.

    Args:
        states: Segments of `read_language_segments`.
        runs: Segments of subtasks of `read_run_segments`.
        clock: The times of the frames.
    """
    step = clock.frame_end(0) - float(clock.seconds[0])
    subtasks = sorted(
        (state for state in states if state.style == SUBTASK_STYLE), key=lambda state: state.start_seconds
    )
    ends = {}
    for state, run in zip(subtasks, runs, strict=False):
        if state.text == run.text and abs(state.start_seconds - run.start_seconds) <= step:
            ends[id(state)] = min(run.stop_seconds, state.stop_seconds)
    if len(ends) < max(len(subtasks), len(runs)):
        yield from (*states, *runs)
        return
    for state in states:
        yield replace(state, stop_seconds=ends[id(state)]) if id(state) in ends else state


def restore_exported_segments(
    segments: Sequence[SourceSegment], rows: Sequence[Mapping[str, Any]], clock: FrameClock
) -> Iterator[SourceSegment]:
    """The segments of an episode with the authors, arms and exact spans that they were exported with.

    What the columns cannot hold of them follows: those that overlap others, or are of a second arm.

    Args:
        segments: What the columns say.
        rows: What the list of the export says, see `read_exported_segments`.
        clock: The times of the frames.
    """
    by_text: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        by_text.setdefault((row["style"], row["text"]), []).append(row)
    tolerance = 1.001 * (clock.frame_end(0) - float(clock.seconds[0])) if len(clock.seconds) > 1 else math.inf
    for segment in segments:
        known = by_text.get((segment.style, segment.text), [])
        stop = min(segment.stop_seconds, clock.end)
        # Both columns may have a text at one time, with ends that differ.
        near = [
            (abs(row["stop_seconds"] - stop), number)
            for number, row in enumerate(known)
            if abs(row["start_seconds"] - segment.start_seconds) <= tolerance
        ]
        yield _with_exported(segment, known.pop(min(near)[1])) if near else segment
    for row in (row for known in by_text.values() for row in known):
        added = SourceSegment(
            style=row["style"], text=row["text"], start_seconds=0.0, stop_seconds=0.0, camera=row["camera"]
        )
        yield _with_exported(added, row)


def _with_exported(segment: SourceSegment, row: Mapping[str, Any]) -> SourceSegment:
    arm: dict[str, Json] = {"arm": row["arm"]} if row["arm"] else {}
    return replace(
        segment,
        start_seconds=row["start_seconds"],
        stop_seconds=row["stop_seconds"],
        author=row["author"],
        role=segment.role or row["role"],
        fields={**segment.fields, **arm},
    )


def read_listed_subtasks(entry: Mapping[str, Any], warnings: list[str]) -> Iterator[SourceSegment]:
    """The subtasks that the entry of an episode in the list of episodes names, with their times.

    lerobot writes those of its stages twice, under an older name too: they are read once.

    Args:
        entry: The entry.
        warnings: Gets a line where names and times do not belong together.
    """
    columns = [name for name in entry if name.endswith(LISTED_SUBTASKS) and isinstance(entry[name], list)]
    for column in columns:
        if column == LISTED_SUBTASKS and f"sparse_{LISTED_SUBTASKS}" in columns:
            continue
        stem = column.removesuffix("names")
        parts = [entry.get(f"{stem}{part}_times") for part in ("start", "end")]
        lists = [entry[column], *(part if isinstance(part, list) else [] for part in parts)]
        if len(set(map(len, lists))) > 1 or not all(map(_is_listed_subtask, *lists)):
            warnings.append(NotRead(f"{column} of the list of episodes do not match their times, left out"))
            continue
        for number, (text, start, stop) in enumerate(zip(*lists, strict=True)):
            yield SourceSegment(
                style=SUBTASK_STYLE,
                text=text,
                start_seconds=start,
                stop_seconds=stop,
                fields={"column": column, "row": number},
            )


def _is_listed_subtask(text: object, start: object, stop: object) -> bool:
    """Whether an entry is a text with two numbers."""
    are_numbers = isinstance(start, int | float) and isinstance(stop, int | float)
    return isinstance(text, str) and are_numbers


def _find_runs(values: NDArray[Any] | None) -> Iterator[tuple[int, int]]:
    """First and end of each run of equal values."""
    import numpy as np

    if values is not None and len(values):
        starts = np.flatnonzero(np.append(True, values[1:] != values[:-1])).tolist()
        yield from zip(starts, [*starts[1:], len(values)], strict=True)


def _make_run(
    text: str, frames: tuple[int, int], fields: dict[str, Json], clock: FrameClock
) -> SourceSegment:
    return SourceSegment(
        style=_run_style(str(fields["column"])),
        text=text,
        start_seconds=float(clock.seconds[frames[0]]),
        stop_seconds=clock.frame_end(frames[1] - 1),
        fields=fields,
    )
