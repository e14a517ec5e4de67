"""Reads a file of spans: which part of which episode each row names, and what it says of that part."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ares.errors import SourceError
from ares.input.annotation_tools import EPISODE_WORDS, label_studio_rows, parse_number
from ares.input.documents import read_json
from ares.input.stated_tables import TableColumns, as_json, is_table, read_table
from ares.io import describe_os_error

Unit = Literal["seconds", "frames"]
# What a file may call an episode, the surest first.
EpisodeNameList = tuple[str | int, ...]

_ENDS: Mapping[Unit, tuple[str, str]] = {
    "seconds": ("start_seconds", "stop_seconds"),
    "frames": ("start_frame", "stop_frame"),
}
_SECONDS = ("start", "begin", "from", "start_time", "start_s", "start_sec")
_STOP_SECONDS = ("end", "stop", "to", "end_seconds", "end_time", "end_s", "end_sec", "stop_time")
_STOP_FRAMES = ("end_frame", "end_step", "end_index", "last_frame", "stop_step", "stop_index")
SPAN_COLUMNS = TableColumns(
    needed=("episode", "text"),
    either=tuple(_ENDS.values()),
    renames={
        **dict.fromkeys(
            (*EPISODE_WORDS, "video", "file", "filename", "file_name", "path", "name"), "episode"
        ),
        **dict.fromkeys(("label", "subtask", "caption", "description", "narration", "action_text"), "text"),
        **dict.fromkeys(_SECONDS, "start_seconds (or start_frame)"),
        **dict.fromkeys(_STOP_SECONDS, "stop_seconds (or stop_frame)"),
        **dict.fromkeys(("start_step", "start_index", "first_frame"), "start_frame"),
        **dict.fromkeys(_STOP_FRAMES, "stop_frame (the first frame after the span)"),
        **dict.fromkeys(("start_ms", "begin_ms"), "start_seconds (divided by 1000)"),
        **dict.fromkeys(("stop_ms", "end_ms"), "stop_seconds (divided by 1000)"),
    },
)
_KNOWN_COLUMNS = frozenset(
    {
        *SPAN_COLUMNS.needed,
        *_ENDS["seconds"],
        *_ENDS["frames"],
        "style",
        "author",
        "annotator",
        "role",
        "camera",
    }
)
_PEOPLE = frozenset({"person", "human"})
# Reasons, as they follow "3 spans".
NO_NUMBER = "have no number as start or stop, or a frame that is not whole"
REVERSED = "end before they start"
NO_TEXT = "have no text"
NO_EPISODE = "name no episode"
REPEATED = "are named twice"
WRONG_LINE = "are lines of a wrong form"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSpan:
    """A span of an episode as a file names it.

    Attributes:
        names: What the file may call the episode, the surest first: texts and whole numbers.
        start: Start of the span [start, stop) from the start of the episode; frame 0 is the first.
        stop: Its end; the start again for an instant.
        unit: Of start and stop.
        text: What it says.
        style: What kind of text it is, as the file calls it.
        author: "person", the name of a model, or "" where the file does not say.
        role: Who speaks, or "".
        camera: The camera that it is about, or "".
        fields: What else the file says of it, as JSON.
    """

    names: EpisodeNameList
    start: float
    stop: float
    unit: Unit
    text: str = ""
    style: str = "subtask"
    author: str = ""
    role: str = ""
    camera: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class SpanTally:
    """What is wrong with the spans of a file, by reason.

    Attributes:
        name: Name of the file.
        counts: Spans by reason.
        examples: Some of them by reason, in words.
    """

    name: str
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, example: str) -> None:
        """Count one span."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        shown = self.examples.setdefault(reason, [])
        if len(shown) < 3 and example[:60] not in shown:
            shown.append(example[:60])

    def lines(self) -> Iterator[str]:
        """One line for each reason, with a count and examples."""
        return (self.line(reason) for reason in self.counts)

    def line(self, reason: str) -> str:
        """How many spans a reason is of, with examples."""
        return f"{self.name}: spans that {reason}: {self.counts[reason]} ({', '.join(self.examples[reason])})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanFile:
    """The spans of a file: those that can be read, and the others by reason."""

    spans: tuple[NamedSpan, ...]
    tally: SpanTally


class _SpanFault(ValueError):
    """Why a row is no span."""


