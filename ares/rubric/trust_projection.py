"""What the controls of judges say of them: counted by dataset, kept as documents, shown as a column of grades."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, get_args

from ares.console import count_of
from ares.episode import Json
from ares.rubric.slots import SLOTS
from ares.rubric.trust import (
    CONTROL,
    TRUST_COLUMN,
    TRUST_STATES,
    VERDICTS_COLUMN,
    describe_kind,
    grade_from_verdicts,
    measure_judge_trust,
    rests_on_people,
    shared_state,
    trust_of_grade,
)
from ares.rubric.verdict import correct_grade
from ares.store import batched, ids_filter, in_condition, producer_column

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.annotation import Annotation
    from ares.store import AnnotationStore, ProducerCatalog, Tables


# Documents by "maker_id/dataset": `JudgeTrust` as JSON.
JUDGE_TRUST = "judge_trust"
# Episodes whose controls are read together, and rows written at once.
_EPISODES_PER_READ, _WRITE_ROWS = 5_000, 100_000
_SEPARATOR = "\n"
_ACCEPTABLE, _UNPROVEN, _GRADE, _DATASET = "acceptable", "acceptable_unproven", "grade", "dataset"
# What people's answers certify of a caption, which outranks the controls of its judge: the projection `certificates`
# fills the column before this one follows it.
CERTIFIED_COLUMN = "certified"
_PROVEN = ("certified", "trusted")


def read_judge_trust(annotations: AnnotationStore) -> dict[str, dict[str, Mapping[str, Json]]]:
    """What the controls of each judge say, as documents by dataset by maker_id."""
    trust: dict[str, dict[str, Mapping[str, Json]]] = {}
    for key, document in annotations.find_documents(JUDGE_TRUST):
        maker_id, _, dataset = key.partition("/")
        if isinstance(document, dict):
            trust.setdefault(maker_id, {})[dataset] = document
    return trust


class GradeProjection:
    """Grades that carry the word of their judge's controls; the plug-in `grades` of the group `ares.projections`."""

    counted, needed_documents = CONTROL, ""

    def count(self, tables: Tables, annotations: AnnotationStore) -> None:
        """Count the controls of all judges again, and keep what they say."""
        documents = trust_documents(tables, annotations)
        old = {key for key, _ in annotations.find_documents(JUDGE_TRUST)}
        annotations.drop_documents(JUDGE_TRUST, old - documents.keys())
        annotations.put_documents(JUDGE_TRUST, documents)

    def refresh(self, tables: Tables, annotations: AnnotationStore, catalog: ProducerCatalog) -> None:
        """Let each grade carry the word of its judge's controls.

        What a judge says that is not trusted is no decision in `acceptable`, that of an untrusted one nowhere.
        """
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
        if not conditions:
            return {}
        is_judged = f"({' OR '.join(conditions)})"
        # Grades of earlier versions do not have it: theirs follows from what they decide, people's as well.
        is_graded = " OR ".join(
            f"{producer_column(name)} IS NOT NULL"
            for name in judges(catalog)
            if producer_column(name) in existing
        )
        followed = {TRUST_COLUMN: is_judged, _ACCEPTABLE: is_judged, _UNPROVEN: f"({is_graded})"}
        if VERDICTS_COLUMN in existing:
            followed[_GRADE] = f"{is_judged} AND {VERDICTS_COLUMN} IS NOT NULL"
        return followed


def describe_trust(document: Mapping[str, Any]) -> str:
    """One line for people about `JudgeTrust.to_json`: a word, a number of each kind, what is missing, and a link."""
    label = f"{document['label']}, " if document.get("label") else ""
    numbers = [
        f"{kind} {rate['accepted']}/{rate['total']}"
        for kind, rate in document.get("kinds", {}).items()
        if not kind.startswith("outcome:")
    ]
    parts = [f"accepts of false ones: {', '.join(numbers)}" if numbers else "no controls"]
    if document.get("content", document["state"]) != document["state"]:
        parts.append(f"content {document['content']}, outcome {document['outcome']}")
    if broken := _unproven_slots(document):
        parts.append(f"captions that state no {' or '.join(broken)}: {shared_state(document)}")
    parts += [*document.get("reasons", ()), *([missing] if (missing := describe_missing(document)) else [])]
    return f"{label}{document['state'].upper()}: {'; '.join(parts)}; see docs/grade.md"


