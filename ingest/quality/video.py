"""The check of the videos of a dataset: every file is decoded once, and only what is kept of its frames is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from ares.errors import AresError, SourceError
from ares.jobs import available_cores
from ares.quality import KEPT_EPISODES, VideoTotals
from ares.quality.video import TypicalVideo, VideoCheck, VideoSummary, check_videos, learn_videos
from ares.store.filters import batched
from ingest.guard import GuardedItems, guarded_item
from ingest.quality.progress import CheckProgress
from ingest.quality.video_tasks import VideoLayout, VideoResult, VideoTask, run_video_tasks

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from ares.jobs import Engine
    from ingest.base import Source

# Records whose cameras are decoded together: those in one file in one pass.
_BATCH = 8
_START_AFTER_SECONDS = 2.0
# An episode in which the robot moves so long should tell its lag.
_MOVING_SECONDS = 5.0

VideoResults = Iterator[VideoResult | AresError]
VideoReaders = Callable[[Iterator[VideoTask]], VideoResults]


@dataclass(slots=True, kw_only=True)
class VideoProgress:
    """What was counted of the videos of a dataset so far.

    Attributes:
        progress: Counts the findings.
        num_episodes: Episodes with cameras.
        num_frames: Frames that were decoded.
        num_moving: Episodes in which the robot moves for five seconds.
        num_moving_known: Those of them in which the lag of a camera is known.
        num_failed: Records whose videos could not be checked.
        first_failure: Why the first of them could not be.
    """

    progress: CheckProgress
    num_episodes: int = 0
    num_frames: int = 0
    num_moving: int = 0
    num_moving_known: int = 0
    num_failed: int = 0
    first_failure: str = ""
    _lags: dict[str, list[float]] = field(default_factory=dict)

    def add(self, result: VideoResult, check: VideoCheck) -> None:
        """Count the check of one episode."""
        self.num_episodes += bool(result.layout[1])
        self.num_frames += check.num_frames
        known = {camera: lag.steps for camera, lag in check.lags.items() if lag.steps is not None}
        if check.moving_seconds >= _MOVING_SECONDS and check.lags:
            self.num_moving += 1
            self.num_moving_known += bool(known)
        for camera, steps in known.items():
            self._lags.setdefault(camera, []).append(steps / check.rate_hz)
        self.progress.add_findings(result, check.findings)

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


def check_source_videos(
    source: Source, limit: int | None, engine: Engine, threads: ThreadPoolExecutor, progress: CheckProgress
) -> VideoTotals:
    """Decode and check the videos of a dataset, each file once; the findings are added to the progress."""
    pool = engine.pool(
        run_video_tasks,
        max_workers=available_cores(),
        on_worker_death=SourceError,
        start_after_seconds=_START_AFTER_SECONDS,
    )
    of_videos = VideoProgress(progress=progress)
    check_tasks(
        islice(_tasks(source), limit),
        lambda tasks: chain.from_iterable(
            results
            for group in batched(batched(tasks, _BATCH), pool.max_workers)
            for results in threads.map(pool.map, group)
        ),
        of_videos,
    )
    return of_videos.totals()


def _tasks(source: Source) -> Iterator[VideoTask]:
    for item in GuardedItems(source):
        guarded = guarded_item(item, source.format, source.folder, source.follow_links)
        yield VideoTask(load=guarded.load, location=item.location)


def check_tasks(tasks: Iterator[VideoTask], read: VideoReaders, progress: VideoProgress) -> None:
    """The first episodes are learnt from, and judged by what was kept of them; the others against these."""
    kept = []
    for result in read(islice(tasks, KEPT_EPISODES)):
        if isinstance(result, VideoResult):
            kept.append(result)
        else:
            progress.add_failure(result)
    typical = _learn(kept)
    for result in kept:
        if result.summary is not None:
            progress.add(result, check_videos(result.summary, typical.get(result.layout)))
    kept.clear()
    for later in read(replace(task, typical=typical) for task in tasks):
        if isinstance(later, AresError):
            progress.add_failure(later)
        elif later.check is not None:
            progress.add(later, later.check)


def _learn(kept: Sequence[VideoResult]) -> dict[VideoLayout, TypicalVideo]:
    by_layout: dict[VideoLayout, list[VideoSummary]] = {}
    for result in kept:
        if result.summary is not None:
            by_layout.setdefault(result.layout, []).append(result.summary)
    learnt = {layout: learn_videos(summaries) for layout, summaries in by_layout.items()}
    return {layout: typical for layout, typical in learnt.items() if typical is not None}
