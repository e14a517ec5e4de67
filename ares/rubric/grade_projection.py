"""Columns of grades that follow from the controls of their judge: counted by dataset, kept as documents."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ares.episode import Json
from ares.rubric.gate_verdicts import VERDICTS_COLUMN, rests_on_people
from ares.rubric.tripwire import (
    CONTROL,
    Tripwire,
    decide_tripwire,
    find_cutoff,
    read_controls,
    tripwire_to_json,
)
from ares.rubric.verdict import GRADE_TIME_COLUMN, REFUTED_COLUMN, correct_grade
from ares.store import batched, ids_filter, in_condition, producer_column, quote_literal

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.annotation import Annotation
    from ares.store import AnnotationStore, ProducerCatalog, Tables


# Documents by "maker_id/dataset", see `tripwire_to_json`.
JUDGE_TRIPWIRE = "judge_tripwire"
# Those of earlier versions by the same keys: a judge that its controls showed to be wrong counts no more than then.
_EARLIER, _UNTRUSTED_BEFORE = "judge_trust", "accepts too many false texts of an earlier version"
# Episodes whose controls are read together, and rows written at once.
_EPISODES_PER_READ, _WRITE_ROWS = 5_000, 100_000
_ACCEPTABLE, _GRADE, _DATASET = "acceptable", "grade", "dataset"


def read_tripwires(annotations: AnnotationStore) -> dict[str, dict[str, Mapping[str, Json]]]:
    """What the controls of each judge say, as documents by dataset by maker_id."""
    tripwires: dict[str, dict[str, Mapping[str, Json]]] = {}
    for key, document in annotations.find_documents(JUDGE_TRIPWIRE):
        maker_id, _, dataset = key.partition("/")
        if isinstance(document, dict):
            tripwires.setdefault(maker_id, {})[dataset] = document
    return tripwires


class GradeProjection:
    """Grades that do not count where their judge is refuted; the plug-in `grades` of the group `ares.projections`."""

    counted = CONTROL

    def count(self, tables: Tables, annotations: AnnotationStore) -> None:
        """Count the controls of all judges again, and keep what they say."""
        documents = tripwire_documents(tables, annotations)
        old = {key for key, _ in annotations.find_documents(JUDGE_TRIPWIRE)}
        annotations.drop_documents(JUDGE_TRIPWIRE, old - documents.keys())
        annotations.put_documents(JUDGE_TRIPWIRE, documents)

    def refresh(self, tables: Tables, annotations: AnnotationStore, catalog: ProducerCatalog) -> None:
        """Let each grade show whether its judge is refuted for it: what such a judge says is no decision."""
        write = {"episode_id": tables.episodes.set_values, "annotation_id": tables.segments.set_values}
        for key, rows in find_outdated_grades(tables, annotations, catalog):
            for start in range(0, len(rows), _WRITE_ROWS):
                write[key](rows.slice(start, _WRITE_ROWS))

    def correct(self, value: Mapping[str, Json], rulings: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
        """The grade of a caption with the rulings of people. Raises ValueError; see `correct_grade`."""
        return correct_grade(value, rulings)

    def followed_columns(self, catalog: ProducerCatalog, existing: Collection[str]) -> dict[str, str]:
        """Filter of the rows in which a column follows from the controls of a judge, by column.

        Args:
            catalog: All producers.
            existing: Columns of the table.
        """
        conditions = [
            in_condition(producer_column(name), producers)
            for name, producers in judges(catalog).items()
            if producer_column(name) in existing
        ]
        return (
            dict.fromkeys((REFUTED_COLUMN, _ACCEPTABLE), f"({' OR '.join(conditions)})") if conditions else {}
        )


def tripwire_documents(tables: Tables, annotations: AnnotationStore) -> dict[str, Json]:
    """What the controls of each judge say in each dataset, counted again, by "maker_id/dataset"."""
    controls: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for dataset, annotation in _shown_controls(tables, annotations):
        controls.setdefault((annotation.maker_id, dataset), []).append(annotation.value)
    producers = annotations.producers()
    documents: dict[str, Json] = {}
    for (maker_id, dataset), values in controls.items():
        producer, since = producers.get(maker_id), None
        label = str(producer.settings.get("label", "")) if producer else ""
        tripwire = decide_tripwire(read_controls(values), label)
        if tripwire.first_wrong is not None:
            times = _grade_times(tables, producer.annotator if producer else _GRADE, maker_id, dataset)
            since = find_cutoff(times, tripwire.first_wrong)
        documents[f"{maker_id}/{dataset}"] = tripwire_to_json(tripwire, since)
    for key, earlier in annotations.find_documents(_EARLIER):
        if isinstance(earlier, dict) and earlier.get("state") == "untrusted":
            documents[key] = tripwire_to_json(Tripwire(kinds={}, reason=_UNTRUSTED_BEFORE), 0.0)
    return documents


def _grade_times(tables: Tables, name: str, maker_id: str, dataset: str) -> list[float]:
    """When the grades of a judge on a dataset were made, in seconds since 1970, in order."""
    import pyarrow.compute as pc

    # The grade of an episode may stand in both tables.
    producer, times = producer_column(name), set[float]()
    where = f"{producer} = {quote_literal(maker_id)} AND {GRADE_TIME_COLUMN} IS NOT NULL"
    for _, batch in _scan_grades(tables, [producer, GRADE_TIME_COLUMN], where):
        times.update(batch.filter(pc.equal(batch[_DATASET], dataset))[GRADE_TIME_COLUMN].to_pylist())
    return sorted(times)


def _scan_grades(tables: Tables, columns: Sequence[str], where: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Columns of the grades of episodes and of segments that match a filter, with the name of their column of ids."""
    if {*columns} <= tables.episodes.columns().keys():
        for batch in tables.episodes.scan(["episode_id", _DATASET, *columns], where):
            yield "episode_id", batch
    if {*columns} <= set(tables.segments.columns()):
        rows = tables.segments.scan(["annotation_id", "episode_id", *columns], where)
        for batch in rows.to_batches(_EPISODES_PER_READ):
            yield "annotation_id", _with_datasets(tables, batch)


