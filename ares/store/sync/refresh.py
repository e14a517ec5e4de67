"""Brings tags, notes, removed rows and producer conflicts up to date once the log has been applied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from ares.store.actions import NOTE_KINDS, NOTES, TAG_KINDS, TAGS, VALUE_KINDS, write_desired_values
from ares.store.lance.corrections import find_corrections, recorded_columns, take_recorded
from ares.store.lance.schema import arrow_type, episode_schema
from ares.store.sql import batched, ids_filter
from ares.store.sync.producers import CONFLICT, REVIEWED, ProducerCatalog
from ares.store.temp_db import TempDatabase

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa

    from ares.store.actions import ActionHistory
    from ares.store.lance_tables import Tables
    from ares.store.log.protocol import AnnotationStore
    from ares.store.sync.shown_values import TableChanges


_TEXT_KINDS = {TAGS: TAG_KINDS, NOTES: NOTE_KINDS}
# Rows written at once: each write goes through the ids of the whole table.
_WRITE_ROWS = 100_000
_WRONG_VALUES = """
SELECT e.episode_id, d.value FROM current_values e LEFT JOIN desired_values d USING (episode_id)
WHERE d.value IS DISTINCT FROM e.value
"""
_ALL_VALUES = """
SELECT d.value FROM current_values e LEFT JOIN desired_values d USING (episode_id) ORDER BY e.number
"""


def find_outdated_values(
    tables: Tables, annotations: AnnotationStore, history: ActionHistory, database: TempDatabase, column: str
) -> int:
    """Write the table "wrong_values" (episode_id, value) of a temporary database: where a column differs from the log.

    The tables "current_values" (with the `number` of the row in a scan) and "desired_values" stay beside it.

    Args:
        tables: The tables.
        annotations: The log.
        history: Its actions.
        database: The temporary database.
        column: A column that people have set, or "tags" or "notes".

    Returns:
        Number of rows.
    """
    import pyarrow as pa

    rows, kind = tables.episodes.snapshot(), _column_kind(history, column)
    has_column = _has_column(rows.arrow_schema, column, kind)
    if not has_column and column in _TEXT_KINDS and not history.effective(_TEXT_KINDS[column]):
        return 0
    write_desired_values(annotations, history, database, column)
    schema = pa.schema([("episode_id", pa.string()), ("value", kind), ("number", pa.int64())])
    names = ["episode_id", *[column] * has_column]
    database.insert("current_values", schema, _numbered_values(rows.reader(names), schema))
    return database.create_table_as("wrong_values", _WRONG_VALUES)


def _column_kind(history: ActionHistory, column: str) -> pa.DataType:
    return arrow_type("list<string>" if column in _TEXT_KINDS else history.user_columns()[column])


def _has_column(schema: pa.Schema, name: str, kind: pa.DataType) -> bool:
    return name in schema.names and bool(schema.field(name).type == kind)


def _numbered_values(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of episode_id and a column, or of the id alone, with the numbers of the rows."""
    import pyarrow as pa

    start = 0
    for batch in batches:
        count = batch.num_rows
        values = batch.column(1) if batch.num_columns > 1 else pa.nulls(count, schema.field("value").type)
        numbers = pa.array(range(start, start + count), pa.int64())
        yield pa.RecordBatch.from_arrays([batch["episode_id"], values, numbers], schema=schema)
        start += count


def refresh_texts(
    tables: Tables, annotations: AnnotationStore, history: ActionHistory, kinds: Collection[str]
) -> None:
    """Write the tags and notes of the episodes where a column differs from the log.

    Args:
        tables: The tables.
        annotations: The log.
        history: Its actions.
        kinds: Kinds of the actions that are new; a column that they do not change is left as it is.
    """
    for column, changing in _TEXT_KINDS.items():
        if changing & set(kinds):
            _refresh_column(tables, annotations, history, column)


