"""Spans of an episode: how boundaries become spans, which text of a source each meets, and spans that a file states."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from annotators.base import Preflight, Result, Work, new_annotation
from ares.annotation import Annotation, Maker
from ares.errors import RequestError
from ares.input import (
    OUTSIDE,
    REPEATED,
    EpisodeNames,
    LocatedSpan,
    NamedSpan,
    locate_spans,
    match_spans_to_episodes,
    open_input,
    read_span_file,
    read_text_mapping,
    rename_text,
)
from ares.jobs import ReasonCount

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.store import Stores

BoundarySource = Literal[
    "start", "gripper", "hand", "rest", "speed", "direction", "contact", "command", "thing", "model"
]
# No span is shorter.
SHORTEST_SECONDS = 0.3
# A span and a text of a source are of the same thing from this intersection over union on.
MATCH_OVERLAP = 0.5
# Annotations of these names hold texts that people or a source wrote of spans.
TEXT_ANNOTATORS = ("source_subtask", "spans")


@dataclass(frozen=True, slots=True)
class Boundary:
    """An instant at which one thing ends and another begins.

    Attributes:
        seconds: Seconds from the start of the episode.
        source: What tells of it: a `BoundarySource`, or that of an event of the signals and "+model".
        confidence: From 0 to 1.
    """

    seconds: float
    source: str
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
    for boundary in sorted(boundaries, key=lambda own: (-own.confidence, own.seconds)):
        is_inside = 0 < boundary.seconds < duration_seconds
        if is_inside and find_distance(seconds, boundary.seconds) >= shortest_seconds - 1e-9:
            kept.append(boundary)
            insort(seconds, boundary.seconds)
    return tuple(sorted(kept, key=lambda own: own.seconds))


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
    for own in arms or (ArmBoundaries("", ()),):
        starts = (_START, *own.boundaries)
        ends = [*(boundary.seconds for boundary in own.boundaries), duration_seconds]
        spans += [
            SegmentSpan(start_seconds=start.seconds, stop_seconds=stop, boundary=start, arm=own.arm)
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
        by_span: The text that each span meets, by the number of the span; it takes nothing over.
        num_unmatched: Texts that no span meets.
    """

    by_span: Mapping[int, Mapping[str, Json]]
    num_unmatched: int


def match_texts(spans: Sequence[SegmentSpan], texts: Sequence[Annotation]) -> MatchedTexts:
    """Find the span that each text of a source meets: the pairs of the largest overlap come first, each once.

    Args:
        spans: The spans that were made.
        texts: Annotations with a span and `value["text"]`.
    """
    pairs = [
        (overlap, s, t)
        for s, span in enumerate(spans)
        for t, own in enumerate(texts)
        if (overlap := measure_overlap(span, own)) >= MATCH_OVERLAP
    ]
    by_span: dict[int, dict[str, Json]] = {}
    used: set[int] = set()
    for overlap, number, text in sorted(pairs, key=lambda pair: (-pair[0], pair[1], pair[2])):
        if number not in by_span and text not in used:
            used.add(text)
            own = texts[text]
            by_span[number] = {
                "annotation": own.annotation_id,
                "text": own.value.get("text"),
                "overlap": round(overlap, 3),
            }
    return MatchedTexts(by_span=by_span, num_unmatched=len(texts) - len(used))


# Its annotations stand beside those of `segment`, and no segmenter takes their place.
STATED_SPANS = "spans"
_VERSION = "1"


