"""Checks that the tables show what the annotation log says, and deletes vectors without facts of a killed run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ares.annotation import canonical_json
from ares.doctor.checks import DUPLICATE_ROWS, REPAIR, Finding, copy_table_to_database, report_and_repair_rows
from ares.episode import Json
from ares.rubric import JUDGE_TRUST, TRUST_COLUMN, GradeProjection, find_outdated_grades, trust_documents
from ares.store import (
    CONFLICT,
    REVIEWED,
    InstalledProjections,
    MakerCatalog,
    TableChanges,
    applied_sequence,
    arrow_type,
    conflict_changes,
    declared_columns,
    read_log_changes,
    refresh_conflicts,
    reset_applied_sequence,
    segment_schema,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store import Stores, TempDatabase

# Rows written at once: each write reads the ids of the whole table.
_CHUNK = 100_000
_SEGMENTS, _FOLLOWED = "expected segments", "rows that follow from more"
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


def copy_log_to_database(stores: Stores, database: TempDatabase) -> Iterator[Finding]:
    """Copy the log into the temporary database, and report annotations whose maker is unknown.

    The database then has the tables "expected segments" and "embedded", and per column with a value a table
    "column NAME" of the episodes or "segment column NAME" of the segments. Each row has the number of its batch.
    """
    import pyarrow as pa

    unknown_makers: dict[str, str] = {}
    batch_field = ("batch", pa.int64())
    database.insert(_SEGMENTS, pa.schema([*segment_schema(), batch_field]), [])
    last = stores.annotations.last_sequence()
    for number, changes in enumerate(read_log_changes(stores.tables, stores.annotations, last)):
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
    """Compare the columns that annotators fill in the episodes table with the log."""
    makers, episodes = stores.annotations.makers(), stores.tables.episodes
    on_episodes = {column.name: column.episode_type for column in declared_columns(makers.values())}
    on_episodes.pop(CONFLICT, None)  # follows from other columns
    yield from _check_table(
        _ColumnCheck(
            key="episode_id",
            prefix="column",
            label="episode",
            existing=episodes.columns(),
            scan=lambda names, where: episodes.scan(names, where),
            write=episodes.set_values if repair else None,
            followed=InstalledProjections().followed_columns(MakerCatalog(makers), episodes.columns()),
        ),
        database,
        on_episodes,
    )
    yield from _check_conflicts(stores, repair)


def _check_segment_columns(stores: Stores, database: TempDatabase, repair: bool) -> Iterator[Finding]:
    makers, segments = stores.annotations.makers(), stores.tables.segments
    check = _ColumnCheck(
        key="annotation_id",
        prefix="segment column",
        label="segment",
        existing=segments.columns(),
        scan=lambda names, where: segments.scan(names, where).to_batches(),
        write=segments.set_values if repair else None,
        # A row that the log does not show is a finding already.
        join=f'SEMI JOIN "{_SEGMENTS}" USING (annotation_id)',
        followed=InstalledProjections().followed_columns(MakerCatalog(makers), segments.columns()),
    )
    names = {maker.annotator for maker in makers.values()}
    yield from _check_table(check, database, MakerCatalog(makers).segment_columns(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ColumnCheck:
    """A table whose columns are compared with the log.

    Attributes:
        key: Column that identifies a row.
        prefix: Start of the names of its tables in the temporary database.
        label: A row, for messages.
        existing: Type of every column that it has.
        scan: Reads some columns of the rows that match a filter, "" for all.
        write: Writes rows of the key and a column; None reports only.
        join: SQL that selects the rows to compare; "" compares all.
        followed: Filter of the rows in which a column follows from more than the log, by column.
    """

    key: str
    prefix: str
    label: str
    existing: Mapping[str, str]
    scan: Callable[[list[str], str], Iterable[pa.RecordBatch]]
    write: Callable[[pa.Table], None] | None
    join: str = ""
    followed: Mapping[str, str] = field(default_factory=dict)


def _check_table(
    check: _ColumnCheck, database: TempDatabase, declared: Mapping[str, str]
) -> Iterator[Finding]:
    for name, kind in sorted(declared.items()):
        has_values = database.has_table(f"{check.prefix} {name}") or name in check.existing
        if has_values and check.existing.get(name, kind) == kind:
            yield from _check_column(check, database, name, kind)


def _check_column(check: _ColumnCheck, database: TempDatabase, name: str, kind: str) -> Iterator[Finding]:
    import pyarrow as pa

    key, exists = check.key, name in check.existing
    log_table, current_table = f"{check.prefix} {name}", f"current {name}"
    if database.has_table(log_table):
        expected = _LATEST.format(key=key, packed="value := value", table=log_table)
    else:
        expected = f"SELECT ''::VARCHAR AS {key}, NULL::{_SQL_TYPES[kind]} AS value WHERE false"
    schema = pa.schema([(key, pa.string()), *([(name, arrow_type(kind))] if exists else [])])
    database.insert(current_table, schema, check.scan(schema.names, ""))
    compared = check.join
    if name in check.followed:
        database.insert(_FOLLOWED, pa.schema([(key, pa.string())]), check.scan([key], check.followed[name]))
        compared += f' ANTI JOIN "{_FOLLOWED}" USING ({key})'
    current = f'"{name}"' if exists else "NULL"
    # What nobody has reviewed is written as such, and the log says nothing of it.
    value = "COALESCE(e.value, false)" if name == REVIEWED else "e.value"
    wrong = database.create_table_as(
        "wrong",
        f'SELECT s.{key}, {value} AS "{name}" FROM "{current_table}" s {compared}'
        f" LEFT JOIN ({expected}) e USING ({key})"
        f" WHERE {current} IS DISTINCT FROM {value}",
    )
    if wrong:
        yield from _report_wrong_rows(
            check.write,
            database,
            pa.schema([(key, pa.string()), (name, arrow_type(kind))]),
            f"{check.prefix} {name} matches the log",
            f"{check.label} {{{key}}}: the log says {{{name}!r}}",
        )
    database.drop_tables(current_table, log_table, _FOLLOWED)


def _check_conflicts(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Compare the column `conflict` with the outcomes that it follows from."""
    catalog = MakerCatalog(stores.annotations.makers())
    wrong = list(conflict_changes(stores.tables, catalog))
    if wrong and repair:
        refresh_conflicts(stores.tables, catalog)
    if wrong:
        yield Finding(
            check=f"column {CONFLICT} matches the outcomes",
            count=len(wrong),
            example=f"episode {wrong[0]['episode_id']}: they say {wrong[0][CONFLICT]!r}",
            repaired=repair,
            remedy=REPAIR,
        )


