"""Reads files of spans: what a row, a Label Studio region or a FiftyOne detection says of which part of an episode."""

from __future__ import annotations

import functools
import itertools
import re
import sys
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
    trimmed_text,
)
from ares.input.documents import read_cells, read_json, read_yaml
from ares.input.limits import input_budgets
from ares.io import describe_os_error

Unit = Literal["seconds", "frames"]
SpanFileKind = Literal["rows", "nested", "Label Studio", "FiftyOne"]

TABLE_SUFFIXES = frozenset({".csv", ".tsv", ".jsonl"})
_YAML_SUFFIXES = frozenset({".yaml", ".yml"})
_DEEPEST = 6
_FIRST_ROWS = 1000
# An object of more fields is no span.
_MOST_COLUMNS = 200
# Reasons, as they follow "3 spans".
NO_NUMBER = "have no number as start or end, or a frame that is not whole"
REVERSED = "end before they start"
NO_TEXT = "have no text"
NO_EPISODE = "name no episode"
REPEATED = "are named twice"
AMBIGUOUS = (
    "have whole numbers as start and end, which may be seconds or frames: name the columns start_seconds and "
    "end_seconds, or start_frame and end_frame, or add a column unit"
)
TWO_UNITS = "have their start in another unit than their end"
DAY_CLOCK = "have times of the day, not from the start of the episode"
WRONG_LINE = "are lines of a wrong form"
_LATEST_SECOND = 1e8


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSpan:
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
    spans: tuple[NamedSpan, ...]
    tally: SpanTally
    total: int
    names: frozenset[tuple[str | int, ...]]


