"""What the files of a LeRobot dataset hold, for datasets whose metadata does not agree with them."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING

from ares.errors import SourceError
from ares.formats import INFO_PATH, META_FOLDER
from ares.io import parse_path, relative_path, walk_folders
from ares_ingest.files import probe_once
from ares_ingest.lerobot.episode_list import EpisodeListSurvey
from ares_ingest.lerobot.metadata import LeRobotInfo
from ares_ingest.lerobot.rows import count_rows, episode_lengths_in_file, measure_timestamp_rate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


VIDEO_SUFFIXES = (".mp4", ".mkv", ".mov", ".webm", ".avi")
DATA_SUFFIX = ".parquet"
# Datasets whose evidence a process remembers.
_MAX_REMEMBERED = 4


class DatasetFileContents:
    """What the files of a dataset hold; everything is read when it is first asked for, and then remembered.

    Args:
        info: The dataset.
        camera_keys: Keys of all cameras with videos.
    """

    def __init__(self, info: LeRobotInfo, camera_keys: Sequence[str]) -> None:
        self._info = info
        self._keys = tuple(camera_keys)
        self._videos: dict[str, tuple[str, ...]] = {}
        self._numbered: dict[str, dict[int | None, list[str]]] = {}

    @cached_property
    def data_files(self) -> tuple[str, ...]:
        """Absolute paths of the data files where info.json places them, in the order of their numbers."""
        return tuple(sorted(self._info.data_files(), key=_natural_order))

    def camera_videos(self, key: str) -> tuple[str, ...]:
        """Absolute paths of a camera's videos where info.json places them, in the order of their numbers."""
        if key not in self._videos:
            self._videos[key] = tuple(sorted(self._info.video_files(key), key=_natural_order))
        return self._videos[key]

    def videos_by_number(self, key: str) -> Mapping[int | None, list[str]]:
        """The videos of a camera by the number of an episode in their names; None where video_path has none."""
        if key not in self._numbered:
            for path in self.camera_videos(key):
                number = self._info.video_path.match(path.removeprefix(f"{self._info.root}/"), "episode")
                self._numbered.setdefault(key, {}).setdefault(number, []).append(path)
        return self._numbered.get(key, {})

    def video_of_episode(self, key: str, episode: int) -> str:
        """The one video of a camera that has the number of the episode, in whatever chunk; "" for none."""
        numbered = self.videos_by_number(key).get(episode, [])
        return numbered[0] if len(numbered) == 1 else ""

    def is_misnumbered(self, key: str, episodes: Set[int]) -> bool:
        """Whether all numbers of a camera's videos are too high or too low by as much: they are not the episodes'."""
        numbers = {number for number in self.videos_by_number(key) if number is not None}
        if not numbers or not episodes or numbers <= episodes:
            return False
        shifts = (min(numbers) - min(episodes), max(numbers) - max(episodes))
        return any(all(number - shift in episodes for number in numbers) for shift in shifts)

    @cached_property
    def data_lengths(self) -> Mapping[int, int]:
        """Rows of each episode in the data files; of the longest piece where several files hold rows of it."""
        lengths: dict[int, int] = {}
        for episode_lengths in self._lengths_by_file.values():
            for episode, length in episode_lengths.items():
                lengths[episode] = max(length, lengths.get(episode, 0))
        return lengths

    @property
    def num_rows(self) -> int:
        """Rows of all data files by their footers; those of a damaged file count as none."""
        return sum(map(count_rows, self.data_files))

    def episodes_of_videos(self, known: Set[int]) -> set[int]:
        """The episodes that the names of the videos of all cameras tell.

        Args:
            known: Episodes of the list and of the data files.
        """
        keys = [key for key in self._keys if not self.is_misnumbered(key, known)]
        return {number for key in keys for number in self.videos_by_number(key) if number is not None}

    @cached_property
    def _lengths_by_file(self) -> Mapping[str, Mapping[int, int]]:
        lengths = {}
        for path in self.data_files:
            try:
                lengths[path] = episode_lengths_in_file(path)
            except SourceError:
                continue  # the episodes of a damaged file report it when they are loaded
        return lengths

    @cached_property
    def _paths_by_episode(self) -> Mapping[int, tuple[str, ...]]:
        paths: dict[int, tuple[str, ...]] = {}
        for path, lengths in self._lengths_by_file.items():
            for episode in lengths:
                paths[episode] = (*paths.get(episode, ()), path)
        return paths

    def files_with_episode(self, episode: int) -> tuple[str, ...]:
        """The data files whose column episode_index has this episode."""
        return self._paths_by_episode.get(episode, ())


