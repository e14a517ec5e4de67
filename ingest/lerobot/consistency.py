"""Warnings where the info.json of a LeRobot dataset disagrees with its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ares.errors import SourceError
from ares.formats import TASK_LINES_PATH
from ares.io import parse_path
from ingest.lerobot.episode import LeRobotDataset
from ingest.lerobot.feature_map import LeRobotFeatureMap
from ingest.lerobot.metadata import LeRobotInfo, read_json_lines, task_texts


def drop_cameras_without_video(
    info: LeRobotInfo, feature_map: LeRobotFeatureMap
) -> tuple[LeRobotFeatureMap, list[str]]:
    """The feature map without cameras that have no video at all, and a warning for each of these."""
    cameras = feature_map.video_cameras
    with_video = tuple(camera for camera in cameras if info.has_video(camera.key))
    warnings = [
        f"camera {camera.name} of info.json has no video" for camera in cameras if camera not in with_video
    ]
    return replace(feature_map, video_cameras=with_video), warnings


def check_dataset(dataset: LeRobotDataset, episodes: int, frames: int | None) -> Iterator[str]:
    """Warnings about a dataset.

    Args:
        dataset: The dataset.
        episodes: Number of its episodes.
        frames: Number of their frames by the list of episodes, or None where there is no list.

    Raises:
        SourceError: The tasks cannot be read.
    """
    info = dataset.info
    yield from _check_totals(info, episodes, frames)
    end_of_splits = max((stop for _, _, stop in dataset.splits), default=0)
    if end_of_splits > episodes:
        yield "splits in info.json name more episodes than there are"
    task_lines = read_json_lines(parse_path(info.root) / TASK_LINES_PATH)
    if any(isinstance(row, SourceError) for _, row in task_lines):
        yield "tasks.jsonl has lines that are not JSON objects"
    if not task_texts(info.root):
        yield "there is no list of tasks"
    elif info.count("total_tasks") not in (None, len(task_texts(info.root))):
        yield "total_tasks of info.json is not the number of tasks"
    if not info.shared_files:
        yield from _check_file_counts(dataset, episodes)


def _check_totals(info: LeRobotInfo, episodes: int, frames: int | None) -> Iterator[str]:
    declared = info.count("total_episodes")
    if declared not in (None, episodes):
        yield "total_episodes of info.json is not the number of episodes"
    declared = info.count("total_frames")
    if frames is not None and declared not in (None, frames):
        yield "total_frames of info.json is not the number of frames that the episodes have"


def _check_file_counts(dataset: LeRobotDataset, episodes: int) -> Iterator[str]:
    """Warnings where the number of files is wrong, in a layout with one file per episode."""
    info = dataset.info
    data_files = sum(1 for _ in info.data_files())
    if dataset.has_data and data_files != episodes:
        yield "there is not one data file for each episode"
    cameras = dataset.feature_map.video_cameras
    videos = {camera.name: sum(1 for _ in info.video_files(camera.key)) for camera in cameras}
    for name, count in videos.items():
        if count != episodes:
            yield f"camera {name} has not one video for each episode"
    declared = info.count("total_videos")
    if videos and declared not in (None, sum(videos.values())):
        yield "total_videos of info.json is not the number of videos"
