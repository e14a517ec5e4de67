"""Which annotations of an episode are shown, and what a batch of them changes in the tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ares.annotation import WITHDRAWN, Annotation, Column, Producer, make_segment_id
from ares.episode import Json
from ares.store.lance.schema import to_arrow_value, type_mismatch
from ares.store.sql import batched
from ares.store.sync.producers import (
    DISAGREEMENT,
    ProducerCatalog,
    fills_producer_column,
    producer_column,
)

if TYPE_CHECKING:
    from ares.store.log.protocol import AnnotationStore
    from ares.store.sync.producers import ColumnTypes


# Values by column name.
Values = dict[str, Any]
# The value of an annotation after rulings of people; raises ValueError for one that cannot be read.
Correct = Callable[[Mapping[str, Json], Sequence[Mapping[str, Json]]], Mapping[str, Json]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeValues:
    """What the shown annotations of an episode say.

    Attributes:
        columns: Values of episode columns as Arrow takes them; a column without a value is left out.
        segments: The annotations that are segments.
        segment_columns: The same of segment columns, by annotation_id of the segment.
        errors: Messages about values that cannot be shown.
    """

    columns: Values = field(default_factory=dict)
    segments: list[Annotation] = field(default_factory=list)
    segment_columns: dict[str, Values] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


def keep_newest_annotations(annotations: Iterable[Annotation]) -> list[Annotation]:
    """The newest annotation of each address, of annotations in the order of the log, in that order."""
    newest: dict[str, Annotation] = {}
    for annotation in annotations:
        newest.pop(annotation.address, None)
        newest[annotation.address] = annotation
    return list(newest.values())


@dataclass(frozen=True, slots=True)
class OutcomeByPeople:
    """How an episode ended, as a person says.

    Attributes:
        ruling: What rulings on captions follow from: category "episode outcome", "success" and "judge".
        duration_seconds: Duration of the episode.
    """

    ruling: dict[str, Json]
    duration_seconds: float

    def is_about(self, annotation: Annotation) -> bool:
        """Whether an annotation is of the whole episode."""
        return annotation.start_seconds <= 0.0 and annotation.stop_seconds >= self.duration_seconds


def find_outcome(annotations: Sequence[Annotation], catalog: ProducerCatalog) -> OutcomeByPeople | None:
    """How an episode ended, as the person says who is shown; None where nobody can tell.

    Args:
        annotations: All annotations of people on one episode, in the order of the log; others do no harm.
        catalog: The producers.
    """
    columns = catalog.outcomes_by_people
    for name, members in select_shown(annotations, catalog, columns).items():
        for annotation in members:
            success = annotation.value.get(columns[name])
            if isinstance(success, bool):
                person = catalog.producers[annotation.maker_id].settings.get("person", "")
                ruling: dict[str, Json] = {
                    "category": "episode outcome",
                    "success": success,
                    "judge": person,
                }
                return OutcomeByPeople(ruling, annotation.stop_seconds)
    return None


def select_shown(
    annotations: Sequence[Annotation], catalog: ProducerCatalog, names: Collection[str]
) -> dict[str, list[Annotation]]:
    """The shown annotations of some annotators, in the order of the log.

    Of each annotator and subject those of one producer are shown: the pinned one, else a person, else the one that
    annotated last. An annotation of an annotation or a segment is shown when its subject is.

    Args:
        annotations: All annotations of one episode, in the order of the log.
        catalog: The producers.
        names: The annotators; with each all those that it comes after.
    """
    return _select_shown_annotations(annotations, catalog, names)[1]


def _select_shown_annotations(
    annotations: Sequence[Annotation], catalog: ProducerCatalog, names: Collection[str]
) -> tuple[dict[str, list[Annotation]], dict[str, list[Annotation]]]:
    """The annotations of shown subjects by annotator, of all producers and of those that are shown."""
    newest = [
        annotation
        for annotation in keep_newest_annotations(annotations)
        if catalog.is_projected(annotation) and annotation.value != WITHDRAWN
    ]
    candidates: dict[str, list[Annotation]] = {}
    shown: dict[str, list[Annotation]] = {}
    for name in catalog.in_order(names):
        subjects = _shown_subjects(catalog, shown, name)
        candidates[name] = [
            annotation
            for annotation in newest
            if catalog.producers[annotation.maker_id].annotator == name and not annotation.ordinal
            if annotation.subject_kind == "episode" or annotation.subject in subjects
        ]
        shown[name] = _of_shown_producer(candidates[name], catalog, name)
    return candidates, shown


def _of_shown_producer(
    candidates: Sequence[Annotation], catalog: ProducerCatalog, name: str
) -> list[Annotation]:
    by_subject: dict[str, list[Annotation]] = {}
    for annotation in candidates:
        if not catalog.is_ruling(annotation):
            by_subject.setdefault(annotation.subject, []).append(annotation)
    shown_producers = {subject: catalog.choose(name, members) for subject, members in by_subject.items()}
    # A ruling of a person is about one criterion: it replaces neither the judge's grade nor another ruling.
    return [
        annotation
        for annotation in candidates
        if catalog.is_ruling(annotation) or annotation.maker_id == shown_producers[annotation.subject]
    ]


def _shown_subjects(
    catalog: ProducerCatalog, shown: Mapping[str, Sequence[Annotation]], name: str
) -> set[str]:
    """Ids of the shown annotations and segments that an annotator describes."""
    before = {upstream for producer in catalog.producers_of([name]) for upstream in producer.after}
    upstream_annotations = [annotation for upstream in before for annotation in shown.get(upstream, ())]
    ids = {annotation.annotation_id for annotation in upstream_annotations}
    return ids | {segment_id(annotation) for annotation in upstream_annotations}


def segment_id(annotation: Annotation) -> str:
    """The id of the segment that an annotation spans."""
    return make_segment_id(annotation.episode_id, annotation.start_seconds, annotation.stop_seconds)


def resolve_episode(
    annotations: Sequence[Annotation],
    catalog: ProducerCatalog,
    names: Collection[str],
    episode_columns: ColumnTypes,
    segment_columns: ColumnTypes,
    correct: Correct,
    outcome: OutcomeByPeople | None = None,
) -> EpisodeValues:
    """What the shown annotations of some annotators say of one episode.

    Args:
        annotations: All annotations of the episode by these annotators, in the order of the log.
        catalog: The producers.
        names: A group of annotators.
        episode_columns: Columns of the episodes table, which values must fit.
        segment_columns: Columns of the segments table.
        correct: What rulings of people make of a value.
        outcome: How the episode ended, as a person says, or None.
    """
    shown = select_shown(annotations, catalog, names)
    result = EpisodeValues(segments=_segment_annotations(shown, catalog))
    described = _segments_by_subject(result.segments)  # an episode may have very many
    lead = _leading_annotations(shown, catalog)
    in_order = _in_log_order(shown, annotations)
    for annotation, value in _with_corrections(in_order, catalog, result.errors, correct, outcome):
        producer, label = catalog.producers[annotation.maker_id], partial(describe, annotation)
        of_episode, of_segments = catalog.filled_columns[annotation.maker_id]
        segment_values = segment_columns.fit(value, label, result.errors, of_segments) | _producer_value(
            producer
        )
        # What is a row itself fills that alone, else what it describes.
        subject = annotation.annotation_id if producer.fills_segments else annotation.subject
        for key in described.get(subject, ()):
            result.segment_columns.setdefault(key, {}).update(segment_values)
        if annotation.subject_kind == "episode" or annotation.subject in lead:
            fitting = episode_columns.fit(value, label, result.errors, of_episode)
            result.columns.update(fitting | _producer_value(producer))
        elif any(c.rollup and c.needs_current_maker and c.name in value for c in producer.columns):
            result.columns.update(_producer_value(producer))
    for column, rolled_up in _rolled_up(shown, catalog):
        label = partial("episode {}".format, annotations[0].episode_id)
        result.columns.update(episode_columns.fit({column.name: rolled_up}, label, result.errors, [column]))
    return result


def describe(annotation: Annotation) -> str:
    """An annotation, for messages."""
    return f"annotation {annotation.annotation_id} ({annotation.name} of episode {annotation.episode_id})"


def _segment_annotations(
    shown: Mapping[str, Sequence[Annotation]], catalog: ProducerCatalog
) -> list[Annotation]:
    return [
        annotation
        for members in shown.values()
        for annotation in members
        if catalog.producers[annotation.maker_id].fills_segments
    ]


def _in_log_order(
    shown: Mapping[str, Sequence[Annotation]], annotations: Sequence[Annotation]
) -> list[Annotation]:
    ids = {annotation.annotation_id for members in shown.values() for annotation in members}
    return [annotation for annotation in annotations if annotation.annotation_id in ids]


def _with_corrections(
    annotations: Sequence[Annotation],
    catalog: ProducerCatalog,
    errors: list[str],
    correct: Correct,
    outcome: OutcomeByPeople | None,
) -> Iterator[tuple[Annotation, Mapping[str, Json]]]:
    """Annotations with their values, in which the rulings of people take the place of a judge's.

    What people have ruled on and no judge comes last: they can refuse it, and it is else undecided.
    """
    corrections: dict[str, list[Annotation]] = {}
    for annotation in annotations:
        if catalog.is_ruling(annotation) and read_rulings(annotation.value):
            corrections.setdefault(annotation.subject, []).append(annotation)
    judged: set[str] = set()
    for annotation in annotations:
        if not catalog.is_ruling(annotation):
            is_judged = bool(read_rulings(annotation.value))
            judged.update([annotation.subject] if is_judged else ())
            rulings = corrections.get(annotation.subject, ()) if is_judged else ()
            ended = outcome if outcome and is_judged and outcome.is_about(annotation) else None
            yield annotation, _apply_rulings(annotation, rulings, errors, correct, ended)
    for subject, rulings in corrections.items():
        if subject not in judged:
            yield rulings[-1], _apply_rulings(replace(rulings[-1], value={}), rulings, errors, correct)


def _apply_rulings(
    annotation: Annotation,
    corrections: Sequence[Annotation],
    errors: list[str],
    correct: Correct,
    outcome: OutcomeByPeople | None = None,
) -> Mapping[str, Json]:
    """The value of an annotation with the rulings of people; those that cannot be read are left out."""
    value = annotation.value
    readable: list[dict[str, Json]] = []
    if outcome:
        readable = [outcome.ruling]
        value = correct(annotation.value, readable)
    for correction in corrections:
        rulings = [*readable, *read_rulings(correction.value)]
        try:
            value = correct(annotation.value, rulings)
        except ValueError as error:
            errors.append(f"{error} in {describe(correction)}")
        else:
            readable = rulings
    return value


def _leading_annotations(shown: Mapping[str, Sequence[Annotation]], catalog: ProducerCatalog) -> set[str]:
    """Ids of the annotations that fill the columns of the episode: what describes them does so too."""
    leading: dict[str, str] = {}
    # Annotators come after those that they describe.
    for name, members in shown.items():
        before = set(leading.values())
        for annotation in members:
            names = {column.name for column in catalog.filled_columns[annotation.maker_id][0]}
            fills_episode = annotation.subject_kind == "episode" or annotation.subject in before
            if fills_episode and names & annotation.value.keys():
                leading[name] = annotation.annotation_id
    return set(leading.values())


def _producer_value(producer: Producer) -> Values:
    """The column that names the producer of a value, for producers that have it."""
    return {producer_column(producer.annotator): producer.maker_id} if fills_producer_column(producer) else {}


def _segments_by_subject(segments: Sequence[Annotation]) -> dict[str, list[str]]:
    """Ids of the annotations that are segments, by the subject of what describes them: that id, or their span's."""
    by_subject: dict[str, list[str]] = {}
    for segment in segments:
        for subject in (segment.annotation_id, segment_id(segment)):
            by_subject.setdefault(subject, []).append(segment.annotation_id)
    return by_subject


