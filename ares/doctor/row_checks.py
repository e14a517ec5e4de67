"""Checks that each episode has one row and its signals, and each vector an episode and an annotation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.doctor.finding import REPAIR, Finding
from ares.store.filters import quote_literal
from ares.store.lance import lance_errors

if TYPE_CHECKING:
    from ares.store import Stores, TempDatabase

# Table of the temporary database: ids of all episodes, removed ones included.
STORED = "stored episodes"
_REMOVED = "removed_episodes"
# Every row of a key but the first.
DUPLICATE_ROWS = """
SELECT _rowid, {key} AS id FROM (
    SELECT _rowid, {key}, row_number() OVER (PARTITION BY {key} ORDER BY _rowid) AS nth FROM "{table}"
) WHERE nth > 1 ORDER BY _rowid
"""
_ROWS_WITHOUT = """
SELECT _rowid, a.episode_id AS id FROM "{table}" a ANTI JOIN "{other}" b ON a.episode_id = b.episode_id ORDER BY _rowid
"""


def load_table(stores: Stores, database: TempDatabase, table: str, columns: list[str]) -> None:
    """Copy columns of a Lance table, and the row ids as `_rowid`, into the temporary database."""
    dataset = stores.tables.connection.open_dataset(table)
    if dataset is not None:
        with lance_errors(table):
            reader = dataset.scanner(columns=columns, with_row_id=True).to_reader()
            database.insert(table, reader.schema, reader)


def check_rows(stores: Stores, database: TempDatabase, repair: bool) -> Iterator[Finding]:
    """Find duplicate episodes and signals, signals without an episode, and episodes without signals."""
    # Counting creates missing tables.
    _ = stores.tables.episodes.count(), stores.tables.trajectories.count()
    for table in ("episodes", "trajectories"):
        load_table(stores, database, table, ["episode_id"])
        duplicates = DUPLICATE_ROWS.format(table=table, key="episode_id")
        check = f"each episode has one row in {table}"
        yield from remove_rows(stores, database, table, duplicates, check, repair)
    load_stored(stores, database)
    orphans = _ROWS_WITHOUT.format(table="trajectories", other=STORED)
    check = "no signals without an episode"
    yield from remove_rows(stores, database, "trajectories", orphans, check, repair)
    yield from report_unrepairable(
        database,
        _ROWS_WITHOUT.format(table="episodes", other="trajectories"),
        "each episode has its signals",
        "ingest the source again into a new workspace",
    )


def load_stored(stores: Stores, database: TempDatabase) -> None:
    """Write the table STORED of the temporary database: ids of all episodes, removed ones included."""
    load_table(stores, database, _REMOVED, ["episode_id"])
    removed = f"UNION SELECT episode_id FROM {_REMOVED}" if database.has_table(_REMOVED) else ""
    database.create_table_as(STORED, f"SELECT episode_id FROM episodes {removed}")


def check_vectors(stores: Stores, database: TempDatabase, repair: bool) -> Iterator[Finding]:
    """Compare vectors with the episodes, and with the annotations in the table "embedded" of the database."""
    for space in stores.tables.spaces():
        table = f"vectors_{space}"
        load_table(stores, database, table, ["episode_id"])
        orphans = _ROWS_WITHOUT.format(table=table, other=STORED)
        check = f"no vectors without an episode in {space}"
        yield from remove_rows(stores, database, table, orphans, check, repair)
        # Vectors cannot be checked when their annotator's annotations do not name the space.
        annotated = f"(SELECT * FROM embedded WHERE space = {quote_literal(space)})"
        if database.has_table("embedded") and database.query(f"FROM {annotated} LIMIT 1").num_rows:
            yield from _check_annotated(stores, database, space, annotated, repair)


def _check_annotated(
    stores: Stores, database: TempDatabase, space: str, annotated: str, repair: bool
) -> Iterator[Finding]:
    """Compare the vectors of a space with the episodes that are annotated as embedded, given as a subquery."""
    table = f"vectors_{space}"
    of_episodes = (
        f'SELECT _rowid, v.episode_id AS id FROM "{table}" v SEMI JOIN "{STORED}" USING (episode_id)'
    )
    unannotated = f"{of_episodes} ANTI JOIN {annotated} USING (episode_id)"
    check = f"each vector has its annotation, in {space}"
    yield from remove_rows(stores, database, table, unannotated, check, repair)
    yield from report_unrepairable(
        database,
        f'SELECT episode_id AS id FROM {annotated} m ANTI JOIN "{table}" USING (episode_id) WHERE frames > 0',
        f"each annotation of an embedding has its vectors, in {space}",
        "restore lance/ from a backup, or embed with another --model",
    )


def report_unrepairable(database: TempDatabase, query: str, check: str, remedy: str) -> Iterator[Finding]:
    """Report episodes that a query selects as `id` and that cannot be repaired here."""
    count = database.create_table_as("wrong", query)
    if count:
        first = database.query("SELECT min(id) AS id FROM wrong")["id"][0].as_py()
        yield Finding(check=check, count=count, example=f"episode {first}", repaired=False, remedy=remedy)


def remove_rows(
    stores: Stores, database: TempDatabase, table: str, query: str, check: str, repair: bool
) -> Iterator[Finding]:
    """Report rows that a query selects as `_rowid` and `id`, and delete them when `repair` is set.

    The caller selects only rows whose loss loses no data.
    """
    count = database.create_table_as("wrong", query)
    if not count:
        return
    if repair:
        writer = stores.tables.connection.open_table(table)
        assert writer is not None  # its rows were just read
        with lance_errors(table):
            for batch in database.stream("SELECT _rowid FROM wrong ORDER BY _rowid"):
                writer.delete(f"_rowid IN ({', '.join(map(str, batch['_rowid'].to_pylist()))})")
    first = database.query("SELECT id FROM wrong ORDER BY _rowid LIMIT 1")["id"][0].as_py()
    yield Finding(check=check, count=count, example=str(first), repaired=repair, remedy=REPAIR)
