"""What a source says of spans, as annotations of its episodes: encoded, and compared with what the log has."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ares.annotation import SOURCE_PREFIX, WITHDRAWN, Annotation, Producer
from ares.episode import Episode, Json, NotRead, Record, SourceSegment
from ares.errors import StoreError
from ares.store import AnnotationRow, annotation_from_row, annotation_to_row, batched, keep_newest_annotations

if TYPE_CHECKING:
    from ares.store import AnnotationStore

NOT_A_TIME = NotRead("a segment of the source has no finite start or end, left out")
REVERSED = NotRead("a segment of the source ends before it begins, left out")
OUTSIDE = NotRead("a segment of the source lies outside the episode, left out")
CUT = "a segment of the source reaches beyond the episode, cut there"
MANY = NotRead("a record has more than 200,000 segments, the rest left out")
NOT_STORABLE = "a segment of the source cannot be stored, left out"

# A style that is no short word of letters, digits and spaces, or one too many of a record, shares an annotator with
# others like it. The text of the style stays in the value.
_OTHER = "other"
_LONGEST_STYLE, _STYLES_PER_RECORD, _SEGMENTS_PER_RECORD = 32, 32, 200_000
# Seconds by which an end may miss that of the episode: float32 is as coarse after two hours.
_TOLERANCE_SECONDS = 1e-3
# Episodes whose annotations are read together, and annotations that are appended together.
_EPISODES_PER_READ, ROWS_PER_APPEND = 2_000, 50_000

# The columns of `AnnotationRow` as a bare tuple of texts, which the garbage collector does not have to track.
AnnotationTexts = tuple[str, ...]


class EncodedSegments(NamedTuple):
    """The segments of a record as rows of the annotation log.

    Attributes:
        rows: The columns of an `AnnotationRow` each, in the order of the source.
        warnings: Why some are left out or changed, each once.
    """

    rows: tuple[AnnotationTexts, ...] = ()
    warnings: tuple[str, ...] = ()


@functools.cache
def name_source_annotator(style: str) -> str:
    """The annotator whose segments are those of a style of a source: "source_subtask" for "subtask"."""
    slug = re.sub(r"[^a-z0-9]+", "_", style.lower()).strip("_")
    is_plain = 0 < len(slug) <= _LONGEST_STYLE and len(style) <= 2 * _LONGEST_STYLE
    return f"{SOURCE_PREFIX}{slug if is_plain else _OTHER}"


@functools.cache
def make_source_producer(annotator: str) -> Producer:
    """The producer of what sources say in one style; `annotator` is a `name_source_annotator`."""
    return Producer(annotator=annotator, version="1", kind="code", fills_segments=True)


@functools.cache
def _source_maker_id(annotator: str) -> str:
    return make_source_producer(annotator).maker_id


def encode_source_segments(record: Record, created: str) -> EncodedSegments:
    """The segments of a record, cut to its episode; the span that the source states then stands in `stated_span`.

    Those of one annotator, span and camera are distinguished by their `part`: the number of the segment among them, ""
    for the first. What is not within the episode is left out.

    Args:
        record: The record; its clock is settled.
        created: When, as ISO 8601 in UTC.
    """
    rows: list[AnnotationTexts] = []
    warnings: dict[str, None] = {MANY: None} if len(record.segments) > _SEGMENTS_PER_RECORD else {}
    counts: dict[tuple[str, float, float, str], int] = {}
    annotators: dict[str, None] = {}
    for segment in record.segments[:_SEGMENTS_PER_RECORD]:
        fitted, warning = _fit_to_episode(segment, record.episode.duration_seconds)
        if warning:
            warnings[warning] = None
        if fitted is None:
            continue
        name = _limited_annotator(segment.style, annotators)
        address = (name, fitted.start_seconds, fitted.stop_seconds, fitted.camera)
        number = counts.get(address, 0)
        try:
            annotation = _to_annotation(record.episode, name, fitted, created, str(number or ""))
            rows.append(tuple(annotation_to_row(annotation)))
        except StoreError as error:
            warnings[NotRead(f"{NOT_STORABLE}: {error.reason}")] = None
        else:
            counts[address] = number + 1
    return EncodedSegments(tuple(rows), tuple(warnings))


def _limited_annotator(style: str, annotators: dict[str, None]) -> str:
    """The annotator of a style; of a record that names very many styles, those after the first share one."""
    name = name_source_annotator(style)
    if name not in annotators:
        if len(annotators) >= _STYLES_PER_RECORD:
            return f"{SOURCE_PREFIX}{_OTHER}"
        annotators[name] = None
    return name


def _fit_to_episode(segment: SourceSegment, duration: float) -> tuple[SourceSegment | None, str]:
    """The segment within [0, duration], None where it has no place there; and why it is left out or cut, or ""."""
    start, stop = float(segment.start_seconds), float(segment.stop_seconds)
    if not math.isfinite(start) or math.isnan(stop) or stop == -math.inf:
        return None, NOT_A_TIME
    if stop < start:
        return None, REVERSED
    if start > duration or stop < 0 or (start == duration and stop > start) or (stop == 0 and start < 0):
        return None, OUTSIDE
    fitted = (max(start, 0.0), min(stop, duration))
    if fitted == (segment.start_seconds, segment.stop_seconds):
        return segment, ""
    is_moved = start < 0 or duration < stop < math.inf
    is_cut = start < 0 or duration + _TOLERANCE_SECONDS < stop < math.inf
    stated: Json = [start, None if stop == math.inf else stop]
    fields = {**segment.fields, "stated_span": stated} if is_moved else segment.fields
    moved = replace(segment, start_seconds=fitted[0], stop_seconds=fitted[1], fields=fields)
    return moved, CUT if is_cut else ""


def _to_annotation(
    episode: Episode, name: str, segment: SourceSegment, created: str, part: str
) -> Annotation:
    return Annotation(
        episode_id=episode.episode_id,
        name=name,
        value={
            **segment.fields,
            "text": segment.text,
            "style": segment.style,
            "author": segment.author,
            "role": segment.role,
        },
        maker_id=_source_maker_id(name),
        subject=episode.episode_id,
        start_seconds=segment.start_seconds,
        stop_seconds=segment.stop_seconds,
        created=created,
        camera=segment.camera,
        part=part,
    )


def list_source_annotators(rows: Collection[AnnotationTexts]) -> list[str]:
    """The annotators that some rows of the log name, sorted."""
    return sorted({AnnotationRow._make(row).name for row in rows})


def find_changed_segments(
    annotations: AnnotationStore, episode_ids: Sequence[str], rows: Sequence[AnnotationTexts], created: str
) -> Iterator[AnnotationRow]:
    """The rows to append so that the log says of stored episodes what their source says now.

    What is as it was has no row. What differs is a revision of it; so is what the source no longer says, with the value
    `WITHDRAWN`. Asked again once they are appended, there are none.

    Args:
        annotations: The log.
        episode_ids: The episodes.
        rows: All segments that their source names, as `encode_source_segments` makes them.
        created: When, as ISO 8601 in UTC.

    Raises:
        StoreError: The log cannot be read.
    """
    by_episode: dict[str, list[AnnotationRow]] = {}
    for row in map(AnnotationRow._make, rows):
        by_episode.setdefault(row.episode_id, []).append(row)
    maker_ids = [
        maker_id
        for maker_id, producer in annotations.producers().items()
        if producer.annotator.startswith(SOURCE_PREFIX)
    ]
    for ids in batched(episode_ids, _EPISODES_PER_READ):
        # Without a producer every annotation would be asked for.
        stored = annotations.find_annotations(ids, maker_ids=maker_ids) if maker_ids else []
        newest = {annotation.address: annotation for annotation in keep_newest_annotations(stored)}
        for episode_id in ids:
            for row in by_episode.get(episode_id, ()):
                # The first revision of an address has its id.
                earlier = newest.pop(row.annotation_id, None)
                changed = row if earlier is None else _revise_segment(earlier, annotation_from_row(row))
                if changed is not None:
                    yield changed
        for annotation in newest.values():
            if not annotation.is_withdrawn:
                gone = replace(annotation, value=WITHDRAWN, revision=annotation.revision + 1, created=created)
                yield annotation_to_row(gone)


def _revise_segment(earlier: Annotation, annotation: Annotation) -> AnnotationRow | None:
    """The revision that takes the place of an annotation of the same address; None where they say the same."""
    if earlier.value == annotation.value:
        return None
    return annotation_to_row(replace(annotation, revision=earlier.revision + 1))