def describe_missing(document: Mapping[str, Any]) -> str:
    """What would prove a judge, and what it costs; "" where nothing is missing."""
    if not (missing := document.get("missing")):
        return ""
    parts = [f"{count} {describe_kind(kind)}" for kind, count in missing["controls"].items()]
    calls = f", about {count_of(missing['calls'], 'call')}" if missing["calls"] else ""
    return f"to prove it: {', '.join(parts)}{calls} (ares annotate grade --calibrate yes)"


def _unproven_slots(document: Mapping[str, Any]) -> list[str]:
    """The slots for which a judge is not trusted, where it is better for captions that state none of them."""
    content, shared = document.get("content", document["state"]), shared_state(document)
    if shared == content:
        return []
    kinds: Mapping[str, Any] = document.get("kinds", {})
    states = {kind.partition(":")[2]: rate["state"] for kind, rate in kinds.items()}
    slots = [str(slot) for slot, state in states.items() if slot in SLOTS and state != "trusted"]
    # Every caption states an action.
    return [] if "action" in slots else slots


def count_trust_states(tables: Tables, episode_ids: Iterable[str]) -> dict[str, int]:
    """How many captions of some episodes are certified, trusted and so on; what no judge has graded is left out.

    Args:
        tables: Tables of the workspace.
        episode_ids: Ids of the episodes.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if TRUST_COLUMN not in tables.episodes.columns():
        return {}
    requested, counts = (
        pa.array(list(episode_ids), pa.string()),
        dict[str, int](dict.fromkeys(TRUST_STATES, 0)),
    )
    for batch in tables.episodes.scan(["episode_id", TRUST_COLUMN], f"{TRUST_COLUMN} IS NOT NULL"):
        states = batch[TRUST_COLUMN].filter(pc.is_in(batch["episode_id"], value_set=requested))
        for state in TRUST_STATES:
            counts[state] += pc.sum(pc.equal(states, state)).as_py() or 0
    return {state: count for state, count in counts.items() if count}


def trust_documents(tables: Tables, annotations: AnnotationStore) -> dict[str, Json]:
    """What the controls of each judge say in each dataset, counted again, by "maker_id/dataset"."""
    controls: dict[str, list[Annotation]] = {}
    for dataset, annotation in _shown_controls(tables, annotations):
        controls.setdefault(f"{annotation.maker_id}/{dataset}", []).append(annotation)
    unlabelled = _datasets_without_all_outcomes(tables) if controls else set()
    return {
        key: measure_judge_trust(
            [annotation.value for annotation in members],
            [annotation.episode_id for annotation in members],
            is_labelled=key.partition("/")[2] not in unlabelled,
        ).to_json()
        for key, members in controls.items()
    }


def _datasets_without_all_outcomes(tables: Tables) -> set[str]:
    """Datasets with episodes whose outcome the source does not record."""
    import pyarrow.compute as pc

    names: set[str] = set()
    for batch in tables.episodes.scan([_DATASET], "success IS NULL"):
        names.update(pc.unique(batch[_DATASET]).to_pylist())
    return names


def _shown_controls(tables: Tables, annotations: AnnotationStore) -> Iterator[tuple[str, Annotation]]:
    """The control annotations of the episodes that are shown, each with its dataset."""
    for ids in batched(annotations.find_episodes(CONTROL), _EPISODES_PER_READ):
        rows = tables.episodes.read_columns(["episode_id", _DATASET], ids_filter(ids)).to_pylist()
        datasets = {row["episode_id"]: row[_DATASET] for row in rows}
        for annotation in annotations.find_annotations(list(datasets), [CONTROL]):
            yield datasets[annotation.episode_id], annotation


def find_outdated_grades(
    tables: Tables, annotations: AnnotationStore, catalog: ProducerCatalog
) -> Iterator[tuple[str, pa.Table]]:
    """Grades that do not show what the controls of their judge say, as they should be.

    Yields:
        The column of ids, "episode_id" of episodes or "annotation_id" of segments, and rows, see
        `find_outdated_grade_rows`.
    """
    trust = read_judge_trust(annotations)
    for name, producers in judges(catalog).items():
        documents = {
            f"{maker_id}/{dataset}": document
            for maker_id in producers
            for dataset, document in trust.get(maker_id, {}).items()
        }
        columns = [_GRADE, _ACCEPTABLE, TRUST_COLUMN, producer_column(name)]
        for batch in _episode_rows(tables, columns):
            yield "episode_id", find_outdated_grade_rows(batch, "episode_id", name, producers, documents)
        for batch in _segment_rows(tables, columns):
            yield (
                "annotation_id",
                find_outdated_grade_rows(batch, "annotation_id", name, producers, documents),
            )


def judges(catalog: ProducerCatalog) -> dict[str, list[str]]:
    """Ids of the producers that are judges with controls, by annotator."""
    names = {
        producer.annotator
        for producer in catalog.producers.values()
        if producer.kind == "model" and any(column.name == TRUST_COLUMN for column in producer.columns)
    }
    return {
        name: [producer.maker_id for producer in catalog.producers_of([name]) if producer.kind == "model"]
        for name in sorted(names)
    }


def _episode_rows(tables: Tables, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    existing = tables.episodes.columns().keys()
    if set(columns) <= existing:
        late = [name for name in (VERDICTS_COLUMN, _UNPROVEN, CERTIFIED_COLUMN) if name in existing]
        for batch in tables.episodes.scan(["episode_id", _DATASET, *columns, *late]):
            yield _with_late_columns(batch)


def _segment_rows(tables: Tables, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Graded segments, with the datasets of their episodes; their table gets the columns with their first values."""
    import pyarrow as pa

    needed = (*columns, VERDICTS_COLUMN, _UNPROVEN)
    existing = [name for name in needed if name in tables.segments.columns()]
    if not set(columns) <= {*existing, TRUST_COLUMN}:
        return
    rows = tables.segments.scan(["annotation_id", "episode_id", *existing], f"{_GRADE} IS NOT NULL")
    if TRUST_COLUMN not in existing:
        rows = rows.append_column(TRUST_COLUMN, pa.nulls(len(rows), pa.string()))
    for batch in rows.to_batches(_EPISODES_PER_READ):
        ids = batch["episode_id"].to_pylist()
        known = tables.episodes.read_columns(["episode_id", _DATASET], ids_filter(set(ids))).to_pylist()
        datasets = {row["episode_id"]: row[_DATASET] for row in known}
        column = pa.array([datasets.get(episode_id) for episode_id in ids], pa.string())
        yield _with_late_columns(batch.append_column(_DATASET, column))


