"""What a row about a video says, under whatever usual name its columns have; the rest is kept as metadata."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ares.episode import Json

T = TypeVar("T")

# By meaning: names of columns, the first that a row fills is taken.
_NAMES: dict[str, tuple[str, ...]] = {
    "videos": ("videos",),
    "video": (
        *("video", "file_name", "filename", "file", "path", "file_path", "filepath", "video_path"),
        *("video_file", "video_name", "clip", "video_id", "video_uid"),
    ),
    "episode": ("episode_id", "episode", "narration_id", "clip_id", "uid", "id"),
    "camera": ("camera", "camera_name", "view"),
    "instruction": (
        *("instruction", "language_instruction", "task", "prompt", "language", "narration"),
        *("narration_text", "caption", "description", "text"),
    ),
    "success": ("success", "is_success", "successful", "outcome", "result", "label"),
    "robot": ("robot", "robot_type", "embodiment"),
    "split": ("split",),
    "fps": ("fps", "frame_rate", "rate_hz"),
    "start": ("start_seconds", "start_timestamp", "start_sec", "start_time", "start"),
    "stop": (
        *("stop_seconds", "end_seconds", "stop_timestamp", "end_timestamp", "end_sec", "stop_sec"),
        *("stop_time", "end_time", "stop", "end"),
    ),
}
_FILE_COLUMNS = frozenset({*_NAMES["videos"], *_NAMES["video"]})
_OUTCOME = {
    **dict.fromkeys(("true", "success", "successful", "succeeded", "pass", "passed", "yes"), True),
    **dict.fromkeys(("false", "failure", "fail", "failed", "unsuccessful", "no"), False),
}
# Of a column that is called "label" a number may be the number of a class.
_NUMERIC_OUTCOME = {"1": True, "1.0": True, "0": False, "0.0": False}
_CLOCK = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d*)?)")
NO_OUTCOME = "outcome is neither success nor failure: kept as metadata"


class WrongRowError(ValueError):
    """A value that cannot be what its column is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row as it was understood.

    Attributes:
        videos: Path as written, by camera; "" for the camera where the row names none.
        episode: The row's own name of its episode, or "".
        instruction, success, success_source, robot, split, fps, start, stop: As in Clip.
        metadata: What was not understood.
        warnings: What is odd.
    """

    videos: Mapping[str, str]
    episode: str = ""
    instruction: str = ""
    success: bool | None = None
    success_source: str = ""
    robot: str = ""
    split: str = ""
    fps: float | None = None
    start: float | None = None
    stop: float | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def names_a_video(columns: Mapping[str, object]) -> bool:
    """Whether one of the columns says which video a row is about."""
    return any(_plain(name) in _FILE_COLUMNS for name in columns)


def has_cameras(columns: Mapping[str, object]) -> bool:
    """Whether rows are about single cameras of episodes, to be joined."""
    plain = {_plain(name) for name in columns}
    return bool(plain & set(_NAMES["camera"])) and bool(plain & set(_NAMES["episode"]))


def understood(row: Mapping[str, Json]) -> Row:
    """A row as its columns tell. Raises WrongRowError naming the column and its value."""
    taken = _Taken(row)
    videos = _videos(taken)
    success, source, warnings = _outcome(taken)
    start, stop = _span(taken)
    return Row(
        videos=videos,
        episode=taken.text("episode"),
        instruction=taken.text("instruction"),
        success=success,
        success_source=source,
        robot=taken.text("robot"),
        split=taken.text("split"),
        fps=taken.value("fps", _rate),
        start=start,
        stop=stop,
        metadata=taken.left(),
        warnings=warnings,
    )


class _Taken:
    """The columns of a row, and which of them have been understood."""

    def __init__(self, row: Mapping[str, Json]) -> None:
        self._row = row
        self._by_name = {_plain(name): name for name in row}
        self._used: set[str] = set()

    def find(self, meaning: str) -> tuple[str, Json]:
        """The first filled column of a meaning, not taken yet; ("", None) when there is none."""
        for name in _NAMES[meaning]:
            column = self._by_name.get(name)
            if column is not None and self._row[column] not in (None, ""):
                return column, self._row[column]
        return "", None

    def take(self, column: str) -> None:
        """It is understood, so it is no metadata."""
        self._used.add(column)

    def text(self, meaning: str) -> str:
        """The text of a meaning, or "". Raises WrongRowError for a list or a mapping."""
        return self.value(meaning, _text) or ""

    def value(self, meaning: str, read: Callable[[Json], T]) -> T | None:
        """What a column says, or None. Raises WrongRowError."""
        column, value = self.find(meaning)
        if not column:
            return None
        try:
            made = read(value)
        except ValueError as error:
            raise WrongRowError(f"{column}: {error}") from None
        self.take(column)
        return made

    def left(self) -> dict[str, Json]:
        """What was not understood, without empty cells."""
        kept = {name: value for name, value in self._row.items() if name not in self._used}
        return {name: value for name, value in kept.items() if value not in (None, "")}


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _videos(taken: _Taken) -> dict[str, str]:
    column, videos = taken.find("videos")
    if isinstance(videos, Mapping) and videos:
        taken.take(column)
        if not all(isinstance(path, str) for path in videos.values()):
            raise WrongRowError(f"{column}: give a path for each camera")
        return {str(camera): str(path) for camera, path in videos.items()}
    path = taken.text("video")
    if not path:
        raise WrongRowError("give videos, video or file_name")
    return {taken.text("camera"): path}


def _outcome(taken: _Taken) -> tuple[bool | None, str, tuple[str, ...]]:
    column, value = taken.find("success")
    if not column:
        return None, "", ()
    words = str(value).strip().lower()
    label = _plain(column) == "label"
    made = _OUTCOME.get(words) if label else (_OUTCOME | _NUMERIC_OUTCOME).get(words)
    if made is None:
        return None, "", () if label else (NO_OUTCOME,)
    taken.take(column)
    return made, column, ()


def _span(taken: _Taken) -> tuple[float | None, float | None]:
    """Where an episode lies in its video; a clock of the day or a date is none, and stays metadata."""
    (first, start), (last, stop) = taken.find("start"), taken.find("stop")
    begins, ends = _seconds(start), _seconds(stop)
    if begins is None or ends is None:
        return None, None
    if not begins < ends:
        raise WrongRowError(f"{first} and {last}: {start!r} is not before {stop!r}")
    taken.take(first)
    taken.take(last)
    return begins, ends


def _seconds(value: Json) -> float | None:
    """Seconds, or hours:minutes:seconds, as seconds; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    found = _CLOCK.fullmatch(str(value).strip())
    if not found:
        return None
    hours, minutes, seconds = found.groups()
    return 3600 * int(hours or 0) + 60 * int(minutes or 0) + float(seconds)


def _text(value: Json) -> str:
    if isinstance(value, list | Mapping | bool):
        raise ValueError(f"{value!r} is no text")
    return str(value)


def _rate(value: Json) -> float:
    rate = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else 0.0
    if not 0 < rate < 1e6:
        raise ValueError(f"{value!r} is no rate in Hz")
    return rate