def read_span_file(path: str | Path) -> SpanFile:
    """The spans of a table (CSV, JSON lines, Parquet), or of a JSON export of Label Studio.

    Raises:
        SourceError: It cannot be read, has too many rows, or is neither; then it says which columns a table needs.
    """
    path = Path(path)
    tally = SpanTally(name=path.name)
    if is_table(path) or path.suffix.lower() != ".json":
        rows = ((None, row) for _, row in read_table(path, SPAN_COLUMNS))
        return SpanFile(spans=tuple(_collect_spans(rows, tally)), tally=tally)
    try:
        exported = convert_export(read_json(str(path)), tally)
    except OSError as error:
        raise SourceError(f"{path.name} cannot be read", f"{path}: {describe_os_error(error)}") from None
    except ValueError as error:
        raise SourceError(f"{path.name} cannot be read", f"{path}: {error}") from None
    if exported is None:
        detail = f"{path}: write a CSV, JSONL or Parquet file with the columns {SPAN_COLUMNS}"
        raise SourceError(f"{path.name} is no export of Label Studio", detail)
    return exported


def convert_export(document: Any, tally: SpanTally) -> SpanFile | None:
    """The spans of an export of Label Studio; None for a document about anything else."""
    rows = label_studio_rows(document, tally.add)
    return None if rows is None else SpanFile(spans=tuple(_collect_spans(rows, tally)), tally=tally)


def parse_spans(rows: Iterable[Any], name: str) -> SpanFile:
    """The spans of the objects of a list, which are all of one episode; the others are counted.

    Args:
        rows: Objects with the columns of a table of spans, without the episode.
        name: What the list is called, for messages.
    """
    tally = SpanTally(name=name)
    wrong = SourceError(WRONG_LINE, name)
    named = (((name,), row if isinstance(row, Mapping) else wrong) for row in rows)
    return SpanFile(spans=tuple(_collect_spans(named, tally)), tally=tally)


def _collect_spans(
    rows: Iterable[tuple[EpisodeNameList | None, Mapping[str, Any] | SourceError]], tally: SpanTally
) -> Iterator[NamedSpan]:
    """The spans of rows; those with a fault, and those that are there twice, are counted.

    Args:
        rows: For each the names of its episode, None for what its column says, and the row or why it is none.
        tally: Where faults are counted.
    """
    seen: set[int] = set()
    for names, row in rows:
        if isinstance(row, SourceError):
            tally.add(WRONG_LINE, row.detail.rpartition("/")[2])
            continue
        try:
            span = _parse_span(row, names)
            # Of a million spans the tuples would take more memory than the spans.
            key = hash((span.names, span.start, span.stop, span.unit, span.text, span.style, span.camera,
                        span.author, str(span.fields)))  # fmt: skip
            if key in seen:
                raise _SpanFault(REPEATED)
        except _SpanFault as fault:
            ends = [row[name] for ends in _ENDS.values() for name in ends if row.get(name) not in (None, "")]
            tally.add(str(fault), f"{row.get('episode', (names or [''])[0])}: {' to '.join(map(str, ends))}")
            continue
        seen.add(key)
        yield span


def _parse_span(row: Mapping[str, Any], names: EpisodeNameList | None) -> NamedSpan:
    """The span of a row. Raises _SpanFault."""
    unit: Unit = "seconds" if any(row.get(end) not in (None, "") for end in _ENDS["seconds"]) else "frames"
    start, stop = (parse_number(row.get(end)) for end in _ENDS[unit])
    if start is None or stop is None or (unit == "frames" and (start % 1 or stop % 1)):
        raise _SpanFault(NO_NUMBER)
    if stop < start:
        raise _SpanFault(REVERSED)
    named = row.get("episode")
    if names is None:
        is_name = isinstance(named, str | int) and not isinstance(named, bool) and named != ""
        names = (named,) if is_name else ()  # type: ignore[assignment]
    if not names:
        raise _SpanFault(NO_EPISODE)
    text = "" if isinstance(row.get("text"), list | Mapping | None) else sys.intern(str(row["text"]).strip())
    if text.lower() in ("", "nan", "none", "null"):
        raise _SpanFault(NO_TEXT)
    author, annotator = _plain_text(row.get("author")), row.get("annotator")
    return NamedSpan(
        names=names,
        start=start,
        stop=stop,
        unit=unit,
        text=text,
        style=_plain_text(row.get("style")) or "subtask",
        author="person" if author.lower() in _PEOPLE or (annotator and not author) else author,
        role=_plain_text(row.get("role")),
        camera=_plain_text(row.get("camera")),
        fields={
            str(name): plain
            for name, value in row.items()
            if (name not in _KNOWN_COLUMNS or name == "annotator")
            and (plain := as_json(value)) not in (None, "", [], {})
        },
    )


def _plain_text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