def check_segments(stores: Stores, database: TempDatabase, repair: bool) -> Iterator[Finding]:
    """Compare the segments with the shown annotations of the log that are segments, and their columns."""
    row_findings = list(_check_segment_rows(stores, database, repair))
    yield from row_findings
    column_findings = list(_check_segment_columns(stores, database, repair))
    # A row that was just written again lacks its columns: that is no finding of its own.
    yield from () if row_findings and repair else column_findings


def _check_segment_rows(stores: Stores, database: TempDatabase, repair: bool) -> Iterator[Finding]:
    import pyarrow as pa

    if repair:
        stores.tables.segments.add_missing_columns(segment_schema())
    # Asking creates a missing table; one of an earlier version lacks columns, which nothing has filled yet.
    existing = stores.tables.segments.columns()
    schema = pa.schema([field for field in segment_schema() if field.name in existing])
    names = schema.names
    copy_table_to_database(stores, database, "segments", names)
    duplicates = DUPLICATE_ROWS.format(table="segments", key="annotation_id")
    check = "each segment has one row in segments"
    yield from report_and_repair_rows(stores, database, "segments", duplicates, check, repair)
    orphans = (
        f'SELECT _rowid, s.annotation_id AS id FROM segments s ANTI JOIN "{_SEGMENTS}" USING (annotation_id)'
    )
    check = "no segments that the log does not show"
    yield from report_and_repair_rows(stores, database, "segments", orphans, check, repair)
    differs = " OR ".join(f"s.{name} IS DISTINCT FROM e.{name}" for name in names)
    packed = ", ".join(f"{name} := {name}" for name in names if name != "annotation_id")
    latest = _LATEST.format(key="annotation_id", packed=packed, table=_SEGMENTS)
    wrong = database.create_table_as(
        "wrong",
        f"SELECT {', '.join(f'e.{name}' for name in names)} FROM ({latest}) e"
        f" LEFT JOIN segments s USING (annotation_id) WHERE {differs}",
    )
    if wrong:
        yield from _report_wrong_rows(
            stores.tables.segments.upsert if repair else None,
            database,
            schema,
            "segments match the annotations of the log",
            "segment {annotation_id} of episode {episode_id}",
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


def _rows_by_table(changes: TableChanges) -> Iterator[tuple[str, list[Any], list[dict[str, Any]]]]:
    """Yield table, fields and rows of what a batch of the log adds to the temporary database."""
    import pyarrow as pa

    yield from _values_by_column("column", "episode_id", changes.episode_values, changes.column_types)
    own = set(segment_schema().names)
    if changes.segment_rows:
        rows = [
            {name: value for name, value in row.items() if name in own}
            for row in changes.segment_rows.values()
        ]
        yield _SEGMENTS, list(segment_schema()), rows
    added = {
        key: {name: value for name, value in row.items() if name not in own}
        for key, row in (*changes.segment_rows.items(), *changes.segment_values.items())
    }
    yield from _values_by_column("segment column", "annotation_id", added, changes.segment_types)
    if changes.frame_counts:
        fields = [("space", pa.string()), ("episode_id", pa.string()), ("frames", pa.int64())]
        embedded = [
            {"space": space, "episode_id": episode_id, "frames": frames}
            for (space, episode_id), frames in changes.frame_counts.items()
        ]
        yield "embedded", fields, embedded


def _values_by_column(
    prefix: str, key: str, values: Mapping[str, Mapping[str, Any]], types: Mapping[str, str]
) -> Iterator[tuple[str, list[Any], list[dict[str, Any]]]]:
    import pyarrow as pa

    rows_by_column: dict[str, list[dict[str, Any]]] = {}
    for key_value, row in values.items():
        for name, value in row.items():
            rows_by_column.setdefault(name, []).append({key: key_value, "value": value})
    for name, rows in rows_by_column.items():
        yield f"{prefix} {name}", [(key, pa.string()), ("value", arrow_type(types[name]))], rows


def check_controls(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Compare what is kept of judges with their controls, counted anew."""
    tables, annotations = stores.tables, stores.annotations
    counted = trust_documents(tables, annotations)
    kept = dict(annotations.find_documents(JUDGE_TRUST))
    wrong = sorted(
        key
        for key in counted.keys() | kept.keys()
        if canonical_json(counted.get(key)) != canonical_json(kept.get(key))
    )
    if not wrong:
        return
    if repair:
        GradeProjection().count(tables, annotations)
    yield Finding(
        check="what is kept of judges follows from their controls",
        count=len(wrong),
        example=wrong[0],
        repaired=repair,
        remedy=REPAIR,
    )


def check_judge_trust(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Compare the grades of judges with what their controls say: what an untrusted judge says is no decision."""
    tables, annotations = stores.tables, stores.annotations
    catalog = MakerCatalog(annotations.makers())
    wrong = [(key, rows) for key, rows in find_outdated_grades(tables, annotations, catalog) if len(rows)]
    if not wrong:
        return
    if repair:
        GradeProjection().refresh(tables, annotations, catalog)
    key, rows = wrong[0]
    label = "episode" if key == "episode_id" else "segment"
    yield Finding(
        check="each grade follows from the controls of its judge",
        count=sum(len(rows) for _, rows in wrong),
        example=f"{label} {rows[key][0]}: its judge is {rows[TRUST_COLUMN][0]}",
        repaired=repair,
        remedy=REPAIR,
    )


# Documents: for each space that a run writes to, the annotator and model of the run.
UNFINISHED_SPACES = "unfinished_spaces"


def delete_unrecorded_vectors(stores: Stores) -> int:
    """Delete vectors that a killed run wrote without their annotations. Returns the number of rows deleted."""
    unfinished = dict(stores.annotations.find_documents(UNFINISHED_SPACES))
    deleted = sum(
        stores.tables.vectors(space).delete_unknown(partial(_annotated_ids, stores, run))
        for space, run in unfinished.items()
    )
    stores.annotations.drop_documents(UNFINISHED_SPACES, unfinished)
    return deleted


def check_interrupted_runs(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find spaces that a run was writing to when it was killed; the caller holds the write lock."""
    spaces = [space for space, _ in stores.annotations.find_documents(UNFINISHED_SPACES)]
    if spaces:
        if repair:
            delete_unrecorded_vectors(stores)
        yield Finding(
            check="each vector has its annotation",
            count=len(spaces),
            example=spaces[0],
            repaired=repair,
            remedy=REPAIR,
        )


def _annotated_ids(stores: Stores, run: Json, episode_ids: Sequence[str]) -> set[str]:
    """Episodes with an annotation by any maker of the run's annotator and model: they share the table."""
    makers = [
        maker
        for maker in stores.annotations.makers().values()
        if {"annotator": maker.annotator, "model": maker.model} == run
    ]
    subjects = (stores.annotations.find_done_subjects(maker.maker_id, episode_ids) for maker in makers)
    return set().union(*subjects)
