"""Spans of an episode, and how boundaries become spans."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ares.episode import Json

BoundarySource = Literal[
    "start", "gripper", "hand", "rest", "speed", "direction", "contact", "command", "thing", "model"
]
# No span is shorter.
SHORTEST_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Boundary:
    """An instant at which one thing ends and another begins.

    Attributes:
        seconds: Seconds from the start of the episode.
        source: What tells of it.
        confidence: From 0 to 1.
    """

    seconds: float
    source: BoundarySource
    confidence: float

    def to_json(self) -> dict[str, Json]:
        """The value of the key "boundary" of a segment."""
        return {"source": self.source, "confidence": round(self.confidence, 3)}


@dataclass(frozen=True, slots=True)
class ArmBoundaries:
    """The boundaries of one arm, in order of time.

    Attributes:
        arm: Its name, "" for the only one.
        boundaries: Its boundaries, without the start and the end of the episode.
    """

    arm: str
    boundaries: tuple[Boundary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSpan:
    """A span [start_seconds, stop_seconds) of an episode in which one thing happens.

    Attributes:
        start_seconds: Seconds from the start of the episode.
        stop_seconds: Its end.
        boundary: The boundary at its start.
        arm: The arm, or "".
        text: What happens, or "" where nothing tells it.
    """

    start_seconds: float
    stop_seconds: float
    boundary: Boundary
    arm: str = ""
    text: str = ""


_START = Boundary(0.0, "start", 1.0)


def join_boundaries(boundaries: Sequence[Boundary], duration_seconds: float) -> tuple[Boundary, ...]:
    """Keep boundaries so far apart that no span is too short, in order of time.

    The one rule: the surest comes first, and one that lies nearer than the shortest span to a kept boundary, or to an
    end of the episode, is left out. Of two equally sure ones the earlier is kept.

    Args:
        boundaries: In any order; those outside the episode are left out.
        duration_seconds: Of the episode.
    """
    kept, seconds = [], [0.0, duration_seconds]
    for boundary in sorted(boundaries, key=lambda item: (-item.confidence, item.seconds)):
        is_inside = 0 < boundary.seconds < duration_seconds
        if is_inside and find_distance(seconds, boundary.seconds) >= SHORTEST_SECONDS - 1e-9:
            kept.append(boundary)
            insort(seconds, boundary.seconds)
    return tuple(sorted(kept, key=lambda item: item.seconds))


def find_distance(seconds: Sequence[float], second: float) -> float:
    """Seconds to the nearest of some sorted ones; infinity where there is none."""
    at = bisect_left(seconds, second)
    return min((abs(other - second) for other in seconds[max(0, at - 1) : at + 1]), default=math.inf)


def make_spans(arms: Sequence[ArmBoundaries], duration_seconds: float) -> list[SegmentSpan]:
    """The spans between the boundaries of each arm, which cover the episode once for each arm.

    Args:
        arms: Of each arm the boundaries, as `join_boundaries` gives them; none for one span that is the episode.
        duration_seconds: Of the episode.
    """
    spans = []
    for arm in arms or (ArmBoundaries("", ()),):
        starts = (_START, *arm.boundaries)
        ends = [*(boundary.seconds for boundary in arm.boundaries), duration_seconds]
        spans += [
            SegmentSpan(start_seconds=start.seconds, stop_seconds=stop, boundary=start, arm=arm.arm)
            for start, stop in zip(starts, ends, strict=True)
        ]
    return spans
