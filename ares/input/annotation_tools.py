"""Reads what Label Studio and FiftyOne export of parts of videos: regions of a timeline, temporal detections."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from ares.errors import SourceError
from ares.input.documents import parse_json

_NO_FIELDS: Mapping[str, Any] = {}
# Columns that name an episode, the surest first; the first eight do in any object.
EPISODE_COLUMNS = (
    *("episode", "episode_id", "episode_index", "episode_name", "trajectory", "traj", "demo", "rollout"),
    *("video", "video_path", "video_id", "file_name", "filename", "file", "path", "clip", "key", "uid"),
    *("name", "id"),
)
# Reasons, as they follow "3 spans".
CANCELLED = "are of annotations that were cancelled"
NO_SPAN = "are regions without a span of time"


def no_fields() -> Mapping[str, Any]:
    """The fields of a span that has none: one object for all of them."""
    return _NO_FIELDS


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


@dataclass(slots=True, kw_only=True)
class RawSpan:
    """A span before its unit is known.

    Attributes:
        names: As in NamedSpan, and so are text, style, author, role, camera and fields.
        start: Start as the file has it; a float once it is known to be a finite number or "h:mm:ss".
        stop: The same of its end.
        unit: Of the start: "seconds", "frames", "ms" or "" where its name does not tell.
        other_unit: The same of the end.
        first: What is added to a start in frames so that frame 0 is the first.
        last: What is added to an end in frames so that it is the first frame after the span.
        must_have_text: Whether a span without a text is a fault.
        tells_seconds: Whether start or end has a fraction, or is "h:mm:ss".
    """

    names: tuple[str | int, ...]
    start: Any
    stop: Any
    unit: str = ""
    other_unit: str = ""
    first: int = 0
    last: int = 0
    text: Any = ""
    must_have_text: bool = True
    style: str = "subtask"
    author: str = ""
    role: str = ""
    camera: str = ""
    fields: Mapping[str, Any] = field(default_factory=no_fields)
    tells_seconds: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        for name in ("start", "stop"):
            value = getattr(self, name)
            number = parse_number(value)
            if number is not None:
                self.tells_seconds |= bool(number % 1) or (isinstance(value, str) and ":" in value)
                setattr(self, name, number)
            elif isinstance(value, float):
                setattr(self, name, str(value))


def trimmed_text(value: Any) -> str:
    """A text without space around it; "" for anything else."""
    return value.strip() if isinstance(value, str) else ""


def can_name(value: Any) -> bool:
    """Whether a value may name an episode: a text or a whole number."""
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d+(?:\.\d*)?)")


def parse_number(value: Any) -> float | None:
    """A finite number, or the seconds of "h:mm:ss"; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and (match := _CLOCK.fullmatch(value.strip())):
        value = 3600 * float(match[1] or 0) + 60 * float(match[2]) + float(match[3])
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


# Label Studio: frames of its timeline are counted from 1, and the last one belongs to the span.
_REGION_TYPES = ("timelinelabels", "timeserieslabels")
_UPLOAD_PREFIX = re.compile(r"^[0-9a-f]{8}-")
_NUMBERED = re.compile(r"(?:episode|ep|demo|traj|trajectory|rollout)[_-]?0*(\d{1,18})")


def is_label_studio_task(row: Mapping[str, Any]) -> bool:
    runs = ("annotations", "completions", "predictions")
    return isinstance(row.get("data"), Mapping) and any(isinstance(row.get(run), list) for run in runs)


def label_studio_spans(row: Mapping[str, Any], tally: SpanTally) -> Iterator[RawSpan]:
    """The regions of a task of Label Studio, of its JSON, JSON-MIN and CSV exports."""
    if is_label_studio_task(row):
        names, rate_hz = _task_names(row["data"], row), _task_rate(row["data"])
        for run, is_model in (("annotations", False), ("completions", False), ("predictions", True)):
            for annotation in row.get(run) or ():
                if isinstance(annotation, Mapping):
                    yield from _annotation_spans(annotation, names, rate_hz, is_model, tally)
        return
    for key, value in row.items():
        cell = _decode_cell(value)
        if isinstance(cell, list) and any(_region_type(part) for part in cell if isinstance(part, Mapping)):
            annotator = row.get("annotator")
            fields = {"annotator": annotator} if annotator not in (None, "") else {}
            names, rate_hz = _task_names(row, row), _task_rate(row)
            for part in cell:
                if isinstance(part, Mapping):
                    yield from _region_spans(part, names, rate_hz, "person", {"track": str(key), **fields})


def _decode_cell(value: Any) -> Any:
    """A cell of a CSV export that holds regions as JSON; any other value as it is."""
    if not isinstance(value, str) or not value.startswith("[{") or not any(t in value for t in _REGION_TYPES):
        return value
    try:
        return parse_json(value, "cell of an export of Label Studio")
    except (ValueError, SourceError):
        return value


def _region_type(value: Mapping[str, Any]) -> str:
    return next((kind for kind in _REGION_TYPES if isinstance(value.get(kind), list)), "")


