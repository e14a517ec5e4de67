"""Which segments of a style can follow one another as one track, where a format has room for one at a time.

A column of LeRobot and a feature of steps in RLDS have one text of a style at each step: both take it from here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from ares.clock import time_tolerance
from ares.export.segments import PERSON, SOURCE, SUBTASK, ExportSegment

if TYPE_CHECKING:
    from ares.export.retime import RetimedEpisode


# What a track cannot hold of a segment.
ENDS_EARLY = "ends before the next start"
OVERLAPS = "overlaps another of its style"
SECOND_ARM = "a second arm at the same time"
# Whose word comes first: that of people, then of sources, then of models.
_RANKS = {PERSON: 0, SOURCE: 1}
# Seconds by which ends and starts of neighbours may differ.
_ROUNDING = 1e-3


class _StyleSpans:
    """The spans of one style that a column has, which do not overlap, by start."""

    def __init__(self) -> None:
        self.starts: list[float] = []
        self._stops: list[float] = []

    def cover(self, segment: ExportSegment) -> None:
        """Add the span of a segment that the column has already, of such segments by time."""
        if self.starts and segment.start_seconds < self._stops[-1]:
            self._stops[-1] = max(self._stops[-1], segment.stop_seconds)
        else:
            self._insert(len(self.starts), segment)

    def take(self, segment: ExportSegment) -> bool:
        """Add the span of a segment, unless it overlaps another or begins where another does."""
        position = bisect_right(self.starts, segment.start_seconds)
        starts_late = position == 0 or (
            self.starts[position - 1] < segment.start_seconds - _ROUNDING
            and self._stops[position - 1] <= segment.start_seconds + _ROUNDING
        )
        following = self.starts[position] if position < len(self.starts) else float("inf")
        ends_soon = (
            segment.stop_seconds <= following + _ROUNDING and segment.start_seconds < following - _ROUNDING
        )
        if starts_late and ends_soon:
            self._insert(position, segment)
        return starts_late and ends_soon

    def next_start(self, seconds: float) -> float | None:
        """The first start behind a second, None where there is none."""
        position = bisect_right(self.starts, seconds + _ROUNDING)
        return self.starts[position] if position < len(self.starts) else None

    def _insert(self, position: int, segment: ExportSegment) -> None:
        self.starts.insert(position, segment.start_seconds)
        self._stops.insert(position, segment.stop_seconds)


class TrackArrangement:
    """The segments of an episode, of each style those that do not overlap: the tracks.

    People's segments are placed first, then those of sources, then those of models; of these the main arm's before the
    others', and then by time. What overlaps one that is placed is not.

    Args:
        segments: The segments to place.
        retimed: Their episode as it is written.
        covered: Segments that have a place already; of these overlaps do not matter.

    Attributes:
        arranged: The segments that have found a place, by time.
        lacks: By annotation_id, what the tracks cannot hold of a segment: all of it, or its end.
    """

    def __init__(
        self,
        segments: Sequence[ExportSegment],
        retimed: RetimedEpisode,
        covered: Sequence[ExportSegment] = (),
    ) -> None:
        self._retimed, self._covered = retimed, covered
        self._spans: dict[str, _StyleSpans] = defaultdict(_StyleSpans)
        self.lacks: dict[str, str] = {}
        for segment in sorted(covered, key=attrgetter("start_seconds")):
            self._spans[segment.style].cover(segment)
        self.arranged = sorted(self._arrange(segments), key=attrgetter("start_seconds"))
        self._note_ends()

    def texts_of_steps(self, style: str) -> list[str]:
        """(N,) the text of a style at each written step, "" where there is none."""
        texts = [""] * len(self._retimed.steps)
        for segment in (*self.arranged, *self._covered):
            if segment.style == style:
                for step in self._retimed.steps_of_span(segment.start_seconds, segment.stop_seconds):
                    texts[step] = segment.text
        return texts

    def _arrange(self, segments: Sequence[ExportSegment]) -> list[ExportSegment]:
        arms = _main_arms(segments)

        def is_second_arm(segment: ExportSegment) -> bool:
            return bool(segment.arm) and segment.arm != arms[segment.style]

        def order(segment: ExportSegment) -> tuple[int, bool, float, float]:
            rank = _RANKS.get(segment.state, len(_RANKS))
            return rank, is_second_arm(segment), segment.start_seconds, segment.stop_seconds

        arranged: list[ExportSegment] = []
        for segment in sorted(segments, key=order):
            if self._spans[segment.style].take(segment):
                arranged.append(segment)
            else:
                self.lacks[segment.annotation_id] = SECOND_ARM if is_second_arm(segment) else OVERLAPS
        return arranged

    def _note_ends(self) -> None:
        """Note the segments that end before the next of their style begins, or before the episode does."""
        retimed = self._retimed
        tolerance = max(_ROUNDING, time_tolerance(retimed.source.rate_hz))
        for segment in self.arranged:
            following = self._spans[segment.style].next_start(segment.start_seconds)
            if following is None:
                steps = retimed.steps_of_span(segment.start_seconds, segment.stop_seconds)
                ends_early = steps.stop < len(retimed.steps)
            else:
                ends_early = segment.stop_seconds < following - tolerance
            if ends_early:
                self.lacks[segment.annotation_id] = ENDS_EARLY


def subtasks_of_steps(segments: Sequence[ExportSegment], retimed: RetimedEpisode) -> list[str]:
    """(N,) the text of the subtask at each written step of an episode, "" where there is none."""
    subtasks = [segment for segment in segments if segment.style == SUBTASK]
    return TrackArrangement(subtasks, retimed).texts_of_steps(SUBTASK)


def _main_arms(segments: Iterable[ExportSegment]) -> dict[str, str]:
    """By style, the arm that most segments are of, of equal ones the first by name."""
    counts: dict[str, dict[str, int]] = {}
    for segment in segments:
        if segment.arm:
            arms = counts.setdefault(segment.style, {})
            arms[segment.arm] = arms.get(segment.arm, 0) + 1
    return {style: min(arms, key=lambda arm: (-arms[arm], arm)) for style, arms in counts.items()}
