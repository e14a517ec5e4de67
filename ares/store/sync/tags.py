"""The column `tags` of the episodes table: what the tag actions of the log say together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.store.actions import fold_tags
from ares.store.temp_db import TempDatabase

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.actions import ActionHistory
    from ares.store.annotations import AnnotationStore
    from ares.store.database import Tables

TAGS = "tags"
# Rows written at once: each write goes through the ids of the whole table.
_WRITE_ROWS = 100_000
_CHANGES = """
SELECT e.episode_id, d.tags FROM current_tags e LEFT JOIN desired_tags d USING (episode_id)
WHERE d.tags IS DISTINCT FROM e.tags
"""


def find_wrong_tags(
    tables: Tables, annotations: AnnotationStore, history: ActionHistory, database: TempDatabase
) -> int:
    """Write the table "wrong_tags" of a temporary database: episode_id and right tags where the column differs.

    Returns:
        Number of rows.
    """
    import pyarrow as pa

    fold_tags(annotations, history, database)
    rows, schema = tables.episodes.snapshot(), pa.schema([("episode_id", pa.string()), _tags_field()])
    has_column = TAGS in rows.arrow_schema.names
    batches = rows.reader(["episode_id", *([TAGS] if has_column else [])])
    database.insert(
        "current_tags",
        schema,
        (batch if has_column else _without_tags(batch, schema) for batch in batches),
    )
    count = database.create_table_as("wrong_tags", _CHANGES)
    database.drop_tables("current_tags", "desired_tags")
    return count


def refresh_tags(tables: Tables, annotations: AnnotationStore, history: ActionHistory) -> int:
    """Write the tags of the episodes where the column differs from the log. Returns their number."""
    import pyarrow as pa

    with TempDatabase() as database:
        count = find_wrong_tags(tables, annotations, history, database)
        for batch in database.stream("SELECT * FROM wrong_tags", _WRITE_ROWS):
            tables.episodes.set_values(
                pa.Table.from_batches([batch]).cast(pa.schema([("episode_id", pa.string()), _tags_field()]))
            )
    return count


def _tags_field() -> pa.Field:
    import pyarrow as pa

    return pa.field(TAGS, pa.list_(pa.string()))


def _without_tags(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    missing = pa.nulls(batch.num_rows, schema.field(TAGS).type)
    return pa.RecordBatch.from_arrays([batch["episode_id"], missing], schema=schema)
