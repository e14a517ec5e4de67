"""Checks that the tables show what the annotation log says, compared value by value without rebuilding them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ares.doctor.finding import REPAIR, Finding
from ares.doctor.row_checks import DUPLICATE_ROWS, load_table, remove_rows
from ares.store import LogChanges, applied_sequence, read_changes, reset_applied_sequence
from ares.store.lance import arrow_type, segment_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store import Stores, TempDatabase

# Rows written at once: each write reads the ids of the whole table.
_CHUNK = 100_000
_GRADE_FIELDS = ("acceptable", "grade", "score")
# The newest values of each key: those of the last batch, missing values included.
_LATEST = 'SELECT {key}, unnest(arg_max(struct_pack({packed}), batch)) FROM "{table}" GROUP BY {key}'
_SQL_TYPES = {
    "bool": "BOOLEAN",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "string": "VARCHAR",
    "list<string>": "VARCHAR[]",
    "timestamp": "TIMESTAMPTZ",
}


def check_index_position(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Compare the sequence number that the tables have applied with the last one of the log."""
    last, applied = stores.annotations.last_sequence(), applied_sequence(stores.tables)
    if applied == last:
        return
    if repair:
        if applied > last:
            # The log was restored from an older backup.
            reset_applied_sequence(stores.tables)
        stores.sync()
    is_behind = applied < last
    yield Finding(
        check="the index has applied every annotation" if is_behind else "the index is no newer than the log",
        count=abs(last - applied),
        example=f"the index is at sequence {applied}, the log at {last}",
        repaired=repair,
        remedy=REPAIR,
    )


def load_log(stores: Stores, database: TempDatabase) -> Iterator[Finding]:
    """Copy the log into the temporary database, and report annotations whose maker is unknown.

    The database then has a table "column NAME" per declared column with a value, and the tables captions, grades and
    embedded. Each row has the number of its batch.
    """
    import pyarrow as pa

    unknown_makers: dict[str, str] = {}
    batch_field = ("batch", pa.int64())
    database.insert("captions", pa.schema([*_caption_fields(), batch_field]), [])
    database.insert("grades", pa.schema([*_grade_fields(), batch_field]), [])
    last = stores.annotations.last_sequence()
    for number, changes in enumerate(read_changes(stores.tables, stores.annotations, last)):
        unknown_makers.update(changes.unknown_makers)
        for table, fields, rows in _rows_by_table(changes):
            schema = pa.schema([*fields, batch_field])
            numbered = [{**row, "batch": number} for row in rows]
            database.insert(table, schema, pa.Table.from_pylist(numbered, schema=schema).to_batches())
    for maker_id, example in list(unknown_makers.items())[:1]:
        yield Finding(
            check="each annotation has a known maker",
            count=len(unknown_makers),
            example=f"maker {maker_id} of {example} is unknown",
            repaired=False,
            remedy="restore the annotations from a backup",
        )


def check_columns(stores: Stores, database: TempDatabase, repair: bool) -> Iterator[Finding]:
    """Compare the columns that annotators declare with the log, episode by episode."""
    existing = stores.tables.episodes.columns()
    declared = {
        column.name: column.type for maker in stores.annotations.makers().values() for column in maker.columns
    }
    for name, kind in sorted(declared.items()):
        has_values = database.has_table(f"column {name}") or name in existing
        if has_values and existing.get(name, kind) == kind:
            yield from _check_column(stores, database, name, kind, name in existing, repair)


def _check_column(
    stores: Stores, database: TempDatabase, name: str, kind: str, exists: bool, repair: bool
) -> Iterator[Finding]:
    import pyarrow as pa

    episodes = stores.tables.episodes
    log_table, current_table = f"column {name}", f"current {name}"
    if database.has_table(log_table):
        expected = _LATEST.format(key="episode_id", packed="value := value", table=log_table)
    else:
        expected = f"SELECT ''::VARCHAR AS episode_id, NULL::{_SQL_TYPES[kind]} AS value WHERE false"
    schema = episodes.schema(["episode_id", *([name] if exists else [])])
    database.insert(current_table, schema, episodes.scan(schema.names))
    current = f'"{name}"' if exists else "NULL"
    wrong = database.create_table_as(
        "wrong",
        f'SELECT s.episode_id, e.value AS "{name}" FROM "{current_table}" s'
        f" LEFT JOIN ({expected}) e USING (episode_id)"
        f" WHERE {current} IS DISTINCT FROM e.value",
    )
    if wrong:
        yield from _report_wrong_rows(
            episodes.set_values if repair else None,
            database,
            pa.schema([("episode_id", pa.string()), (name, arrow_type(kind))]),
            f"column {name} matches the log",
            f"episode {{episode_id}}: the log says {{{name}!r}}",
        )
    database.drop_tables(current_table, log_table)


