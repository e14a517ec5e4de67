"""Which videos of a folder make an episode: as metadata.jsonl lists them, or as their names tell."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, model_validator

from ares.episode import Json
from ares.errors import SourceError

METADATA = "metadata.jsonl"
SUFFIXES = frozenset({".mp4", ".mov", ".mkv", ".webm", ".avi", ".m4v"})

# "pick_up_003_front.mp4" and "pick_up_003_wrist.mp4" are two cameras of one episode.
_CAMERA = re.compile(
    r"(?P<stem>.+?)[_.-](?P<camera>(?:(?:left|right)_)?(?:wrist|hand|gripper)|front|back|rear|left|right|top|side"
    r"|head|ego|overhead|exterior(?:_\d)?|cam(?:era)?_?\d+|cam_(?:high|low|left_wrist|right_wrist))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """The videos of one episode, not looked at yet.

    Attributes:
        key: Its identity in the folder.
        videos: Absolute path of the file of each camera, the first one giving the steps.
        split: "train" or the like, or "".
        instruction: What was to be done, as written, or "".
        success: Whether it was, or None.
        robot: Which robot, or "".
        fps: What metadata.jsonl says of the rate, or None.
        metadata: What else it says.
    """

    key: str
    videos: Mapping[str, str]
    split: str = ""
    instruction: str = ""
    success: bool | None = None
    robot: str = ""
    fps: float | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)


class Row(BaseModel):
    """A line of metadata.jsonl; fields that are not named here go into the episode's metadata."""

    model_config = ConfigDict(extra="allow")

    episode_id: str | int | None = None
    videos: dict[str, str] | None = None
    video: str | None = None
    file_name: str | None = None
    split: str | None = None
    instruction: str | None = None
    success: StrictBool | None = None
    robot: str | None = None
    fps: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _names_a_video(self) -> Self:
        if not self.paths():
            raise ValueError("give videos, video or file_name")
        return self

    def paths(self) -> dict[str, str]:
        """Path by camera, as written."""
        if self.videos:
            return self.videos
        single = self.video or self.file_name
        return {"video": single} if single else {}


def video_files(folder: Path) -> Iterator[Path]:
    """Every video file in or below a folder, in the order of their names."""
    for place, below, files in os.walk(folder):
        below.sort()
        yield from (Path(place, name) for name in sorted(files) if Path(name).suffix.lower() in SUFFIXES)


def clips_of_folder(folder: Path, files: Sequence[Path]) -> list[Clip]:
    """Episodes by file name: those whose names differ in a camera's name at the end are one episode's cameras."""
    groups: dict[str, dict[str, Path]] = {}
    for path in files:
        match = _CAMERA.fullmatch(path.stem)
        stem, camera = (match["stem"], match["camera"]) if match else (path.stem, "video")
        cameras = groups.setdefault(str(path.parent / stem), {})
        cameras[path.name if camera in cameras else camera] = path
    made = []
    for stem, cameras in groups.items():
        if len(cameras) > 1:
            key = Path(stem).relative_to(folder).as_posix()
            made.append(Clip(key=key, videos={name: str(path) for name, path in cameras.items()}))
        else:
            (path,) = cameras.values()
            made.append(Clip(key=path.relative_to(folder).as_posix(), videos={"video": str(path)}))
    return made


def count_lines(folder: Path) -> int:
    """Lines of metadata.jsonl that are not blank."""
    with _lines(folder) as file:
        return sum(1 for line in file if line.strip())


def rows(folder: Path) -> Iterator[tuple[int, Clip | SourceError]]:
    """Each line of metadata.jsonl that is not blank: its number from 1, and the episode or what is wrong with it."""
    with _lines(folder) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, _clip(folder, line, f"{folder / METADATA}, line {number}")


def _lines(folder: Path) -> Any:
    path = folder / METADATA
    try:
        return path.open("rb")
    except OSError as error:
        raise SourceError("metadata.jsonl cannot be read", f"{path}: {error.strerror}") from None


def _clip(folder: Path, line: bytes, where: str) -> Clip | SourceError:
    try:
        document = json.loads(line, parse_constant=_no_constant)
    except ValueError as error:
        return SourceError("metadata line is not JSON", f"{where}: {error}")
    try:
        row = Row.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return SourceError(
            "metadata line has a wrong form", f"{where}: {place + ': ' if place else ''}{first['msg']}"
        )
    paths = {camera: _inside(folder, path) for camera, path in row.paths().items()}
    outside = [path for camera, path in row.paths().items() if paths[camera] is None]
    if outside:
        return SourceError("video lies outside the folder", f"{where}: {outside[0]!r}")
    return Clip(
        key=str(row.episode_id) if row.episode_id is not None else next(iter(row.paths().values())),
        videos={camera: path for camera, path in paths.items() if path is not None},
        split=row.split or "",
        instruction=row.instruction or "",
        success=row.success,
        robot=row.robot or "",
        fps=row.fps,
        metadata=dict(row.model_extra or {}),
    )


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no number of JSON")


def _inside(folder: Path, path: str) -> str | None:
    """Absolute path of a file named in metadata.jsonl, or None when it would leave the folder."""
    whole = Path(os.path.normpath(folder / path))
    inside = not Path(path).is_absolute() and "\x00" not in path and folder in whole.parents
    return str(whole) if inside else None
