"""Lists a folder of videos: the video files, the tables about them, and the JSON files of single videos."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ares.episode import Json
from ares.io import relative_path, walk_folders

VIDEO_SUFFIXES = frozenset(
    {
        *(".mp4", ".mov", ".mkv", ".webm", ".avi", ".m4v", ".mpg", ".mpeg", ".mts", ".m2ts"),
        *(".3gp", ".wmv", ".flv", ".ogv"),
    }
)
# Names of JSON lines tables; CSV and TSV tables may have any name.
JSON_LINES_NAMES = frozenset({"metadata.jsonl", "labels.jsonl", "annotations.jsonl"})
_TABLE_SUFFIXES = frozenset({".csv", ".tsv"})
_IGNORED_FOLDERS = frozenset({"__MACOSX", "@eaDir", "$RECYCLE.BIN"})


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoClip:
    """The videos of one episode, which are not opened yet.

    Attributes:
        key: Key of the episode in the folder.
        videos: Absolute path by camera; the frames of the first camera are the steps.
        split: "train" or the like, or "".
        instruction: The instruction as written, or "".
        success: Whether the episode succeeded, or None.
        success_source: Column of the outcome, or "".
        robot: Name of the robot, or "".
        fps: Frames per second that the table states, or None.
        start_seconds: Start of the episode in its videos, or None for whole videos.
        stop_seconds: End of the episode, exclusive, or None.
        metadata: Other columns of the table.
        sidecar: Path of the JSON file of this episode, to be read with it, or "".
        warnings: Reasons to warn about its row.
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
class VideoListing:
    """The files of a folder; paths are relative to it, with "/".

    Attributes:
        folder: Absolute path.
        videos: Video files, sorted by name, folder by folder.
        tables: Table files.
        sidecars: JSON files, which may belong to a video of the same name or to a group of cameras.
    """

    folder: Path
    videos: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    sidecars: set[str] = field(default_factory=set)


def holds_videos(folder: Path) -> bool:
    """Whether a folder has a video in it or below it."""
    return any(_is_video_name(name) for _, names in _walk_once(folder) for name in names)


def list_folder(folder: Path) -> VideoListing:
    """List a folder and the folders below it. Links are followed once each; hidden files are skipped."""
    listing = VideoListing(folder)
    for subfolder, names in _walk_once(folder):
        relative = relative_path(subfolder, folder)
        prefix = "" if relative == "." else relative + "/"
        listing.videos.extend(prefix + name for name in names if _is_video_name(name))
        listing.tables.extend(prefix + name for name in names if _is_table_name(name))
        listing.sidecars.update(prefix + name for name in names if name.lower().endswith(".json"))
    return listing


def is_video(path: Path) -> bool:
    """Whether a file has the suffix of a video."""
    return _is_video_name(path.name)


def _is_video_name(name: str) -> bool:
    return posixpath.splitext(name)[1].lower() in VIDEO_SUFFIXES


def _is_table_name(name: str) -> bool:
    return name in JSON_LINES_NAMES or posixpath.splitext(name)[1].lower() in _TABLE_SUFFIXES


def _walk_once(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Every folder with the sorted names of its files; links never lead into the same folder again."""
    entered: set[tuple[int, int]] = set()
    for subfolder, subfolder_names, names in walk_folders(folder, follow_links=True):
        if isinstance(subfolder, Path):  # an object store has no links
            state = subfolder.stat()
            if (state.st_dev, state.st_ino) in entered:
                subfolder_names.clear()
                continue
            entered.add((state.st_dev, state.st_ino))
        subfolder_names[:] = sorted(
            name for name in subfolder_names if name[0] != "." and name not in _IGNORED_FOLDERS
        )
        yield subfolder, sorted(name for name in names if name[0] != ".")