def read_rulings(value: Mapping[str, Json]) -> list[dict[str, Json]]:
    """The rulings in the value of a grade or of a person's ruling; none in that of any other annotation."""
    rulings = value.get("rulings")
    return [ruling for ruling in rulings if isinstance(ruling, dict)] if isinstance(rulings, list) else []


def _rolled_up(
    shown: Mapping[str, Sequence[Annotation]], catalog: ProducerCatalog
) -> Iterator[tuple[Column, Json]]:
    """Columns of an episode with the values that follow from its segments, in order of time."""
    for name, members in shown.items():
        columns = {
            column.name: column
            for maker_id in {annotation.maker_id for annotation in members}
            for column in catalog.producers[maker_id].columns
            if column.rollup not in ("", "segment")
        }
        if not columns:
            continue
        in_time = sorted(members, key=lambda annotation: (annotation.start_seconds, annotation.stop_seconds))
        subjects = _described_subjects(shown, catalog, name)
        for column in columns.values():
            values = [(annotation.subject, _fitting_value(annotation, column)) for annotation in in_time]
            stated = [(subject, value) for subject, value in values if value is not None]
            is_complete = subjects <= {subject for subject, _ in stated}
            rolled_up = _roll_up(column, [value for _, value in stated], is_complete)
            if rolled_up is not None:
                yield column, rolled_up


