"""What becomes of every file of a LeRobot dataset: data, metadata, a pointer, unreadable, or unused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.errors import SourceError
from ares.formats import META_FOLDER
from ares.input import open_input
from ares.io import is_url, parse_path, walk_folders
from ingest.base import SourceFile
from ingest.lerobot.cameras import claimed_span, find_span
from ingest.lerobot.episode import claimed_data_path, video_search
from ingest.lerobot.episode_list import distinct_locations, read_episode_list
from ingest.lerobot.evidence import DATA_SUFFIX, list_media_files, num_frames
from ingest.lerobot.metadata import as_count
from ingest.lerobot.rows import read_from_shared_file
from ingest.lerobot.values import frame_range, in_order

if TYPE_CHECKING:
    from ingest.lerobot.consistency import Contradictions
    from ingest.lerobot.episode import LeRobotDataset

_PARQUET_MAGIC = b"PAR1"
# Pictures that LeRobot writes while it records, and deletes once they are in a video.
_PICTURES_FOLDER = "images"
_PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg")


class _UsedPaths(NamedTuple):
    """Paths that episodes of the list are read from."""

    data: set[str]
    videos: set[str]


def list_files(
    dataset: LeRobotDataset, contradictions: Contradictions, unlisted: Sequence[int]
) -> Iterator[SourceFile]:
    """Every file of meta, every Parquet file and video, and pictures that a recording left.

    The list of episodes says which files are used. Where it does not agree with the files, they are looked into as
    when the episodes are read.

    Args:
        dataset: The dataset.
        contradictions: Where the metadata about videos cannot be right.
        unlisted: Episodes that the list does not name.
    """
    root = dataset.info.root
    yield from _metadata_files(root)
    present = [f"{root}/{path}" for path in list_media_files(root)]
    used = _used_paths(dataset, contradictions, unlisted, set(present))
    for path in present:
        damage = _damage(path)
        is_used = path in used.data or path in used.videos
        if damage:
            yield damage
        elif is_used:
            yield SourceFile(path=path, use="data")
        else:
            yield SourceFile(path=path, use="unused", detail=_reason_unused(dataset, path))
    yield from _left_pictures(root)


def _metadata_files(root: str) -> Iterator[SourceFile]:
    for folder, _, names in walk_folders(parse_path(root) / META_FOLDER):
        for name in names:
            path = str(folder / name)
            yield _damage(path) or SourceFile(path=path, use="metadata")


def _left_pictures(root: str) -> Iterator[SourceFile]:
    for folder, _, names in walk_folders(parse_path(root) / _PICTURES_FOLDER):
        for name in names:
            if name.lower().endswith(_PICTURE_SUFFIXES):
                yield SourceFile(
                    path=str(folder / name),
                    use="unused",
                    detail="picture of a recording that became no video",
                )


def _used_paths(
    dataset: LeRobotDataset, contradictions: Contradictions, unlisted: Sequence[int], present: set[str]
) -> _UsedPaths:
    """What the list of episodes names, where exactly these files exist; else what reading would use."""
    features = dataset.feature_map.video_cameras
    claimed = _UsedPaths(set(), set())
    for index, row in _rows_by_location(dataset, unlisted):
        claimed.data.add(claimed_data_path(dataset.info, index, row))
        spans = [claimed_span(dataset.info, feature, index, row) for feature in features]
        claimed.videos.update(span.path for span in spans if span)
    data = {path for path in present if path.endswith(DATA_SUFFIX)}
    is_regular = not contradictions.overlapping and not contradictions.misnumbered
    return _UsedPaths(
        claimed.data if claimed.data == data else _data_by_evidence(dataset, unlisted),
        claimed.videos
        if is_regular and claimed.videos == present - data
        else _videos_by_evidence(dataset, contradictions, unlisted),
    )


def _rows_by_location(
    dataset: LeRobotDataset, unlisted: Sequence[int]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """One entry of those that name the same files, where the number of an episode is no part of a path; else all."""
    info, cameras = dataset.info, dataset.feature_map.video_cameras
    is_named_by_number = info.data_path.has("episode") or (cameras and info.video_path.has("episode"))
    rows = None if is_named_by_number else distinct_locations(info, [camera.key for camera in cameras])
    if rows is None:
        yield from _listed_rows(dataset, unlisted)
        return
    yield from ((0, row) for row in rows)
    if unlisted:
        yield 0, {}


def _listed_rows(dataset: LeRobotDataset, unlisted: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Number and entry of each listed episode, and of those that only the data files hold."""
    for _, row in read_episode_list(dataset.info, only_locations=True):
        index = None if isinstance(row, SourceError) else as_count(row.get("episode_index"))
        if index is not None and not isinstance(row, SourceError):
            yield index, row
    yield from ((index, {}) for index in unlisted)