def refresh_user_columns(
    tables: Tables, annotations: AnnotationStore, history: ActionHistory, columns: Collection[str]
) -> None:
    """Write columns that people have set where they differ from the log; one that was taken back is dropped.

    Args:
        tables: The tables.
        annotations: The log.
        history: Its actions.
        columns: The columns.
    """
    effective = {str(action.details["column"]) for action in history.effective(VALUE_KINDS)}
    for column in columns:
        if column in effective:
            _refresh_column(tables, annotations, history, column)
        else:
            tables.episodes.replace_column(column, None)


def _refresh_column(
    tables: Tables, annotations: AnnotationStore, history: ActionHistory, column: str
) -> None:
    """Write a column where it differs from the log; many values that people have set, or the first, all at once."""
    import pyarrow as pa

    existing, kind = tables.episodes.snapshot().arrow_schema, _column_kind(history, column)
    with TempDatabase() as database:
        count = find_outdated_values(tables, annotations, history, database, column)
        if column not in _TEXT_KINDS and (count > _WRITE_ROWS or not _has_column(existing, column, kind)):
            schema, batches = pa.schema([(column, kind)]), database.stream(_ALL_VALUES)
            rows = (pa.record_batch([batch.column(0)], schema) for batch in batches)
            tables.episodes.replace_column(column, pa.RecordBatchReader.from_batches(schema, rows))
        elif count:
            schema = pa.schema([("episode_id", pa.string()), (column, kind)])
            wrong = f"SELECT episode_id, value AS {column} FROM wrong_values"
            for batch in database.stream(wrong, _WRITE_ROWS):
                tables.episodes.set_values(pa.Table.from_batches([batch]).cast(schema))


# Rows moved at once: a row is some kilobytes.
_ROWS = 10_000