def _with_late_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with the columns that tables of earlier versions do not have, empty there."""
    import pyarrow as pa

    kinds = {VERDICTS_COLUMN: pa.string(), _UNPROVEN: pa.bool_(), CERTIFIED_COLUMN: pa.float64()}
    for name, kind in kinds.items():
        if name not in batch.schema.names:
            batch = batch.append_column(name, pa.nulls(batch.num_rows, kind))
    return batch


def find_outdated_grade_rows(
    batch: pa.RecordBatch,
    key: str,
    name: str,
    producers: Sequence[str],
    documents: Mapping[str, Mapping[str, Json]],
) -> pa.Table:
    """The rows of graded subjects that do not show what the controls of their judge say, as they should be.

    Args:
        batch: Graded subjects with their dataset, and the verdicts of their gates where they are stored.
        key: Column of their ids.
        name: The annotator that grades.
        producers: Its producers that are models.
        documents: `JudgeTrust` by "maker_id/dataset"; unproven where there is none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    producer, undecided = batch[producer_column(name)], pa.scalar(None, pa.bool_())
    is_model = pc.fill_null(pc.is_in(producer, value_set=pa.array(producers, pa.string())), False)
    joined = pc.binary_join_element_wise(producer, batch[_DATASET], "/")
    by_verdicts = pc.coalesce(_map_texts(batch[VERDICTS_COLUMN], grade_from_verdicts), batch[_GRADE])
    grades = pc.if_else(is_model, by_verdicts, batch[_GRADE])
    is_certified = pc.and_(pc.is_valid(batch[CERTIFIED_COLUMN]), _acceptance_of_grades(grades))
    by_controls = _trust_of_rows(joined, batch[VERDICTS_COLUMN], documents)
    trust = pc.if_else(pc.fill_null(is_certified, False), "certified", by_controls)
    trust = pc.if_else(is_model, trust, pa.scalar(None, pa.string()))
    decided = _acceptance_of_grades(grades)
    acceptable = pc.if_else(
        is_model, pc.if_else(pc.is_in(trust, pa.array(_PROVEN)), decided, undecided), batch[_ACCEPTABLE]
    )
    # What people say needs no proof.
    unproven = pc.if_else(
        is_model, pc.if_else(pc.equal(trust, "untrusted"), undecided, decided), batch[_ACCEPTABLE]
    )
    differences = [
        pc.not_equal(pc.fill_null(batch[TRUST_COLUMN], ""), pc.fill_null(trust, "")),
        pc.not_equal(pc.fill_null(batch[_GRADE], ""), pc.fill_null(grades, "")),
        pc.not_equal(_decision_numbers(batch[_ACCEPTABLE]), _decision_numbers(acceptable)),
        pc.not_equal(_decision_numbers(batch[_UNPROVEN]), _decision_numbers(unproven)),
    ]
    is_wrong = pc.and_(pc.is_valid(producer), reduce(pc.or_, differences))
    columns = {TRUST_COLUMN: trust, _GRADE: grades, _ACCEPTABLE: acceptable, _UNPROVEN: unproven}
    return pa.table({key: batch[key], **columns}).filter(is_wrong)


