"""Plan of a folder of videos: its episodes, from its tables as far as they go, else from the names of its files."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ares.errors import SourceError
from ares.files import relative
from ingest.video_cameras import ONE_CAMERA, Cameras, by_names, by_pattern
from ingest.video_columns import Row
from ingest.video_files import JSON_LINES, Clip, Listing, listing
from ingest.video_tables import is_about_videos, is_by_camera, rows

_AS_TOLD = ("split", "instruction", "success", "success_source", "robot", "fps", "metadata", "warnings")
_SAYS_UNSURE = (
    "names differ in a word that may be a camera or a task: each file is an episode of its own; "
    "if they are cameras, say --cameras '{episode}_{camera}.mp4'"
)


@dataclass(frozen=True, slots=True)
class Planned:
    """An episode to be, or why there is none.

    Attributes:
        where: For people.
        clip: The episode, or the error.
        name: What sets a failed one apart from the others.
        file: The first video that a row names, absolute, or "".
    """

    where: str
    clip: Clip | SourceError
    name: str
    file: str = ""


@dataclass(slots=True)
class Plan:
    """What a folder holds.

    Attributes:
        total: Episodes and failures that `planned` will give.
        warnings: What is odd about the folder as a whole.
        left_out: Tables with rows that cannot be read: videos that they do not tell of may be of those rows.
    """

    files: Listing
    cameras: Cameras
    tables: list[str]
    total: int = 0
    warnings: list[str] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    _broken: set[str] = field(default_factory=set)
    _by_name: dict[str, str | None] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _by_file: dict[str, str] | None = None

    def planned(self) -> Iterator[Planned]:
        """The episodes: those of the tables in their order, then those that no table tells of."""
        told: set[str] = set()
        seen: dict[str, tuple[Mapping[str, str], set[str]]] = {}
        for one in self._listed():
            clip = one.clip
            if isinstance(clip, Clip):
                told.update(clip.videos.values())
                videos, named = seen.setdefault(clip.key, (clip.videos, set()))
                if named and videos == clip.videos and one.file not in named:
                    named.add(one.file)  # another camera of the same episode, in a row of its own
                    continue
                if named:
                    clip = SourceError("episode is listed twice", f"{one.where}: {clip.key!r}")
                named.add(one.file)
            yield replace(one, clip=clip)
        yield from self._untold(told)
        for path in self.cameras.unmatched:
            where = str(self.files.folder / path)
            yield Planned(where, SourceError("file name does not match --cameras", where), path)

    def _untold(self, told: set[str]) -> Iterator[Planned]:
        for key, cameras in self.cameras.groups.items():
            left = {name: path for name, path in cameras.items() if self._whole(path) not in told}
            groups = (
                {key: left} if len(left) == len(cameras) else {path: {n: path} for n, path in left.items()}
            )
            for name, group in groups.items():
                tables = self._over(group)
                if self._broken.intersection(tables):
                    self.left_out.update(tables)
                    continue
                missed = tuple(f"video has no row in {posixpath.basename(table)}" for table in tables)
                videos = {camera: self._whole(path) for camera, path in group.items()}
                clip = Clip(key=name, videos=videos, sidecar=self._note(name, group), warnings=missed)
                yield Planned(self._whole(name), clip, name)

    def _whole(self, path: str) -> str:
        return f"{self.files.folder}/{path}"

    def _over(self, cameras: Mapping[str, str]) -> list[str]:
        """The tables that could tell of some files: they lie in the same folder or above it."""
        path = next(iter(cameras.values()))
        folders = ((posixpath.dirname(table), table) for table in self.tables)
        return [table for folder, table in folders if not folder or path.startswith(f"{folder}/")][:1]

    def _note(self, key: str, cameras: Mapping[str, str]) -> str:
        names = (key, f"{key}/metadata", *(posixpath.splitext(path)[0] for path in cameras.values()))
        found = next((f"{name}.json" for name in names if f"{name}.json" in self.files.notes), "")
        return self._whole(found) if found else ""

    def _listed(self) -> Iterator[Planned]:
        for table in self.tables:
            path = self.files.folder / table
            found = self._of_table(path)
            yield from _joined(found) if is_by_camera(path) else found

    def _of_table(self, path: Path) -> Iterator[Planned]:
        for number, row in rows(path):
            where = f"{path}, line {number}"
            name = f"{relative(path, self.files.folder)} line {number}"
            # The name that failed lines had before there was any other table.
            name = name.removeprefix("metadata.jsonl ")
            if isinstance(row, SourceError):
                self._broken.add(relative(path, self.files.folder))
                yield Planned(where, row, name)
                continue
            videos = {camera: self._found(path.parent, video) for camera, video in row.videos.items()}
            clip = self._clip(path.parent, row, videos, where)
            if isinstance(clip, SourceError):
                yield Planned(where, clip, name)
            else:
                yield Planned(f"{where}: {clip.key}", clip, name, next(iter(videos.values())) or "")

    def _clip(
        self, folder: Path, row: Row, videos: Mapping[str, str | None], where: str
    ) -> Clip | SourceError:
        outside = [row.videos[camera] for camera, path in videos.items() if path is None]
        if outside:
            return SourceError("video lies outside the folder", f"{where}: {outside[0]!r}")
        key, paths = self._episode(folder, row, {name: path for name, path in videos.items() if path})
        span = "" if row.start is None else f"@{row.start:.3f}-{row.stop:.3f}"
        told = {name: getattr(row, name) for name in _AS_TOLD}
        return Clip(
            key=row.episode or key + span,
            videos=paths,
            start_seconds=row.start,
            stop_seconds=row.stop,
            sidecar=self._note(key, {}),
            **told,
        )

    def _episode(self, folder: Path, row: Row, videos: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Key and cameras of what a row names: of a file that is a camera of an episode, the whole episode."""
        path = next(iter(videos.values()))
        group = self._groups().get(path) if list(videos) == [""] else None
        if group:
            return group, {name: self._whole(one) for name, one in self.cameras.groups[group].items()}
        return self._key(folder, next(iter(row.videos.values()))), {
            camera or ONE_CAMERA: path for camera, path in videos.items()
        }

    def _groups(self) -> dict[str, str]:
        """The episode of each file that is one of several cameras."""
        if self._by_file is None:
            several = {key: group for key, group in self.cameras.groups.items() if len(group) > 1}
            self._by_file = {
                self._whole(path): key for key, group in several.items() for path in group.values()
            }
        return self._by_file

    def _key(self, folder: Path, path: str) -> str:
        below = relative(folder, self.files.folder)
        return path if below == "." else f"{below}/{path}"

    def _found(self, folder: Path, path: str) -> str | None:
        """Absolute path of a video that a row names, also by its name alone; None when it would leave the folder."""
        inside = posixpath.normpath(posixpath.join(relative(folder, self.files.folder), path))
        if Path(path).is_absolute() or "\x00" in path or inside.split("/")[0] in (".", ".."):
            return None
        whole = self.files.folder / inside
        if inside in self._paths() or whole.is_file():
            return str(whole)
        named = self._names().get(posixpath.basename(path))
        return str(self.files.folder / named) if named else str(whole)

    def _paths(self) -> set[str]:
        """The videos of the folder: to ask a server for each would take longer than all else."""
        if not self._known:
            self._known = set(self.files.videos)
        return self._known

    def _names(self) -> dict[str, str | None]:
        """The only file of each name, with and without its suffix."""
        if not self._by_name:
            for path in self.files.videos:
                base = posixpath.basename(path)
                for name in (base, posixpath.splitext(base)[0]):
                    self._by_name[name] = None if name in self._by_name else path
        return self._by_name


