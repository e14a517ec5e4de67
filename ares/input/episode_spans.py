"""Where the spans of a file lie in their episodes, and which new texts they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.errors import SourceError
from ares.input.documents import read_json, read_yaml
from ares.input.span_files import NamedSpan, SpanFile
from ares.input.stated_tables import TableColumns, is_table, read_table
from ares.io import describe_os_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Reasons, as they follow "spans of FILE".
OUTSIDE = "lie outside the episode and are left out"
CUT = "reach beyond the episode and are cut at its ends"
OVERLAPPING = "overlap others of their style and author, and are kept"
UNKNOWN = "name episodes that are not here, or that are several by that name"

_TEXT_COLUMNS = TableColumns(needed=("old", "new"))


def match_spans_to_episodes(file: SpanFile, find: Callable[[object], str]) -> dict[str, list[NamedSpan]]:
    """The spans of a file by episode; those of unknown episodes are counted in its tally.

    Args:
        file: The file.
        find: The episode that a name means, "" for none.
    """
    by_episode: dict[str, list[NamedSpan]] = {}
    known: dict[tuple[str | int, ...], str] = {}
    for span in file.spans:
        if span.names not in known:
            known[span.names] = next((key for name in span.names if (key := find(name))), "")
        if key := known[span.names]:
            by_episode.setdefault(key, []).append(span)
        else:
            file.tally.add(UNKNOWN, str(span.names[0]))
    return by_episode


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedSpan:
    """A span of a file in its episode.

    Attributes:
        span: As the file has it; `fields` has "stated_span" where it was cut.
        start_seconds: Start of the span [start, stop), seconds from the start of the episode.
        stop_seconds: Its end.
    """

    span: NamedSpan
    start_seconds: float
    stop_seconds: float


def locate_spans(
    spans: Iterable[NamedSpan], timestamps: Sequence[float] | NDArray[np.float64], duration_seconds: float
) -> tuple[list[LocatedSpan], Counter[str]]:
    """The spans in seconds, in order of their start; and how many are cut, overlap or lie outside, by reason.

    A span that reaches beyond the episode is cut; up to one step beyond, where clocks are rounded, without a word.

    Args:
        spans: Spans of one episode.
        timestamps: (T,) seconds of its steps; frame n begins at the second of step n.
        duration_seconds: Its length.
    """
    located, counts = list[LocatedSpan](), Counter[str]()
    step = duration_seconds / max(len(timestamps), 1) * 1.001
    for span in spans:
        start, stop = span.start, span.stop
        if span.unit == "frames":
            start, stop = (_seconds_of_frame(end, timestamps, duration_seconds) for end in (start, stop))
        if start >= duration_seconds or stop < 0 or (stop == 0 and start < 0):
            counts[OUTSIDE] += 1
            continue
        if start < -step or stop > duration_seconds + step:
            counts[CUT] += 1
            span = replace(span, fields={**span.fields, "stated_span": [start, stop]})
        located.append(
            LocatedSpan(span=span, start_seconds=max(start, 0.0), stop_seconds=min(stop, duration_seconds))
        )
    located.sort(key=lambda part: (part.start_seconds, part.stop_seconds))
    if overlapping := _num_overlapping(located):
        counts[OVERLAPPING] = overlapping
    return located, counts


def _seconds_of_frame(
    value: float, timestamps: Sequence[float] | NDArray[np.float64], duration_seconds: float
) -> float:
    """The second at which a frame begins; those before and after the episode are counted at its mean rate."""
    number, count = int(value), len(timestamps)
    if 0 <= number < count:
        return float(timestamps[number])
    period = duration_seconds / max(count, 1)
    return number * period if number < 0 else duration_seconds + (number - count) * period


def _num_overlapping(located: Iterable[LocatedSpan]) -> int:
    """Spans that begin before an earlier one of their style, camera and author ends."""
    ends: dict[Any, float] = {}
    count = 0
    for part in located:
        span = part.span
        group = (
            span.style,
            span.camera,
            span.author,
            *(str(span.fields.get(key)) for key in ("annotator", "arm", "track")),
        )
        count += part.start_seconds < ends.get(group, 0.0)
        ends[group] = max(ends.get(group, 0.0), part.stop_seconds)
    return count


def rename_text(
    text: str, fields: Mapping[str, Any], new_texts: Mapping[str, str]
) -> tuple[str, Mapping[str, Any]]:
    """The new text for an old one, and the fields with the old one as "source_text"; as they are without a new one.

    Args:
        text: The text of a span.
        fields: What else is said of it.
        new_texts: New texts by old ones, of `read_text_mapping`.
    """
    new = new_texts.get(plain_text(text), text)
    return (text, fields) if new == text else (new, {**fields, "source_text": text})


def read_text_mapping(path: str | Path) -> dict[str, str]:
    """New texts by old ones, of a YAML or JSON object or of a table with the columns old and new.

    Raises:
        SourceError: It cannot be read, names an old text twice with two new ones, or has an empty text.
    """
    path = Path(path)
    pairs = list(_text_pairs(path))
    texts: dict[str, str] = {}
    for old, new in pairs:
        key = plain_text(old) if isinstance(old, str | int | float) else ""
        if not key or not isinstance(new, str) or not new.strip():
            raise SourceError("file of new texts has an empty text", f"{path}: {old!r}: {new!r}")
        if texts.setdefault(key, new.strip()) != new.strip():
            raise SourceError("file of new texts names an old text twice", f"{path}: {old!r}")
    if not texts:
        raise SourceError(
            "file of new texts names none", f"{path}: give OLD: NEW, or the columns old and new"
        )
    return texts


def _text_pairs(path: Path) -> Iterable[tuple[Any, Any]]:
    try:
        if is_table(path):
            rows = [row for _, row in read_table(path, _TEXT_COLUMNS) if isinstance(row, dict)]
            return [(row.get("old"), row.get("new")) for row in rows]
        document = read_json(str(path)) if path.suffix.lower() == ".json" else read_yaml(str(path))
    except OSError as error:
        raise SourceError("file of new texts cannot be read", f"{path}: {describe_os_error(error)}") from None
    except ValueError as error:
        raise SourceError("file of new texts cannot be read", f"{path}: {error}") from None
    return list(document.items()) if isinstance(document, Mapping) else ()


def plain_text(text: object) -> str:
    """A text as it is looked up among old ones: without case and repeated spaces."""
    return " ".join(str(text).split()).casefold()
