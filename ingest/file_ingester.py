"""An ingester of a format whose every file is an episode, made of one function that reads a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import Camera, Json, Record, Signal, Trajectory
from ares.errors import PluginError, SourceError
from ares.io import FolderEntries, absolute_path, folder_name, is_url, relative_path, walk_folders
from ares_ingest.base import (
    EpisodeEntry,
    FolderClaim,
    FolderIngester,
    Item,
    Source,
    SourceFile,
    SourceOptions,
    make_episode,
)
from ares_ingest.files import describe_camera, hash_media_files, probe_once, whole_video
from ares_ingest.signals import compute_step_times

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileEpisode:
    """What a file says of its episode; the rest of an `Episode` follows from the file itself.

    Attributes:
        state: (T, S) numbers with the names of their dimensions, or None.
        action: (T, A) likewise, or None.
        extra: Further signals by name.
        rate_hz: Steps per second, or None where the file has `seconds` or does not say.
        seconds: (T,) stamps of the steps on any clock, or None.
        instruction: What the robot was told, or "".
        robot: Its name, or "".
        success: The outcome that the file states; None where it states none.
        videos: Path of the video of each camera, by the name of the camera.
        metadata: Other information of the file about the episode, small JSON.
    """

    state: Signal | None = None
    action: Signal | None = None
    extra: Mapping[str, Signal] = field(default_factory=dict)
    rate_hz: float | None = None
    seconds: NDArray[np.floating[Any]] | None = None
    instruction: str = ""
    robot: str = ""
    success: bool | None = None
    videos: Mapping[str, str | Path] = field(default_factory=dict)
    metadata: Mapping[str, Json] = field(default_factory=dict)

    def count_steps(self, path: str) -> int:
        """T, which all signals have in common. Raises SourceError where they have not, or where there is no signal."""
        named = {"state": self.state, "action": self.action, **self.extra}
        lengths = {name: len(signal.values) for name, signal in named.items() if signal is not None}
        if self.seconds is not None:
            lengths["seconds"] = len(self.seconds)
        if len(set(lengths.values())) != 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise SourceError("signals differ in length", f"{path}: {shown or 'there is no signal'}")
        return next(iter(lengths.values()))


ReadFile = Callable[[str], FileEpisode]


class FileIngester(FolderIngester):
    """Opens folders of files of one suffix, at any depth; each file is an episode.

    ARES makes the ids, of the name of the dataset and the path of a file in it, the hashes, the counts and the list of
    files. So no id is missing and none comes twice, and a file that cannot be read costs one episode.

    Args:
        name: Name of the format, as its entry point has it: lower case, "steps".
        suffix: How the names of its files end, ".steps.json".
        read: Reads one file; a function of a module, as workers import it. Raises SourceError(reason, detail).

    Raises:
        PluginError: An argument cannot be right.
    """

    def __init__(self, name: str, suffix: str, read: ReadFile) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise PluginError(
                "the name of a FileIngester is lower case", f"got {name!r}; give one such as 'steps'"
            )
        if not isinstance(suffix, str) or not re.fullmatch(r"(\.[^./\\]+)+", suffix):
            raise PluginError(
                "the suffix of a FileIngester begins with a dot", f"got {suffix!r}; give one such as '.npz'"
            )
        if "<" in getattr(read, "__qualname__", "<"):
            detail = f"got {read!r}; workers import it by its name"
            raise PluginError("what a FileIngester reads with is no function of a module", detail)
        self._name, self._suffix, self._read = name, suffix.lower(), read

    @property
    def name(self) -> str:
        """Name of the format."""
        return self._name

    def recognises(self, path: str) -> bool:
        """Whether a path is such a file, or a folder with such files at any depth."""
        return any(self._find_files(absolute_path(path)))

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """Whether such files lie in a folder."""
        return "data" if any(map(self._is_file, folder.files)) else None

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open a folder, or a single file, as one dataset."""
        root = absolute_path(path)
        paths = list(self._find_files(root))
        folder = root.parent if paths == [root] else root
        dataset = options.dataset or folder_name(folder)
        entries = (
            _FileEntry(
                format=self.name,
                dataset=dataset,
                key=relative_path(file, folder),
                rate_hz=options.rate_hz,
                path=str(file),
                read=self._read,
            )
            for file in paths
        )
        return [
            Source(
                format=self.name,
                dataset=dataset,
                total=len(paths),
                items=map(_make_item, entries),
                folder=str(root),
                files=lambda: (SourceFile(path=str(file), use="data") for file in paths),
            )
        ]

    def _is_file(self, name: str) -> bool:
        return name.lower().endswith(self._suffix) and not name.startswith(".")

    def _find_files(self, root: Path) -> Iterator[Path]:
        if not is_url(str(root)) and root.is_file():
            yield from [root] if self._is_file(root.name) else ()
            return
        for parent, subfolders, names in walk_folders(root):
            subfolders.sort()
            yield from (parent / name for name in sorted(names) if self._is_file(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileEntry(EpisodeEntry):
    """One file, before it is read."""

    path: str
    read: ReadFile


def _make_item(entry: _FileEntry) -> Item:
    load = partial(load_file_episode, entry)
    return Item(episode_id=entry.episode_id, location=entry.path, load=load, key=entry.key)


def load_file_episode(entry: _FileEntry) -> Record:
    """The record of a file.

    Raises:
        SourceError: It cannot be read, or its signals do not belong together.
        PluginError: What reads it returned no FileEpisode.
    """
    read: Any = entry.read(entry.path)
    if not isinstance(read, FileEpisode):
        detail = f"{entry.path}: got a {type(read).__name__}"
        raise PluginError(
            f"{entry.read.__qualname__} of the format {entry.format!r} returned no FileEpisode", detail
        )
    warnings: dict[str, None] = {}
    times = compute_step_times(
        read.seconds,
        read.count_steps(entry.path),
        warnings,
        name="seconds",
        user_rate_hz=entry.rate_hz,
        stated_rate_hz=read.rate_hz,
    )
    trajectory = Trajectory(timestamps=times.seconds, state=read.state, action=read.action, extra=read.extra)
    videos = {name: str(path) for name, path in read.videos.items()}
    episode = make_episode(
        entry,
        trajectory,
        [read.instruction],
        source=entry.path,
        content_hash=hash_media_files([entry.path, *videos.values()]),
        robot=read.robot,
        rate_hz=times.rate_hz,
        rate_source=times.rate_source,
        cameras=tuple(_describe_video(name, path) for name, path in videos.items()),
        success=read.success,
        success_source="" if read.success is None else "success",
        metadata=read.metadata,
    )
    return Record(
        episode=episode, trajectory=trajectory, warnings=tuple(warnings), has_stamps=times.has_stamps
    )


def _describe_video(name: str, path: str) -> Camera:
    info = probe_once(path)
    return describe_camera(name, info, whole_video(path, info))
