"""Where a LeRobot dataset disagrees with its info.json, and what becomes of each of its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from ares.errors import SourceError
from ares.formats import META_FOLDER, TASK_LINES_PATH, TASKS_PATH
from ares.io import parse_path, walk_folders
from ares_ingest.base import SourceFile
from ares_ingest.lerobot.cameras import OTHER_NUMBERS, read_claimed_video_span
from ares_ingest.lerobot.episode import LeRobotDataset, find_claimed_data_path
from ares_ingest.lerobot.episode_list import EpisodeListSurvey, read_episode_list
from ares_ingest.lerobot.feature_map import CameraFeature, LeRobotFeatureMap
from ares_ingest.lerobot.file_contents import (
    DATA_SUFFIX,
    list_episodes_in_file,
    list_media_files,
)
from ares_ingest.lerobot.metadata import (
    LeRobotInfo,
    MetadataRow,
    parse_count,
    read_json_lines,
    read_task_texts,
    read_tasks_parquet,
)

# Misplaced Parquet files that are looked into for rows of episodes.
_MOST_OPENED = 16


def drop_cameras_without_video(
    info: LeRobotInfo, feature_map: LeRobotFeatureMap
) -> tuple[LeRobotFeatureMap, list[str]]:
    """The feature map without cameras that have no video where info.json places it, and a warning of each."""
    cameras = feature_map.video_cameras
    kept = tuple(camera for camera in cameras if info.has_video(camera.key))
    warnings = [f"camera {camera.name} of info.json has no video" for camera in cameras if camera not in kept]
    # A feature that is another spelling of a camera with videos is no other camera.
    spellings = {_letters_of(camera.name) for camera in kept}
    lost = tuple(
        camera.name for camera in cameras if camera not in kept and _letters_of(camera.name) not in spellings
    )
    return replace(feature_map, video_cameras=kept, lost_cameras=lost), warnings


def find_misplaced_files(dataset: LeRobotDataset) -> Iterator[str]:
    """A warning for files with rows of episodes, and one for videos, that lie where info.json places none.

    Raises SourceError where there are no other data files.
    """
    info, evidence = dataset.info, dataset.evidence
    expected = set(evidence.data_files)
    expected.update(*(evidence.camera_videos(camera.key) for camera in dataset.feature_map.video_cameras))
    misplaced = [path for path in list_media_files(info.root) if f"{info.root}/{path}" not in expected]
    tables = islice((path for path in misplaced if path.endswith(DATA_SUFFIX)), _MOST_OPENED)
    data = next((path for path in tables if list_episodes_in_file(f"{info.root}/{path}")), "")
    if data and not evidence.data_files:
        detail = f"{info.root}: data_path is {info.data_path.text!r}, and there is {data}"
        raise SourceError("data files are not where info.json says", f"{detail}; correct data_path there")
    if data:
        yield f"data files lie where data_path of info.json places none: {data}; not used"
    if videos := [path for path in misplaced if not path.endswith(DATA_SUFFIX)]:
        yield f"videos lie where video_path of info.json places none of its cameras: {videos[0]}; not used"


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
    """Warnings about the numbers of episodes and frames, and about tasks; `ares check` compares the rest of info.json.

    Args:
        dataset: The dataset.
        frames: Number of frames by the list of episodes, or None where there is no list.
    """
    info = dataset.info
    if info.count("total_episodes") not in (None, dataset.total):
        yield "total_episodes of info.json is not the number of episodes"
    if frames is not None and info.count("total_frames") not in (None, frames):
        yield "total_frames of info.json is not the number of frames that the episodes have"
    task_lines = read_json_lines(parse_path(info.root) / TASK_LINES_PATH)
    if any(isinstance(row, SourceError) for _, row in task_lines):
        yield "tasks.jsonl has lines that are not JSON objects"
    try:
        read_tasks_parquet(parse_path(info.root) / TASKS_PATH)
    except SourceError as error:
        yield f"{error.reason}: tasks are those of the list of episodes"
    if not read_task_texts(info.root):
        yield "there is no list of tasks"


@dataclass(frozen=True, slots=True)
class VideoContradictions:
    """Where the metadata about videos cannot be right.

    Attributes:
        overlapping: Per camera, the episodes whose spans overlap others.
        misnumbered: Cameras of which all videos have numbers that are shifted.
        warnings: One for each camera that is concerned.
    """

    overlapping: Mapping[str, frozenset[int]]
    misnumbered: frozenset[str]
    warnings: tuple[str, ...]

    def of_episode(self, episode: int) -> Mapping[str, str]:
        """The reason for each camera, by its key, why the metadata about this episode is not used."""
        reasons = dict.fromkeys(self.misnumbered, OTHER_NUMBERS)
        for key, episodes in self.overlapping.items():
            if episode in episodes:
                reasons[key] = "its span overlaps another episode: correct from_timestamp"
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
    has_episode_videos = info.video_path.has("episode")
    overlapping = (
        {} if has_episode_videos else {key: some for key, some in listed.contradicted.items() if some}
    )
    episodes = {*listed.listed.tolist(), *unlisted} if has_episode_videos else set()
    misnumbered = frozenset(
        camera.key
        for camera in cameras
        if has_episode_videos and dataset.evidence.is_misnumbered(camera.key, episodes)
    )
    warnings = [
        *(
            f"spans of camera {camera.name} overlap in the metadata"
            for camera in cameras
            if camera.key in overlapping
        ),
        *(
            f"videos of camera {camera.name} have not the numbers of the episodes"
            for camera in cameras
            if camera.key in misnumbered
        ),
    ]
    return VideoContradictions(overlapping, misnumbered, tuple(warnings))


class _UsedPaths(NamedTuple):
    """Paths that episodes of the list are read from."""

    data: set[str]
    videos: set[str]


def list_files(
    dataset: LeRobotDataset,
    locations: Sequence[MetadataRow],
    contradictions: VideoContradictions,
    unlisted: Sequence[int],
) -> Iterator[SourceFile]:
    """Every file of meta, every Parquet file and every video.

    The list of episodes says which files are used. Where it does not agree with the files, they are looked into as
    when the episodes are read.

    Args:
        dataset: The dataset.
        locations: The different files that its list of episodes names.
        contradictions: Where the metadata about videos cannot be right.
        unlisted: Episodes that the list does not name.
    """
    root = dataset.info.root
    yield from _metadata_files(root)
    present = [f"{root}/{path}" for path in list_media_files(root)]
    used = _used_paths(dataset, locations, contradictions, unlisted, set(present))
    for path in present:
        if path in used.data or path in used.videos:
            yield SourceFile(path=path, use="data")
        else:
            yield SourceFile(path=path, use="unused", detail=_reason_unused(dataset, path))


def _metadata_files(root: str) -> Iterator[SourceFile]:
    for folder, _, names in walk_folders(parse_path(root) / META_FOLDER):
        for name in names:
            yield SourceFile(path=str(folder / name), use="metadata")


def _used_paths(
    dataset: LeRobotDataset,
    locations: Sequence[MetadataRow],
    contradictions: VideoContradictions,
    unlisted: Sequence[int],
    present: set[str],
) -> _UsedPaths:
    """What the list of episodes names, where exactly these files exist; else what reading would use."""
    info = dataset.info
    features = [
        camera for camera in dataset.feature_map.video_cameras if camera.key not in contradictions.misnumbered
    ]
    claimed, episodes = _UsedPaths(set(), set()), set[int]()
    is_named_by_number = info.data_path.has("episode") or (features and info.video_path.has("episode"))
    different = [(0, row) for row in (*locations, *([{}] if unlisted else []))]
    for index, row in _listed_rows(dataset, unlisted) if is_named_by_number else different:
        episodes.add(index)
        claimed.data.add(find_claimed_data_path(info, index, row))
        spans = [read_claimed_video_span(info, feature, index, row) for feature in features]
        claimed.videos.update(span.path for span in spans if span)
    data = {path for path in present if path.endswith(DATA_SUFFIX)}
    if features and info.video_path.has("episode") and claimed.videos != present - data:
        claimed.videos.update(_numbered_videos(dataset, features, episodes))
    return _UsedPaths(
        claimed.data if claimed.data == data else _data_by_evidence(dataset, unlisted), claimed.videos
    )


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


def _numbered_videos(
    dataset: LeRobotDataset, features: Sequence[CameraFeature], episodes: Set[int]
) -> Iterator[str]:
    """The videos of cameras that have the number of an episode in their names."""
    for camera in features:
        numbered = dataset.evidence.videos_by_number(camera.key)
        yield from (path for number in numbered.keys() & episodes for path in numbered[number])


def _reason_unused(dataset: LeRobotDataset, path: str) -> str:
    if path.endswith(DATA_SUFFIX) and path not in dataset.evidence.data_files:
        return "data_path of info.json places no data file there"
    if path.endswith(DATA_SUFFIX):
        return "its rows belong to no listed episode, or to one that another file holds"
    if any(
        path in dataset.evidence.camera_videos(camera.key) for camera in dataset.feature_map.video_cameras
    ):
        return "no episode of the list has its frames"
    return "info.json places no video of a camera there"