_evidence: OrderedDict[tuple[str, int, tuple[str, ...]], DatasetFileContents] = OrderedDict()


def read_file_contents(info: LeRobotInfo, camera_keys: Sequence[str]) -> DatasetFileContents:
    """The evidence of a dataset, remembered by this process as long as the dataset is not opened again."""
    key = (info.root, info.opened_at, tuple(camera_keys))
    if key not in _evidence:
        _evidence[key] = DatasetFileContents(info, camera_keys)
        while len(_evidence) > _MAX_REMEMBERED:
            _evidence.popitem(last=False)
    return _evidence[key]


def list_media_files(root: str) -> Iterator[str]:
    """Relative paths of the Parquet files and videos of a dataset; those of meta and of datasets inside it are not."""
    folder = parse_path(root)
    for path, subfolders, names in walk_folders(folder):
        if path == folder:
            subfolders[:] = [name for name in subfolders if name != META_FOLDER]
        elif (path / INFO_PATH).is_file():
            subfolders.clear()
            continue
        base = relative_path(path, folder)
        for name in names:
            if not name.startswith(".") and name.lower().endswith((DATA_SUFFIX, *VIDEO_SUFFIXES)):
                yield name if base == "." else f"{base}/{name}"


def find_unlisted_episodes(
    info: LeRobotInfo, evidence: DatasetFileContents, listed: NDArray[np.int64], frames: int
) -> list[int]:
    """Episodes that the files hold and the list does not name.

    Names of files tell where each is of one episode, unless the column episode_index has listed episodes only. Else
    the data files are looked into, where they have another number of rows than the list has frames. Names of videos
    tell where there is no list or no data, except those of a camera whose numbers are all shifted.

    Args:
        info: The dataset.
        evidence: What its files hold.
        listed: Numbers of the listed episodes, sorted.
        frames: Sum of their lengths.
    """
    known = set(listed.tolist())
    episodes: set[int] = set()
    paths = list(info.data_files())
    if paths and info.data_path.has("episode"):
        episodes |= {
            number
            for path in paths
            if (number := info.data_path.match(path.removeprefix(f"{info.root}/"), "episode")) is not None
            and (number in known or not set() < list_episodes_in_file(path) <= known)
        }
    elif evidence.num_rows not in (0, frames):
        episodes |= evidence.data_lengths.keys()
    if info.video_path.has("episode") and not (known and evidence.data_files):
        episodes |= evidence.episodes_of_videos(known | episodes)
    return sorted(episodes - known)


def episodes_without_rows(
    info: LeRobotInfo, evidence: DatasetFileContents, listed: EpisodeListSurvey
) -> frozenset[int]:
    """Listed episodes of which no data file that can be read has a row.

    The files are looked into only where their number or their rows are not those of the list.
    """
    if info.data_path.has("episode"):
        is_regular = len(evidence.data_files) == listed.episodes
    else:
        is_regular = evidence.num_rows == listed.frames
    if (is_regular and not listed.has_empty) or not evidence.data_files:
        return frozenset()
    return frozenset(listed.listed.tolist()) - evidence.data_lengths.keys()


def list_episodes_in_file(path: str) -> Set[int]:
    """The episodes of a data file by its column episode_index; none where it cannot be read or lacks the column."""
    try:
        return episode_lengths_in_file(path).keys()
    except SourceError:
        return set()


def _natural_order(path: str) -> list[tuple[int, str]]:
    return [(int(digits or 0), text) for text, digits in re.findall(r"([^\d]*)(\d{0,18})", path)]


def measure_rate_of_files(info: LeRobotInfo, camera_keys: Sequence[str]) -> tuple[float | None, str]:
    """Frames per second by the first data file with timestamps, else by the first video; and which it was."""
    evidence = read_file_contents(info, camera_keys)
    for path in evidence.data_files:
        rate_hz = measure_timestamp_rate(path)
        if rate_hz:
            return rate_hz, "timestamps"
    for key in camera_keys:
        for path in evidence.camera_videos(key):
            try:
                return probe_once(path).rate_hz, "videos"
            except SourceError:
                continue
    return None, ""
