"""Turns JSON exports of Label Studio and FiftyOne into rows of a table of spans.

Both count frames from 1, and the last frame of a span belongs to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

# What a task or sample may call its episode, and a row with the columns of a table of spans.
ToolRow = tuple[tuple[str | int, ...], dict[str, Any]]
Tell = Callable[[str, str], None]

# Reasons, as they follow "3 spans".
CANCELLED = "are of annotations that were cancelled"
NO_SPAN = "are regions without a span of time"
_UPLOAD_PREFIX = re.compile(r"^[0-9a-f]{8}-")
_NUMBERED = re.compile(r"(?:episode|ep|demo|traj|trajectory|rollout)[_-]?0*(\d{1,18})")


def label_studio_rows(document: Any, tell: Tell) -> Iterator[ToolRow] | None:
    """The regions of the tasks of a Label Studio export (JSON); None for any other document.

    Args:
        document: The JSON value.
        tell: Called with the reason and an example of each region that is none of a span.
    """
    tasks = document if isinstance(document, list) else [document]
    tasks = [task for task in tasks if isinstance(task, Mapping) and isinstance(task.get("data"), Mapping)]
    runs = ("annotations", "predictions")
    tasks = [task for task in tasks if any(isinstance(task.get(run), list) for run in runs)]
    return (row for task in tasks for row in _task_rows(task, tell)) if tasks else None


def _task_rows(task: Mapping[str, Any], tell: Tell) -> Iterator[ToolRow]:
    data = task["data"]
    named = [data["episode"]] if isinstance(data.get("episode"), str | int) else []
    texts = [text for text in (*data.values(), task.get("file_upload")) if isinstance(text, str)]
    files = [name for text in texts if re.search(r"\.\w{2,5}(\?|$)", text) for name in _file_names(text)]
    names = tuple(dict.fromkeys([*named, *files]))
    # Label Studio counts frames at a rate of its own; the field "fps" says which.
    rate = data.get("fps") if isinstance(data.get("fps"), int | float) and data["fps"] > 0 else 0
    for run in ("annotations", "predictions"):
        for annotation in task.get(run) or ():
            if isinstance(annotation, Mapping):
                for row in _annotation_rows(annotation, run == "predictions", rate, names, tell):
                    yield names, row


def _annotation_rows(
    annotation: Mapping[str, Any], is_model: bool, rate: float, names: tuple[str | int, ...], tell: Tell
) -> Iterator[dict[str, Any]]:
    results = annotation.get("result") or ()
    regions = [own for own in results if isinstance(own, Mapping) and isinstance(own.get("value"), Mapping)]
    texts = {
        str(own.get("id")): " ".join(map(str, own["value"]["text"]))
        for own in regions
        if own.get("type") == "textarea" and isinstance(own["value"].get("text"), list)
    }
    by = annotation.get("completed_by")
    common = {
        "author": str(annotation.get("model_version") or "model") if is_model else "person",
        "annotator": (by.get("email") or by.get("id")) if isinstance(by, Mapping) else by,
    }
    for own in regions:
        value, kind = own["value"], str(own.get("type"))
        if kind in ("textarea", "choices"):
            continue
        labels = value.get("timelinelabels") or value.get("timeserieslabels")
        if annotation.get("was_cancelled") or not isinstance(labels, list):
            reason = CANCELLED if annotation.get("was_cancelled") else NO_SPAN
            tell(reason, f"{next(iter(names), '')}: {kind}")
            continue
        text = texts.get(str(own.get("id")), "")
        fields = {"track": own.get("from_name"), "score": own.get("score"), **common}
        ranges = value.get("ranges") if "timelinelabels" in value else [value]
        for part in ranges if isinstance(ranges, list) else ():
            for label in labels if isinstance(part, Mapping) else ():
                ends = _frame_ends(part.get("start"), part.get("end"), rate)
                if "timelinelabels" not in value:
                    ends = {"start_seconds": part.get("start"), "stop_seconds": part.get("end")}
                yield {**fields, **ends, "text": text or label, "label": label if text else None}


def _frame_ends(start: Any, last: Any, rate: float = 0) -> dict[str, Any]:
    """The ends of a span whose frames are counted from 1, in seconds where their rate is known."""
    first = start - 1 if isinstance(start, int | float) else start
    if rate and isinstance(first, int | float) and isinstance(last, int | float):
        return {"start_seconds": first / rate, "stop_seconds": last / rate}
    return {"start_frame": first, "stop_frame": last}


def _file_names(text: str) -> list[str | int]:
    """What the path or URL of a file may call an episode: the path, without the prefix of an upload, and its number."""
    path = unquote(text.partition("?d=")[2] or text.partition("?")[0])
    tail = path.rpartition("/")[2]
    plain = _UPLOAD_PREFIX.sub("", tail)
    number = _NUMBERED.fullmatch(plain.rpartition(".")[0] or plain)
    return [path, *([plain] if plain != tail else []), *([int(number[1])] if number else [])]


def fiftyone_rows(document: Any, tell: Tell) -> Iterator[ToolRow] | None:
    """The temporal detections of a FiftyOneTemporalDetectionDataset or FiftyOneDataset; None for any other document.

    Args:
        document: The JSON value.
        tell: Called with the reason and an example of each detection that has no label.
    """
    if not isinstance(document, Mapping):
        return None
    if isinstance(document.get("labels"), Mapping) and isinstance(document.get("classes"), list):
        return _detection_rows(document["labels"], document["classes"], tell)
    samples = document.get("samples")
    if not isinstance(samples, list) or not any(
        isinstance(own, Mapping) and "filepath" in own for own in samples
    ):
        return None
    return (row for sample in samples if isinstance(sample, Mapping) for row in _sample_rows(sample))


def _detection_rows(by_name: Mapping[str, Any], classes: list[Any], tell: Tell) -> Iterator[ToolRow]:
    for name, detections in by_name.items():
        for part in detections if isinstance(detections, list) else ():
            number = part.get("label") if isinstance(part, Mapping) else None
            if isinstance(part, Mapping) and isinstance(number, int) and 0 <= number < len(classes):
                yield tuple(_file_names(str(name))), _detection_row(part, classes[number])
            else:
                tell(NO_SPAN, f"{name}: {number}")


def _sample_rows(sample: Mapping[str, Any]) -> Iterator[ToolRow]:
    names = tuple(_file_names(str(sample.get("filepath", ""))))
    for field_name, value in sample.items():
        kind = value.get("_cls") if isinstance(value, Mapping) else None
        if kind in ("TemporalDetections", "TemporalDetection"):
            detections = value.get("detections") if kind == "TemporalDetections" else [value]
            for part in detections if isinstance(detections, list) else ():
                if isinstance(part, Mapping):
                    yield names, {**_detection_row(part, part.get("label")), "track": field_name}


def _detection_row(part: Mapping[str, Any], label: Any) -> dict[str, Any]:
    ends = part.get("support", part.get("timestamps"))
    start, stop = ends if isinstance(ends, list) and len(ends) == 2 else (None, None)
    seconds = {"start_seconds": start, "stop_seconds": stop}
    more = {name: part.get(name) for name in ("confidence", "attributes", "tags")}
    return {"text": label, **(_frame_ends(start, stop) if "support" in part else seconds), **more}