def _data_by_evidence(dataset: LeRobotDataset, unlisted: Sequence[int]) -> set[str]:
    paths = set()
    for index, row in _listed_rows(dataset, unlisted):
        claimed = claimed_data_path(dataset.info, index, row)
        holders = dataset.evidence.files_with_episode(index)
        if claimed in holders or not holders:
            paths.add(claimed)
        elif len(holders) == 1:
            paths.add(holders[0])
    return paths


def _videos_by_evidence(
    dataset: LeRobotDataset, contradictions: Contradictions, unlisted: Sequence[int]
) -> set[str]:
    paths = set()
    for index, row in _listed_rows(dataset, unlisted):
        frames = _frames(dataset, index, as_count(row.get("length")) or 0)
        search = video_search(dataset, index, row, frames, contradictions.of_episode(index))
        for feature in dataset.feature_map.video_cameras:
            try:
                paths.add(find_span(feature, search)[0].path)
            except SourceError:
                continue
    return paths


def _frames(dataset: LeRobotDataset, episode: int, declared_length: int) -> tuple[int, int]:
    """First and end frame of an episode, as when it is read."""
    steps = dataset.evidence.data_lengths.get(episode) or declared_length
    paths = dataset.evidence.files_with_episode(episode)
    if steps == declared_length or not paths:
        return 0, steps
    try:
        rows = read_from_shared_file(paths[0], episode, ("frame_index",))
    except SourceError:
        rows = None
    return frame_range(in_order(rows, []), declared_length) if rows else (0, steps)


def _reason_unused(dataset: LeRobotDataset, path: str) -> str:
    if path.endswith(DATA_SUFFIX):
        return "its rows belong to no listed episode, or to one that another file holds"
    if any(
        path in dataset.evidence.camera_videos(camera.key) for camera in dataset.feature_map.video_cameras
    ):
        return "no episode of the list has its frames"
    return "no camera of info.json is named in its path"


def _damage(path: str) -> SourceFile | None:
    """A file that is empty, cut, or stands for another one; None for a good one and for those of object stores."""
    if is_url(path):
        return None
    try:
        with open_input(path) as file:
            head = file.read(len(_PARQUET_MAGIC))
            size = file.seek(0, 2)
            file.seek(max(size - 4, 0))
            tail = file.read(4)
    except OSError as error:
        return SourceFile(path=path, use="unreadable", detail=str(error.strerror or error))
    except SourceError as error:
        return SourceFile(path=path, use="unreadable", detail=str(error))
    if not size:
        return SourceFile(path=path, use="unreadable", detail="the file is empty")
    is_parquet = path.endswith(DATA_SUFFIX)
    if is_parquet and not (head == tail == _PARQUET_MAGIC):
        return SourceFile(path=path, use="unreadable", detail="the Parquet file is cut or damaged")
    return _cut_video(path, size) if path.lower().endswith((".mp4", ".mov")) else None


def _cut_video(path: str, size: int) -> SourceFile | None:
    """An mp4 whose boxes (ISO/IEC 14496-12, 4.2) do not end with the file or lack the index "moov".

    One that only lacks what lies behind its frames is read, so it is not cut.
    """
    names, position = set(), 0
    with open_input(path) as file:
        while position + 8 <= size:
            file.seek(position)
            header = file.read(16)
            length = int.from_bytes(header[:4], "big")
            names.add(header[4:8])
            if length == 1:
                length = int.from_bytes(header[8:16], "big")
            elif length == 0:
                length = size - position
            if length < 8:
                break
            position += length
    if (position == size and b"moov" in names) or num_frames(path) > 0:
        return None
    return SourceFile(path=path, use="unreadable", detail="the video is cut or no mp4")
