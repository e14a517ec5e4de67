"""Warnings where the info.json of a LeRobot dataset disagrees with its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ares.errors import SourceError
from ares.formats import TASK_LINES_PATH, TASKS_PATH
from ares.io import parse_path
from ingest.lerobot.cameras import NUMBERED_FROM_1
from ingest.lerobot.episode import LeRobotDataset
from ingest.lerobot.episode_list import ListSurvey
from ingest.lerobot.evidence import cameras_of_folders, dataset_evidence, videos_start_at_1
from ingest.lerobot.feature_map import LeRobotFeatureMap
from ingest.lerobot.metadata import LeRobotInfo, read_json_lines, read_tasks_parquet, task_texts


def drop_cameras_without_video(
    info: LeRobotInfo, feature_map: LeRobotFeatureMap
) -> tuple[LeRobotFeatureMap, list[str]]:
    """The feature map without cameras that have no video at all, and warnings about these and misplaced ones."""
    cameras = feature_map.video_cameras
    keys = [camera.key for camera in cameras]
    misplaced = {camera.key for camera in cameras if not info.has_video(camera.key)}
    elsewhere = {key for key in misplaced if dataset_evidence(info, keys).camera_videos(key)}
    warnings = [
        f"videos of camera {camera.name} are not where video_path of info.json says: found by their names"
        if camera.key in elsewhere
        else f"camera {camera.name} of info.json has no video"
        for camera in cameras
        if camera.key in misplaced
    ]
    kept = tuple(camera for camera in cameras if camera.key not in misplaced - elsewhere)
    feature_map = replace(feature_map, video_cameras=kept)
    return feature_map, [*warnings, *_check_unnamed_videos(info, feature_map)]


def check_list(info: LeRobotInfo, listed: ListSurvey, unlisted: int) -> Iterator[str]:
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
    if not task_texts(info.root):
        yield "there is no list of tasks"
    elif info.count("total_tasks") not in (None, len(task_texts(info.root))):
        yield "total_tasks of info.json is not the number of tasks"
    if info.data_path.has("episode"):
        yield from _check_data_files(dataset, episodes)
    if info.video_path.has("episode"):
        yield from _check_videos(dataset, episodes)


def _check_unnamed_videos(info: LeRobotInfo, feature_map: LeRobotFeatureMap) -> Iterator[str]:
    """A warning where a folder holds videos of no camera of info.json; the first video of each folder tells."""
    keys = [camera.key for camera in feature_map.video_cameras]
    if None in cameras_of_folders(info.root, keys).values():
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
class Contradictions:
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


def find_contradictions(
    dataset: LeRobotDataset, listed: ListSurvey, unlisted: Sequence[int]
) -> Contradictions:
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
    return Contradictions(overlapping, misnumbered, tuple(warnings))