def _trust_of_rows(
    keys: pa.Array, verdicts: pa.Array, documents: Mapping[str, Mapping[str, Json]]
) -> pa.Array:
    """How far each grade is trusted, by the controls of its judge and by the gates that apply to it.

    Args:
        keys: "maker_id/dataset" of each grade.
        verdicts: Verdicts on its gates; null where they are not stored.
        documents: `JudgeTrust` by such keys.
    """
    import pyarrow.compute as pc

    # Few texts are different: the function is called once for each.
    joined = pc.binary_join_element_wise(pc.fill_null(keys, ""), pc.fill_null(verdicts, "-"), _SEPARATOR)

    def measure(text: str) -> str:
        key, _, state = text.partition(_SEPARATOR)
        document = documents.get(key)
        if document:
            return trust_of_grade(document, None if state == "-" else state)
        return "trusted" if rests_on_people(state) else "unproven"

    return _map_texts(joined, measure)


def _map_texts(texts: pa.Array, function: Callable[[str], str]) -> pa.Array:
    """A function of each text, called once for equal ones; null for null."""
    import pyarrow as pa

    encoded = texts.dictionary_encode()
    values = pa.array([function(text) for text in encoded.dictionary.to_pylist()], pa.string())
    return values.take(encoded.indices)


def _acceptance_of_grades(grades: pa.Array) -> pa.Array:
    """What grades decide: true, false, or null where they do not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    accepted, refused = pc.equal(grades, "acceptable"), pc.equal(grades, "not_acceptable")
    return pc.if_else(pc.or_(accepted, refused), accepted, pa.scalar(None, pa.bool_()))


def _decision_numbers(decisions: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.fill_null(decisions.cast(pa.int8()), 2)


# What a grade says of the text of a segment: content and span decide, by a trusted judge; the outcome is the episode's.
TextState = Literal["accepted", "ungraded", "unsure", "refused", "unproven", "untrusted"]
TEXT_STATES: tuple[TextState, ...] = get_args(TextState)
# The gate that says whether a text is of its span, and not of the neighbour's.
SPAN_GATE = "SEG"
_OUTCOME_GATE = "OUTCOME"
_STATE_OF_GRADE: Mapping[str, TextState] = {"not_acceptable": "refused", "acceptable": "accepted"}


def find_text_states(rows: pa.Table, annotations: AnnotationStore) -> pa.Array:
    """What their grades say of the texts of segments: (N,) `TextState`.

    Args:
        rows: Segments with the "dataset" of their episodes, and those columns of their table that grades fill.
        annotations: The log, with the producers and the controls of judges.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    graders = {
        producer.annotator
        for producer in annotations.producers().values()
        if any(column.name == VERDICTS_COLUMN for column in producer.columns)
    }
    names = [name for name in sorted(graders) if producer_column(name) in rows.column_names]
    if not names or VERDICTS_COLUMN not in rows.column_names:
        return pa.repeat(pa.scalar("ungraded"), len(rows))
    producer = pc.coalesce(*(rows[producer_column(name)] for name in names))
    verdicts = pc.if_else(pc.is_null(rows["dataset"]), "", pc.fill_null(rows[VERDICTS_COLUMN], ""))
    keys = pc.binary_join_element_wise(pc.fill_null(producer, ""), pc.fill_null(rows["dataset"], ""), "/")
    documents = {
        f"{maker_id}/{dataset}": document
        for maker_id, by_dataset in read_judge_trust(annotations).items()
        for dataset, document in by_dataset.items()
    }

    def find_state(text: str) -> str:
        key, _, state = text.partition(_SEPARATOR)
        return text_state(documents.get(key), state)

    joined = pc.binary_join_element_wise(keys, verdicts, _SEPARATOR)
    return _map_texts(pa.chunked_array(joined.chunks, pa.string()).combine_chunks(), find_state)


