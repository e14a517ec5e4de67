"""Reads files of spans: what a row, a Label Studio region or a FiftyOne detection says of which part of an episode."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ares.errors import SourceError
from ares.input.annotation_tools import (
    EPISODE_COLUMNS,
    RawSpan,
    SpanTally,
    can_name,
    fiftyone_spans,
    is_label_studio_task,
    label_studio_spans,
    no_fields,
    parse_number,
    trimmed_text,
)
from ares.input.documents import read_json, read_yaml
from ares.input.limits import input_budgets
from ares.input.tables import read_cells
from ares.io import describe_os_error

Unit = Literal["seconds", "frames"]
SpanFileKind = Literal["rows", "nested", "Label Studio", "FiftyOne"]

TABLE_SUFFIXES = frozenset({".csv", ".tsv", ".jsonl"})
_YAML_SUFFIXES = frozenset({".yaml", ".yml"})
_DEEPEST = 6
# Reasons, as they follow "3 spans".
NO_NUMBER = "have no number as start or end, or a frame that is not whole"
REVERSED = "end before they start"
NO_TEXT = "have no text"
NO_EPISODE = "name no episode"
TWICE = "are named twice"
AMBIGUOUS = (
    "have whole numbers as start and end, which may be seconds or frames: name the columns start_seconds and "
    "end_seconds, or start_frame and end_frame, or add a column unit"
)
TWO_UNITS = "have their start in another unit than their end"
DAY_CLOCK = "have times of the day, not from the start of the episode"
WRONG_LINE = "are lines of a wrong form"
_LATEST_SECOND = 1e8


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSpan:
    """A span of an episode as a file names it.

    Attributes:
        names: What the file may call the episode, the surest first: texts and whole numbers.
        start: Start of the span [start, stop) from the start of the episode; frame 0 is the first.
        stop: Its end; the start again for an instant.
        unit: Of start and stop.
        text: What it says, "" for a span alone.
        style: What kind of text it is, in the file's own word.
        author: "person", the name of a model, or "" where the file does not say.
        role: Who speaks, or "".
        camera: The camera that it is about, or "".
        fields: What else the file says of it.
    """

    names: tuple[str | int, ...]
    start: float
    stop: float
    unit: Unit
    text: str = ""
    style: str = "subtask"
    author: str = ""
    role: str = ""
    camera: str = ""
    fields: Mapping[str, Any] = field(default_factory=no_fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanFile:
    """The spans of a file.

    Attributes:
        kind: "rows" where the file is a table or list of spans, "nested" where spans stand in objects about episodes.
        spans: Those that can be read.
        tally: The others by reason.
        total: Spans that the file names: those read and those counted.
        names: What the file calls the episodes, of all its spans.
    """

    kind: SpanFileKind
    spans: tuple[FileSpan, ...]
    tally: SpanTally
    total: int
    names: frozenset[tuple[str | int, ...]]


def read_span_file(
    path: str | Path, *, unit: str = "", find_episode: Callable[[object], str] | None = None
) -> SpanFile | None:
    """The spans of a CSV, TSV, JSON, JSON lines or YAML file; None for a file about anything else.

    Columns named start_frame and end_frame (or step) are frames, start_seconds, end_time and the like seconds, start_ms
    milliseconds. Where a name has no unit, that of `unit` or of a column "unit" counts; else numbers with a fraction
    and "0:01:30" are seconds, and whole numbers are refused. An end frame is the first after the span; it is the last
    of the span where the column is called last_frame, and where each span ends a frame before the next begins.

    Args:
        path: The file.
        unit: "seconds" or "frames" of numbers whose names do not tell, "" for what the numbers tell.
        find_episode: The episode that a name means, or ""; the column that names most of them is that of the episodes.

    Raises:
        SourceError: It cannot be read, or has too many rows.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in TABLE_SUFFIXES:
        rows = [row for _, row in _limited_rows(path)]
        return parse_spans(rows, path.name, unit=unit, find_episode=find_episode)
    try:
        document = read_yaml(str(path)) if suffix in _YAML_SUFFIXES else read_json(str(path))
    except OSError as error:
        raise SourceError("file of spans cannot be read", f"{path}: {describe_os_error(error)}") from None
    except ValueError as error:
        raise SourceError("file of spans cannot be read", f"{path}: {error}") from None
    return parse_spans(document, path.name, unit=unit, find_episode=find_episode)


def _limited_rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | SourceError]]:
    limit = input_budgets().entries
    for count, row in enumerate(read_cells(path)):
        if count == limit:
            raise SourceError("file of spans has too many rows", f"{path}: more than {limit}")
        yield row


