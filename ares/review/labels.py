"""Stores what a person says of an annotation; `Stores.sync` then shows it in place of what a model said."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ares.annotation import WITHDRAWN, Annotation, Column, Cost, Producer
from ares.errors import RequestError
from ares.rubric import GRADE_COLUMNS, Rubric, Ruling, Verdict
from ares.store import HERE, ORIGIN, RESTORES, UNCHANGED, keep_newest_annotations

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


_VERSION = "1"
_LONGEST_NAME = 100


def add_ruling(
    stores: Stores,
    annotation: Annotation,
    rubric: Rubric,
    criterion: str,
    verdict: Verdict,
    person: str,
    reason: str = "",
) -> Annotation:
    """Store a person's ruling on one criterion of a caption; it replaces the judge's, and an earlier one of the person.

    Args:
        stores: Stores of the workspace.
        annotation: The caption.
        rubric: The rubric that has the criterion.
        criterion: Id of the criterion ("VERB").
        verdict: The verdict.
        person: Name of the person.
        reason: Why, in the person's words.

    Returns:
        The annotation that holds the ruling.

    Raises:
        RequestError: The rubric has no such criterion, or the person has no name.
        StoreError: It cannot be stored.
    """
    categories = dict(rubric.categories)
    if criterion not in categories:
        raise RequestError(f"no criterion {criterion!r}", f"rubric {rubric.id} has {', '.join(categories)}")
    ruling = Ruling(criterion=criterion, verdict=verdict, source="person", judge=person, reason=reason)
    described: dict[str, Json] = {"rubric": rubric.id, "rubric_hash": rubric.hash}
    columns = (*GRADE_COLUMNS, *rubric.verdict_columns)
    prepared = prepare_ruling(stores, annotation, ruling, categories[criterion], described, columns)
    return store_prepared(stores, prepared)


class PreparedAnswer(NamedTuple):
    """What a person says, before it is stored.

    Attributes:
        producer: The producer that stands for the person.
        annotations: What the person says.
        beside: What follows from it, by another producer of the person.
    """

    producer: Producer
    annotations: list[Annotation]
    beside: PreparedAnswer | None = None


def store_prepared(stores: Stores, prepared: PreparedAnswer) -> Annotation:
    """Store what a person says; `Stores.sync` shows it. Returns the first annotation. Raises StoreError."""
    stores.annotations.add_producer(prepared.producer)
    annotations = list(prepared.annotations)
    if prepared.beside:
        stores.annotations.add_producer(prepared.beside.producer)
        annotations += prepared.beside.annotations
    stores.annotations.append(annotations)
    return prepared.annotations[0]


def prepare_ruling(
    stores: Stores,
    annotation: Annotation,
    ruling: Ruling,
    category: str,
    described: Mapping[str, Json],
    columns: Sequence[Column] = GRADE_COLUMNS,
) -> PreparedAnswer:
    """A ruling of the person `ruling.judge`, on one criterion of a text or on the text as a whole.

    Args:
        stores: Stores of the workspace.
        annotation: The text.
        ruling: The ruling.
        category: Category of the criterion, or `WHOLE`.
        described: What else its value has, such as the rubric.
        columns: Columns of grades that follow from it.

    Raises:
        RequestError: The person has no name.
    """
    producers = stores.annotations.producers()
    producer = Producer(
        annotator="ruling",
        version=_VERSION,
        settings={**person_settings(ruling.judge), **_segment_settings(annotation)},
        kind="person",
        subject_kind="annotation",
        after=(annotation.name,),
    )
    # The word of a person is never stale; what the person ruled on by another rubric keeps its columns.
    earlier = producers[producer.maker_id].columns if producer.maker_id in producers else ()
    by_name = {column.name: replace(column, needs_current_maker=False) for column in (*earlier, *columns)}
    value: dict[str, Json] = {**described, "rulings": [{**ruling.to_json(), "category": category}]}
    draft = replace(
        annotation,
        subject=annotation.annotation_id,
        subject_kind="annotation",
        value=value,
        part=ruling.criterion,
    )
    return PreparedAnswer(
        replace(producer, columns=tuple(by_name.values())), [sign_annotation(producer, draft)]
    )


def prepare_correction(
    stores: Stores, annotation: Annotation, value: Mapping[str, Json], person: str
) -> PreparedAnswer:
    """What a person says in place of an annotation; it is shown until the person says something else.

    The segments of one producer are shown together: those beside a corrected segment are stored with it as they are.

    Args:
        stores: Stores of the workspace.
        annotation: What was said.
        value: What is to be said: the value of an annotation of the same annotator.
        person: Name of the person.

    Raises:
        RequestError: The person has no name.
        StoreError: The log cannot be read.
    """
    original = stores.annotations.producers()[annotation.maker_id]
    producer = replace(
        original,
        version=_VERSION,
        model="",
        prompt_hash="",
        settings=person_settings(person),
        kind="person",
    )
    corrected = replace(annotation, value=value, ordinal=0)
    return _sign_segments(producer, [corrected, *_copy_segments_beside(stores, annotation, producer)])


def _copy_segments_beside(stores: Stores, annotation: Annotation, person: Producer) -> list[Annotation]:
    """The other segments of the producer of an annotation, unless the person has segments of that kind already."""
    log = stores.annotations.find_annotations(
        [annotation.episode_id], maker_ids=[annotation.maker_id, person.maker_id]
    )
    alive = [entry for entry in keep_newest_annotations(log) if not (entry.is_withdrawn or entry.ordinal)]
    if any(entry.maker_id == person.maker_id for entry in alive):
        return []
    beside = (annotation.subject, annotation.subject_kind, annotation.name)
    return [
        replace(entry, value={**entry.value, UNCHANGED: True})
        for entry in alive
        if (entry.subject, entry.subject_kind, entry.name) == beside and entry.address != annotation.address
    ]


def withdraw_copies(stores: Stores, producer: Producer, episode_id: str) -> None:
    """Take the segments back that `prepare_correction` has as they were, where a person has changed none any more."""
    log = stores.annotations.find_annotations([episode_id], maker_ids=[producer.maker_id])
    alive = [entry for entry in keep_newest_annotations(log) if not entry.is_withdrawn]
    if alive and all(UNCHANGED in entry.value for entry in alive):
        store_prepared(stores, _sign_segments(producer, [replace(entry, value=WITHDRAWN) for entry in alive]))


def _segment_settings(annotation: Annotation) -> dict[str, Json]:
    """Rulings on what is said of segments have a separate producer: what one describes is no part of its id."""
    return {"described": annotation.name} if annotation.subject_kind == "segment" else {}


def person_settings(person: str) -> dict[str, Json]:
    """Settings of the producers of a person. Raises RequestError where the name is empty, or no readable line."""
    name = person.strip()
    if not name:
        raise RequestError("a person needs a name", "the log says who said what")
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise RequestError(
            f"a person's name has up to {_LONGEST_NAME} characters that can be seen",
            f"got {name[:_LONGEST_NAME]!r}",
        )
    return {"person": name}


def sign_annotation(producer: Producer, draft: Annotation) -> Annotation:
    """What a person says now and here, by the producer that stands for the person."""
    return replace(
        draft,
        value=_value_from_here(draft.value),
        name=producer.annotator,
        maker_id=producer.maker_id,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        frames=(),
        cost=Cost(),
        # A person may say the same again after having said something else.
        revision=time.time_ns(),
    )


def _value_from_here(value: Mapping[str, Json]) -> Mapping[str, Json]:
    """The value of an answer with its origin; one that counts again keeps the one it has."""
    return value if value == WITHDRAWN or RESTORES in value else {ORIGIN: HERE, **value}


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentChange:
    """What a person changed of one segment: its span in seconds, and its text; None leaves the text."""

    annotation_id: str
    start_seconds: float
    stop_seconds: float
    text: str | None = None


def correct_segments(
    stores: Stores, segments: Sequence[Annotation], changes: Sequence[SegmentChange], person: str
) -> list[Annotation]:
    """Store the segments of one annotator in an episode as a person says they are; new producers do not replace them.

    Args:
        stores: Stores of the workspace.
        segments: All segments of the annotator that are shown; those that are not changed are stored with the others,
            because the segments of one producer are shown together.
        changes: What the person changed.
        person: Name of the person.

    Returns:
        What was written, for `withdraw_segments`. `Stores.sync` shows it.

    Raises:
        RequestError: A segment is not among the others, or would end before it starts; the person has no name.
        StoreError: It cannot be stored.
    """
    by_id = {change.annotation_id: change for change in changes}
    unknown = by_id.keys() - {segment.annotation_id for segment in segments}
    wrong = [change for change in changes if not 0 <= change.start_seconds < change.stop_seconds]
    if unknown or wrong or not segments:
        raise RequestError(
            "the segments cannot be changed", "they were changed meanwhile, or one would be empty"
        )
    original = stores.annotations.producers()[segments[0].maker_id]
    settings = person_settings(person)
    producer = replace(original, version=_VERSION, model="", prompt_hash="", settings=settings, kind="person")
    written: list[Annotation] = []
    for segment in segments:
        change = by_id.get(segment.annotation_id)
        is_same_producer = segment.maker_id == producer.maker_id
        if is_same_producer and change is None:
            continue
        if is_same_producer:
            written.append(replace(segment, value=WITHDRAWN))
        written.append(_changed_segment(segment, change))
    prepared = _sign_segments(producer, written)
    store_prepared(stores, prepared)
    return prepared.annotations


def withdraw_segments(stores: Stores, written: Sequence[Annotation]) -> None:
    """Take back what `correct_segments` wrote: the segments are again those before. Raises StoreError."""
    producer = stores.annotations.producers()[written[0].maker_id]
    removed = {annotation.address for annotation in written if annotation.is_withdrawn}
    drafts = [
        replace(annotation, value=WITHDRAWN) for annotation in written if annotation.address not in removed
    ]
    if removed:
        log = stores.annotations.find_annotations([written[0].episode_id], maker_ids=[producer.maker_id])
        before = {
            annotation.address: annotation
            for annotation in log
            if annotation.address in removed and not annotation.is_withdrawn
            if annotation.revision < written[0].revision
        }
        drafts += before.values()
    store_prepared(stores, _sign_segments(producer, drafts))


def _changed_segment(segment: Annotation, change: SegmentChange | None) -> Annotation:
    if change is None:
        return replace(segment, ordinal=0)
    text = {} if change.text is None else {"text": change.text.strip()}
    old = {name: value for name, value in segment.value.items() if name not in (UNCHANGED, ORIGIN)}
    value = {**old, **text, "author": "person"}
    span = {"start_seconds": change.start_seconds, "stop_seconds": change.stop_seconds}
    return replace(segment, value=value, ordinal=0, **span)  # type: ignore[arg-type]


def _sign_segments(producer: Producer, drafts: Sequence[Annotation]) -> PreparedAnswer:
    """Drafts as annotations of a producer, in their order."""
    now, created = time.time_ns(), datetime.now(UTC).isoformat(timespec="seconds")
    written = [
        replace(sign_annotation(producer, draft), created=created, revision=now + number)
        for number, draft in enumerate(drafts)
    ]
    return PreparedAnswer(producer, written)