def list_removed_but_present(tables: Tables, removed: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ids of the episodes that are still in the tables but removed.

    Args:
        tables: The tables.
        removed: (N,) ids of the episodes that the log says are removed.
    """
    import pyarrow.compute as pc

    ids = tables.episodes.arrow_ids().array
    return ids.filter(pc.is_in(ids, value_set=removed)) if len(removed) else ids.slice(0, 0)


def list_restored_but_absent(tables: Tables, removed: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ids of episodes that were moved out of the tables but are no longer removed, see `list_removed_but_present`."""
    import pyarrow.compute as pc

    ids = tables.removed.ids()
    return ids.filter(pc.invert(pc.is_in(ids, value_set=removed)))


def move_out_removed_episodes(tables: Tables, ids: pa.ChunkedArray, left_out: Collection[str]) -> None:
    """Move the rows of episodes out of the tables; repeating it after a crash at any point completes it.

    Args:
        tables: The tables.
        ids: The episodes.
        left_out: Columns that are not moved, as people may set them again with another type.
    """
    import pyarrow as pa

    if not len(ids):
        return
    for chunk in _id_chunks(ids):
        snapshot = tables.episodes.snapshot()
        columns = [name for name in snapshot.arrow_schema.names if name not in left_out]
        rows = snapshot.scan(columns, ids_filter(chunk))
        tables.removed.write(pa.Table.from_batches(rows, schema=snapshot.schema(columns)))
        # The row goes last: as long as it exists, the next synchronisation finds the episode again.
        tables.segments.delete_episodes(chunk)
        tables.episodes.delete(chunk)


def move_in_restored_episodes(tables: Tables, ids: pa.ChunkedArray) -> Iterator[list[str]]:
    """Write the source columns of removed episodes into the episodes table again, and yield their ids in batches.

    The caller fills the other columns, then calls `forget_restored_episodes`.
    """
    import pyarrow as pa

    if not len(ids):
        return
    existing = tables.removed.column_names()
    corrected = recorded_columns(existing)
    names = [name for name in dict.fromkeys((*episode_schema().names, *corrected)) if name in existing]
    for chunk in _id_chunks(ids):
        rows = pa.Table.from_batches(tables.removed.scan(names, ids_filter(chunk)))
        tables.episodes.restore(take_recorded(rows))
        yield chunk


def forget_restored_episodes(tables: Tables, ids: pa.ChunkedArray) -> None:
    """Delete the rows of episodes that were brought back from the table of removed episodes."""
    if len(ids):
        tables.removed.delete(ids.to_pylist())


def drop_removed_segments(changes: TableChanges, removed: pa.ChunkedArray) -> None:
    """Take the segments of removed episodes out of changes: values of theirs meet no row, segments would make some."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(removed) or not changes.segment_rows:
        return
    owners = pa.array([row["episode_id"] for row in changes.segment_rows.values()], pa.string())
    hidden = pc.is_in(owners, value_set=removed).to_pylist()
    for key in [key for key, is_hidden in zip(changes.segment_rows, hidden, strict=True) if is_hidden]:
        del changes.segment_rows[key]


def _id_chunks(ids: pa.ChunkedArray) -> Iterator[list[str]]:
    for start in range(0, len(ids), _ROWS):
        yield ids.slice(start, _ROWS).to_pylist()


def refresh_reviewed(tables: Tables) -> None:
    """Write that nobody has said anything of an episode, where nothing is written: a filter finds no empty value."""
    import pyarrow as pa

    unreviewed = chain.from_iterable(tables.episodes.id_batches(f"{REVIEWED} IS NULL"))
    for ids in batched(unreviewed, _WRITE_ROWS):
        columns = {"episode_id": pa.array(ids, pa.string()), REVIEWED: pa.array([False] * len(ids))}
        tables.episodes.set_values(pa.table(columns))


def refresh_corrections(tables: Tables) -> None:
    """Let the columns of the source show what people say in its place."""
    for rows in find_corrections(tables.episodes):
        tables.episodes.set_values(rows)


def refresh_conflicts(tables: Tables, catalog: ProducerCatalog) -> None:
    """Write `conflict`: what the source and the producers say of the outcome of an episode, where they differ."""
    import pyarrow as pa

    changed: list[dict[str, Any]] = list(conflict_changes(tables, catalog))
    schema = pa.schema([("episode_id", pa.string()), (CONFLICT, pa.string())])
    for start in range(0, len(changed), _WRITE_ROWS):
        rows = changed[start : start + _WRITE_ROWS]
        tables.episodes.set_values(pa.Table.from_pylist(rows, schema=schema))


def conflict_changes(tables: Tables, catalog: ProducerCatalog) -> Iterator[dict[str, Any]]:
    """Rows of episode_id and `conflict`, of the episodes where the column is not what it should be."""
    existing = tables.episodes.columns()
    sources = {"source": "success", **_outcome_columns(catalog, existing)}
    if len(sources) < 2 or CONFLICT not in existing:
        return
    columns = ["episode_id", CONFLICT, *sources.values(), *recorded_columns(existing, "success")]
    for batch in tables.episodes.scan(list(dict.fromkeys(columns))):
        rows = take_recorded(batch)
        for row in rows.filter(_may_differ(rows, sources)).to_pylist():
            conflict = _outcome_conflict({name: row[column] for name, column in sources.items()})
            if conflict != row[CONFLICT]:
                yield {"episode_id": row["episode_id"], CONFLICT: conflict}


def _outcome_columns(catalog: ProducerCatalog, existing: dict[str, str]) -> dict[str, str]:
    """The columns that say whether an episode succeeded, by annotator."""
    return {
        producer.annotator: column.name
        for producer in catalog.producers.values()
        for column in producer.columns
        if column.is_outcome and existing.get(column.name) == "bool"
    }


def _may_differ(batch: pa.Table, sources: dict[str, str]) -> pa.ChunkedArray:
    """Rows in which one says success and another failure, or a conflict is written."""
    import pyarrow.compute as pc

    any_true, any_false = batch[CONFLICT].is_valid(), batch[CONFLICT].is_valid()
    for column in sources.values():
        any_true = pc.or_(any_true, batch[column].fill_null(False))
        any_false = pc.or_(any_false, pc.invert(batch[column].fill_null(True)))
    return pc.and_(any_true, any_false)


def _outcome_conflict(outcomes: dict[str, bool | None]) -> str | None:
    stated = {name: outcome for name, outcome in outcomes.items() if outcome is not None}
    if len(set(stated.values())) < 2:
        return None
    return ", ".join(f"{name}: {'success' if outcome else 'failure'}" for name, outcome in stated.items())
