"""What lies in a folder of videos: the videos, the tables that tell of them, and the JSON beside each."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ares import files
from ares.episode import Json

SUFFIXES = frozenset(
    {
        *(".mp4", ".mov", ".mkv", ".webm", ".avi", ".m4v", ".mpg", ".mpeg", ".mts", ".m2ts"),
        *(".3gp", ".wmv", ".flv", ".ogv"),
    }
)
# Tables of rows, by the place of their folder: JSON lines only under these names, CSV and TSV under any.
JSON_LINES = frozenset({"metadata.jsonl", "labels.jsonl", "annotations.jsonl"})
_TABLES = frozenset({".csv", ".tsv"})
_NOT_ENTERED = frozenset({"__MACOSX", "@eaDir", "$RECYCLE.BIN"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """The videos of one episode, not looked at yet.

    Attributes:
        key: Its identity in the folder.
        videos: Absolute path of the file of each camera, the first one giving the steps.
        split: "train" or the like, or "".
        instruction: What was to be done, as written, or "".
        success: Whether it was, or None.
        success_source: The column that says so, or "".
        robot: Which robot, or "".
        fps: What the table says of the rate, or None.
        start_seconds: Where the episode begins in its videos, or None for all of them.
        stop_seconds: Where it ends, half open, or None.
        metadata: What else the table says.
        sidecar: A JSON file of this episode alone, to be read with it, or "".
        warnings: What is odd about what was told.
    """

    key: str
    videos: Mapping[str, str]
    split: str = ""
    instruction: str = ""
    success: bool | None = None
    success_source: str = ""
    robot: str = ""
    fps: float | None = None
    start_seconds: float | None = None
    stop_seconds: float | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    sidecar: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """What lies in a folder; every path is relative to it, with "/".

    Attributes:
        folder: Absolute.
        videos: In the order of their names, folder by folder.
        tables: Files of rows.
        notes: JSON files that have a video beside them of the same name, or that name a group of cameras.
    """

    folder: Path
    videos: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    notes: set[str] = field(default_factory=set)


def holds_videos(folder: Path) -> bool:
    """Whether a video lies in or below a folder."""
    return any(_is_video(name) for _, names in _walk(folder) for name in names)


def listing(folder: Path) -> Listing:
    """Everything of use in or below a folder: links are followed, once each; hidden files are passed over."""
    found = Listing(folder)
    for place, names in _walk(folder):
        below = files.relative(place, folder)
        prefix = "" if below == "." else below + "/"
        found.videos.extend(prefix + name for name in names if _is_video(name))
        found.tables.extend(prefix + name for name in names if _is_table(name))
        found.notes.update(prefix + name for name in names if name.lower().endswith(".json"))
    return found


def is_video(path: Path) -> bool:
    """Whether a file's name is that of a video."""
    return _is_video(path.name)


def _is_video(name: str) -> bool:
    return posixpath.splitext(name)[1].lower() in SUFFIXES


def _is_table(name: str) -> bool:
    return name in JSON_LINES or posixpath.splitext(name)[1].lower() in _TABLES


def _walk(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Each folder with the names of its files, sorted; none is entered twice, whatever links lead to it."""
    entered: set[tuple[int, int]] = set()
    for place, below, names in files.walk(folder, follow=True):
        if isinstance(place, Path):  # in an object store there are no links
            state = place.stat()
            if (state.st_dev, state.st_ino) in entered:
                below.clear()
                continue
            entered.add((state.st_dev, state.st_ino))
        below[:] = sorted(name for name in below if name[0] != "." and name not in _NOT_ENTERED)
        yield place, sorted(name for name in names if name[0] != ".")