def check_segments(stores: Stores, database: TempDatabase, repair: bool) -> Iterator[Finding]:
    """Compare segments with the captions of the log and their latest grades."""
    names = segment_schema().names
    _ = stores.tables.segments.count()  # creates a missing table
    load_table(stores, database, "segments", names)
    duplicates = DUPLICATE_ROWS.format(table="segments", key="annotation_id")
    check = "each caption has one row in segments"
    yield from remove_rows(stores, database, "segments", duplicates, check, repair)
    orphans = "SELECT _rowid, s.annotation_id AS id FROM segments s ANTI JOIN captions USING (annotation_id)"
    check = "no segments without a caption in the log"
    yield from remove_rows(stores, database, "segments", orphans, check, repair)
    differs = " OR ".join(f"s.{name} IS DISTINCT FROM e.{name}" for name in names)
    wrong = database.create_table_as(
        "wrong",
        f"SELECT {', '.join(f'e.{name}' for name in names)} FROM ({_graded_captions()}) e"
        f" LEFT JOIN segments s USING (annotation_id) WHERE {differs}",
    )
    if wrong:
        yield from _report_wrong_rows(
            stores.tables.segments.upsert if repair else None,
            database,
            segment_schema(),
            "segments match the captions and grades of the log",
            "caption {annotation_id} of episode {episode_id}",
        )


def _graded_captions() -> str:
    """Query for the captions of the log with their latest grades."""
    packed = ", ".join(f"{name} := {name}" for name in _GRADE_FIELDS)
    grades = _LATEST.format(key="annotation_id", packed=packed, table="grades")
    return (
        "SELECT c.* EXCLUDE (batch), g.* EXCLUDE (annotation_id)"
        f" FROM captions c LEFT JOIN ({grades}) g USING (annotation_id)"
    )


def _report_wrong_rows(
    write: Callable[[pa.Table], None] | None,
    database: TempDatabase,
    schema: pa.Schema,
    check: str,
    example_format: str,
) -> Iterator[Finding]:
    """Report the rows in the table "wrong", which has the right values.

    Args:
        write: Writes rows to the workspace; None reports only.
        database: Where the table "wrong" is.
        schema: Columns to write, the key first.
        check: Name of the check.
        example_format: Format string for the first row.
    """
    import pyarrow as pa

    key = schema.names[0]
    first = database.query(f'SELECT * FROM wrong ORDER BY "{key}" LIMIT 1').to_pylist()[0]
    for batch in database.stream(f'SELECT * FROM wrong ORDER BY "{key}"', _CHUNK) if write else ():
        assert write is not None
        write(pa.Table.from_batches([batch]).cast(schema))
    yield Finding(
        check=check,
        count=database.query("SELECT count(*) AS n FROM wrong")["n"][0].as_py(),
        example=example_format.format(**first),
        repaired=write is not None,
        remedy=REPAIR,
    )


def _caption_fields() -> list[pa.Field]:
    return [field for field in segment_schema() if field.name not in _GRADE_FIELDS]


def _grade_fields() -> list[pa.Field]:
    return [field for field in segment_schema() if field.name in ("annotation_id", *_GRADE_FIELDS)]


def _rows_by_table(changes: LogChanges) -> Iterator[tuple[str, list[Any], list[dict[str, Any]]]]:
    """Yield table, fields and rows of what a batch of the log adds to the temporary database."""
    import pyarrow as pa

    rows_by_column: dict[str, list[dict[str, Any]]] = {}
    for episode_id, values in changes.episode_values.items():
        for name, value in values.items():
            rows_by_column.setdefault(name, []).append({"episode_id": episode_id, "value": value})
    for name, rows in rows_by_column.items():
        fields = [("episode_id", pa.string()), ("value", arrow_type(changes.column_types[name]))]
        yield f"column {name}", fields, rows
    if changes.segment_rows:
        yield "captions", _caption_fields(), list(changes.segment_rows.values())
    if changes.segment_grades:
        yield "grades", _grade_fields(), list(changes.segment_grades.values())
    if changes.frame_counts:
        fields = [("space", pa.string()), ("episode_id", pa.string()), ("frames", pa.int64())]
        embedded = [
            {"space": space, "episode_id": episode_id, "frames": frames}
            for (space, episode_id), frames in changes.frame_counts.items()
        ]
        yield "embedded", fields, embedded