def parse_spans(
    document: Any, name: str, *, unit: str = "", find_episode: Callable[[object], str] | None = None
) -> SpanFile | None:
    """The spans of a document, such as a list of rows; None where it holds none.

    Args:
        document: Lists, objects and scalars; a SourceError in place of a row counts as a row of a wrong form.
        name: Name of the file, for messages.
        unit: As for `read_span_file`.
        find_episode: As for `read_span_file`.
    """
    found = _FoundSpans(SpanTally(name=name), find_episode)
    found.walk(document, (), 0)
    if not found.raw and not found.kinds:
        return None
    if found.kinds == {"rows"} and _describes_episodes(document, found.raw):
        return None
    spans = tuple(_finish_spans(found.raw, unit, found.tally))
    kinds: tuple[SpanFileKind, ...] = ("Label Studio", "FiftyOne", "rows")
    kind: SpanFileKind = next((kind for kind in kinds if kind in found.kinds), "nested")
    total = len(spans) + sum(found.tally.counts.values())
    names = frozenset(span.names for span in found.raw)
    return SpanFile(kind=kind, spans=spans, tally=found.tally, total=total, names=names)


def holds_spans(value: Any) -> bool:
    """Whether a value is a list of spans: objects with a start and an end."""
    return isinstance(value, list) and any(
        isinstance(part, Mapping) and _columns_of(tuple(map(str, part))).has_span for part in value
    )


_EPISODE_COLUMNS = frozenset({"success", "is_success", "successful", "outcome", "result", "split"})


def _describes_episodes(document: Any, raw: Sequence[RawSpan]) -> bool:
    """Whether rows with a start and an end are about whole episodes: each has its own, and an outcome or a split."""
    first = next((row for row in document if isinstance(row, Mapping)), {}) if document else {}
    has_outcome = any(_snake_case(str(column)) in _EPISODE_COLUMNS for column in first)
    return has_outcome and len({span.names for span in raw}) == len(raw)


class _SpanColumns(NamedTuple):
    """Which columns of a row say what of a span; "" for none."""

    start: str = ""
    stop: str = ""
    start_unit: str = ""
    stop_unit: str = ""
    is_last: bool = False
    episode: str = ""
    text: str = ""
    author: str = ""
    annotator: str = ""
    model: str = ""
    style: str = ""
    camera: str = ""
    role: str = ""
    unit: str = ""

    @property
    def has_span(self) -> bool:
        return bool(self.start and self.stop)


_START_WORDS = r"start|begin|from|first|onset"
_STOP_WORDS = r"stop|end|to|last|offset"
_UNIT_WORDS = r"frames?|steps?|idx|index|seconds?|secs?|sec|s|time|timestamp|t|ms|millis|milliseconds|msec"
_END = re.compile(
    rf"(?:(?P<word>{_START_WORDS}|{_STOP_WORDS})_?(?P<unit>{_UNIT_WORDS})?)"
    rf"|(?:(?P<unit_2>{_UNIT_WORDS})_(?P<word_2>{_START_WORDS}|{_STOP_WORDS}))"
)
_UNITS = {
    **dict.fromkeys(("frame", "frames", "step", "steps", "idx", "index"), "frames"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "time", "timestamp", "t"), "seconds"),
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), "ms"),
}
_COLUMN_WORDS: dict[str, tuple[str, ...]] = {
    "episode": EPISODE_COLUMNS,
    "text": (
        *("text", "subtask", "sub_task", "action_text", "caption", "label", "description", "instruction"),
        *("language_instruction", "narration", "annotation", "action", "title", "task"),
    ),
    "author": ("author", "annotated_by"),
    "annotator": ("annotator", "labeler", "labeller", "rater", "worker"),
    "model": ("model", "model_name", "model_version"),
    "style": ("style", "track", "tier", "layer"),
    "camera": ("camera", "camera_name", "view"),
    "role": ("role",),
    "unit": ("unit", "units", "time_unit"),
}
# Names of lists of spans, which are no names of episodes.
_LIST_WORDS = frozenset(
    {
        "subtasks",
        "sub_tasks",
        "segments",
        "spans",
        "annotations",
        "labels",
        "episodes",
        "data",
        "rows",
        "items",
    }
)


