"""Where a LeRobot dataset's info.json and its files disagree, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ares import files
from ares.errors import SourceError
from ingest.lerobot_meta import Info, json_lines, tasks
from ingest.lerobot_plan import Plan
from ingest.lerobot_record import Dataset


def without_phantoms(info: Info, plan: Plan) -> tuple[Plan, list[str]]:
    """The plan without cameras that have no video at all, and a sentence on each of those."""
    there = {view for view in plan.cameras if info.has_video(view.key)}
    odd = [f"camera {view.name} of info.json has no video" for view in plan.cameras if view not in there]
    return replace(plan, cameras=tuple(view for view in plan.cameras if view in there)), odd


def check_dataset(dataset: Dataset, episodes: int, frames: int | None) -> Iterator[str]:
    """What is odd about a dataset as a whole.

    Args:
        dataset: It.
        episodes: How many its list of episodes holds.
        frames: Their frames by that list, or None where there is no list.

    Raises:
        SourceError: Its tasks cannot be read.
    """
    info = dataset.info
    yield from _totals(info, episodes, frames)
    last = max((stop for _, _, stop in dataset.splits), default=0)
    if last > episodes:
        yield "splits in info.json name more episodes than there are"
    if any(
        isinstance(row, SourceError) for _, row in json_lines(files.place(info.root) / "meta" / "tasks.jsonl")
    ):
        yield "tasks.jsonl has lines that are not JSON objects"
    if not tasks(info.root):
        yield "there is no list of tasks"
    elif info.count("total_tasks") not in (None, len(tasks(info.root))):
        yield "total_tasks of info.json is not the number of tasks"
    if not info.shared:
        yield from _files(dataset, episodes)


def _totals(info: Info, episodes: int, frames: int | None) -> Iterator[str]:
    told = info.count("total_episodes")
    if told not in (None, episodes):
        yield "total_episodes of info.json is not the number of episodes"
    told = info.count("total_frames")
    if frames is not None and told not in (None, frames):
        yield "total_frames of info.json is not the number of frames that the episodes have"


def _files(dataset: Dataset, episodes: int) -> Iterator[str]:
    """Whether there are as many files as there should be, in a layout with one for each episode."""
    info = dataset.info
    found = sum(1 for _ in info.data_files())
    if dataset.has_data and found != episodes:
        yield "there is not one data file for each episode"
    videos = {view.name: sum(1 for _ in info.video_files(view.key)) for view in dataset.plan.cameras}
    for name, count in videos.items():
        if count != episodes:
            yield f"camera {name} has not one video for each episode"
    told = info.count("total_videos")
    if videos and told not in (None, sum(videos.values())):
        yield "total_videos of info.json is not the number of videos"
