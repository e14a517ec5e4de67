"""The columns `tags` and `notes` of the episodes table: what the actions of the log say together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.store.actions import NOTE_KINDS, TAG_KINDS, fold_notes, fold_tags
from ares.store.temp_db import TempDatabase

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa

    from ares.store.actions import ActionHistory
    from ares.store.annotations import AnnotationStore
    from ares.store.database import Tables

TAGS, NOTES = "tags", "notes"
_FOLDS = {TAGS: fold_tags, NOTES: fold_notes}
_KINDS = {TAGS: TAG_KINDS, NOTES: NOTE_KINDS}
# Rows written at once: each write goes through the ids of the whole table.
_WRITE_ROWS = 100_000
_CHANGES = """
SELECT e.episode_id, d.texts FROM current_texts e LEFT JOIN desired_texts d USING (episode_id)
WHERE d.texts IS DISTINCT FROM e.texts
"""


def find_wrong_texts(
    tables: Tables, annotations: AnnotationStore, history: ActionHistory, database: TempDatabase, column: str
) -> int:
    """Write the table "wrong_texts" of a temporary database: episode_id and right texts where a column differs.

    Args:
        tables: The tables.
        annotations: The log.
        history: Its actions.
        database: The temporary database.
        column: "tags" or "notes".

    Returns:
        Number of rows.
    """
    import pyarrow as pa

    rows = tables.episodes.snapshot()
    has_column = column in rows.arrow_schema.names
    if not has_column and not history.effective(_KINDS[column]):
        return 0
    _FOLDS[column](annotations, history, database)
    schema = pa.schema([("episode_id", pa.string()), ("texts", pa.list_(pa.string()))])
    batches = rows.reader(["episode_id", *([column] if has_column else [])])
    database.insert("current_texts", schema, (_with_texts(batch, schema) for batch in batches))
    count = database.create_table_as("wrong_texts", _CHANGES)
    database.drop_tables("current_texts", "desired_texts")
    return count


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
    import pyarrow as pa

    for column, own_kinds in _KINDS.items():
        if not own_kinds & set(kinds):
            continue
        schema = pa.schema([("episode_id", pa.string()), (column, pa.list_(pa.string()))])
        with TempDatabase() as database:
            if find_wrong_texts(tables, annotations, history, database, column):
                wrong = f"SELECT episode_id, texts AS {column} FROM wrong_texts"
                for batch in database.stream(wrong, _WRITE_ROWS):
                    tables.episodes.set_values(pa.Table.from_batches([batch]).cast(schema))


def _with_texts(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    texts = batch.column(1) if batch.num_columns > 1 else pa.nulls(batch.num_rows, schema.field(1).type)
    return pa.RecordBatch.from_arrays([batch["episode_id"], texts], schema=schema)
