"""The videos and tables that a folder holds."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ares.io import relative_path, walk_folders
from ares_ingest.source_words import VideoRow

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
        row: What a table says of it; of a video without a row only warnings.
        sidecar: Path of the JSON file of this episode, to be read with it, or "".
    """

    key: str
    videos: Mapping[str, str]
    row: VideoRow
    sidecar: str = ""


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
