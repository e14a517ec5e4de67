"""Stores what a person says of an annotation; `Stores.sync` then shows it in place of what a model said."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.annotation import WITHDRAWN, Annotation, Column, Cost, Producer
from ares.errors import RequestError
from ares.rubric import COMPLETED, GRADE_COLUMNS, NOT_COMPLETED, PEOPLE_SAY_SO, Ruling, Verdict
from ares.store import (
    HERE,
    ORIGIN,
    RESTORES,
    UNCHANGED,
    hide_annotations,
    keep_newest_annotations,
    read_rulings,
)

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


_VERSION = "1"
_LONGEST_NAME = 100


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


def store_prepared(stores: Stores, *prepared: PreparedAnswer) -> list[Annotation]:
    """Store what people say; `Stores.sync` shows it. Returns the first annotation of each. Raises StoreError."""
    parts = [part for answer in prepared for part in (answer, answer.beside) if part]
    for producer in {part.producer.maker_id: part.producer for part in parts}.values():
        stores.annotations.add_producer(producer)
    stores.annotations.append([annotation for part in parts for annotation in part.annotations])
    _hide_grades(stores, _list_outcomes(prepared))
    return [answer.annotations[0] for answer in prepared]


def _list_outcomes(prepared: Sequence[PreparedAnswer]) -> dict[str, str]:
    """How episodes ended, as captions say it; "" where an answer takes an earlier one back."""
    words: dict[Any, str] = {True: COMPLETED, False: NOT_COMPLETED}
    return {
        annotation.episode_id: words.get(annotation.value.get(column.name), "")
        for answer in prepared
        for column in answer.producer.columns
        if column.is_outcome
        for annotation in answer.annotations
    }


def _hide_grades(stores: Stores, stated: Mapping[str, str]) -> None:
    """Let grades be made again for which another outcome was taken than people say now.

    Args:
        stores: Stores of the workspace.
        stated: How episodes ended, as people say, by id; "" where nobody says so any more.
    """
    if not stated:
        return
    newest = keep_newest_annotations(stores.annotations.find_annotations(list(stated)))
    hidden = [item for item in newest if _is_by_other(item, stated[item.episode_id])]
    hide_annotations(stores.annotations, hidden)


def _is_by_other(grade: Annotation, stated: str) -> bool:
    """Whether an outcome of people was taken back, or one refused the caption, so that nothing more was asked."""
    rulings = read_rulings(grade.value)
    if not stated:
        return any(ruling.get("reason") == PEOPLE_SAY_SO for ruling in rulings)
    refusal = (Verdict.UNMET, "stored", stated)
    return refusal in [tuple(map(ruling.get, ("verdict", "source", "claimed"))) for ruling in rulings]


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
    producer = _correcting_producer(stores, annotation, person)
    corrected = replace(annotation, value=value, ordinal=0)
    return _sign_segments(producer, [corrected, *_copy_segments_beside(stores, annotation, producer)])


def _correcting_producer(stores: Stores, annotation: Annotation, person: str) -> Producer:
    """The producer of what a person says in place of an annotation."""
    original, settings = stores.annotations.producers()[annotation.maker_id], person_settings(person)
    return replace(original, version=_VERSION, model="", prompt_hash="", settings=settings, kind="person")


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
    producer = _correcting_producer(stores, segments[0], person)
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
