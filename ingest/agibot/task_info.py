"""What the JSON file of an AgiBot task says of each episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ares.episode import Json, NotRead
from ares.errors import SourceError
from ares.input import NamedSpan, read_json
from ares.io import describe_os_error
from ares_ingest.folder_layouts import read_folder_layout

FAMILY = "agibot_world"

_LONGEST_TEXT = 1000

# The field of the labels, as the files spell it and as the first description of the format did.
_LABEL_FIELDS = ("label_info", "lable_info")

_LARGEST_FRAME = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class AgibotTaskInfo:
    """What task_info says about one episode.

    Attributes:
        instruction: Name of the task, or "".
        metadata: The scene.
        spans: Subtasks and key frames.
        warnings: Reasons to warn.
    """

    instruction: str = ""
    metadata: Mapping[str, Json] = field(default_factory=dict)
    spans: tuple[NamedSpan, ...] = ()
    warnings: tuple[str, ...] = ()


def read_agibot_task_file(path: Path) -> dict[str, AgibotTaskInfo]:
    """What a file of task_info says, by episode. Raises SourceError when it is not a list of episodes."""
    try:
        document = read_json(str(path))
    except OSError as error:
        raise SourceError("task file cannot be read", f"{path}: {describe_os_error(error)}") from None
    except ValueError as error:
        raise SourceError("task file is not JSON", f"{path}: {error}") from None
    if not isinstance(document, list):
        raise SourceError("task file is no list of episodes", f"{path}: {type(document).__name__}")
    return {
        str(row["episode_id"]): _parse_row(row)
        for row in document
        if isinstance(row, dict) and isinstance(row.get("episode_id"), int | str)
    }


def _parse_row(row: Mapping[str, Any]) -> AgibotTaskInfo:
    scene = _trimmed_text(row.get("init_scene_text"))
    spans, warnings = list[NamedSpan](), dict[str, None]()
    labels: Mapping[str, Any] = next(
        (row[name] for name in _LABEL_FIELDS if isinstance(row.get(name), Mapping)), {}
    )
    for name in read_folder_layout(FAMILY).spans:
        parts = labels.get(name) or []
        for part in parts if isinstance(parts, list) else [None]:
            span = _parse_span(part, name)
            if isinstance(span, NamedSpan):
                spans.append(span)
            else:
                warnings[NotRead(f"some parts of {name} {span} and are left out")] = None
    return AgibotTaskInfo(
        instruction=_trimmed_text(row.get("task_name")),
        metadata={"init_scene_text": scene} if scene else {},
        spans=tuple(spans),
        warnings=tuple(warnings),
    )


def _parse_span(part: Any, name: str) -> NamedSpan | str:
    """Frames [start, end), text and skill of one part; or why it is none.

    Who wrote it stays unknown: the format does not say it.
    """
    style, start_name, stop_name, text_name = read_folder_layout(FAMILY).spans[name]
    if not isinstance(part, Mapping):
        return "have a wrong form"
    start, stop, text = part.get(start_name), part.get(stop_name), _trimmed_text(part.get(text_name))
    if type(start) is not int or type(stop) is not int or max(abs(start), abs(stop)) > _LARGEST_FRAME:
        return "have a wrong form"
    if stop < start:
        return "end before they start"
    if not text:
        return "have no text"
    used = (start_name, stop_name, text_name)
    more = {key: value for key, value in part.items() if key not in used and isinstance(value, str) and value}
    return NamedSpan(names=(), start=start, stop=stop, unit="frames", text=text, style=style, fields=more)


def _trimmed_text(value: Any) -> str:
    return value.strip()[:_LONGEST_TEXT] if isinstance(value, str) else ""
