"""Applies the annotation log to the Lance tables, and remembers up to which sequence number they are complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ares.annotation import Annotation, Column, Maker
from ares.episode import Json
from ares.errors import StoreError
from ares.store.annotations import AnnotationStore, LogEntry
from ares.store.lance import arrow_type, episode_schema, segment_schema, to_arrow_value, type_mismatch

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.database import Tables

# Annotations per read of the log, and per write to the tables: each write goes through the ids of a whole table.
_READ_BATCH, _WRITE_BATCH = 10_000, 50_000
_GRADE_COLUMNS = {"acceptable": "bool", "grade": "string", "score": "float64"}
_CAPTION_COLUMNS = (
    "annotation_id",
    "episode_id",
    "start_seconds",
    "stop_seconds",
    "camera",
    "text",
    "maker_id",
)


@dataclass(slots=True)
class LogChanges:
    """The table changes of a batch of annotations; a later annotation overwrites an earlier one.

    Attributes:
        episode_values: Episode columns by episode.
        segment_rows: Segment rows by annotation_id.
        segment_grades: Grade columns by the annotation_id of the caption.
        errors: Messages about values that cannot be applied.
        unknown_makers: The label of one annotation by each maker_id that was never stored.
        frame_counts: Number of embedded frames by space and episode, as the annotations say.
        column_types: Column types of `episode_values`.
        annotation_count: Number of annotations.
        last_sequence: Sequence number of the last annotation.
    """

    episode_values: dict[str, dict[str, Json]] = field(default_factory=dict)
    segment_rows: dict[str, dict[str, Json]] = field(default_factory=dict)
    segment_grades: dict[str, dict[str, Json]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    unknown_makers: dict[str, str] = field(default_factory=dict)
    frame_counts: dict[tuple[str, str], int] = field(default_factory=dict)
    column_types: Mapping[str, str] = field(default_factory=dict)
    annotation_count: int = 0
    last_sequence: int = 0


def apply_log(tables: Tables, annotations: AnnotationStore) -> int:
    """Apply the annotations that the tables lack; applying one again changes nothing.

    Values that are columns of the annotation's maker go to the episodes, captions to the segments, grades to the
    segment of their caption; the latest annotation wins. A column that a maker declares exists from then on, also
    before its first value.

    Returns:
        Number of annotations applied.

    Raises:
        StoreError: Some values do not have the declared type; all others have been applied by then.
    """
    progress = _AppliedSequence(tables)
    # Numbers of annotations that existed already stay unused: the end of the log may lie behind its last annotation.
    end = annotations.last_sequence()
    columns = _ColumnRules(annotations, tables.episodes.columns())
    tables.episodes.add_missing_columns(columns.declared_schema())
    applied, error_count, first_error = 0, 0, ""
    for changes in _read_changes(annotations, columns, progress.load(), _WRITE_BATCH):
        _apply(tables, changes)
        progress.save(changes.last_sequence)
        applied += changes.annotation_count
        error_count += len(changes.errors)
        first_error = first_error or next(iter(changes.errors), "")
    if progress.load() < end:
        progress.save(end)
    if error_count:
        raise StoreError(
            f"{error_count} values of the annotation log cannot be shown as columns", first_error
        )
    return applied


def read_changes(tables: Tables, annotations: AnnotationStore, sequence: int) -> Iterator[LogChanges]:
    """Yield the changes of the log from its start to a sequence number, in batches, without applying them."""
    columns = _ColumnRules(annotations, tables.episodes.columns())
    yield from _read_changes(annotations, columns, 0, _READ_BATCH, sequence)


def applied_sequence(tables: Tables) -> int:
    """Return the sequence number of the log up to which the tables are complete; 0 before the first annotation."""
    return _AppliedSequence(tables).load()


def skip_applied(tables: Tables, after: int, until: int) -> None:
    """Skip the annotations (after, until], whose values were written with the rows of their episodes.

    Nothing happens unless the tables are complete up to `after`: then `apply_log` applies them as any others.
    """
    progress = _AppliedSequence(tables)
    if after < until and progress.load() == after:
        progress.save(until)


def reset_applied_sequence(tables: Tables) -> None:
    """Let the next `apply_log` start from the first annotation, to repair tables that were lost or recreated."""
    _AppliedSequence(tables).save(0)


class _AppliedSequence:
    """The sequence number up to which the tables are complete, stored in a table of its own."""

    def __init__(self, tables: Tables) -> None:
        import pyarrow as pa

        self._schema = pa.schema([("key", pa.string()), ("sequence", pa.int64())])
        self._table = tables.connection.table("index_state", self._schema)

    def load(self) -> int:
        rows = self._table.dataset().to_table().to_pylist()
        return int(rows[0]["sequence"]) if rows else 0

    def save(self, sequence: int) -> None:
        import pyarrow as pa

        row = pa.Table.from_pylist([{"key": "log", "sequence": sequence}], schema=self._schema)
        merge = self._table.writer().merge_insert("key")
        merge.when_matched_update_all().when_not_matched_insert_all().execute(row)


class _ColumnRules:
    """Which values of an annotation become columns of the episodes table, by its maker.

    Attributes:
        types: Type of each column by name; the first maker that declares a column determines its type.
    """

    def __init__(self, annotations: AnnotationStore, existing_types: Mapping[str, str]) -> None:
        self._annotations = annotations
        self._makers: Mapping[str, Maker] = annotations.makers()
        self._reserved = set(episode_schema().names)
        self.types = dict(existing_types)

    def declared_columns(self, annotation: Annotation) -> Sequence[Column] | None:
        """Return the columns that the maker of an annotation declares, or None for an unknown maker."""
        if annotation.maker_id not in self._makers:
            self._makers = self._annotations.makers()
        maker = self._makers.get(annotation.maker_id)
        return None if maker is None else maker.columns

    def declared_schema(self) -> pa.Schema:
        """Return every column that a maker declares, whether or not an annotation has a value for it yet."""
        import pyarrow as pa

        declared = {column.name: column.type for maker in self._makers.values() for column in maker.columns}
        return pa.schema([(name, arrow_type(type_name)) for name, type_name in declared.items()])

    def check(self, column: Column, value: Json) -> str:
        """Return why a value cannot be written to a column, or ""."""
        if column.name in self._reserved:
            return f"{column.name!r} is a column of the source"
        type_name = self.types.setdefault(column.name, column.type)
        if type_name != column.type:
            return f"column {column.name!r} is {type_name}, but its maker declares {column.type}"
        return type_mismatch(value, type_name, f"column {column.name!r}", column.choices)


def _read_changes(
    annotations: AnnotationStore, columns: _ColumnRules, after: int, size: int, until: int | None = None
) -> Iterator[LogChanges]:
    """Yield the changes after a sequence number, up to another one, for `size` or more annotations at a time."""
    changes = LogChanges(column_types=columns.types, last_sequence=after)
    while batch := annotations.read(after=changes.last_sequence, limit=_READ_BATCH):
        batch = [entry for entry in batch if until is None or entry.sequence <= until]
        if not batch:
            break
        _collect(batch, columns, changes)
        if changes.annotation_count >= size:
            yield changes
            changes = LogChanges(column_types=columns.types, last_sequence=changes.last_sequence)
    if changes.annotation_count:
        yield changes


def _collect(batch: Sequence[LogEntry], columns: _ColumnRules, changes: LogChanges) -> None:
    changes.annotation_count += len(batch)
    changes.last_sequence = batch[-1].sequence
    for _, annotation in batch:
        _collect_values(annotation, columns, changes)
        if isinstance(space := annotation.value.get("space"), str):
            frames = annotation.value.get("frames")
            changes.frame_counts[space, annotation.episode_id] = frames if isinstance(frames, int) else 0
        if annotation.name == "caption":
            _collect_caption(annotation, changes)
        elif annotation.name == "grade":
            _collect_grade(annotation, changes)


def _collect_values(annotation: Annotation, columns: _ColumnRules, changes: LogChanges) -> None:
    declared = columns.declared_columns(annotation)
    if declared is None:
        label = _label(annotation)
        changes.errors.append(f"maker {annotation.maker_id} is unknown in {label}")
        changes.unknown_makers.setdefault(annotation.maker_id, label)
    for column in declared or ():
        if column.name not in annotation.value:
            continue
        value = annotation.value[column.name]
        error = columns.check(column, value)
        if error:
            changes.errors.append(f"{error} in {_label(annotation)}")
        else:
            row = changes.episode_values.setdefault(annotation.episode_id, {})
            row[column.name] = to_arrow_value(value, column.type)


def _collect_caption(annotation: Annotation, changes: LogChanges) -> None:
    text = annotation.value.get("text")
    if not isinstance(text, str):
        changes.errors.append(f"'text' is string, but got {text!r} in {_label(annotation)}")
        return
    row = {name: getattr(annotation, name) for name in _CAPTION_COLUMNS if name != "text"}
    changes.segment_rows[annotation.annotation_id] = {**row, "text": to_arrow_value(text, "string")}


def _collect_grade(annotation: Annotation, changes: LogChanges) -> None:
    values = {name: annotation.value.get(name) for name in _GRADE_COLUMNS}
    errors = [type_mismatch(values[name], kind, repr(name)) for name, kind in _GRADE_COLUMNS.items()]
    if error := next(filter(None, errors), ""):
        changes.errors.append(f"{error} in grade {annotation.annotation_id} ({annotation.episode_id})")
        return
    row = {name: to_arrow_value(values[name], kind) for name, kind in _GRADE_COLUMNS.items()}
    changes.segment_grades[annotation.subject] = {"annotation_id": annotation.subject, **row}


def _label(annotation: Annotation) -> str:
    return f"annotation {annotation.annotation_id} ({annotation.name} of episode {annotation.episode_id})"


def _apply(tables: Tables, changes: LogChanges) -> None:
    import pyarrow as pa

    for names, rows in _rows_by_columns(changes.episode_values).items():
        fields = [("episode_id", "string"), *((name, changes.column_types[name]) for name in names)]
        schema = pa.schema([(name, arrow_type(type_name)) for name, type_name in fields])
        tables.episodes.set_values(_to_table(rows, schema))
    segments = segment_schema()
    if changes.segment_rows:
        caption_schema = pa.schema([segments.field(name) for name in _CAPTION_COLUMNS])
        tables.segments.upsert(_to_table(changes.segment_rows.values(), caption_schema))
    if changes.segment_grades:
        grade_schema = pa.schema([segments.field(name) for name in ("annotation_id", *_GRADE_COLUMNS)])
        tables.segments.set_grades(_to_table(changes.segment_grades.values(), grade_schema))


def _rows_by_columns(
    values: Mapping[str, Mapping[str, Json]],
) -> dict[tuple[str, ...], list[dict[str, Json]]]:
    """Group the values of episodes into rows that set the same columns; the keys are the sorted column names."""
    groups: dict[tuple[str, ...], list[dict[str, Json]]] = {}
    for episode_id, row in values.items():
        groups.setdefault(tuple(sorted(row)), []).append({"episode_id": episode_id, **row})
    return groups


def _to_table(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist(list(rows), schema=schema)