def _fitting_value(annotation: Annotation, column: Column) -> Json:
    value = annotation.value.get(column.name)
    return None if type_mismatch(value, column.type, column.name, column.choices) else value


def _described_subjects(
    shown: Mapping[str, Sequence[Annotation]], catalog: ProducerCatalog, name: str
) -> set[str]:
    """The shown segments or annotations that an annotator of them describes, or has yet to describe."""
    subjects: set[str] = set()
    for producer in catalog.producers_of([name]):
        upstream = [annotation for other in producer.after for annotation in shown.get(other, ())]
        if producer.subject_kind == "segment":
            subjects.update(map(segment_id, upstream))
        elif producer.subject_kind == "annotation":
            subjects.update(annotation.annotation_id for annotation in upstream)
    return subjects


def _roll_up(column: Column, values: list[Json], is_complete: bool) -> Json:
    """The value of an episode; None while a value is missing, unless the others decide it."""
    if is_complete:
        return _ROLLUPS[column.rollup](values) if values else None
    if column.rollup == "all" and False in values:
        return False
    return True if column.rollup == "any" and True in values else None


def _mean_value(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _union_of_lists(values: Sequence[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(text for texts in values for text in texts))


_ROLLUPS: Mapping[str, Callable[[list[Json]], Json]] = {
    "all": all,
    "any": any,
    "sum": sum,  # type: ignore[dict-item]
    "mean": _mean_value,  # type: ignore[dict-item]
    "min": min,  # type: ignore[dict-item]
    "max": max,  # type: ignore[dict-item]
    "list": list[Json],
    "union": _union_of_lists,  # type: ignore[dict-item]
}


def find_disagreements(
    annotations: Sequence[Annotation], catalog: ProducerCatalog, names: Collection[str]
) -> list[str]:
    """Columns for which the producers of one annotator differ on a shown subject; measured numbers are not compared."""
    candidates, _ = _select_shown_annotations(annotations, catalog, names)
    different: set[str] = set()
    for members in candidates.values():
        values: dict[tuple[str, float, str], dict[str, Json]] = {}
        for annotation in members:
            for name, value in _compared_values(annotation, catalog):
                key = (annotation.subject, annotation.start_seconds, name)
                values.setdefault(key, {})[annotation.maker_id] = value
        for (_, _, name), by_producer in values.items():
            first, *others = by_producer.values()
            different |= {name} if any(value != first for value in others) else set()
    return sorted(different)


def _compared_values(annotation: Annotation, catalog: ProducerCatalog) -> Iterator[tuple[str, Json]]:
    """Values by column in which producers may differ; of the ruling of a person its verdict."""
    if catalog.is_ruling(annotation):
        yield from ((annotation.part.lower(), item.get("verdict")) for item in read_rulings(annotation.value))
        return
    for column in catalog.producers[annotation.maker_id].columns:
        # Why a column is empty says nothing of the episode.
        is_compared = column.type != "float64" and not column.is_gap_reason
        if column.name in annotation.value and is_compared:
            yield column.name, annotation.value[column.name]


# Episodes whose annotations are read together.
_EPISODES_PER_READ = 2_000

Row = dict[str, Any]


@dataclass(slots=True)
class TableChanges:
    """The changes of the tables by a batch of annotations; a later annotation overwrites an earlier one.

    Attributes:
        episode_values: Episode columns by episode.
        segment_rows: Segment rows by annotation_id.
        hidden_segments: Episodes by annotation_id of what is not shown as a segment, and may have been before.
        errors: Messages about values that cannot be applied.
        column_types: Type of every column in `episode_values`.
        segment_types: Type of every column in `segment_rows`.
        annotation_count: Number of annotations.
        last_sequence: Sequence number of the last annotation.
    """

    episode_values: dict[str, Row] = field(default_factory=dict)
    segment_rows: dict[str, Row] = field(default_factory=dict)
    hidden_segments: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    column_types: Mapping[str, str] = field(default_factory=dict)
    segment_types: Mapping[str, str] = field(default_factory=dict)
    annotation_count: int = 0
    last_sequence: int = 0


class TableChangeCollector:
    """Collects the changes of annotations.

    Args:
        annotations: The log.
        catalog: The producers.
        episode_columns: Columns of the episodes table.
        segment_columns: Columns of the segments table.
        correct: What rulings of people make of a value.
    """

    def __init__(
        self,
        annotations: AnnotationStore,
        catalog: ProducerCatalog,
        episode_columns: ColumnTypes,
        segment_columns: ColumnTypes,
        correct: Correct,
    ) -> None:
        self.catalog = catalog
        self._annotations = annotations
        self._episode_columns, self._segment_columns = episode_columns, segment_columns
        self._correct = correct
        self._pending: dict[frozenset[str], set[str]] = {}  # episodes to resolve, by group

    def new_changes(self, last_sequence: int) -> TableChanges:
        """Changes of nothing yet."""
        changes = TableChanges(last_sequence=last_sequence)
        self.update_types(changes)
        return changes

    def update_types(self, changes: TableChanges) -> None:
        """Let changes know the types of the columns that this collector fills."""
        changes.column_types, changes.segment_types = self._episode_columns.types, self._segment_columns.types

    def add(self, batch: Sequence[tuple[int, Annotation]], changes: TableChanges) -> None:
        """Add annotations, given with their sequence numbers, or take note of the episodes of which all is to be read.

        These are added by `finish`.
        """
        changes.annotation_count += len(batch)
        changes.last_sequence = batch[-1][0]
        plain = self.catalog.plain_producers()
        for _, annotation in batch:
            producer = self.catalog.producers.get(annotation.maker_id)
            if producer is None:
                changes.errors.append(f"producer {annotation.maker_id} is unknown in {describe(annotation)}")
            elif annotation.maker_id in plain and _is_plain(annotation, producer):
                self._add_plain(annotation, producer, changes)
            elif annotation.episode_id and annotation.subject_kind == producer.subject_kind:
                groups = {self.catalog.groups[producer.annotator]}
                if producer.annotator in self.catalog.outcomes_by_people:
                    groups |= self.catalog.graded_groups
                for group in groups:
                    self._pending.setdefault(group, set()).add(annotation.episode_id)

    def _add_plain(self, annotation: Annotation, producer: Producer, changes: TableChanges) -> None:
        label, columns = partial(describe, annotation), self.catalog.filled_columns[producer.maker_id][0]
        values = self._episode_columns.fit(annotation.value, label, changes.errors, columns)
        values |= _producer_value(producer)
        if values:
            changes.episode_values.setdefault(annotation.episode_id, {}).update(values)
        if producer.fills_segments:
            self._add_segment(annotation, {}, changes)

    def finish(self, changes: TableChanges) -> None:
        """Add what all annotations say of the episodes that were taken note of."""
        pending, self._pending = self._pending, {}
        for group, episode_ids in pending.items():
            if self.catalog.fills_tables(group):
                self.resolve(sorted(episode_ids), group, changes)

    def resolve(self, episode_ids: Sequence[str], group: Collection[str], changes: TableChanges) -> None:
        """Add what all annotations of a group say of some episodes, and which columns have no value."""
        compared = self._compared_groups()
        names, reviewed = {*group, *compared}, self.catalog.reviewed_groups
        empty = self._episode_columns.without_values(self.catalog.episode_columns(group))
        empty_segment = self._segment_columns.without_values(self.catalog.segment_columns(group))
        maker_ids = {producer.maker_id for producer in self.catalog.producers_of(group)}
        read_producers = [producer.maker_id for producer in self.catalog.producers_of(names | reviewed)]
        for ids in batched(episode_ids, _EPISODES_PER_READ):
            by_episode = _by_episode(self._annotations.find_annotations(ids, maker_ids=read_producers))
            for episode_id in ids:
                annotations = by_episode.get(episode_id, [])
                of_group = [annotation for annotation in annotations if annotation.maker_id in maker_ids]
                outcome = find_outcome(annotations, self.catalog) if annotations else None
                values = resolve_episode(
                    of_group,
                    self.catalog,
                    group,
                    self._episode_columns,
                    self._segment_columns,
                    self._correct,
                    outcome,
                )
                row = changes.episode_values.setdefault(episode_id, {})
                row.update(empty | values.columns)
                if compared:
                    row[DISAGREEMENT] = find_disagreements(annotations, self.catalog, names) or None
                if reviewed:
                    row |= self.catalog.review_columns(keep_newest_annotations(annotations))
                changes.errors += values.errors
                self._replace_segments(of_group, values, empty_segment, changes)

    def _compared_groups(self) -> set[str]:
        """Annotators of the groups in which producers may differ: the column of all differences needs them together."""
        groups = (self.catalog.groups[name] for name in self.catalog.several_producers())
        return {name for group in groups for name in group}

    def _replace_segments(
        self, annotations: Sequence[Annotation], values: EpisodeValues, empty: Row, changes: TableChanges
    ) -> None:
        """Let changes have the shown segments of an episode, and nothing else of its annotations."""
        for annotation in annotations:
            if self.catalog.producers[annotation.maker_id].fills_segments:
                # A batch before may have added it to these changes.
                changes.segment_rows.pop(annotation.annotation_id, None)
                changes.hidden_segments[annotation.annotation_id] = annotation.episode_id
        for segment in values.segments:
            changes.hidden_segments.pop(segment.annotation_id, None)
            row = values.segment_columns.get(segment.annotation_id, {})
            self._add_segment(segment, empty | row, changes)

    def _add_segment(self, annotation: Annotation, values: Row, changes: TableChanges) -> None:
        text = annotation.value.get("text")
        if text is not None and not isinstance(text, str):
            changes.errors.append(f"'text' is string, but got {text!r} in {describe(annotation)}")
            return
        annotation_id = annotation.annotation_id
        changes.segment_rows[annotation_id] = {
            "annotation_id": annotation_id,
            "episode_id": annotation.episode_id,
            "annotator": annotation.name,
            "segment_id": segment_id(annotation),
            "start_seconds": annotation.start_seconds,
            "stop_seconds": annotation.stop_seconds,
            "camera": annotation.camera,
            "text": to_arrow_value(text or "", "string"),
            "maker_id": annotation.maker_id,
            **_segment_origin(annotation.value),
            **values,
        }


def _is_plain(annotation: Annotation, producer: Producer) -> bool:
    """Whether an annotation changes nothing that another of its producer says, and is of the kind that it declares."""
    is_part = bool(annotation.part) and not (producer.fills_segments and not producer.columns)
    return annotation.subject_kind == "episode" and not (is_part or annotation.ordinal or annotation.revision)


def _segment_origin(value: Mapping[str, Json]) -> Row:
    """The columns that say what kind of text a segment has, and who wrote it; empty where its value does not."""
    return {
        name: to_arrow_value(text, "string") if isinstance(text := value.get(name), str) and text else None
        for name in ("style", "author")
    }


def _by_episode(annotations: list[Annotation]) -> dict[str, list[Annotation]]:
    annotations.sort(key=lambda annotation: annotation.episode_id)  # stable: the order of the log stays
    groups = groupby(annotations, lambda annotation: annotation.episode_id)
    return {episode_id: list(members) for episode_id, members in groups}
