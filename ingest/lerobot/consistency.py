"""Where a LeRobot dataset disagrees with its info.json, and what becomes of each of its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ares.errors import SourceError
from ares.formats import META_FOLDER, TASK_LINES_PATH, TASKS_PATH
from ares.input import open_input
from ares.io import is_url, parse_path, walk_folders
from ingest.base import SourceFile
from ingest.lerobot.cameras import NUMBERED_FROM_1, find_video_span, read_claimed_video_span
from ingest.lerobot.episode import LeRobotDataset, find_claimed_data_path, make_video_search
from ingest.lerobot.episode_list import EpisodeListSurvey, drop_repeated_locations, read_episode_list
from ingest.lerobot.feature_map import LeRobotFeatureMap
from ingest.lerobot.file_contents import (
    DATA_SUFFIX,
    list_media_files,
    match_cameras_to_folders,
    num_frames,
    read_file_contents,
    videos_start_at_1,
)
from ingest.lerobot.metadata import (
    LeRobotInfo,
    parse_count,
    read_json_lines,
    read_task_texts,
    read_tasks_parquet,
)
from ingest.lerobot.rows import find_frame_range, in_order, read_from_shared_file


def drop_cameras_without_video(
    info: LeRobotInfo, feature_map: LeRobotFeatureMap
) -> tuple[LeRobotFeatureMap, list[str]]:
    """The feature map without cameras that have no video at all, and warnings about these and misplaced ones."""
    cameras = feature_map.video_cameras
    keys = [camera.key for camera in cameras]
    misplaced = {camera.key for camera in cameras if not info.has_video(camera.key)}
    elsewhere = {key for key in misplaced if read_file_contents(info, keys).camera_videos(key)}
    warnings = [
        f"videos of camera {camera.name} are not where video_path of info.json says: found by their names"
        if camera.key in elsewhere
        else f"camera {camera.name} of info.json has no video"
        for camera in cameras
        if camera.key in misplaced
    ]
    kept = tuple(camera for camera in cameras if camera.key not in misplaced - elsewhere)
    # A feature that is another spelling of a camera with videos is no camera of its own.
    spellings = {_letters_of(camera.name) for camera in kept}
    lost = tuple(
        camera.name for camera in cameras if camera not in kept and _letters_of(camera.name) not in spellings
    )
    feature_map = replace(feature_map, video_cameras=kept, lost_cameras=lost)
    return feature_map, [*warnings, *_check_unnamed_videos(info, feature_map)]


def _letters_of(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def check_episode_list(info: LeRobotInfo, listed: EpisodeListSurvey, unlisted: int) -> Iterator[str]:
    """Warnings about the list of episodes.

    Args:
        info: The dataset.
        listed: Its list.
        unlisted: Number of episodes that the list does not name.

    Raises:
        SourceError: There is no episode at all.
    """
    if not listed.episodes and not unlisted:
        raise SourceError("dataset holds no episode", f"{info.root}: none in meta, and no data file or video")
    if not listed.episodes:
        yield "the metadata lists no episodes; they are taken from the files"
    if listed.has_repeated:
        yield "the metadata lists episodes more than once: the first entry of each is used"


def check_dataset(dataset: LeRobotDataset, frames: int | None) -> Iterator[str]:
    """Warnings about a dataset.

    Args:
        dataset: The dataset.
        frames: Number of frames by the list of episodes, or None where there is no list.
    """
    episodes = dataset.total
    info = dataset.info
    yield from _check_totals(info, episodes, frames)
    end_of_splits = max((stop for _, _, stop in dataset.splits), default=0)
    if end_of_splits > episodes:
        yield "splits in info.json name more episodes than there are"
    task_lines = read_json_lines(parse_path(info.root) / TASK_LINES_PATH)
    if any(isinstance(row, SourceError) for _, row in task_lines):
        yield "tasks.jsonl has lines that are not JSON objects"
    try:
        read_tasks_parquet(parse_path(info.root) / TASKS_PATH)
    except SourceError as error:
        yield f"{error.reason}: tasks are those of the list of episodes"
    if not read_task_texts(info.root):
        yield "there is no list of tasks"
    elif info.count("total_tasks") not in (None, len(read_task_texts(info.root))):
        yield "total_tasks of info.json is not the number of tasks"
    if info.data_path.has("episode"):
        yield from _check_data_files(dataset, episodes)
    if info.video_path.has("episode"):
        yield from _check_videos(dataset, episodes)


def _check_unnamed_videos(info: LeRobotInfo, feature_map: LeRobotFeatureMap) -> Iterator[str]:
    """A warning where a folder holds videos of no camera of info.json; the first video of each folder tells."""
    keys = [camera.key for camera in feature_map.video_cameras]
    if None in match_cameras_to_folders(info.root, keys).values():
        yield "there are videos of no camera that info.json names: not used"


def _check_totals(info: LeRobotInfo, episodes: int, frames: int | None) -> Iterator[str]:
    declared = info.count("total_episodes")
    if declared not in (None, episodes):
        yield "total_episodes of info.json is not the number of episodes"
    declared = info.count("total_frames")
    if frames is not None and declared not in (None, frames):
        yield "total_frames of info.json is not the number of frames that the episodes have"


def _check_data_files(dataset: LeRobotDataset, episodes: int) -> Iterator[str]:
    """Warnings where there is not one data file for each episode, in a layout with one each."""
    data_files = sum(1 for _ in dataset.info.data_files())
    if dataset.has_data and data_files != episodes:
        yield "there is not one data file for each episode"


def _check_videos(dataset: LeRobotDataset, episodes: int) -> Iterator[str]:
    """Warnings where there is not one video for each episode, in a layout with one each."""
    info, cameras = dataset.info, dataset.feature_map.video_cameras
    videos = {camera.name: sum(1 for _ in info.video_files(camera.key)) for camera in cameras}
    for name, count in videos.items():
        if count != episodes:
            yield f"camera {name} has not one video for each episode"
    declared = info.count("total_videos")
    if videos and declared not in (None, sum(videos.values())):
        yield "total_videos of info.json is not the number of videos"


@dataclass(frozen=True, slots=True)
class VideoContradictions:
    """Where the metadata about videos cannot be right.

    Attributes:
        overlapping: Per camera, the episodes whose spans overlap others.
        misnumbered: Cameras whose videos are numbered from 1 while episodes are numbered from 0.
        warnings: One for each camera that is concerned.
    """

    overlapping: Mapping[str, frozenset[int]]
    misnumbered: frozenset[str]
    warnings: tuple[str, ...]

    def of_episode(self, episode: int) -> Mapping[str, str]:
        """The reason for each camera, by its key, why the metadata about this episode is not used."""
        reasons = dict.fromkeys(self.misnumbered, NUMBERED_FROM_1)
        for key, episodes in self.overlapping.items():
            if episode in episodes:
                reasons[key] = "its span overlaps another episode and the frames of the videos do not decide"
        return reasons


def find_video_contradictions(
    dataset: LeRobotDataset, listed: EpisodeListSurvey, unlisted: Sequence[int]
) -> VideoContradictions:
    """Compare what the list says about the videos with itself, and the numbers of files with those of episodes.

    Args:
        dataset: The dataset.
        listed: Its list.
        unlisted: Episodes that the list does not name.
    """
    info, cameras = dataset.info, dataset.feature_map.video_cameras
    has_own_videos = info.video_path.has("episode")
    overlapping = {} if has_own_videos else {key: some for key, some in listed.contradicted.items() if some}
    episodes = {*listed.listed.tolist(), *unlisted} if has_own_videos else set()
    misnumbered = frozenset(
        camera.key for camera in cameras if videos_start_at_1(dataset.evidence, camera.key, episodes)
    )
    warnings = [
        *(
            f"spans of camera {camera.name} overlap in the metadata"
            for camera in cameras
            if camera.key in overlapping
        ),
        *(
            f"videos of camera {camera.name} are numbered from 1"
            for camera in cameras
            if camera.key in misnumbered
        ),
    ]
    return VideoContradictions(overlapping, misnumbered, tuple(warnings))


_PARQUET_MAGIC = b"PAR1"
# Pictures that LeRobot writes while it records, and deletes once they are in a video.
_PICTURES_FOLDER = "images"
_PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg")


class _UsedPaths(NamedTuple):
    """Paths that episodes of the list are read from."""

    data: set[str]
    videos: set[str]


def list_files(
    dataset: LeRobotDataset, contradictions: VideoContradictions, unlisted: Sequence[int]
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
        damage = _find_file_damage(path)
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
            yield _find_file_damage(path) or SourceFile(path=path, use="metadata")


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
    dataset: LeRobotDataset, contradictions: VideoContradictions, unlisted: Sequence[int], present: set[str]
) -> _UsedPaths:
    """What the list of episodes names, where exactly these files exist; else what reading would use."""
    features = dataset.feature_map.video_cameras
    claimed = _UsedPaths(set(), set())
    for index, row in _rows_by_location(dataset, unlisted):
        claimed.data.add(find_claimed_data_path(dataset.info, index, row))
        spans = [read_claimed_video_span(dataset.info, feature, index, row) for feature in features]
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
    rows = None if is_named_by_number else drop_repeated_locations(info, [camera.key for camera in cameras])
    if rows is None:
        yield from _listed_rows(dataset, unlisted)
        return
    yield from ((0, row) for row in rows)
    if unlisted:
        yield 0, {}


def _listed_rows(dataset: LeRobotDataset, unlisted: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Number and entry of each listed episode, and of those that only the data files hold."""
    for _, row in read_episode_list(dataset.info, only_locations=True):
        index = None if isinstance(row, SourceError) else parse_count(row.get("episode_index"))
        if index is not None and not isinstance(row, SourceError):
            yield index, row
    yield from ((index, {}) for index in unlisted)


