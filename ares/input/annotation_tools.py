"""Turns JSON exports of Label Studio into rows of a table of spans.

It counts frames from 1, and the last frame of a span belongs to it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

# What a task may call its episode, and a row with the columns of a table of spans.
ToolRow = tuple[tuple[str | int, ...], dict[str, Any]]
Tell = Callable[[str, str], None]

# Columns and fields that name an episode in any file.
EPISODE_WORDS = (
    *("episode", "episode_id", "episode_index", "episode_name", "trajectory", "trajectory_id"),
    *("traj", "traj_id", "demo", "demo_id", "rollout", "rollout_id"),
)
# Reasons, as they follow "3 spans".
CANCELLED = "are of annotations that were cancelled"
NO_SPAN = "are regions without a span of time"
UNCLEAR = "are of a time series and have whole numbers, which may be no seconds: write a table of spans"
NO_RATE = "are of tasks whose frame rate is no number above 0"
_RATES = ("fps", "framerate", "frame_rate", "frameRate")
_RUNS = ("annotations", "completions", "predictions")
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
    tasks = [task for task in tasks if any(isinstance(task.get(run), list) for run in _RUNS)]
    return (row for task in tasks for row in _task_rows(task, tell)) if tasks else None


def _task_rows(task: Mapping[str, Any], tell: Tell) -> Iterator[ToolRow]:
    data = task["data"]
    named = [data[word] for word in EPISODE_WORDS if type(data.get(word)) in (str, int)]
    texts = [text for text in (*data.values(), task.get("file_upload")) if isinstance(text, str)]
    files = [name for text in texts if re.search(r"\.\w{2,5}(\?|$)", text) for name in _file_names(text)]
    names = tuple(dict.fromkeys([*named, *files]))
    # Label Studio counts frames at another rate; a field of the task says which.
    stated = next((data[word] for word in _RATES if data.get(word) not in (None, "")), None)
    rate = None if stated is None else max(parse_number(stated) or 0, 0)
    for run in _RUNS:
        for annotation in _list_of(task.get(run)):
            if isinstance(annotation, Mapping):
                for row in _annotation_rows(annotation, run == "predictions", rate, names, tell):
                    yield names, row


def _annotation_rows(
    annotation: Mapping[str, Any],
    is_model: bool,
    rate: float | None,
    names: tuple[str | int, ...],
    tell: Tell,
) -> Iterator[dict[str, Any]]:
    results = [result for result in _list_of(annotation.get("result")) if isinstance(result, Mapping)]
    regions = [result for result in results if isinstance(result.get("value"), Mapping)]
    texts = {
        str(result.get("id")): " ".join(map(str, result["value"]["text"]))
        for result in regions
        if result.get("type") == "textarea" and isinstance(result["value"].get("text"), list)
    }
    series = [result["value"] for result in regions if "timeserieslabels" in result["value"]]
    times = [value.get(end) for value in series for end in ("start", "end")]
    is_whole = not any((parse_number(time) or 0) % 1 for time in times)
    by = annotation.get("completed_by")
    common = {
        "author": str(annotation.get("model_version") or "model") if is_model else "person",
        "annotator": (by.get("email") or by.get("id")) if isinstance(by, Mapping) else by,
    }
    for result in regions:
        value, kind = result["value"], str(result.get("type"))
        if kind in ("textarea", "choices"):
            continue
        is_series = "timelinelabels" not in value
        labels = value.get("timeserieslabels" if is_series else "timelinelabels")
        if annotation.get("was_cancelled") or not isinstance(labels, list):
            reason = CANCELLED if annotation.get("was_cancelled") else NO_SPAN
            tell(reason, f"{next(iter(names), '')}: {kind}")
            continue
        text = texts.get(str(result.get("id")), "")
        origin = result.get("origin") if result.get("origin") != "manual" else None
        fields = {"track": result.get("from_name"), "score": result.get("score"), "origin": origin, **common}
        reason = (UNCLEAR if is_whole else "") if is_series else (NO_RATE if rate == 0 else "")
        for part in [value] if is_series else _list_of(value.get("ranges")):
            start, stop = (part.get("start"), part.get("end")) if isinstance(part, Mapping) else (None, None)
            if reason:
                tell(reason, f"{next(iter(names), '')}: {start} to {stop}")
                continue
            ends = (
                {"start_seconds": start, "stop_seconds": stop}
                if is_series
                else _frame_ends(start, stop, rate)
            )
            for label in labels or [""]:
                yield {**fields, **ends, "text": text or label, "label": label if text else None}


def _frame_ends(start: Any, last: Any, rate: float | None) -> dict[str, Any]:
    """The ends of a span whose frames are counted from 1, in seconds where their rate is known."""
    first = start - 1 if isinstance(start, int | float) else start
    if not rate:
        return {"start_frame": first, "stop_frame": last}
    start_seconds, stop_seconds = (
        None if (frame := parse_number(end)) is None else frame / rate for end in (first, last)
    )
    return {"start_seconds": start_seconds, "stop_seconds": stop_seconds}


def parse_number(value: Any) -> float | None:
    """A finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _file_names(text: str) -> list[str | int]:
    """What the path or URL of a file may call an episode: the path, without the prefix of an upload, and its number."""
    path = unquote(text.partition("?d=")[2] or text.partition("?")[0])
    tail = path.rpartition("/")[2]
    plain = _UPLOAD_PREFIX.sub("", tail)
    number = _NUMBERED.fullmatch(plain.rpartition(".")[0] or plain)
    return [path, *([plain] if plain != tail else []), *([int(number[1])] if number else [])]


def _list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