def _snake_case(name: str) -> str:
    """ "startFrame" and "Start frame" as "start_frame"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip()).lower().replace(" ", "_").replace("-", "_")


@functools.lru_cache(maxsize=256)
def _columns_of(keys: tuple[str, ...], episode: str = "") -> _SpanColumns:
    by_name = {_snake_case(key): key for key in keys}
    ends: dict[str, list[tuple[str, str, bool]]] = {"start": [], "stop": []}
    for name, key in by_name.items():
        if match := _END.fullmatch(name):
            word, unit = match["word"] or match["word_2"], match["unit"] or match["unit_2"]
            which = "start" if re.fullmatch(_START_WORDS, word) else "stop"
            ends[which].append((key, _UNITS.get(unit or "", ""), word == "last"))
    units = [
        u
        for u in ("seconds", "frames", "ms", "")
        if all(any(e[1] == u for e in part) for part in ends.values())
    ]
    chosen = {
        which: next((end for end in part if not units or end[1] == units[0]), ("", "", False))
        for which, part in ends.items()
    }
    words = {
        field_name: next((by_name[name] for name in names if name in by_name), "")
        for field_name, names in _COLUMN_WORDS.items()
    }
    words["episode"] = episode or words["episode"]
    (start, start_unit, _), (stop, stop_unit, is_last) = chosen["start"], chosen["stop"]
    return _SpanColumns(start, stop, start_unit, stop_unit, is_last and stop_unit == "frames", **words)


class _FoundSpans:
    """Collects the spans of a document, and of what kinds they are."""

    def __init__(self, tally: SpanTally, find_episode: Callable[[object], str] | None) -> None:
        self.tally, self.raw, self.kinds = tally, list[RawSpan](), set[str]()
        self._find_episode = find_episode

    def walk(self, node: Any, names: tuple[str | int, ...], depth: int) -> None:
        """Collect the spans below a node; `names` may name its episode, the innermost first."""
        if depth > _DEEPEST:
            return
        if isinstance(node, list):
            column = self._naming_column(node) if not depth else ""
            for part in node:
                self._take_row(part, names, depth, column)
        elif isinstance(node, Mapping):
            self._take_row(node, names, depth, "")

    def _take_row(self, row: Any, names: tuple[str | int, ...], depth: int, column: str) -> None:
        if isinstance(row, SourceError):
            self.tally.add(WRONG_LINE, row.detail.rpartition("/")[2])
        if not isinstance(row, Mapping):
            return
        columns = _columns_of(tuple(map(str, row)), column)
        own = row.get(columns.episode)
        names = (own, *names) if own is not None and can_name(own) else names
        if regions := list(label_studio_spans(row, self.tally)):
            self.kinds.add("Label Studio")
            self.raw += regions
        elif detections := list(fiftyone_spans(row)):
            self.kinds.add("FiftyOne")
            self.raw += detections
        elif columns.has_span and (columns.text or depth > 1):
            self.kinds.add("rows" if depth < 2 and column else "nested")
            self.raw.append(_row_span(row, columns, names))
        elif not is_label_studio_task(row):
            for key, value in row.items():
                if isinstance(value, list | Mapping):
                    own_names = (
                        names if str(key) in _LIST_WORDS or key == columns.episode else (*names, str(key))
                    )
                    self.walk(value, own_names, depth + 1)
        else:
            self.kinds.add("Label Studio")

    def _naming_column(self, rows: Sequence[Any]) -> str:
        """The column of a list of rows that names episodes: by how many it names, else by its own name."""
        some = [row for row in rows[:1000] if isinstance(row, Mapping)]
        if not some:
            return ""
        keys = dict.fromkeys(str(key) for row in some for key in row)
        by_name = _columns_of(tuple(keys)).episode
        if self._find_episode is None:
            return by_name
        find = self._find_episode
        counts = {
            key: len({found for row in some if can_name(row.get(key)) and (found := find(row[key]))})
            for key in keys
            if not _END.fullmatch(_snake_case(key))
        }
        texts = {
            key: any(isinstance(row.get(key), str) and not row[key].isdecimal() for row in some)
            for key in counts
        }
        best = max(counts, key=lambda key: counts[key] if texts[key] or key == by_name else 0, default="")
        return best if best and counts[best] and (texts[best] or best == by_name) else by_name


def _row_span(row: Mapping[str, Any], columns: _SpanColumns, names: tuple[str | int, ...]) -> RawSpan:
    author, fields = _read_author(row, columns)
    used = {*columns}
    more = {
        str(key): value for key, value in row.items() if key not in used and value not in (None, "", [], {})
    }
    unit = _UNITS.get(str(row.get(columns.unit) or "").strip().lower(), "") if columns.unit else ""
    return RawSpan(
        names=names,
        start=row.get(columns.start),
        stop=row.get(columns.stop),
        unit=columns.start_unit or unit,
        other_unit=columns.stop_unit or unit,
        last=int(columns.is_last),
        text=row.get(columns.text, "") if columns.text else "",
        must_have_text=bool(columns.text),
        style=trimmed_text(row.get(columns.style)) or "subtask",
        author=author,
        role=trimmed_text(row.get(columns.role)),
        camera=trimmed_text(row.get(columns.camera)),
        fields={**more, **fields} or no_fields(),
    )


_PEOPLE = frozenset({"person", "people", "human", "humans", "manual", "by hand"})


def _read_author(row: Mapping[str, Any], columns: _SpanColumns) -> tuple[str, dict[str, Any]]:
    """Who wrote a row: a column "annotator" names a person, "model" a model, and "author" either."""
    author, model = trimmed_text(row.get(columns.author)), trimmed_text(row.get(columns.model))
    annotator = row.get(columns.annotator) if columns.annotator else None
    fields = {"annotator": annotator} if annotator not in (None, "") else {}
    if author:
        return "person" if author.lower() in _PEOPLE else author, fields
    return model or ("person" if fields else ""), fields


def _finish_spans(raw: Sequence[RawSpan], unit: str, tally: SpanTally) -> Iterator[FileSpan]:
    """The spans in one unit each; those with a fault are counted."""
    numbers = [(parse_number(span.start), parse_number(span.stop)) for span in raw]
    plain = [
        part
        for span, ends in zip(raw, numbers, strict=True)
        if not span.unit and not span.other_unit
        for part in (*zip(ends, (span.start, span.stop), strict=True),)
    ]
    is_told = any(number is not None and (number % 1 or ":" in str(value)) for number, value in plain)
    default = unit or ("seconds" if is_told else "")
    last = int(_ends_are_last(raw, numbers))
    seen: set[Any] = set()
    for span, (start, stop) in zip(raw, numbers, strict=True):
        finished = _finish_span(span, start, stop, default, last)
        if not isinstance(finished, str):
            key = (
                finished.names,
                finished.start,
                finished.stop,
                finished.unit,
                finished.text,
                finished.style,
            )
            whole = (*key, finished.camera, finished.author, str(finished.fields.get("annotator")))
            if whole not in seen:
                seen.add(whole)
                yield finished
                continue
            finished = TWICE
        tally.add(finished, f"{next(iter(span.names), '')}: {span.start} to {span.stop}")


def _ends_are_last(raw: Sequence[RawSpan], numbers: Sequence[tuple[float | None, float | None]]) -> bool:
    """Whether end frames are the last of their spans: two or more lie a frame before the next span, and none at it."""
    by_name: dict[Any, list[tuple[float, float]]] = {}
    for span, (start, stop) in zip(raw, numbers, strict=True):
        if (
            span.unit == "frames"
            and not span.first
            and not span.last
            and start is not None
            and stop is not None
        ):
            by_name.setdefault((span.names, span.style), []).append((start, stop))
    in_order = [sorted(ends) for ends in by_name.values()]
    gaps = [after[0] - before[1] for ends in in_order for before, after in itertools.pairwise(ends)]
    return gaps.count(1) > 1 and not gaps.count(0)


def _finish_span(
    span: RawSpan, start: float | None, stop: float | None, default: str, last: int
) -> FileSpan | str:
    """The span; or why it is not read."""
    unit, other = span.unit or default, span.other_unit or default
    text = "" if isinstance(span.text, list | Mapping | None) else str(span.text).strip()
    if start is None or stop is None or (unit == "frames" and (start % 1 or stop % 1)):
        return NO_NUMBER
    if not unit or unit != other:
        return TWO_UNITS if unit or other else AMBIGUOUS
    if unit == "frames":
        start, stop = start + span.first, stop + (span.last or (0 if span.first else last))
    elif unit == "ms":
        start, stop = start / 1000, stop / 1000
    if max(abs(start), abs(stop)) > _LATEST_SECOND:
        return DAY_CLOCK
    if stop < start:
        return REVERSED
    if not span.names:
        return NO_EPISODE
    if span.must_have_text and text.lower() in ("", "nan", "none", "null"):
        return NO_TEXT
    return FileSpan(
        names=span.names,
        start=start,
        stop=stop,
        unit="frames" if unit == "frames" else "seconds",
        text=text,
        style=span.style,
        author=span.author,
        role=span.role,
        camera=span.camera,
        fields=span.fields,
    )