def _data_by_evidence(dataset: LeRobotDataset, unlisted: Sequence[int]) -> set[str]:
    paths = set()
    for index, row in _listed_rows(dataset, unlisted):
        claimed = find_claimed_data_path(dataset.info, index, row)
        holders = dataset.evidence.files_with_episode(index)
        if claimed in holders or not holders:
            paths.add(claimed)
        elif len(holders) == 1:
            paths.add(holders[0])
    return paths


def _videos_by_evidence(
    dataset: LeRobotDataset, contradictions: VideoContradictions, unlisted: Sequence[int]
) -> set[str]:
    paths = set()
    for index, row in _listed_rows(dataset, unlisted):
        frames = _first_and_end_frame(dataset, index, parse_count(row.get("length")) or 0)
        search = make_video_search(dataset, index, row, frames, contradictions.of_episode(index))
        for feature in dataset.feature_map.video_cameras:
            try:
                paths.add(find_video_span(feature, search)[0].path)
            except SourceError:
                continue
    return paths


def _first_and_end_frame(dataset: LeRobotDataset, episode: int, declared_length: int) -> tuple[int, int]:
    """First and end frame of an episode, as when it is read."""
    steps = dataset.evidence.data_lengths.get(episode) or declared_length
    paths = dataset.evidence.files_with_episode(episode)
    if steps == declared_length or not paths:
        return 0, steps
    try:
        rows = read_from_shared_file(paths[0], episode, ("frame_index",))
    except SourceError:
        rows = None
    return find_frame_range(in_order(rows, []), declared_length) if rows else (0, steps)


def _reason_unused(dataset: LeRobotDataset, path: str) -> str:
    if path.endswith(DATA_SUFFIX):
        return "its rows belong to no listed episode, or to one that another file holds"
    if any(
        path in dataset.evidence.camera_videos(camera.key) for camera in dataset.feature_map.video_cameras
    ):
        return "no episode of the list has its frames"
    return "no camera of info.json is named in its path"


def _find_file_damage(path: str) -> SourceFile | None:
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
