"""The episodes of a folder of videos, planned by its tables or by the names of its files."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ares.episode import Json, NotRead
from ares.errors import SourceError
from ares.input import read_cells
from ares.io import relative_path
from ares_ingest.source_words import (
    InvalidRowError,
    VideoRow,
    has_camera_rows,
    names_a_video,
    parse_video_row,
)
from ares_ingest.video.camera_names import ONLY_CAMERA, VideosByEpisode, group_by_names, group_by_pattern
from ares_ingest.video.listing import JSON_LINES_NAMES, VideoClip, VideoListing, list_folder

_AMBIGUOUS_CAMERAS = (
    "names differ in a word that may be a camera or a task: each file is a separate episode; "
    "if they are cameras, use --cameras '{episode}_{camera}.mp4'"
)


@dataclass(frozen=True, slots=True)
class PlannedClip:
    """An episode of the folder, or the error that replaces it.

    Attributes:
        location: File and line, for messages.
        clip: The videos of the episode, or the error.
        name: Distinguishes failed episodes.
        file: The first video that a row names, absolute, or "".
    """

    location: str
    clip: VideoClip | SourceError
    name: str
    file: str = ""


@dataclass(slots=True)
class VideoFolderPlan:
    """The episodes of a folder of videos.

    Attributes:
        files: The files of the folder.
        cameras: Its videos by episode and camera.
        tables: The tables that are read.
        total: Number of episodes and failures that `clips` returns.
        warnings: Reasons to warn about the folder.
        left_out: Tables with invalid rows: videos without a row are left out, since such a row may be theirs.
    """

    files: VideoListing
    cameras: VideosByEpisode
    tables: list[str]
    total: int = 0
    warnings: list[str] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    _broken_tables: set[str] = field(default_factory=set)
    _by_name: dict[str, str | None] = field(default_factory=dict)
    _path_set: set[str] = field(default_factory=set)
    _by_file: dict[str, str] | None = None

    def clips(self) -> Iterator[PlannedClip]:
        """The episodes: first those of the tables, in order, then those without a row."""
        listed_videos: set[str] = set()
        seen: dict[str, tuple[Mapping[str, str], set[str]]] = {}
        for planned in self._clips_of_tables():
            clip = planned.clip
            if isinstance(clip, VideoClip):
                listed_videos.update(clip.videos.values())
                videos, files = seen.setdefault(clip.key, (clip.videos, set()))
                if files and videos == clip.videos and planned.file not in files:
                    files.add(planned.file)  # another camera of the same episode, in a separate row
                    continue
                if files:
                    clip = SourceError("episode is listed twice", f"{planned.location}: {clip.key!r}")
                files.add(planned.file)
            yield replace(planned, clip=clip)
        yield from self._clips_without_row(listed_videos)
        for path in self.cameras.unmatched:
            location = str(self.files.folder / path)
            yield PlannedClip(location, SourceError("file name does not match --cameras", location), path)

    def _clips_without_row(self, listed_videos: set[str]) -> Iterator[PlannedClip]:
        for key, cameras in self.cameras.groups.items():
            unlisted = {
                name: path for name, path in cameras.items() if self._absolute(path) not in listed_videos
            }
            is_complete = len(unlisted) == len(cameras)
            groups = {key: unlisted} if is_complete else {p: {name: p} for name, p in unlisted.items()}
            for name, group in groups.items():
                tables = self._tables_above(group)
                if self._broken_tables.intersection(tables):
                    self.left_out.update(tables)
                    continue
                warnings = tuple(f"video has no row in {posixpath.basename(table)}" for table in tables)
                videos = {camera: self._absolute(path) for camera, path in group.items()}
                row = VideoRow(warnings=warnings)
                clip = VideoClip(key=name, videos=videos, row=row, sidecar=self._sidecar(name, group))
                yield PlannedClip(self._absolute(name), clip, name)

    def _absolute(self, path: str) -> str:
        return f"{self.files.folder}/{path}"

    def _tables_above(self, cameras: Mapping[str, str]) -> list[str]:
        """The table that could list some files: one in the same folder or above it; at most one."""
        path = next(iter(cameras.values()))
        folders = ((posixpath.dirname(table), table) for table in self.tables)
        return [table for folder, table in folders if not folder or path.startswith(f"{folder}/")][:1]

    def _sidecar(self, key: str, cameras: Mapping[str, str]) -> str:
        names = (key, f"{key}/metadata", *(posixpath.splitext(path)[0] for path in cameras.values()))
        path = next((f"{name}.json" for name in names if f"{name}.json" in self.files.sidecars), "")
        return self._absolute(path) if path else ""

    def _clips_of_tables(self) -> Iterator[PlannedClip]:
        for table in self.tables:
            path = self.files.folder / table
            clips = self._clips_of_table(path)
            yield from _join_cameras(clips) if has_row_per_camera(path) else clips

    def _clips_of_table(self, path: Path) -> Iterator[PlannedClip]:
        for number, row in read_rows(path):
            location = f"{path}, line {number}" if number else str(path)
            name = f"{relative_path(path, self.files.folder)} line {number}"
            # Episode ids of failed lines depend on it: metadata.jsonl was the only table once.
            name = name.removeprefix("metadata.jsonl ")
            if isinstance(row, SourceError):
                self._broken_tables.add(relative_path(path, self.files.folder))
                yield PlannedClip(location, row, name)
                continue
            videos = {camera: self._resolve(path.parent, video) for camera, video in row.videos.items()}
            clip = self._build_clip(path.parent, row, videos, location)
            if isinstance(clip, SourceError):
                yield PlannedClip(location, clip, name)
            else:
                yield PlannedClip(f"{location}: {clip.key}", clip, name, next(iter(videos.values())) or "")

    def _build_clip(
        self, folder: Path, row: VideoRow, videos: Mapping[str, str | None], location: str
    ) -> VideoClip | SourceError:
        outside = [row.videos[camera] for camera, path in videos.items() if path is None]
        if outside:
            return SourceError("video is outside the folder", f"{location}: {outside[0]!r}")
        key, paths = self._key_and_videos(folder, row, {name: path for name, path in videos.items() if path})
        span = "" if row.start is None else f"@{row.start:.3f}-{row.stop:.3f}"
        span = f"@{row.frames[0]}-{row.frames[1]}" if row.frames else span
        return VideoClip(key=row.episode or key + span, videos=paths, row=row, sidecar=self._sidecar(key, {}))

    def _key_and_videos(
        self, folder: Path, row: VideoRow, videos: Mapping[str, str]
    ) -> tuple[str, dict[str, str]]:
        """Key and videos of the episode of a row. A row that names one camera of a group is about the group."""
        path = next(iter(videos.values()))
        group = self._group_by_file().get(path) if list(videos) == [""] else None
        if group:
            return group, {
                name: self._absolute(camera_path) for name, camera_path in self.cameras.groups[group].items()
            }
        return self._relative_key(folder, next(iter(row.videos.values()))), {
            camera or ONLY_CAMERA: path for camera, path in videos.items()
        }

    def _group_by_file(self) -> dict[str, str]:
        """Key of the episode, by path, of each file that is one of several cameras."""
        if self._by_file is None:
            self._by_file = {
                self._absolute(path): key
                for key, group in self.cameras.groups.items()
                if len(group) > 1
                for path in group.values()
            }
        return self._by_file

    def _relative_key(self, folder: Path, path: str) -> str:
        relative = relative_path(folder, self.files.folder)
        return path if relative == "." else f"{relative}/{path}"

    def _resolve(self, folder: Path, path: str) -> str | None:
        """Absolute path of the video that a row names, by path or by file name; None for a path outside the folder."""
        inside = posixpath.normpath(posixpath.join(relative_path(folder, self.files.folder), path))
        if Path(path).is_absolute() or "\x00" in path or inside.split("/")[0] in (".", ".."):
            return None
        absolute = self.files.folder / inside
        if inside in self._video_paths() or absolute.is_file():
            return str(absolute)
        same_name = self._path_by_name().get(posixpath.basename(path))
        return str(self.files.folder / same_name) if same_name else str(absolute)

    def _video_paths(self) -> set[str]:
        """The videos of the folder as a set, which saves a request to a server for each of them."""
        if not self._path_set:
            self._path_set = set(self.files.videos)
        return self._path_set

    def _path_by_name(self) -> dict[str, str | None]:
        """Path by file name, with and without suffix; None for a name that several files have."""
        if not self._by_name:
            for path in self.files.videos:
                base = posixpath.basename(path)
                for name in (base, posixpath.splitext(base)[0]):
                    self._by_name[name] = None if name in self._by_name else path
        return self._by_name


def plan_video_folder(folder: Path, pattern: str, only: str = "") -> VideoFolderPlan:
    """Plan a folder, or one file of it.

    Raises RequestError for an invalid pattern.
    """
    files = list_folder(folder) if not only else _list_single_file(folder, only)
    cameras = group_by_pattern(files.videos, pattern) if pattern else group_by_names(files.videos)
    tables, warnings = _select_tables(files)
    if cameras.ambiguous:
        warnings.append(_AMBIGUOUS_CAMERAS)
    if cameras.paired:
        names = ", ".join(cameras.paired)
        warnings.append(f"{names} are cameras: each number has a video of each; else use --cameras")
    result = VideoFolderPlan(files, cameras, tables, warnings=warnings)
    result.total = sum(1 for _ in result.clips()) if tables else len(cameras.groups) + len(cameras.unmatched)
    result.warnings += [
        NotRead(
            f"videos without a row are left out: {posixpath.basename(table)} has rows that cannot be read"
        )
        for table in sorted(result.left_out)
    ]
    return result


def _list_single_file(folder: Path, name: str) -> VideoListing:
    sidecar = posixpath.splitext(name)[0] + ".json"
    return VideoListing(folder, [name], sidecars={sidecar} if (folder / sidecar).is_file() else set())


def _select_tables(files: VideoListing) -> tuple[list[str], list[str]]:
    """The tables to read, and warnings about the others. In a folder, JSON lines replace CSV."""
    video_tables = [table for table in files.tables if is_about_videos(files.folder / table)]
    json_lines_folders = {
        posixpath.dirname(table) for table in video_tables if posixpath.basename(table) in JSON_LINES_NAMES
    }
    selected = [
        table
        for table in video_tables
        if posixpath.basename(table) in JSON_LINES_NAMES or posixpath.dirname(table) not in json_lines_folders
    ]
    warnings = [
        NotRead(f"{posixpath.basename(table)} is not read: its folder has a JSON lines table")
        for table in video_tables
        if table not in selected
    ]
    return selected, list(dict.fromkeys(warnings))


def _join_cameras(planned: Iterator[PlannedClip]) -> Iterator[PlannedClip]:
    """Join the rows of single cameras into episodes, each at the position of its first row."""
    by_key: dict[str, PlannedClip] = {}
    for clip_of_row in planned:
        clip = clip_of_row.clip
        earlier = by_key.get(clip.key) if isinstance(clip, VideoClip) else None
        if isinstance(clip, SourceError) or earlier is None:
            by_key[clip_of_row.name if isinstance(clip, SourceError) else clip.key] = clip_of_row
        elif isinstance(earlier.clip, VideoClip) and clip.videos.keys().isdisjoint(earlier.clip.videos):
            row = replace(earlier.clip.row, videos={**earlier.clip.row.videos, **clip.row.videos})
            joined = replace(earlier.clip, videos={**earlier.clip.videos, **clip.videos}, row=row)
            by_key[clip.key] = replace(earlier, clip=joined)
        else:
            by_key[clip_of_row.name] = clip_of_row
    yield from by_key.values()


def read_rows(path: Path) -> Iterator[tuple[int, VideoRow | SourceError]]:
    """Read the rows that are not blank: line number, counted from 1, with the parsed row or its error.

    The last one is an error with number 0 where the rest of the table, or all of it, cannot be read.
    """
    for number, cells in _read_or_fail(path):
        location = f"{path}, line {number}"
        if isinstance(cells, SourceError):
            yield number, cells
            continue
        try:
            yield number, parse_video_row(cells)
        except InvalidRowError as error:
            yield number, SourceError("metadata line has a wrong form", f"{location}: {error}")


def is_about_videos(path: Path) -> bool:
    """Whether a table has a column that names a video; True for one that cannot be read, as its videos must wait."""
    try:
        return path.suffix.lower() == ".jsonl" or names_a_video(_first_row(path))
    except SourceError:
        return True


def has_row_per_camera(path: Path) -> bool:
    """Whether each row is about one camera of an episode; False for a table that cannot be read."""
    try:
        columns = _first_row(path)
    except SourceError:
        return False
    return has_camera_rows(columns) and names_a_video(columns)


def _read_or_fail(path: Path) -> Iterator[tuple[int, dict[str, Json] | SourceError]]:
    try:
        yield from read_cells(path)
    except SourceError as error:
        yield 0, error


def _first_row(path: Path) -> Mapping[str, Json]:
    """The columns of the first valid row. Raises SourceError for a table that cannot be read."""
    return next((cells for _, cells in read_cells(path) if not isinstance(cells, SourceError)), {})