def _annotation_spans(
    annotation: Mapping[str, Any],
    names: tuple[str | int, ...],
    rate_hz: float,
    is_model: bool,
    tally: SpanTally,
) -> Iterator[RawSpan]:
    results = [part for part in annotation.get("result") or () if isinstance(part, Mapping)]
    regions = [part for part in results if isinstance(part.get("value"), Mapping)]
    texts = {
        str(part["id"]): " ".join(map(str, text))
        for part in regions
        if part.get("type") == "textarea"
        and isinstance(text := part["value"].get("text"), list)
        and "id" in part
    }
    author = trimmed_text(annotation.get("model_version")) or "model" if is_model else "person"
    by = annotation.get("completed_by")
    by = by.get("email") or by.get("id") if isinstance(by, Mapping) else by
    for part in regions:
        value = part["value"]
        if part.get("type") in ("textarea", "choices"):
            continue
        if annotation.get("was_cancelled") or not _region_type(value):
            example = f"{next(iter(names), '')}: {part.get('type')}"
            tally.add(CANCELLED if annotation.get("was_cancelled") else NO_SPAN, example)
            continue
        fields = {
            "track": part.get("from_name"),
            "annotator": by,
            "origin": part.get("origin"),
            "score": part.get("score"),
        }
        fields = {
            key: field_value for key, field_value in fields.items() if field_value not in (None, "", "manual")
        }
        yield from _region_spans(value, names, rate_hz, author, fields, texts.get(str(part.get("id")), ""))


def _region_spans(
    value: Mapping[str, Any],
    names: tuple[str | int, ...],
    rate_hz: float,
    author: str,
    fields: Mapping[str, Any],
    text: str = "",
) -> Iterator[RawSpan]:
    """One span for each label of a region and each of its ranges."""
    kind = _region_type(value)
    labels = [str(label) for label in value.get(kind) or ("",)] or [""]
    ranges = value.get("ranges") if kind == "timelinelabels" else [value]
    for part in ranges if isinstance(ranges, list) else ():
        for label in labels if isinstance(part, Mapping) else ():
            start, stop, unit = (
                part.get("start"),
                part.get("end"),
                "frames" if kind == "timelinelabels" else "",
            )
            if unit and rate_hz and isinstance(start, int) and isinstance(stop, int):
                start, stop, unit = (start - 1) / rate_hz, stop / rate_hz, "seconds"
            yield RawSpan(
                names=names,
                start=start,
                stop=stop,
                unit=unit,
                other_unit=unit,
                first=-1 if unit == "frames" else 0,
                text=text or label,
                author=author,
                fields={**fields, "label": label} if text and label else fields,
            )


def _task_names(data: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[str | int, ...]:
    """What a task may call its episode: a field "episode" first, then its files, also without what uploading adds."""
    named = [data[word] for word in EPISODE_COLUMNS[:8] if can_name(data.get(word))]
    texts = [value for value in (*data.values(), row.get("file_upload")) if isinstance(value, str)]
    files = [text for text in texts if re.search(r"\.\w{2,5}(\?|$)", text) and len(text) < 4096]
    names: list[str | int] = list(named)
    for text in files:
        names += file_names(text)
    return tuple(dict.fromkeys(names))


def file_names(text: str) -> list[str | int]:
    """What the path or URL of a file may call an episode: the path, without the prefix of an upload, and its number."""
    path = unquote(text.partition("?d=")[2] or text.partition("?")[0])
    tail = path.rpartition("/")[2]
    plain = _UPLOAD_PREFIX.sub("", tail)
    number = _NUMBERED.fullmatch(plain.rpartition(".")[0] or plain)
    return [path, *([plain] if plain != tail else []), *([int(number[1])] if number else [])]


def _task_rate(data: Mapping[str, Any]) -> float:
    """The rate at which Label Studio counted the frames of a task, where its data say it; else 0."""
    values = [data.get(name) for name in ("fps", "framerate", "frame_rate", "frameRate")]
    rates = [number for value in values if (number := parse_number(value)) is not None and 0 < number < 1e6]
    return rates[0] if rates else 0.0


# FiftyOne: frames are counted from 1, and the last one of a support belongs to the detection.
def fiftyone_spans(row: Mapping[str, Any]) -> Iterator[RawSpan]:
    """The temporal detections of a FiftyOneTemporalDetectionDataset, or of a sample of a FiftyOneDataset."""
    labels, classes = row.get("labels"), row.get("classes")
    if isinstance(labels, Mapping):
        for name, detections in labels.items():
            for part in detections if isinstance(detections, list) else ():
                if isinstance(part, Mapping) and ("support" in part or "timestamps" in part):
                    yield _detection_span(part, tuple(file_names(str(name))), classes, {})
        return
    path = row.get("filepath")
    if not isinstance(path, str):
        return
    for field_name, value in row.items():
        kind = value.get("_cls") if isinstance(value, Mapping) else None
        if kind in ("TemporalDetections", "TemporalDetection"):
            detections = value.get("detections") if kind == "TemporalDetections" else [value]
            for part in detections if isinstance(detections, list) else ():
                if isinstance(part, Mapping):
                    yield _detection_span(part, tuple(file_names(path)), None, {"track": str(field_name)})


def _detection_span(
    part: Mapping[str, Any], names: tuple[str | int, ...], classes: Any, fields: Mapping[str, Any]
) -> RawSpan:
    ends = part.get("support") if "support" in part else part.get("timestamps")
    start, stop = ends if isinstance(ends, list) and len(ends) == 2 else (None, None)
    label = part.get("label")
    if isinstance(classes, list) and type(label) is int:
        label = classes[label] if 0 <= label < len(classes) else None
    unit = "frames" if "support" in part else "seconds"
    more = {key: part[key] for key in ("confidence", "attributes", "tags") if part.get(key)}
    return RawSpan(
        names=names,
        start=start,
        stop=stop,
        unit=unit,
        other_unit=unit,
        first=-1 if unit == "frames" else 0,
        text=label,
        fields={**fields, **more},
    )
