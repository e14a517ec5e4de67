"""Recognises ROS 2 recordings and Zarr stores by their metadata files; keys, columns and paths of LeRobot datasets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.errors import SourceError
from ares.input import open_zip, read_yaml
from ares.io import describe_os_error, is_url, parse_path, walk_folders

if TYPE_CHECKING:
    from numpy.typing import NDArray


ROSBAG2_METADATA = "metadata.yaml"
ZIP_SUFFIX = ".zarr.zip"
_GROUP_FILES = frozenset({".zgroup", "zarr.json", ".zmetadata"})
_METADATA_FILES = frozenset({*_GROUP_FILES, ".zarray", ".zattrs"})
# The versions that are written.
VERSION = "v3.0"
V21_VERSION = "v2.1"
# Files in a chunk folder.
CHUNK_FILES = 1000
META_FOLDER = "meta"
INFO_PATH = "meta/info.json"
STATS_PATH = "meta/stats.json"
TASKS_PATH = "meta/tasks.parquet"
MODALITY_PATH = "meta/modality.json"
# What ARES writes beside the columns of texts: every segment with its author, its exact span and its grade.
SEGMENTS_PATH = "meta/ares_segments.parquet"
# v2.0 and v2.1 list episodes and tasks as JSON lines.
EPISODE_LINES_PATH = "meta/episodes.jsonl"
TASK_LINES_PATH = "meta/tasks.jsonl"
# v2.1 has the statistics of each episode as JSON lines.
EPISODE_STATS_PATH = "meta/episodes_stats.jsonl"
# One file per episode and camera (v2.0, v2.1).
V2_DATA_PATH = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
V2_VIDEO_PATH = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
# Files shared by many episodes (v3.0).
EPISODES_FOLDER = "meta/episodes"
V3_EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
V3_DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
V3_VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
STATE_KEY = "observation.state"
ACTION_KEY = "action"
REWARD_KEY = "next.reward"
# Type of each column that numbers the rows of every dataset, in the order of its columns.
INDEX_DTYPES = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
# Columns of the episodes files (v3.0): chunk and number of the data file and of the episodes file, and the rows.
DATA_FILE_COLUMNS = ("data/chunk_index", "data/file_index")
EPISODES_FILE_COLUMNS = ("meta/episodes/chunk_index", "meta/episodes/file_index")
ROW_RANGE_COLUMNS = ("dataset_from_index", "dataset_to_index")
# Lists the texts that the numbers of the column `subtask_index` stand for, and its column with the texts.
SUBTASKS_PATH = "meta/subtasks.parquet"
SUBTASK_INDEX, SUBTASK_TEXT_COLUMN = "subtask_index", "subtask"
# Columns of rows of text: those that hold from a time on, and those of one frame.
LANGUAGE_PERSISTENT, LANGUAGE_EVENTS = "language_persistent", "language_events"
# Names under which datasets store the subtask of each frame as text, or as a number of a list of texts.
_SUBTASK_COLUMN = re.compile(r"(^|[._])sub_?tasks?(_(index|text|name|description|instruction))?$")
# The column of tasks.parquet that holds the texts: the name that pandas gives to an index without one.
TASK_TEXT_COLUMN = "__index_level_0__"
# Prefix of the columns that ARES adds to the episodes files; LeRobot passes them through.
ARES_PREFIX = "ares/"
# Of these, where the rate of an episode came from: an assumed rate is still assumed in the export.
RATE_SOURCE_COLUMN = f"{ARES_PREFIX}rate_source"
# Content hash of the episode that was exported, and the hash of what was written of it: `hash_written_episode`.
CONTENT_HASH_COLUMN, ROWS_HASH_COLUMN = f"{ARES_PREFIX}content_hash", f"{ARES_PREFIX}rows_hash"


def recording_files(uri: str) -> list[str]:
    """The files of a recording in order: a single file itself, or those that rosbag2's metadata.yaml lists.

    Raises SourceError for a metadata.yaml that cannot be read, or lists a file outside its folder.
    """
    path = parse_path(uri)
    if path.name != ROSBAG2_METADATA:
        return [uri]
    names = _listed_files(path)
    outside = [name for name in names if Path(name).is_absolute() or ".." in Path(name).parts]
    if outside:
        raise SourceError("a file of the recording lies outside its folder", f"{uri}: {outside[0]!r}")
    return [str(path.parent / name) for name in names]


def _listed_files(path: Path) -> list[str]:
    try:
        document = read_yaml(str(path))
    except OSError as error:
        raise SourceError("metadata.yaml cannot be read", f"{path}: {describe_os_error(error)}") from None
    bag = document.get("rosbag2_bagfile_information") if isinstance(document, dict) else None
    names = bag.get("relative_file_paths") if isinstance(bag, dict) else None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise SourceError("metadata.yaml lists no files", f"{path}: rosbag2_bagfile_information")
    return names


def is_zarr_folder(names: Collection[str]) -> bool:
    """Whether a folder with files of these names is a Zarr group (version 2 or 3)."""
    return not _GROUP_FILES.isdisjoint(names)


def is_zarr_zip(path: Path) -> bool:
    """Whether a file is a zipped Zarr store: by its name, or by the group at the root of another zip file."""
    if path.name.lower().endswith(ZIP_SUFFIX):
        return True
    if path.suffix.lower() != ".zip" or is_url(str(path)):
        return False
    try:
        with open_zip(str(path)) as archive:
            return is_zarr_folder(archive.namelist())
    except (SourceError, OSError):
        return False


def zarr_metadata_files(folder: str) -> list[str]:
    """The metadata files of a store in a folder, sorted: they change whenever an array grows or is replaced."""
    files: list[str] = []
    for parent, subfolders, names in walk_folders(Path(folder)):
        if _is_array_folder(subfolders, names):
            subfolders.clear()  # of its chunks there may be millions
        files += [str(parent / name) for name in names if name in _METADATA_FILES]
    return sorted(files)


def _is_array_folder(subfolders: Collection[str], names: Collection[str]) -> bool:
    return ".zarray" in names or ("zarr.json" in names and "c" in subfolders)


class VideoColumns(NamedTuple):
    """Columns of the episodes files (v3.0) that say which part of which video belongs to an episode."""

    chunk_index: str
    file_index: str
    from_timestamp: str
    to_timestamp: str


def video_columns(video_key: str) -> VideoColumns:
    """The columns of a camera by its feature key."""
    return VideoColumns(*(f"videos/{video_key}/{name}" for name in VideoColumns._fields))


def camera_key(camera: str) -> str:
    """Feature key of a camera; LeRobot allows no "/" in one."""
    return f"observation.images.{camera.replace('/', '_')}"


def is_subtask_column(key: str) -> bool:
    """Whether a column says by its name that it holds the subtask of each frame."""
    return _SUBTASK_COLUMN.search(key.lower()) is not None


def hash_written_episode(
    numbers: Mapping[str, NDArray[Any]], packet_sizes: Mapping[str, NDArray[Any]]
) -> str:
    """Hash of the steps and videos of an exported episode, in any order of the columns and cameras; 32 hex digits.

    Numbers of rows, tasks and subtasks do not count: they change where a dataset is cut, joined or relabelled.

    Args:
        numbers: (T, D) by column, as stored.
        packet_sizes: (T,) bytes of the packets of each video by camera, in the order in which they are decoded.
    """
    digest = hashlib.blake2b(digest_size=16)
    for key in sorted(numbers):
        if key == "timestamp" or not (key in INDEX_DTYPES or _SUBTASK_COLUMN.search(key.lower())):
            digest.update(f"{key}\x1f{numbers[key].dtype.str}\x1f{numbers[key].shape}\x1f".encode())
            digest.update(numbers[key].tobytes())
    for key, sizes in sorted((camera_key(camera), sizes) for camera, sizes in packet_sizes.items()):
        digest.update(f"{key}\x1f{len(sizes)}\x1f".encode() + sizes.astype("<i4").tobytes())
    return digest.hexdigest()