def read_span_file(
    path: str | Path,
    *,
    unit: str = "",
    find_episode: Callable[[object], str] | None = None,
    is_named: bool = False,
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
        is_named: Whether the user names it as a file of spans: then rows without any text are spans, too.

    Raises:
        SourceError: It cannot be read, or has too many rows.
    """
    path = Path(path)
    collector = _SpanCollector(SpanTally(name=path.name), find_episode, is_named)
    try:
        if path.suffix.lower() in TABLE_SUFFIXES:
            collector.walk_rows(_limited_rows(path))
        elif path.suffix.lower() in _YAML_SUFFIXES:
            collector.walk(read_yaml(str(path)), (), 0)
        else:
            collector.walk(read_json(str(path)), (), 0)
    except OSError as error:
        raise SourceError("file of spans cannot be read", f"{path}: {describe_os_error(error)}") from None
    except ValueError as error:
        raise SourceError("file of spans cannot be read", f"{path}: {error}") from None
    return collector.finish(unit)


def _limited_rows(path: Path) -> Iterator[dict[str, Any] | SourceError]:
    limit = input_budgets().entries
    for count, (_, row) in enumerate(read_cells(path)):
        if count == limit:
            raise SourceError("file of spans has too many rows", f"{path}: more than {limit}")
        yield row


def parse_spans(document: Any, name: str, *, unit: str = "") -> SpanFile | None:
    """The spans of a document, such as a list of rows; None where it holds none.

    Args:
        document: Lists, objects and scalars.
        name: Name of the file, for messages.
        unit: As for `read_span_file`.
    """
    collector = _SpanCollector(SpanTally(name=name), None, False)
    collector.walk(document, (), 0)
    return collector.finish(unit)


def holds_spans(value: Any) -> bool:
    """Whether a value is a list of spans: objects with a start, an end and a text."""
    return isinstance(value, list) and any(
        isinstance(part, Mapping) and _columns_of_row(part).has_text_of_span for part in value
    )


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

    has_outcome: bool = False
    names_episode: bool = False

    @property
    def has_span(self) -> bool:
        return bool(self.start and self.stop)

    @property
    def has_text_of_span(self) -> bool:
        return bool(self.start and self.stop and self.text)


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
# What is said of whole episodes.
_OUTCOME_COLUMNS = frozenset({"success", "is_success", "successful", "outcome", "result", "split"})
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


def _columns_of_row(row: Mapping[str, Any], episode: str = "") -> _SpanColumns:
    """What the columns of a row are; `episode` is the one that names the episode, where that is known."""
    return _columns_of(tuple(map(str, row)), episode) if len(row) <= _MOST_COLUMNS else _SpanColumns()


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
    selected = {
        which: next((end for end in part if not units or end[1] == units[0]), ("", "", False))
        for which, part in ends.items()
    }
    words: dict[str, Any] = {
        field_name: next((by_name[name] for name in names if name in by_name), "")
        for field_name, names in _COLUMN_WORDS.items()
    }
    words["episode"] = episode or words["episode"]
    (start, start_unit, _), (stop, stop_unit, is_last) = selected["start"], selected["stop"]
    is_last = is_last and stop_unit == "frames"
    has_outcome = not _OUTCOME_COLUMNS.isdisjoint(by_name)
    names_episode = _snake_case(words["episode"]) in EPISODE_COLUMNS[:8]
    columns = _SpanColumns(start, stop, start_unit, stop_unit, is_last)._replace(**words)
    return columns._replace(has_outcome=has_outcome, names_episode=names_episode)


class _SpanCollector:
    """Collects the spans of a document, and of what kinds they are."""

    def __init__(
        self, tally: SpanTally, find_episode: Callable[[object], str] | None, is_named: bool
    ) -> None:
        self._tally, self._raw, self._kinds = tally, list[RawSpan](), set[str]()
        self._find_episode, self._is_named = find_episode, is_named
        self._names: dict[tuple[str | int, ...], tuple[str | int, ...]] = {}
        self._is_about_episodes = False

    def walk(self, node: Any, names: tuple[str | int, ...], depth: int) -> None:
        """Collect the spans below a node; `names` may name its episode, the innermost first."""
        if depth > _DEEPEST:
            return
        if isinstance(node, list) and not depth:
            self.walk_rows(iter(node))
        elif isinstance(node, list):
            for part in node:
                self._take_row(part, names, depth, None)
        elif isinstance(node, Mapping):
            self._take_object(node, names, depth)

    def walk_rows(self, rows: Iterator[Any]) -> None:
        """Collect the spans of the rows of a table or list; a SourceError in place of one is counted.

        Where the first rows hold none, the others are not looked at.
        """
        first = list(itertools.islice(rows, _FIRST_ROWS))
        column = self._naming_column([row for row in first if isinstance(row, Mapping)])
        for row in first:
            self._take_row(row, (), 0, column)
        for row in rows if self._kinds else ():
            self._take_row(row, (), 0, column)

    def finish(self, unit: str) -> SpanFile | None:
        """What was found; None for a document about anything else. `unit` as for `read_span_file`."""
        is_of_rows = self._kinds == {"rows"}
        if not self._kinds or (is_of_rows and self._is_about_episodes and len(self._names) == len(self._raw)):
            return None
        spans = tuple(_finish_spans(self._raw, unit, self._tally))
        kinds: tuple[SpanFileKind, ...] = ("Label Studio", "FiftyOne", "rows")
        return SpanFile(
            kind=next((kind for kind in kinds if kind in self._kinds), "nested"),
            spans=spans,
            tally=self._tally,
            total=len(spans) + sum(self._tally.counts.values()),
            names=frozenset(self._names),
        )

    def _take_row(self, row: Any, names: tuple[str | int, ...], depth: int, column: str | None) -> None:
        """Take a row of a list; `column` is that of the episodes in the list of a whole document."""
        if isinstance(row, SourceError):
            self._tally.add(WRONG_LINE, row.detail.rpartition("/")[2])
        if not isinstance(row, Mapping):
            return
        columns = _columns_of_row(row, column or "")
        if columns.has_text_of_span or (columns.has_span and self._is_named):
            self._is_about_episodes |= columns.has_outcome
            self._take_span(row, columns, names, "nested" if column is None else "rows")
        else:
            self._take_object(row, names, depth)

    def _take_object(self, node: Mapping[str, Any], names: tuple[str | int, ...], depth: int) -> None:
        columns = _columns_of_row(node)
        if columns.has_text_of_span and not columns.has_outcome:
            self._take_span(node, columns, names, "nested")
            return
        for kind, spans in (
            ("Label Studio", label_studio_spans(node, self._tally)),
            ("FiftyOne", fiftyone_spans(node)),
        ):
            regions = list(spans)
            if regions or (kind == "Label Studio" and is_label_studio_task(node)):
                self._kinds.add(kind)
                self._names |= {span.names: span.names for span in regions}
                self._raw += regions
                return
        own = node.get(columns.episode)
        if own is not None and can_name(own):
            names = (own, *names) if columns.names_episode else (*names, own)
        for key, value in node.items():
            if isinstance(value, list | Mapping):
                is_word = str(key) in _LIST_WORDS or key == columns.episode
                self.walk(value, names if is_word else (*names, str(key)), depth + 1)

    def _take_span(
        self, row: Mapping[str, Any], columns: _SpanColumns, names: tuple[str | int, ...], kind: str
    ) -> None:
        if names and not columns.names_episode:
            columns = columns._replace(episode="")  # the "id" or "name" of a span in an episode is its own
        own = row.get(columns.episode)
        names = (own, *names) if own is not None and can_name(own) else names
        self._kinds.add(kind)
        self._raw.append(_row_span(row, columns, self._names.setdefault(names, names)))

    def _naming_column(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """The column of rows that names episodes: by how many it names, else by its own name."""
        keys: dict[str, None] = dict.fromkeys(str(key) for row in rows for key in row)
        by_name = _columns_of_row(keys).episode
        if self._find_episode is None:
            return by_name
        find, counts = self._find_episode, dict[str, int]()
        for key in keys:
            values = [row[key] for row in rows if can_name(row.get(key))]
            is_text = any(isinstance(value, str) and not value.isdecimal() for value in values)
            if (is_text or key == by_name) and not _END.fullmatch(_snake_case(key)):
                counts[key] = len({episode for value in values if (episode := find(value))})
        best = max(counts, key=lambda key: counts[key], default="")
        return best if best and counts[best] else by_name


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


def _finish_spans(raw: list[RawSpan], unit: str, tally: SpanTally) -> Iterator[NamedSpan]:
    """The spans in one unit each; those with a fault are counted. The list is emptied on the way."""
    has_seconds = any(span.tells_seconds for span in raw if not span.unit and not span.other_unit)
    default = unit or ("seconds" if has_seconds else "")
    last = int(_ends_are_last(raw))
    seen: set[int] = set()
    raw.reverse()
    while raw:
        span = raw.pop()
        finished = _finish_span(span, default, last)
        if not isinstance(finished, str):
            # Of a million spans the tuples would take more memory than the spans.
            key = hash(
                (
                    *(finished.names, finished.start, finished.stop, finished.unit, finished.text),
                    *(finished.style, finished.camera, finished.author, str(finished.fields)),
                )
            )
            if key not in seen:
                seen.add(key)
                yield finished
                continue
            finished = REPEATED
        tally.add(finished, f"{next(iter(span.names), '')}: {span.start} to {span.stop}")


def _ends_are_last(raw: Sequence[RawSpan]) -> bool:
    """Whether end frames are the last of their spans: two or more lie a frame before the next span, and none at it."""
    by_name: dict[Any, list[tuple[float, float]]] = {}
    for span in raw:
        is_plain = span.unit == "frames" and not span.first and not span.last
        if is_plain and isinstance(span.start, float) and isinstance(span.stop, float):
            by_name.setdefault((span.names, span.style), []).append((span.start, span.stop))
    in_order = [sorted(ends) for ends in by_name.values()]
    gaps = [after[0] - before[1] for ends in in_order for before, after in itertools.pairwise(ends)]
    return gaps.count(1) > 1 and not gaps.count(0)


def _finish_span(span: RawSpan, default: str, last: int) -> NamedSpan | str:
    """The span; or why it is not read."""
    start, stop = span.start, span.stop
    unit, other = span.unit or default, span.other_unit or default
    text = "" if isinstance(span.text, list | Mapping | None) else sys.intern(str(span.text).strip())
    if not isinstance(start, float) or not isinstance(stop, float):
        return NO_NUMBER
    if unit == "frames" and (start % 1 or stop % 1):
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
    return NamedSpan(
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
