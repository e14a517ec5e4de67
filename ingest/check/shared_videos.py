"""Videos that several episodes share, and the gaps between their spans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ares.checks import (
    LATE_FRAMES,
    UNUSED_FRAMES,
    begins_as_other_ends,
    video_finding,
)
from ares.errors import SourceError
from ares.media import probe_video
from ares_ingest.check.tasks import VideoCheckOutcome

if TYPE_CHECKING:
    from ares.checks import FrameEdges, QualityFinding
    from ares_ingest.check.tasks import VideoCheckOutcome


# So many frames, and so many seconds, that belong to no episode are told.
_FEWEST_FRAMES, _LEAST_SECONDS = 3, 0.25


@dataclass(frozen=True, slots=True)
class FileSpan:
    """The part of a file that an episode has, in seconds, and whose it is."""

    start: float
    stop: float
    camera: str
    outcome: VideoCheckOutcome


@dataclass(slots=True)
class SharedVideos:
    """What the episodes of a dataset say of the videos that they share.

    Attributes:
        spans: Spans of each file, in the order of the episodes.
    """

    spans: dict[str, list[FileSpan]] = field(default_factory=dict)
    _before: dict[str, FrameEdges] = field(default_factory=dict)

    def add(self, outcome: VideoCheckOutcome) -> tuple[QualityFinding, ...]:
        """Take an episode in, the next of its dataset; A046 of its cameras."""
        subject = replace(outcome, summary=None, check=None, edges={}, spans=())
        for camera, uri, start, stop in outcome.spans:
            self.spans.setdefault(uri, []).append(FileSpan(start, stop, camera, subject))
        late = [
            camera
            for camera, edges in outcome.edges.items()
            if camera in self._before and begins_as_other_ends(self._before[camera], edges)
        ]
        self._before = dict(outcome.edges)
        return tuple(video_finding(LATE_FRAMES, camera, 0.0, 1.0, 1.0) for camera in late)

    def find_unused_frames(self) -> Iterator[tuple[VideoCheckOutcome, QualityFinding]]:
        """A045 of every stretch of a file that no episode has, with the episode before it; all episodes are known.

        A file of one episode is left out: its length is compared with the episode's.
        """
        for uri, spans in self.spans.items():
            if len(spans) < 2:
                continue
            try:
                info = probe_video(uri)
            except SourceError:
                continue  # the episodes in it tell
            yield from _gaps_of_file(spans, info.num_frames / info.rate_hz, info.rate_hz)


def _gaps_of_file(
    spans: list[FileSpan], length: float, rate_hz: float
) -> Iterator[tuple[VideoCheckOutcome, QualityFinding]]:
    """Stretches between the spans of a file and after the last of them, as findings of the episode before."""
    ordered = sorted(spans, key=lambda span: span.start)
    reached, last = 0.0, ordered[0]
    for span in [*ordered, None]:
        start = length if span is None else span.start
        frames = round((start - reached) * rate_hz)
        if frames >= max(_FEWEST_FRAMES, _LEAST_SECONDS * rate_hz):
            second = max(reached - last.start, 0.0)
            yield last.outcome, video_finding(UNUSED_FRAMES, last.camera, second, frames, 1.0)
        if span is not None and span.stop > reached:
            reached, last = span.stop, span