def plan(folder: Path, pattern: str, only: str = "") -> Plan:
    """Look at a folder, or at one file of it.

    Raises RequestError for a pattern that is none, SourceError for a table that cannot be opened.
    """
    files = listing(folder) if not only else _alone(folder, only)
    cameras = by_pattern(files.videos, pattern) if pattern else by_names(files.videos)
    tables, warnings = _tables(files)
    if cameras.unsure:
        warnings.append(_SAYS_UNSURE)
    made = Plan(files, cameras, tables, warnings=warnings)
    made.total = sum(1 for _ in made.planned()) if tables else len(cameras.groups) + len(cameras.unmatched)
    made.warnings += [
        f"videos without a row are left out: {posixpath.basename(table)} has rows that cannot be read"
        for table in sorted(made.left_out)
    ]
    return made


def _alone(folder: Path, name: str) -> Listing:
    note = posixpath.splitext(name)[0] + ".json"
    return Listing(folder, [name], notes={note} if (folder / note).is_file() else set())


def _tables(files: Listing) -> tuple[list[str], list[str]]:
    """The tables that are read, and warnings of the others. JSON lines go before CSV in the same folder."""
    about = [table for table in files.tables if is_about_videos(files.folder / table)]
    lines = {posixpath.dirname(table) for table in about if posixpath.basename(table) in JSON_LINES}
    read = [
        table
        for table in about
        if posixpath.basename(table) in JSON_LINES or posixpath.dirname(table) not in lines
    ]
    warnings = [f"{posixpath.basename(table)} names no video and is not read" for table in files.tables]
    warnings = [text for text, table in zip(warnings, files.tables, strict=True) if table not in about] + [
        f"{posixpath.basename(table)} is not read: there are JSON lines beside it"
        for table in about
        if table not in read
    ]
    return read, list(dict.fromkeys(warnings))


def _joined(found: Iterator[Planned]) -> Iterator[Planned]:
    """Rows of single cameras as episodes, each where its first row stands."""
    made: dict[str, Planned] = {}
    for one in found:
        clip = one.clip
        before = made.get(clip.key) if isinstance(clip, Clip) else None
        if isinstance(clip, SourceError) or before is None:
            made[one.name if isinstance(clip, SourceError) else clip.key] = one
        elif isinstance(before.clip, Clip) and clip.videos.keys().isdisjoint(before.clip.videos):
            made[clip.key] = replace(
                before, clip=replace(before.clip, videos={**before.clip.videos, **clip.videos})
            )
        else:
            made[one.name] = one
    yield from made.values()