def _datasets_of(tables: Tables, episode_ids: Collection[str]) -> dict[str, str]:
    rows = tables.episodes.read_columns(["episode_id", _DATASET], ids_filter(episode_ids)).to_pylist()
    return {row["episode_id"]: row[_DATASET] for row in rows}


def _shown_controls(tables: Tables, annotations: AnnotationStore) -> Iterator[tuple[str, Annotation]]:
    """The control annotations of the episodes that are shown, each with its dataset."""
    for ids in batched(annotations.find_episodes(CONTROL), _EPISODES_PER_READ):
        datasets = _datasets_of(tables, ids)
        for annotation in annotations.find_annotations(list(datasets), [CONTROL]):
            yield datasets[annotation.episode_id], annotation


def judges(catalog: ProducerCatalog) -> dict[str, list[str]]:
    """Ids of the producers that are judges with controls, by annotator."""
    names = {
        producer.annotator
        for producer in catalog.producers.values()
        if producer.kind == "model" and any(column.name == REFUTED_COLUMN for column in producer.columns)
    }
    return {
        name: [producer.maker_id for producer in catalog.producers_of([name]) if producer.kind == "model"]
        for name in sorted(names)
    }


def find_outdated_grades(
    tables: Tables, annotations: AnnotationStore, catalog: ProducerCatalog
) -> Iterator[tuple[str, pa.Table]]:
    """Grades that do not show what the controls of their judge say, as they should be.

    Yields:
        The column of ids, "episode_id" of episodes or "annotation_id" of segments, and rows with it, the column of
        refuted judges and `acceptable`.
    """
    cutoffs = {
        maker_id: {
            name: float(str(document["since"]))
            for name, document in documents.items()
            if document.get("since") is not None
        }
        for maker_id, documents in read_tripwires(annotations).items()
    }
    for name, producers in judges(catalog).items():
        columns = [
            _GRADE,
            _ACCEPTABLE,
            REFUTED_COLUMN,
            GRADE_TIME_COLUMN,
            VERDICTS_COLUMN,
            producer_column(name),
        ]
        of_judges = in_condition(producer_column(name), producers)
        for key, batch in _scan_grades(tables, columns, of_judges):
            yield key, find_outdated_rows(batch, key, name, cutoffs)


def _with_datasets(tables: Tables, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of segments with the datasets of their episodes."""
    import pyarrow as pa

    ids = batch["episode_id"].to_pylist()
    datasets = _datasets_of(tables, set(ids))
    return batch.append_column(_DATASET, pa.array([datasets.get(key) for key in ids], pa.string()))


def find_outdated_rows(
    batch: pa.RecordBatch, key: str, name: str, cutoffs: Mapping[str, Mapping[str, float]]
) -> pa.Table:
    """The rows of graded subjects that do not show what the controls of their judge say, as they should be.

    Args:
        batch: Grades of models with their dataset.
        key: Column of their ids.
        name: The annotator that grades.
        cutoffs: By judge and dataset the time from which its grades do not count, in seconds since 1970.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    nothing = pa.scalar(None, pa.bool_())
    is_refuted = pa.repeat(pa.scalar(value=False), batch.num_rows)
    for maker_id, datasets in cutoffs.items():
        for dataset, since in datasets.items():
            is_theirs = pc.and_(
                pc.equal(batch[producer_column(name)], maker_id), pc.equal(batch[_DATASET], dataset)
            )
            is_late = pc.greater_equal(pc.fill_null(batch[GRADE_TIME_COLUMN], 0.0), since)
            is_refuted = pc.or_(is_refuted, pc.fill_null(pc.and_(is_theirs, is_late), False))
    if pc.any(is_refuted).as_py():
        is_refuted = pc.and_(is_refuted, pc.invert(_rest_on_people(batch[VERDICTS_COLUMN])))
    accepted, refused = pc.equal(batch[_GRADE], "acceptable"), pc.equal(batch[_GRADE], "not_acceptable")
    decided = pc.if_else(pc.fill_null(pc.or_(accepted, refused), False), accepted, nothing)
    columns = {
        REFUTED_COLUMN: pc.if_else(is_refuted, is_refuted, nothing),
        _ACCEPTABLE: pc.if_else(is_refuted, nothing, decided),
    }
    is_wrong = [
        pc.not_equal(_as_numbers(batch[column]), _as_numbers(right)) for column, right in columns.items()
    ]
    return pa.table({key: batch[key], **columns}).filter(pc.or_(*is_wrong))


def _rest_on_people(verdicts: pa.Array) -> pa.Array:
    """Whether no judge is needed, by the verdicts of gates; few texts are different."""
    import pyarrow as pa

    encoded = verdicts.fill_null("").dictionary_encode()
    known = pa.array([rests_on_people(text) for text in encoded.dictionary.to_pylist()], pa.bool_())
    return known.take(encoded.indices)


def _as_numbers(decisions: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.fill_null(decisions.cast(pa.int8()), 2)