def text_state(document: Mapping[str, Json] | None, verdicts: str) -> TextState:
    """What a grade says of the text of a segment.

    Args:
        document: `JudgeTrust.to_json` of its judge on its dataset; None where nothing is counted.
        verdicts: The verdicts on its gates, see `format_gate_verdicts`; "" where it is not graded.
    """
    outcomes = {gate for gate, slot in _gates_of(document).items() if slot == "outcome"} | {_OUTCOME_GATE}
    parts = [part for part in verdicts.split() if part.partition("=")[0] not in outcomes]
    span = next((part.partition("=")[2] for part in parts if part.startswith(f"{SPAN_GATE}=")), "")
    content = " ".join(parts)
    state = _STATE_OF_GRADE.get(grade_from_verdicts(content), "unsure") if parts else "ungraded"
    if state in ("refused", "ungraded"):
        return state
    # Without a neighbour nothing has to be distinguished: the gate is there, and does not apply.
    if not span:
        return "ungraded"
    if state != "accepted":
        return state
    trust = trust_of_grade(document, content) if document else "unproven"
    is_accepted = trust in _PROVEN or rests_on_people(content)
    return "accepted" if is_accepted else "untrusted" if trust == "untrusted" else "unproven"


def _gates_of(document: Mapping[str, Json] | None) -> Mapping[str, Json]:
    gates = document.get("gates") if document else None
    return gates if isinstance(gates, Mapping) else {}