class SpanFileAnnotator:
    """The segments that a file names; their authors are those of the file, and people where it says so.

    Args:
        path: The file, see `ares.input.read_span_file`.
        unit: "seconds" or "frames" of its numbers, where its columns do not tell; or "".
        names_path: File of new texts for old ones, or "".
        stores: Stores of the workspace.

    Attributes:
        maker: Their maker; another content of the files makes another.
        warnings: What of the file is there twice.
        lost: What of the file is not read, by reason.

    Raises:
        SourceError: A file cannot be read.
        RequestError: The file names no span of a stored episode.
    """

    def __init__(self, path: str, unit: str, names_path: str, stores: Stores) -> None:
        episodes = _StoredEpisodes(stores)
        self._new_texts = read_text_mapping(names_path) if names_path else {}
        file = read_span_file(path, unit=unit, find_episode=episodes.find, is_named=True)
        if file is None:
            raise RequestError(
                "the file names no spans", f"{path}: give columns episode, start, end and text"
            )
        self._by_episode = match_spans_to_episodes(file, episodes.find)
        counts, examples = file.tally.counts, file.tally.examples
        self.warnings: tuple[str, ...] = (file.tally.line(REPEATED),) if REPEATED in counts else ()
        self.lost: tuple[ReasonCount, ...] = tuple(
            ReasonCount(
                reason=f"spans {reason}", count=count, example=f"{file.tally.name}: {examples[reason][0]}"
            )
            for reason, count in counts.items()
            if reason != REPEATED
        )
        if not self._by_episode:
            reason = next(file.tally.lines(), "it has no rows")
            raise RequestError("the file names no span of a stored episode", f"{path}: {reason}")
        hashes: list[Json] = [_hash_content(name) for name in (path, names_path) if name]
        settings: dict[str, Json] = {"files": hashes, "unit": unit}
        self.maker = Maker(annotator=STATED_SPANS, version=_VERSION, settings=settings, fills_segments=True)

    def preflight(self, makers: Sequence[Maker]) -> Preflight:
        """What of the file is lost, whatever the episodes hold."""
        return Preflight(lost=self.lost)

    def make_result(self, work: Work) -> Result:
        """The segments of one episode, none for one that the file does not name."""
        spans = self._by_episode.get(work.episode.episode_id, [])
        if not spans:
            return Result(annotations=[])
        located, counts = locate_spans(spans, _step_seconds(work), work.episode.duration_seconds)
        warnings = [f"spans of the file {reason}" for reason in counts if reason != OUTSIDE]
        lost = [f"spans {OUTSIDE}"] * counts[OUTSIDE]
        return Result(annotations=self._make_segments(work, located), warnings=warnings, lost=lost)

    def _make_segments(self, work: Work, located: Sequence[LocatedSpan]) -> list[Annotation]:
        """An annotation for each span; those with one span and camera are told apart by their part."""
        counts: Counter[tuple[float, float, str]] = Counter()
        annotations: list[Annotation] = []
        for part in located:
            ends = (part.start_seconds, part.stop_seconds)
            number = counts[(*ends, part.span.camera)]
            counts[(*ends, part.span.camera)] += 1
            annotation = new_annotation(
                work, self.maker, self._make_value(part.span), span=ends, camera=part.span.camera
            )
            annotations.append(replace(annotation, part=str(number)) if number else annotation)
        return annotations

    def _make_value(self, span: NamedSpan) -> dict[str, Json]:
        text, fields = rename_text(span.text, span.fields, self._new_texts)
        return {
            **_storable_fields(fields),
            "text": text,
            "style": span.style,
            "author": span.author,
            "role": span.role,
        }


class _StoredEpisodes:
    """The episodes of a workspace by what a file may call them: their id, and their key as `EpisodeNames` reads it.

    Of several datasets with one key, "DATASET/KEY" tells.

    Args:
        stores: Stores of the workspace.
    """

    def __init__(self, stores: Stores) -> None:
        rows = stores.tables.episodes.read_columns(["episode_id", "dataset", "key"]).to_pylist()
        self._by_key: dict[str, str] = {f"{row['dataset']}/{row['key']}": row["episode_id"] for row in rows}
        self._ids = frozenset(self._by_key.values())
        self._names = EpisodeNames(self._by_key)

    def find(self, name: object) -> str:
        """The id of the episode that a name means, "" for none or for several."""
        if isinstance(name, str) and name in self._ids:
            return name
        return self._by_key.get(self._names.find(name), "")


def _step_seconds(work: Work) -> Sequence[float] | NDArray[np.float64]:
    """(T,) seconds of the steps of an episode, evenly spaced where it has no signals."""
    if work.trajectory is not None:
        return work.trajectory.timestamps
    return [step / work.episode.rate_hz for step in range(work.episode.num_steps)]


def _storable_fields(fields: Mapping[str, object]) -> dict[str, Json]:
    """The fields as JSON; what only YAML has, such as dates, becomes text."""
    plain = (bool, int, float, str, list, dict)
    return {name: value if isinstance(value, plain) else str(value) for name, value in fields.items()}


def _hash_content(path: str) -> str:
    """Hash of a file, 16 hex digits. Raises SourceError as opening does."""
    digest = hashlib.blake2b(digest_size=8)
    with open_input(str(Path(path).expanduser())) as file:
        for block in iter(partial(file.read, 2**20), b""):
            digest.update(block)
    return digest.hexdigest()
