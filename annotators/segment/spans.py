"""Spans of an episode: how boundaries become spans, and which text of a source each meets."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ares.annotation import Annotation
from ares.rubric import is_same_value

if TYPE_CHECKING:
    from ares.episode import Json

BoundarySource = Literal[
    "start", "gripper", "hand", "rest", "speed", "direction", "contact", "command", "thing", "model"
]
# No span is shorter.
SHORTEST_SECONDS = 0.3
# A span and a text of a source are of the same thing from this intersection over union on.
MATCH_OVERLAP = 0.5


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


def join_boundaries(
    boundaries: Sequence[Boundary], duration_seconds: float, shortest_seconds: float = SHORTEST_SECONDS
) -> tuple[Boundary, ...]:
    """Keep boundaries so far apart that no span is too short, in order of time.

    The one rule: the surest comes first, and one that lies nearer than the shortest span to a kept boundary, or to an
    end of the episode, is left out. Of two equally sure ones the earlier is kept.

    Args:
        boundaries: In any order; those outside the episode are left out.
        duration_seconds: Of the episode.
        shortest_seconds: Length of the shortest span.
    """
    kept, seconds = [], [0.0, duration_seconds]
    for boundary in sorted(boundaries, key=lambda item: (-item.confidence, item.seconds)):
        is_inside = 0 < boundary.seconds < duration_seconds
        if is_inside and find_distance(seconds, boundary.seconds) >= shortest_seconds - 1e-9:
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


def measure_overlap(first: SegmentSpan, second: Annotation) -> float:
    """Intersection over union of a span and that of an annotation; 0 where one of them is an instant."""
    shared = min(first.stop_seconds, second.stop_seconds) - max(first.start_seconds, second.start_seconds)
    union = max(first.stop_seconds, second.stop_seconds) - min(first.start_seconds, second.start_seconds)
    return max(0.0, shared) / union if union > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedTexts:
    """The texts of a source that spans meet.

    Attributes:
        by_span: By the number of a span the link to the text that it meets: "annotation", "text" and "overlap".
        num_unmatched: Texts that no span meets.
    """

    by_span: Mapping[int, Mapping[str, Json]]
    num_unmatched: int


def match_texts(spans: Sequence[SegmentSpan], texts: Sequence[Annotation]) -> MatchedTexts:
    """Find the span that each text of a source meets: the pairs of the largest overlap come first, each once.

    A text that says its arm meets no span of another arm.

    Args:
        spans: The spans that were made.
        texts: Annotations with a span, `value["text"]` and where it is known `value["arm"]`.
    """
    pairs = [
        (overlap, s, t)
        for s, span in enumerate(spans)
        for t, annotation in enumerate(texts)
        if _may_share_arm(span, annotation)
        and (overlap := measure_overlap(span, annotation)) >= MATCH_OVERLAP
    ]
    by_span: dict[int, dict[str, Json]] = {}
    used: set[int] = set()
    for overlap, number, text in sorted(pairs, key=lambda pair: (-pair[0], pair[1], pair[2])):
        if number not in by_span and text not in used:
            used.add(text)
            annotation = texts[text]
            by_span[number] = {
                "annotation": annotation.annotation_id,
                "text": annotation.value.get("text"),
                "overlap": round(overlap, 3),
            }
    return MatchedTexts(by_span=by_span, num_unmatched=len(texts) - len(used))


def _may_share_arm(span: SegmentSpan, text: Annotation) -> bool:
    """Whether a text may be about the arm of a span: not where both are named and differ ("right", "left arm")."""
    named = str(text.value.get("arm") or "")
    return not span.arm or not named or is_same_value("hand", span.arm, named)
