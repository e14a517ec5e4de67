"""The JSON files of AgiBot World's tasks: name, scene and labelled subtasks of each episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ares.episode import Json
from ares.errors import SourceError
from ares.input import read_json
from ares.io import describe_os_error

_LONGEST_TEXT = 1000
_MOST_SUBTASKS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """What task_info says about one episode.

    Attributes:
        instruction: Name of the task, or "".
        metadata: Scene and subtasks.
        warnings: Reasons to warn.
    """

    instruction: str = ""
    metadata: Mapping[str, Json] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def read_task(path: Path) -> dict[str, TaskInfo]:
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


def _parse_row(row: Mapping[str, Any]) -> TaskInfo:
    labels = row.get("label_info")
    subtasks = labels.get("action_config") if isinstance(labels, Mapping) else None
    metadata: dict[str, Json] = {}
    scene = _text(row.get("init_scene_text"))
    if scene:
        metadata["init_scene_text"] = scene
    parsed = (
        [_parse_subtask(part) for part in subtasks[:_MOST_SUBTASKS]] if isinstance(subtasks, list) else []
    )
    subtasks_json: list[Json] = [part for part in parsed if part is not None]
    if subtasks_json:
        metadata["subtasks"] = subtasks_json
    is_whole = subtasks is None or (isinstance(subtasks, list) and len(subtasks_json) == len(subtasks))
    return TaskInfo(
        instruction=_text(row.get("task_name")),
        metadata=metadata,
        warnings=() if is_whole else ("some subtasks of task_info have a wrong form and are left out",),
    )


def _parse_subtask(part: Any) -> Json:
    """Frames [start, end), text and skill of one subtask; None for another form."""
    if not isinstance(part, Mapping):
        return None
    start, end = part.get("start_frame"), part.get("end_frame")
    if type(start) is not int or type(end) is not int:
        return None
    return {
        "start_frame": start,
        "end_frame": end,
        "text": _text(part.get("action_text")),
        "skill": _text(part.get("skill")),
    }


def _text(value: Any) -> str:
    return value.strip()[:_LONGEST_TEXT] if isinstance(value, str) else ""
