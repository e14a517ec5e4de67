"""What names and words of a source mean: cameras, columns of a row about an episode, outcomes, missing instructions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ares.console import count_of
from ares.episode import Json, Role

# First match wins: a "wrist_image_left" is a wrist camera, not a side one.
_ROLE_PATTERNS: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("wrist", re.compile(r"wrist|hand|gripper|ego_?in|in_hand")),
    ("top", re.compile(r"top|overhead|bird|ceiling|above")),
    ("side", re.compile(r"side|left|right")),
    ("other", re.compile(r"depth|tactile|finger|digit|additional")),
    (
        "front",
        re.compile(
            r"front|exterior|ext\d?|static|agent|ego|head|high|main|primary|rgb|^(highres_)?images?(_?0)?$|^cam(era)?(_?0)?$"
        ),
    ),
)
_PLACEHOLDER_TEXTS = frozenset(
    {"", "null", "none", "nan", "n/a", "na", "unknown", "no instruction", "dummy", "."}
)

# Words that state an outcome, and numbers and letters that do where a field is known to hold one.
OUTCOME_WORDS = {
    **dict.fromkeys(("true", "success", "successful", "succeeded", "pass", "passed", "yes"), True),
    **dict.fromkeys(("false", "failure", "fail", "failed", "unsuccessful", "no"), False),
}
# Words of outcomes that are neither.
OTHER_OUTCOMES = {
    **dict.fromkeys(
        ("partial", "partially", "partial_success", "partially_successful", "incomplete"), "partial"
    ),
    **dict.fromkeys(("aborted", "abort", "cancelled", "canceled", "interrupted", "terminated"), "aborted"),
}
OUTCOME_NUMBERS = {"1": True, "1.0": True, "y": True, "0": False, "0.0": False, "n": False}

T = TypeVar("T")

# By field: names of columns; the first one that a row fills is used.
COLUMN_NAMES: dict[str, tuple[str, ...]] = {
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
    "success": ("success", "is_success", "successful", "succeeded", "outcome", "result", "label", "ok"),
    "robot": ("robot", "robot_type", "embodiment"),
    "split": ("split",),
    "fps": ("fps", "frame_rate", "rate_hz"),
    "start": ("start_seconds", "start_timestamp", "start_sec", "start_time", "start"),
    "start_frame": ("start_frame", "first_frame", "frame_start", "from_frame", "begin_frame"),
    "stop_frame": ("stop_frame", "end_frame", "last_frame", "frame_end", "frame_stop", "to_frame"),
    "stop": (
        *("stop_seconds", "end_seconds", "stop_timestamp", "end_timestamp", "end_sec", "stop_sec"),
        *("stop_time", "end_time", "stop", "end"),
    ),
}
_FILE_COLUMNS = frozenset({*COLUMN_NAMES["videos"], *COLUMN_NAMES["video"]})
_TIME_PATTERN = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d*)?)")
UNKNOWN_OUTCOME = "outcome is neither success nor failure: kept as metadata"


def is_outcome_word(value: object) -> bool:
    """Whether a value says that a task was done in part, or ended early."""
    return normalise_name(str(value)) in OTHER_OUTCOMES or parse_share(value) not in (None, 0.0, 1.0)


def parse_share(value: object) -> float | None:
    """A number from 0 to 1, as it is or as a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def parse_outcome(value: object) -> bool | None:
    """The outcome that a bool, a number or a word states; None for anything else."""
    return (OUTCOME_WORDS | OUTCOME_NUMBERS).get(str(value).strip().lower())


def describe_table(name: str, rows: Iterable[tuple[bool, bool | None, object]], of: str = "row") -> str:
    """What the rows of a table say, in a line: "runs.csv: 40 rows; instruction 40; outcome: success 24, 16 empty".

    Args:
        name: Name of the table.
        rows: Of each row whether it has an instruction, its outcome, and what stands there in place of one.
        of: What each is of: "episode" where several rows of one are counted once.
    """
    texts, ends, example = 0, Counter[str](), ""
    for has_text, success, value in rows:
        texts += has_text
        word = OTHER_OUTCOMES.get(normalise_name(str(value)), "partial") if is_outcome_word(value) else ""
        if success is not None:
            word = "success" if success else "failure"
        elif not word and value not in (None, ""):
            example = example or f"{value}"[:40]
        ends[word or ("not understood" if value not in (None, "") else "empty")] += 1
    order = ("success", "failure", "partial", "aborted", "not understood")
    values = [f"{word} {ends[word]}" for word in order if ends[word]]
    if example:
        values[-1] += f" (such as {example!r})"
    values += [f"{ends['empty']} empty"] if ends["empty"] else []
    return (
        f"{name}: {count_of(ends.total(), of)}; instruction {texts}; outcome: {', '.join(values) or 'none'}"
    )


