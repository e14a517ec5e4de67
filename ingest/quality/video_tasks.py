"""What a reader process does for a check of videos: it reads records, decodes their cameras, and checks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, takewhile

from ares.clock import settle_clock
from ares.episode import Record
from ares.errors import AresError, SourceError
from ares.io import describe_os_error
from ares.quality.video import (
    CameraFeatures,
    TypicalVideo,
    VideoCheck,
    VideoSummary,
    camera_features,
    check_videos,
    summarise_video,
)
from ares.registry import plugin_fault

# Frames whose features are kept at once, 1.7 KB each.
_MOST_FRAMES = 60_000
# Names of the dimensions of the state, and of the cameras: episodes are compared with those that have the same.
VideoLayout = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoTask:
    """The videos of one record to decode.

    Attributes:
        load: Reads the record.
        location: File, and which record of it.
        typical: What to check it against, by layout; None to summarise it.
    """

    load: Callable[[], Record]
    location: str
    typical: Mapping[VideoLayout, TypicalVideo] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoResult:
    """What a reader says of the videos of one record.

    Attributes:
        episode_id: Id of the episode.
        location: File, and which record of it.
        key: Key of the record in its dataset.
        source: File that the record was read from.
        layout: Names of its dimensions and cameras.
        summary: What was kept, where nothing to check it against was given.
        check: What the checks found.
    """

    episode_id: str
    location: str
    key: str
    source: str
    layout: VideoLayout
    summary: VideoSummary | None = None
    check: VideoCheck | None = None


def run_video_tasks(tasks: Sequence[VideoTask]) -> list[VideoResult | AresError]:
    """Decode the videos of records; those that lie in one file are decoded in one pass."""
    results: list[VideoResult | AresError] = []
    records = [(task, _load(task)) for task in tasks]
    while records:
        count = _num_together([record for _, record in records])
        results += _checked(records[:count])
        del records[:count]
    return results


def _num_together(records: Sequence[Record | AresError]) -> int:
    """The first records whose cameras have few enough frames together; at least one."""
    frames = accumulate(
        0 if isinstance(record, AresError) else sum(c.media.num_frames for c in record.episode.cameras)
        for record in records
    )
    return max(1, sum(1 for _ in takewhile(lambda total: total <= _MOST_FRAMES, frames)))


def _checked(records: Sequence[tuple[VideoTask, Record | AresError]]) -> Iterator[VideoResult | AresError]:
    cameras = [
        camera for _, record in records if isinstance(record, Record) for camera in record.episode.cameras
    ]
    features = iter(camera_features(cameras))
    for task, record in records:
        if isinstance(record, AresError):
            yield record
        else:
            yield _guarded(task, record, list(islice(features, len(record.episode.cameras))))


def _load(task: VideoTask) -> Record | AresError:
    try:
        return settle_clock(task.load())
    except AresError as error:
        return error
    except OSError as error:
        return SourceError("file cannot be read", f"{error.filename or ''}: {describe_os_error(error)}")
    except Exception as error:
        return plugin_fault("the check of a video", error)


def _guarded(task: VideoTask, record: Record, features: Sequence[CameraFeatures]) -> VideoResult | AresError:
    try:
        return _result(task, record, features)
    except Exception as error:
        return plugin_fault("the check of a video", error)


def _result(task: VideoTask, record: Record, features: Sequence[CameraFeatures]) -> VideoResult:
    episode, state = record.episode, record.trajectory.state
    layout = (state.names if state is not None else (), tuple(camera.name for camera in episode.cameras))
    summary = summarise_video(episode, record.trajectory, features)
    result = VideoResult(
        episode_id=episode.episode_id,
        location=task.location,
        key="/".join(filter(None, (episode.split, episode.key))),
        source=episode.source,
        layout=layout,
    )
    if task.typical is None:
        return replace(result, summary=summary)
    return replace(result, check=check_videos(summary, task.typical.get(layout)))
