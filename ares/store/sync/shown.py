"""Which annotations of one episode are shown, and what they say: a pure function of annotations and makers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ares.annotation import Annotation, Column, Maker, make_segment_id
from ares.episode import Json
from ares.rubric import correct_grade
from ares.store.sync.makers import (
    DISAGREEMENT,
    MakerCatalog,
    maker_column,
    needs_current,
    on_segments,
    stale_column,
)

# Values by column name.
Values = dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeValues:
    """What the shown annotations of an episode say.

    Attributes:
        columns: Values of episode columns; a column without a value is left out.
        segments: The annotations that are segments.
        segment_columns: Values of segment columns by annotation_id of the segment.
    """

    columns: Values = field(default_factory=dict)
    segments: list[Annotation] = field(default_factory=list)
    segment_columns: dict[str, Values] = field(default_factory=dict)


def newest_by_address(annotations: Iterable[Annotation]) -> list[Annotation]:
    """The newest annotation of each address, of annotations in the order of the log, in that order."""
    newest: dict[str, Annotation] = {}
    for annotation in annotations:
        newest.pop(annotation.address, None)
        newest[annotation.address] = annotation
    return list(newest.values())


def select_shown(
    annotations: Sequence[Annotation], catalog: MakerCatalog, names: Collection[str]
) -> dict[str, list[Annotation]]:
    """The shown annotations of some annotators, in the order of the log.

    Of each annotator and subject those of one maker are shown: the pinned one, else a person, else the one that
    annotated last. An annotation of an annotation or a segment is shown when its subject is.

    Args:
        annotations: All annotations of one episode, in the order of the log.
        catalog: The makers.
        names: The annotators; with each all those that it comes after.
    """
    newest = [annotation for annotation in newest_by_address(annotations) if catalog.is_projected(annotation)]
    shown: dict[str, list[Annotation]] = {}
    for name in catalog.in_order(names):
        own = [annotation for annotation in newest if catalog.makers[annotation.maker_id].annotator == name]
        shown[name] = _by_shown_maker(own, catalog, name, _shown_subjects(catalog, shown, name))
    return shown


def _by_shown_maker(
    annotations: Sequence[Annotation],
    catalog: MakerCatalog,
    name: str,
    is_shown: Callable[[Annotation], bool],
) -> list[Annotation]:
    candidates = [annotation for annotation in annotations if not annotation.ordinal and is_shown(annotation)]
    by_subject: dict[str, list[Annotation]] = {}
    for annotation in candidates:
        by_subject.setdefault(annotation.subject, []).append(annotation)
    maker_ids = {subject: catalog.choose(name, members) for subject, members in by_subject.items()}
    # People rule on single criteria: no ruling replaces that of another person.
    return [
        annotation
        for annotation in candidates
        if annotation.part or annotation.maker_id == maker_ids[annotation.subject]
    ]


def _shown_subjects(
    catalog: MakerCatalog, shown: Mapping[str, Sequence[Annotation]], name: str
) -> Callable[[Annotation], bool]:
    """Whether the subject of an annotation is shown."""
    before = {upstream for maker in catalog.of([name]) for upstream in maker.after}
    upstream_annotations = [annotation for upstream in before for annotation in shown.get(upstream, ())]
    ids = {annotation.annotation_id for annotation in upstream_annotations}
    ids |= {segment_id(annotation) for annotation in upstream_annotations}

    def is_shown(annotation: Annotation) -> bool:
        return annotation.subject_kind == "episode" or annotation.subject in ids

    return is_shown


def segment_id(annotation: Annotation) -> str:
    """The id of the segment that an annotation spans."""
    return make_segment_id(annotation.episode_id, annotation.start_seconds, annotation.stop_seconds)


def resolve_episode(
    annotations: Sequence[Annotation], catalog: MakerCatalog, names: Collection[str]
) -> EpisodeValues:
    """What the shown annotations of some annotators say of one episode.

    Args:
        annotations: All annotations of the episode by these annotators, in the order of the log.
        catalog: The makers.
        names: A group of annotators.
    """
    shown = select_shown(annotations, catalog, names)
    result = EpisodeValues(segments=_segments(shown, catalog))
    lead = _leading_annotations(shown, catalog)
    for annotation, value in _with_corrections(_in_log_order(shown, annotations)):
        maker = catalog.makers[annotation.maker_id]
        _add_segment_values(result, maker, annotation, value)
        if annotation.subject_kind == "episode" or annotation.subject in lead:
            result.columns.update(_episode_values(maker, catalog, value))
    result.columns.update(_rolled_up(shown, catalog))
    different = _disagreements(annotations, shown, catalog)
    if different:
        result.columns[DISAGREEMENT] = list[Json](different)
    return result


def _segments(shown: Mapping[str, Sequence[Annotation]], catalog: MakerCatalog) -> list[Annotation]:
    return [
        annotation
        for members in shown.values()
        for annotation in members
        if catalog.makers[annotation.maker_id].fills_segments
    ]


def _in_log_order(
    shown: Mapping[str, Sequence[Annotation]], annotations: Sequence[Annotation]
) -> list[Annotation]:
    ids = {annotation.annotation_id for members in shown.values() for annotation in members}
    return [annotation for annotation in annotations if annotation.annotation_id in ids]


def _with_corrections(
    annotations: Sequence[Annotation],
) -> Iterator[tuple[Annotation, Mapping[str, Json]]]:
    """Annotations with their values, in which the rulings of people take the place of a judge's.

    What people have ruled on and no judge comes last: they can refuse it, and it is else undecided.
    """
    corrections: dict[str, list[Annotation]] = {}
    for annotation in annotations:
        if annotation.part:
            corrections.setdefault(annotation.subject, []).append(annotation)
    for annotation in annotations:
        if not annotation.part:
            own = corrections.pop(annotation.subject, []) if _rulings(annotation.value) else []
            corrected = correct_grade(annotation.value, _rulings_of(own)) if own else {}
            yield annotation, {**annotation.value, **corrected}
    for own in corrections.values():
        yield own[-1], correct_grade({}, _rulings_of(own))


def _rulings_of(annotations: Sequence[Annotation]) -> list[dict[str, Json]]:
    return [ruling for annotation in annotations for ruling in _rulings(annotation.value)]


def _leading_annotations(shown: Mapping[str, Sequence[Annotation]], catalog: MakerCatalog) -> set[str]:
    """Ids of the annotations that fill the columns of the episode: what describes them does so too."""
    leading: dict[str, str] = {}
    for name, members in shown.items():
        for annotation in members:
            maker = catalog.makers[annotation.maker_id]
            names = {column.name for column in maker.columns if not column.rollup}
            if annotation.subject_kind == "episode" and names & annotation.value.keys():
                leading[name] = annotation.annotation_id
    return set(leading.values())


def _episode_values(maker: Maker, catalog: MakerCatalog, values: Mapping[str, Json]) -> Values:
    is_stale = catalog.is_stale(maker)
    own = {
        column.name: None if column.needs_current_maker and is_stale else values[column.name]
        for column in maker.columns
        if column.name in values and not column.rollup
    }
    if needs_current(maker):
        own |= {stale_column(maker.annotator): is_stale, maker_column(maker.annotator): maker.maker_id}
    return own


def _add_segment_values(
    result: EpisodeValues, maker: Maker, annotation: Annotation, values: Mapping[str, Json]
) -> None:
    """Add the values of an annotation to every segment that it is or describes."""
    own = {column.name: values[column.name] for column in on_segments(maker) if column.name in values}
    for segment in result.segments if own else ():
        if annotation.subject in (segment.annotation_id, segment_id(segment)) or annotation is segment:
            result.segment_columns.setdefault(segment.annotation_id, {}).update(own)


def _rulings(value: Mapping[str, Json]) -> list[dict[str, Json]]:
    rulings = value.get("rulings")
    return [ruling for ruling in rulings if isinstance(ruling, dict)] if isinstance(rulings, list) else []


def _rolled_up(shown: Mapping[str, Sequence[Annotation]], catalog: MakerCatalog) -> Values:
    """Values of an episode that follow from those of its segments, in order of time."""
    values: dict[str, tuple[Column, list[Json]]] = {}
    for annotation in sorted(
        (annotation for members in shown.values() for annotation in members),
        key=lambda annotation: (annotation.start_seconds, annotation.stop_seconds),
    ):
        for column in catalog.makers[annotation.maker_id].columns:
            if column.rollup and annotation.value.get(column.name) is not None:
                values.setdefault(column.name, (column, []))[1].append(annotation.value[column.name])
    return {name: _ROLLUPS[column.rollup](items) for name, (column, items) in values.items()}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


_ROLLUPS: Mapping[str, Callable[[list[Json]], Json]] = {
    "all": all,
    "any": any,
    "sum": sum,  # type: ignore[dict-item]
    "mean": _mean,  # type: ignore[dict-item]
    "min": min,  # type: ignore[dict-item]
    "max": max,  # type: ignore[dict-item]
    "list": list[Json],
}


def _disagreements(
    annotations: Sequence[Annotation], shown: Mapping[str, Sequence[Annotation]], catalog: MakerCatalog
) -> list[str]:
    """Columns for which the makers of one annotator differ on a shown subject; measured numbers are not compared."""
    subjects = {annotation.subject for members in shown.values() for annotation in members}
    values: dict[tuple[str, str], dict[str, Json]] = {}
    for annotation in newest_by_address(annotations):
        if catalog.is_projected(annotation) and annotation.subject in subjects and not annotation.ordinal:
            for column in catalog.makers[annotation.maker_id].columns:
                if column.name in annotation.value and column.type != "float64" and not annotation.part:
                    key = (f"{annotation.subject}/{annotation.start_seconds}", column.name)
                    values.setdefault(key, {})[annotation.maker_id] = annotation.value[column.name]
    return sorted({name for (_, name), by_maker in values.items() if _differ(list(by_maker.values()))})


def _differ(values: Sequence[Json]) -> bool:
    return any(value != values[0] for value in values)
