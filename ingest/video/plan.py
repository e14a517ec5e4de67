"""Plans the episodes of a folder of videos: its files, grouped by tables or by their names."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ares.episode import Json
from ares.errors import RequestError, SourceError
from ares.input import read_cells
from ares.io import relative_path, walk_folders
from ingest.source_words import InvalidRowError, VideoRow, has_camera_rows, names_a_video, parse_video_row

# A file name with this suffix, or a folder with this name, is a camera: no task is called "cam_high".
_CERTAIN_CAMERA = (
    r"(?:(?:left|right)[_-])?wrist(?:[_-](?:left|right|cam(?:era)?))?|(?:hand|eye_in_hand|gripper)_?cam(?:era)?|eye_in_hand"
    r"|cam(?:era)?[_-]?\d+|cam(?:era)?_[a-z]\w*|[a-z]+_?cam(?:era)?|ext(?:erior)?(?:_?image)?_?\d+(?:_(?:left|right))?"
    r"|image_\d+|ego|egocentric|overhead|agentview|front_?view|side_?view|top_?view|third_?person|first_?person"
    r"|observation\.images?\.\w+"
)
# The name of a task may have this suffix too: push_left, grasp_top, open_hand.
_POSSIBLE_CAMERA = (
    r"front|back|rear|left|right|top|side|head|hand|gripper|(?:left|right)_(?:hand|gripper)|exterior"
)
_CAMERA_NAME = re.compile(rf"(?P<certain>{_CERTAIN_CAMERA})|(?P<possible>{_POSSIBLE_CAMERA})", re.IGNORECASE)
_CAMERA_SUFFIX = re.compile(
    rf"(?P<stem>.+?)[_.-](?P<camera>(?:{_CERTAIN_CAMERA})|(?:{_POSSIBLE_CAMERA}))", re.IGNORECASE
)
_PATTERN_TOKEN = re.compile(
    r"\{(?P<name>[^{}:]*)(?::(?P<choices>[^{}]*))?\}|(?P<any>\*)|(?P<text>[^{}*]+)|(?P<bad>.)"
)
ONLY_CAMERA = "video"


@dataclass(slots=True)
class VideosByEpisode:
    """Video files by episode and camera.

    Attributes:
        groups: By key of the episode: path by name of the camera.
        ambiguous: Files whose names may mean cameras or tasks; each is a separate episode.
        unmatched: Files that do not match the pattern of the user.
    """

    groups: dict[str, dict[str, str]] = field(default_factory=dict)
    ambiguous: list[str] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)


def group_by_names(files: Iterable[str]) -> VideosByEpisode:
    """Group files whose names are unambiguous: see docs/why/005-cameras-by-name.md."""
    groups: dict[str, dict[str, str]] = {}
    for path in files:
        key, camera = _split_path(path)
        cameras = groups.setdefault(key, {})
        cameras[posixpath.basename(path) if camera in cameras else camera] = path
    certain_keys = {key for key, cameras in groups.items() if len(cameras) > 1 and _is_certain(key, cameras)}
    camera_names = {camera for key in certain_keys for camera in groups[key]}
    result = VideosByEpisode()
    for key, cameras in groups.items():
        if key in certain_keys:
            result.groups[key] = cameras
            continue
        if len(cameras) > 1:
            result.ambiguous.extend(cameras.values())
        (first, *_) = cameras
        if len(cameras) == 1 and first in camera_names:
            # The other cameras of the episode may come later: it keeps its key then.
            result.groups[key] = cameras
        else:
            result.groups |= {path: {ONLY_CAMERA: path} for path in cameras.values()}
    return result


def group_by_pattern(files: Iterable[str], pattern: str) -> VideosByEpisode:
    """Group files by a pattern such as "{episode}_{camera}.mp4". Raises RequestError for an invalid pattern."""
    regex = _compile_pattern(pattern)
    result = VideosByEpisode()
    for path in files:
        match = regex.fullmatch(path)
        if match is None:
            result.unmatched.append(path)
            continue
        key = (match["folders"] or "") + _episode_key(match)
        cameras = result.groups.setdefault(key, {})
        cameras[posixpath.basename(path) if match["camera"] in cameras else match["camera"]] = path
    return result


def _episode_key(match: re.Match[str]) -> str:
    """The episode with the text of the wildcards, which distinguishes episodes too."""
    wildcards = [match[name] for name in match.re.groupindex if name.startswith("any")]
    return "/".join([*wildcards, match["episode"]])


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    tokens = list(_PATTERN_TOKEN.finditer(pattern))
    names = [token["name"] for token in tokens if token["name"] is not None]
    if sorted(names) != ["camera", "episode"] or any(token["bad"] for token in tokens):
        raise RequestError(
            "--cameras needs {episode} and {camera}, each once",
            f"{pattern!r}; for example '{{episode}}_{{camera}}.mp4', '{{camera}}/{{episode}}.mp4', "
            "or '{episode}_{camera:front|left_wrist}.mp4'",
        )
    lists_cameras = any(token["choices"] for token in tokens)
    text = "".join(_token_regex(token, number, lists_cameras) for number, token in enumerate(tokens))
    suffix = "" if posixpath.splitext(pattern.rstrip("}"))[1] and not pattern.endswith("}") else r"\.[^/.]+"
    return re.compile(rf"(?P<folders>(?:[^/]+/)*?){text}{suffix}")


def _token_regex(token: re.Match[str], number: int, lists_cameras: bool) -> str:
    if token["text"]:
        return re.escape(token["text"])
    if token["any"]:
        return rf"(?P<any{number}>[^/]*)"
    if token["choices"]:
        return f"(?P<{token['name']}>{'|'.join(re.escape(name) for name in token['choices'].split('|'))})"
    # The camera is what follows the last separator, unless the cameras are listed.
    return f"(?P<{token['name']}>[^/]+{'?' if lists_cameras else ''})"


def _split_path(path: str) -> tuple[str, str]:
    """Key of the episode and name of the camera, from the path of a file."""
    folder, name = posixpath.split(path)
    stem = posixpath.splitext(name)[0]
    if _CAMERA_NAME.fullmatch(stem):
        return (folder, stem) if folder else (path, ONLY_CAMERA)
    match = _CAMERA_SUFFIX.fullmatch(stem)
    if match:
        return posixpath.join(folder, match["stem"]), match["camera"]
    parts = folder.split("/") if folder else []
    for number in range(len(parts) - 1, -1, -1):
        if _CAMERA_NAME.fullmatch(parts[number]):
            return "/".join([*parts[:number], *parts[number + 1 :], stem]), parts[number]
    return posixpath.join(folder, stem), ONLY_CAMERA


def _is_certain(key: str, cameras: Mapping[str, str]) -> bool:
    """Whether files are cameras of one episode for certain: a name means only a camera, or the key ends in a number.

    The number does not count where the cameras are folders: folders of tasks are numbered in the same way
    ("left/0001.mp4", "right/0001.mp4").
    """
    matches = [_CAMERA_NAME.fullmatch(camera) for camera in cameras]
    if any(match and match["certain"] for match in matches):
        return True
    folders = {posixpath.dirname(path) for path in cameras.values()}
    if len(folders) > 1:
        return any(camera.lower() == "front" for camera in cameras)
    return all(matches) and key[-1:].isdigit()


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
    result = VideoFolderPlan(files, cameras, tables, warnings=warnings)
    result.total = sum(1 for _ in result.clips()) if tables else len(cameras.groups) + len(cameras.unmatched)
    result.warnings += [
        f"videos without a row are left out: {posixpath.basename(table)} has rows that cannot be read"
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
    warnings = [f"{posixpath.basename(table)} names no video and is not read" for table in files.tables]
    warnings = [
        warning for warning, table in zip(warnings, files.tables, strict=True) if table not in video_tables
    ] + [
        f"{posixpath.basename(table)} is not read: its folder has a JSON lines table"
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
            by_key[clip.key] = replace(
                earlier, clip=replace(earlier.clip, videos={**earlier.clip.videos, **clip.videos})
            )
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
