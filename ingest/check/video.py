"""Checks the videos of a dataset: each is decoded once, judged and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain, islice, takewhile
from typing import TYPE_CHECKING

from ares.checks import (
    CameraFeatures,
    TypicalVideo,
    VideoCheck,
    VideoSummary,
    camera_features,
    check_videos,
    frame_edges,
    learn_typical_video,
    summarise_video,
)
from ares.clock import settle_measured_clock
from ares.episode import Record
from ares.errors import AresError
from ares.reports import VideoTotals
from ares.signals import KEPT_EPISODES
from ares.store import batched
from ares_ingest.check.shared_videos import SharedVideos
from ares_ingest.check.tasks import CheckProgress, VideoCheckOutcome, VideoLayout, open_check_pool
from ares_ingest.guarded_loading import GuardedItems, call_or_error, guard_item_loading
from ares_ingest.pipeline import account_for_unread

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from ares.jobs import Engine
    from ares_ingest.base import Source
    from ares_ingest.check.tasks import VideoCheckOutcome


# Frames whose features are kept at once, 1.7 KB each.
_MOST_FRAMES = 60_000
_LABEL = "the check of a video"


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


def run_video_tasks(tasks: Sequence[VideoTask]) -> list[VideoCheckOutcome | AresError]:
    """Decode the videos of records; those that lie in one file are decoded in one pass."""
    results: list[VideoCheckOutcome | AresError] = []
    records = [(task, call_or_error(partial(_load_record, task), _LABEL)) for task in tasks]
    while records:
        count = _num_together([record for _, record in records])
        results += _check_records(records[:count])
        del records[:count]
    return results


def _num_together(records: Sequence[Record | AresError]) -> int:
    """The first records whose cameras have few enough frames together; at least one."""
    frames = accumulate(
        0 if isinstance(record, AresError) else sum(c.media.num_frames for c in record.episode.cameras)
        for record in records
    )
    return max(1, sum(1 for _ in takewhile(lambda total: total <= _MOST_FRAMES, frames)))


def _check_records(
    records: Sequence[tuple[VideoTask, Record | AresError]],
) -> Iterator[VideoCheckOutcome | AresError]:
    cameras = [
        camera for _, record in records if isinstance(record, Record) for camera in record.episode.cameras
    ]
    features = iter(camera_features(cameras))
    for task, record in records:
        if isinstance(record, AresError):
            yield record
        else:
            episode_features = list(islice(features, len(record.episode.cameras)))
            yield call_or_error(partial(_make_video_result, task, record, episode_features), _LABEL)


def _load_record(task: VideoTask) -> Record:
    return settle_measured_clock(account_for_unread(task.load()))


def _make_video_result(
    task: VideoTask, record: Record, features: Sequence[CameraFeatures]
) -> VideoCheckOutcome:
    episode, state = record.episode, record.trajectory.state
    layout = (state.names if state is not None else (), tuple(camera.name for camera in episode.cameras))
    summary = summarise_video(episode, record.trajectory, features)
    result = VideoCheckOutcome(
        episode_id=episode.episode_id,
        location=task.location,
        key="/".join(filter(None, (episode.split, episode.key))),
        source=episode.source,
        layout=layout,
        edges={part.camera: ends for part in features if (ends := frame_edges(part)) is not None},
        spans=tuple(
            (camera.name, camera.media.uri, camera.media.start_seconds, camera.media.stop_seconds)
            for camera in episode.cameras
            if camera.media.kind == "mp4"
        ),
    )
    if task.typical is None:
        return replace(result, summary=summary)
    return replace(result, check=check_videos(summary, task.typical.get(layout)))


# Records whose cameras are decoded together: those in one file in one pass.
_BATCH = 8
# An episode in which the robot moves so long should tell its lag.
_MOVING_SECONDS = 5.0

VideoResults = Iterator[VideoCheckOutcome | AresError]
VideoReaders = Callable[[Iterator[VideoTask]], VideoResults]


@dataclass(slots=True, kw_only=True)
class VideoCheckProgress:
    """What was counted of the videos of a dataset so far.

    Attributes:
        progress: Counts the findings.
        num_episodes: Episodes with cameras.
        num_frames: Frames that were decoded.
        num_moving: Episodes in which the robot moves for five seconds.
        num_moving_known: Those of them in which the lag of a camera is known.
        num_failed: Records whose videos could not be checked.
        first_failure: Why the first of them could not be.
        files: What the episodes say of the videos that they share.
    """

    progress: CheckProgress
    num_episodes: int = 0
    num_frames: int = 0
    num_moving: int = 0
    num_moving_known: int = 0
    num_failed: int = 0
    first_failure: str = ""
    files: SharedVideos = field(default_factory=SharedVideos)
    _lags: dict[str, list[float]] = field(default_factory=dict)

    def add(self, result: VideoCheckOutcome, check: VideoCheck) -> None:
        """Count the check of one episode."""
        self.num_episodes += bool(result.layout[1])
        self.num_frames += check.num_frames
        known = {camera: lag.steps for camera, lag in check.lags.items() if lag.steps is not None}
        if check.moving_seconds >= _MOVING_SECONDS and check.lags:
            self.num_moving += 1
            self.num_moving_known += bool(known)
        for camera, steps in known.items():
            self._lags.setdefault(camera, []).append(steps / check.rate_hz)
        self.progress.add_findings(result, (*check.findings, *self.files.add(result)))

    def add_failure(self, error: AresError) -> None:
        """Count a record whose videos could not be checked."""
        self.num_failed += 1
        self.first_failure = self.first_failure or str(error)

    def totals(self) -> VideoTotals:
        """The counts."""
        import numpy as np

        return VideoTotals(
            num_episodes=self.num_episodes,
            num_frames=self.num_frames,
            num_moving=self.num_moving,
            num_moving_known=self.num_moving_known,
            num_failed=self.num_failed,
            first_failure=self.first_failure,
            lag_seconds={camera: round(float(np.median(lags)), 3) for camera, lags in self._lags.items()},
        )


def decode_and_check_videos(
    source: Source, limit: int | None, engine: Engine, threads: ThreadPoolExecutor, progress: CheckProgress
) -> VideoTotals:
    """Decode and check the videos of a dataset, each file once; the findings are added to the progress."""
    pool = open_check_pool(engine, run_video_tasks, is_fragile=False)
    of_videos = VideoCheckProgress(progress=progress)
    learn_then_check_videos(
        islice(_video_tasks(source), limit),
        lambda tasks: chain.from_iterable(
            results
            for group in batched(batched(tasks, _BATCH), pool.max_workers)
            for results in threads.map(pool.map, group)
        ),
        of_videos,
    )
    if limit is None and not of_videos.num_failed:
        for result, finding in of_videos.files.find_unused_frames():
            progress.add_findings(result, (finding,))
    return of_videos.totals()


def _video_tasks(source: Source) -> Iterator[VideoTask]:
    for item in GuardedItems(source):
        guarded = guard_item_loading(item, source.format, source.folder)
        yield VideoTask(load=guarded.load, location=item.location)


def learn_then_check_videos(
    tasks: Iterator[VideoTask], read: VideoReaders, progress: VideoCheckProgress
) -> None:
    """The first episodes are learnt from, and judged by what was kept of them; the others against these."""
    kept = []
    for result in read(islice(tasks, KEPT_EPISODES)):
        if isinstance(result, VideoCheckOutcome):
            kept.append(result)
        else:
            progress.add_failure(result)
    typical = _learn_typical_videos(kept)
    for result in kept:
        if result.summary is not None:
            progress.add(result, check_videos(result.summary, typical.get(result.layout)))
    kept.clear()
    for later in read(replace(task, typical=typical) for task in tasks):
        if isinstance(later, AresError):
            progress.add_failure(later)
        elif later.check is not None:
            progress.add(later, later.check)


def _learn_typical_videos(kept: Sequence[VideoCheckOutcome]) -> dict[VideoLayout, TypicalVideo]:
    by_layout: dict[VideoLayout, list[VideoSummary]] = {}
    for result in kept:
        if result.summary is not None:
            by_layout.setdefault(result.layout, []).append(result.summary)
    learnt = {layout: learn_typical_video(summaries) for layout, summaries in by_layout.items()}
    return {layout: typical for layout, typical in learnt.items() if typical is not None}