def guess_camera_role(name: str) -> Role:
    """The role that a camera's name implies; "other" when it implies none."""
    text = name.lower()
    return next((role for role, pattern in _ROLE_PATTERNS if pattern.search(text)), "other")


def is_meaningful_text(text: str) -> bool:
    """Whether a text is an instruction, and not a placeholder for a missing one."""
    return text.strip().strip("\x00").lower() not in _PLACEHOLDER_TEXTS


def distinct_texts(texts: list[str]) -> tuple[str, ...]:
    """The meaningful texts, stripped and without repetitions, in order of appearance."""
    return tuple(dict.fromkeys(text.strip() for text in texts if is_meaningful_text(text)))


class InvalidRowError(ValueError):
    """A value that is not valid for its column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoRow:
    """The parsed row of a table.

    Attributes:
        videos: Path as written, by camera; the camera is "" where the row names none.
        episode: Name of the episode, or "".
        instruction: The instruction as written, or "".
        success: Whether the episode succeeded, or None.
        success_source: Column of the outcome, or "".
        robot: Name of the robot, or "".
        split: "train" or the like, or "".
        fps: Frames per second that the table states, or None.
        start: Second of its videos at which the episode begins, or None for whole videos.
        stop: Second at which it ends, exclusive, or None.
        frames: First frame and end of the frames of the episode in its videos, where the row counts frames.
        metadata: Columns without a known meaning.
        warnings: Reasons to warn about the row.
    """

    videos: Mapping[str, str] = field(default_factory=dict)
    episode: str = ""
    instruction: str = ""
    success: bool | None = None
    success_source: str = ""
    robot: str = ""
    split: str = ""
    fps: float | None = None
    start: float | None = None
    stop: float | None = None
    frames: tuple[int, int] | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def names_a_video(columns: Mapping[str, object]) -> bool:
    """Whether one of the columns names the video that a row is about."""
    return any(normalise_name(name) in _FILE_COLUMNS for name in columns)


def has_camera_rows(columns: Mapping[str, object]) -> bool:
    """Whether each row is about one camera of an episode, so that rows have to be joined."""
    names = {normalise_name(name) for name in columns}
    return bool(names & set(COLUMN_NAMES["camera"])) and bool(names & set(COLUMN_NAMES["episode"]))


def parse_video_row(row: Mapping[str, Json]) -> VideoRow:
    """Parse a row. Raises InvalidRowError with the column and its value."""
    reader = _RowReader(row)
    videos = _read_videos(reader)
    success, source, warnings = _read_outcome(reader)
    start, stop = _read_span(reader)
    frames = _read_frames(reader) if start is None else None
    return VideoRow(
        videos=videos,
        episode=reader.read_text("episode"),
        instruction=reader.read_text("instruction"),
        success=success,
        success_source=source,
        robot=reader.read_text("robot"),
        split=reader.read_text("split"),
        fps=reader.read_value("fps", _parse_rate),
        start=start,
        stop=stop,
        frames=frames,
        metadata=reader.unused_cells(),
        warnings=warnings,
    )


class _RowReader:
    """Reads the columns of a row by field, and remembers which of them were used."""

    def __init__(self, row: Mapping[str, Json]) -> None:
        self._row = row
        self._by_name = {normalise_name(name): name for name in row}
        self._used: set[str] = set()

    def find(self, field_name: str) -> tuple[str, Json]:
        """Name and value of the first filled column of a field; ("", None) when there is none."""
        for name in COLUMN_NAMES[field_name]:
            column = self._by_name.get(name)
            if column is not None and self._row[column] not in (None, ""):
                return column, self._row[column]
        return "", None

    def exclude_from_metadata(self, column: str) -> None:
        """Keep the column out of the metadata."""
        self._used.add(column)

    def read_text(self, field_name: str) -> str:
        """The text of a field, or "". Raises InvalidRowError for a list or a mapping."""
        return self.read_value(field_name, _parse_text) or ""

    def read_value(self, field_name: str, parse: Callable[[Json], T]) -> T | None:
        """The parsed value of a field, or None. Raises InvalidRowError."""
        column, value = self.find(field_name)
        if not column:
            return None
        try:
            parsed = parse(value)
        except ValueError as error:
            raise InvalidRowError(f"{column}: {error}") from None
        self.exclude_from_metadata(column)
        return parsed

    def unused_cells(self) -> dict[str, Json]:
        """The columns that were not used, without empty cells."""
        unused = {name: value for name, value in self._row.items() if name not in self._used}
        return {name: value for name, value in unused.items() if value not in (None, "")}


def normalise_name(name: str) -> str:
    """The name of a column in lower case, with underscores for spaces and hyphens."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def stated_end(row: VideoRow) -> Json:
    """What a row has in its column of outcomes that is no outcome; None for nothing, and for the class of a label."""
    column, value = _RowReader(row.metadata).find("success")
    return None if normalise_name(column) == "label" and not is_outcome_word(value) else value


def _read_videos(reader: _RowReader) -> dict[str, str]:
    column, videos = reader.find("videos")
    if isinstance(videos, Mapping) and videos:
        reader.exclude_from_metadata(column)
        if not all(isinstance(path, str) for path in videos.values()):
            raise InvalidRowError(f"{column}: give a path for each camera")
        return {str(camera): str(path) for camera, path in videos.items()}
    path = reader.read_text("video")
    if not path:
        raise InvalidRowError("give videos, video or file_name")
    return {reader.read_text("camera"): path}


def _read_outcome(reader: _RowReader) -> tuple[bool | None, str, tuple[str, ...]]:
    column, value = reader.find("success")
    if not column:
        return None, "", ()
    text = str(value).strip().lower()
    is_label = normalise_name(column) == "label"
    # In a column "label" a number may be the index of a class.
    outcome = OUTCOME_WORDS.get(text) if is_label else parse_outcome(text)
    if outcome is None:
        return None, "", () if is_label or is_outcome_word(value) else (UNKNOWN_OUTCOME,)
    reader.exclude_from_metadata(column)
    return outcome, column, ()


def _read_span(reader: _RowReader) -> tuple[float | None, float | None]:
    """Start and stop of the episode in its video, in seconds; a time of day or a date stays metadata."""
    (start_column, start), (stop_column, stop) = reader.find("start"), reader.find("stop")
    start_seconds, stop_seconds = _parse_seconds(start), _parse_seconds(stop)
    if start_seconds is None or stop_seconds is None:
        return None, None
    if not start_seconds < stop_seconds:
        raise InvalidRowError(f"{start_column} and {stop_column}: {start!r} is not before {stop!r}")
    reader.exclude_from_metadata(start_column)
    reader.exclude_from_metadata(stop_column)
    return start_seconds, stop_seconds


def _read_frames(reader: _RowReader) -> tuple[int, int] | None:
    """First frame and end of the frames of the episode in its video, as whole numbers; None where the row has none."""
    (start_column, start), (stop_column, stop) = reader.find("start_frame"), reader.find("stop_frame")
    if not (start_column and stop_column):
        return None
    numbers = [str(value).strip().removesuffix(".0") for value in (start, stop)]
    if not all(number.isdecimal() for number in numbers) or int(numbers[0]) >= int(numbers[1]):
        raise InvalidRowError(
            f"{start_column} and {stop_column}: {start!r} and {stop!r} are no span of frames"
        )
    reader.exclude_from_metadata(start_column)
    reader.exclude_from_metadata(stop_column)
    is_last = normalise_name(stop_column) == "last_frame"
    return int(numbers[0]), int(numbers[1]) + is_last


def _parse_seconds(value: Json) -> float | None:
    """Seconds from a number or from "h:mm:ss"; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    match = _TIME_PATTERN.fullmatch(str(value).strip())
    if not match:
        return None
    hours, minutes, seconds = match.groups()
    return 3600 * int(hours or 0) + 60 * int(minutes or 0) + float(seconds)


def _parse_text(value: Json) -> str:
    if isinstance(value, list | Mapping | bool):
        raise ValueError(f"{value!r} is not a text")
    return str(value)


def _parse_rate(value: Json) -> float:
    rate = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else 0.0
    if not 0 < rate < 1e6:
        raise ValueError(f"{value!r} is not a rate in Hz")
    return rate
