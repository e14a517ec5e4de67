"""Checks that tables, documents, files and actions of a workspace agree, and repairs them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.curation import (
    CurationSet,
    Sets,
    apply_acceptances,
    count_pending_purges,
    finish_purges,
    hash_members,
)
from ares.episode import Json
from ares.jobs import FAILURES, resolved_failures
from ares.media import MEDIA_FOLDER
from ares.search import TEXT_ENCODER_FOLDER
from ares.store import (
    ACTION_MEMBERS,
    NOTES,
    SET_MEMBERS,
    TAGS,
    applied_action,
    batched,
    find_outdated_values,
    lance_errors,
    list_removed_but_present,
    list_restored_but_absent,
    read_action_members,
    read_history,
    removed_id_array,
    reset_applied_actions,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store import ActionHistory, Stores, TempDatabase


REPAIR = "ares doctor --repair"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One broken promise between the stores.

    Attributes:
        check: The promise.
        count: Number of cases.
        example: The first case.
        repaired: Whether it was repaired.
        remedy: What the user can do when it was not repaired.
    """

    check: str
    count: int
    example: str
    repaired: bool
    remedy: str

    def to_json(self) -> dict[str, Json]:
        """Return one element of `ares doctor --json`."""
        return asdict(self)


def report_cases(
    check: str, cases: Iterable[object], *, repaired: bool = False, remedy: str = REPAIR
) -> Iterator[Finding]:
    """The finding of a broken promise by its cases; none without a case."""
    count, example = 0, ""
    for case in cases:
        count, example = count + 1, example or str(case)
    if count:
        yield Finding(check=check, count=count, example=example, repaired=repaired, remedy=remedy)


# Table of the temporary database: ids of all episodes, removed ones included.
STORED = "stored episodes"
_REMOVED = "removed_episodes"
# Every row of a key but the first.
_DUPLICATE_ROWS = """
SELECT _rowid, {key} AS id FROM (
    SELECT _rowid, {key}, row_number() OVER (PARTITION BY {key} ORDER BY _rowid) AS nth FROM "{table}"
) WHERE nth > 1 ORDER BY _rowid
"""
ROWS_WITHOUT = """
SELECT _rowid, a.episode_id AS id FROM "{table}" a ANTI JOIN "{other}" b ON a.episode_id = b.episode_id ORDER BY _rowid
"""


def copy_table_to_database(stores: Stores, database: TempDatabase, table: str, columns: list[str]) -> None:
    """Copy columns of a Lance table, and the row ids as `_rowid`, into the temporary database."""
    dataset = stores.tables.connection.open_dataset(table)
    if dataset is not None:
        with lance_errors(table):
            reader = dataset.scanner(columns=columns, with_row_id=True).to_reader()
            database.insert(table, reader.schema, reader)


def check_rows(stores: Stores, database: TempDatabase, repair: bool) -> Iterator[Finding]:
    """Find duplicate rows, signals and segments without an episode, and episodes without signals."""
    # Counting creates missing tables.
    _ = stores.tables.episodes.count(), stores.tables.trajectories.count(), stores.tables.segments.count()
    keys = {"episodes": "episode_id", "trajectories": "episode_id", "segments": "annotation_id"}
    for table, key in keys.items():
        copy_table_to_database(stores, database, table, list({key, "episode_id"}))
        duplicates = _DUPLICATE_ROWS.format(table=table, key=key)
        check = f"each {'segment' if table == 'segments' else 'episode'} has one row in {table}"
        yield from report_and_repair_rows(stores, database, table, duplicates, check, repair)
    load_stored_episode_ids(stores, database)
    for table, label in (("trajectories", "signals"), ("segments", "segments")):
        orphans = ROWS_WITHOUT.format(table=table, other=STORED)
        check = f"no {label} without an episode"
        yield from report_and_repair_rows(stores, database, table, orphans, check, repair)
    yield from report_unrepairable(
        database,
        ROWS_WITHOUT.format(table="episodes", other="trajectories"),
        "each episode has its signals",
        "ingest the source again into a new workspace",
    )


def load_stored_episode_ids(stores: Stores, database: TempDatabase) -> None:
    """Write the table STORED of the temporary database: ids of all episodes, removed ones included."""
    copy_table_to_database(stores, database, _REMOVED, ["episode_id"])
    removed = f"UNION SELECT episode_id FROM {_REMOVED}" if database.has_table(_REMOVED) else ""
    database.create_table_as(STORED, f"SELECT episode_id FROM episodes {removed}")


def check_duplicates(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find episodes whose `duplicate_of` is not the episode of their content that was stored first."""
    count, example = stores.tables.episodes.find_wrong_duplicates()
    if count:
        if repair:
            stores.tables.episodes.mark_duplicates()
        yield Finding(
            check="duplicate_of is the first stored episode of the same content",
            count=count,
            example=f"episode {example}",
            repaired=repair,
            remedy=REPAIR,
        )


def report_unrepairable(database: TempDatabase, query: str, check: str, remedy: str) -> Iterator[Finding]:
    """Report episodes that a query selects as `id` and that cannot be repaired here."""
    if count := database.create_table_as("wrong", query):
        first = database.query("SELECT min(id) AS id FROM wrong")["id"][0].as_py()
        yield Finding(check=check, count=count, example=f"episode {first}", repaired=False, remedy=remedy)


def report_and_repair_rows(
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


_CHUNK = 10_000


def check_sets(stores: Stores, database: TempDatabase, repair: bool) -> Iterator[Finding]:
    """Compare the members of every set with its count and hash, and with the episodes of the workspace."""
    sets = Sets(stores.annotations)
    versions = [episode_set for name in sets for episode_set in sets.versions(name)]
    for episode_set in versions:
        yield from _check_set(sets, episode_set, database)
    # Deleted sets keep their members: they can be brought back.
    yield from _check_documents(stores, SET_MEMBERS, sets.stored_keys(), "no members without a set", repair)


def _check_documents(
    stores: Stores, collection: str, owners: Collection[str], check: str, repair: bool
) -> Iterator[Finding]:
    """Find blocks of members whose owner, which is written last, a killed command has not written."""
    keys = (key for key, _ in stores.annotations.find_documents(collection))
    orphans = [key for key in keys if key.rpartition("/")[0] not in owners]
    if repair:
        stores.annotations.drop_documents(collection, orphans)
    yield from report_cases(check, orphans, repaired=repair)


def check_failure_log(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find failures of subjects that were done later."""
    resolved = list[str]()
    for keys in batched((key for key, _ in stores.annotations.find_documents(FAILURES)), _CHUNK):
        resolved += resolved_failures(stores, keys)
    if repair:
        stores.annotations.drop_documents(FAILURES, resolved)
    yield from report_cases("no failure of work that was done later", resolved, repaired=repair)


def _check_set(sets: Sets, episode_set: CurationSet, database: TempDatabase) -> Iterator[Finding]:
    import pyarrow as pa

    ids_hash, _, count = hash_members(sets.members(episode_set))
    expected = (episode_set.num_members, episode_set.ids_hash)
    if (count, ids_hash) != expected:
        yield Finding(
            check=f"set {episode_set.label} has the members that it was frozen with",
            count=abs(episode_set.num_members - count) or 1,
            example=f"{count_of(count, 'member')} with hash {ids_hash}, frozen were {expected[0]} with {expected[1]}",
            repaired=False,
            remedy="restore the annotations from a backup, or the set from its lock file",
        )
    table, schema = f"set {episode_set.label}", pa.schema([("episode_id", pa.string())])
    database.insert(table, schema, _id_batches(sets.ids(episode_set), schema))
    yield from report_unrepairable(
        database,
        f'SELECT m.episode_id AS id FROM "{table}" m ANTI JOIN "{STORED}" USING (episode_id)',
        f"each member of set {episode_set.label} is an episode of the workspace",
        "ingest its source again: it gets the same id",
    )
    database.drop_tables(table)


def _id_batches(ids: Iterator[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for chunk in batched(ids, _CHUNK):
        yield pa.record_batch([pa.array(chunk, pa.string())], schema=schema)


def check_purges(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find purges that a crash interrupted, and complete them; the caller holds the write lock."""
    pending = count_pending_purges(stores)
    if repair and pending:
        finish_purges(stores)
    example = "a purge was interrupted before everything was deleted"
    yield from report_cases("each purge is complete", [example] * pending, repaired=repair)


def check_applied_actions(stores: Stores, database: TempDatabase, repair: bool) -> Iterator[Finding]:
    """Compare the tables with what the actions of the log say of removed episodes, tags and notes."""
    history = read_history(stores.annotations)
    removed = removed_id_array(stores.annotations, history)
    hidden, absent = (
        list_removed_but_present(stores.tables, removed),
        list_restored_but_absent(stores.tables, removed),
    )
    wrong_columns = {
        column: _find_wrong(stores, history, database, column)
        for column in (TAGS, NOTES, *history.user_columns())
    }
    wrong = {
        "no removed episode is in the tables": (len(hidden), hidden.slice(0, 1).to_pylist()),
        "each episode that was brought back is in the tables": (len(absent), absent.slice(0, 1).to_pylist()),
        **{f"the {column} match the log": counted for column, counted in wrong_columns.items()},
        "the tables show every action": (
            len(history.shown_after(applied_action(stores.tables))),
            [f"action {history.last}"],
        ),
    }
    if repair and any(count for count, _ in wrong.values()):
        reset_applied_actions(stores.tables)
        stores.sync()
    if repair:
        apply_acceptances(stores)
    for check, (count, example) in wrong.items():
        if count:
            yield Finding(check=check, count=count, example=str(example[0]), repaired=repair, remedy=REPAIR)
    yield from _check_members(stores, repair)


def _find_wrong(
    stores: Stores, history: ActionHistory, database: TempDatabase, column: str
) -> tuple[int, list[str]]:
    """Number of episodes whose tags, notes or values set by people differ from the log, and an example."""
    count = find_outdated_values(stores.tables, stores.annotations, history, database, column)
    first = (
        database.query("SELECT * FROM wrong_values ORDER BY episode_id LIMIT 1").to_pylist() if count else []
    )
    database.drop_tables("wrong_values", "current_values", "desired_values")
    for row in first:
        value = [] if row["value"] is None and column in (TAGS, NOTES) else row["value"]
        return count, [f"episode {row['episode_id']}: the log says {value}"]
    return 0, []


def _check_members(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find actions that lack members, and members without an action, which a killed command left."""
    actions = [action for action in read_history(stores.annotations).actions if action.members]
    for action in actions:
        count = sum(len(block) for block in read_action_members(stores.annotations, action))
        if count != action.count - action.purged:
            yield Finding(
                check=f"action {action.number} has its members",
                count=abs(action.count - action.purged - count),
                example=f"{count_of(count, 'member')} of {action.count - action.purged}",
                repaired=False,
                remedy="restore the annotations from a backup",
            )
    owners = {action.members for action in actions}
    yield from _check_documents(stores, ACTION_MEMBERS, owners, "no members without an action", repair)


def check_media_copies(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find copies that are missing or damaged, and folders of copies that no episode refers to."""
    yield from report_cases(
        "each copied video is there and whole",
        damaged_copies(stores),
        remedy="put it back from a backup, or ingest the source again into a new workspace",
    )
    folders = list(unreferenced_folders(stores))
    for folder in folders if repair else ():
        _remove_path(folder)
    yield from report_cases(
        "each folder of copied videos belongs to an episode",
        folders,
        repaired=repair,
        remedy="a killed ingestion left them; ares doctor --repair removes them",
    )


def damaged_copies(stores: Stores) -> Iterator[str]:
    """Yield copies that are missing or have another size than recorded, relative to the workspace."""
    for batch in stores.tables.episodes.scan(["cameras"]):
        for uri, size in _referenced_copies(batch):
            try:
                intact = (stores.folder / uri).stat().st_size == size
            except OSError:
                intact = False
            if not intact:
                yield uri


def unreferenced_folders(stores: Stores) -> Iterator[Path]:
    """Yield episode folders below media/ without an episode: a run was killed before it wrote its rows."""
    media = stores.folder / MEDIA_FOLDER
    for shard in sorted(media.iterdir()) if media.is_dir() else ():
        prefix = shard.name.replace("'", "''")
        where = f"starts_with(episode_id, '{prefix}')"
        rows = chain(
            stores.tables.episodes.scan(["cameras"], where), stores.tables.removed.scan(["cameras"], where)
        )
        referenced = {uri.rpartition("/")[0] for batch in rows for uri, _ in _referenced_copies(batch)}
        with os.scandir(shard) as entries:
            names = sorted(entry.name for entry in entries)
        yield from (shard / name for name in names if f"{MEDIA_FOLDER}/{shard.name}/{name}" not in referenced)


def _remove_path(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _referenced_copies(batch: pa.RecordBatch) -> list[tuple[str, int]]:
    """Relative URI and size in bytes of each copy that the rows refer to."""
    import pyarrow.compute as pc

    media = batch["cameras"].flatten()
    media = media.filter(pc.starts_with(pc.struct_field(media, "uri"), f"{MEDIA_FOLDER}/"))
    uris, sizes = (pc.struct_field(media, name).to_pylist() for name in ("uri", "byte_size"))
    return list(zip(uris, sizes, strict=True))


# A page may be writing a playable video; none takes this long.
_MIN_AGE_SECONDS = 3600.0


def check_temporary_files(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find files with ".tmp" in their name that are at least an hour old."""
    files = sorted(_leftover_files(stores.folder))
    if repair:
        for path in files:
            path.unlink(missing_ok=True)
    yield from report_cases("no incomplete files of killed jobs", files, repaired=repair)


def _leftover_files(folder: Path) -> Iterator[Path]:
    newest = time.time() - _MIN_AGE_SECONDS
    # Only these patterns: exports, and other files that a user keeps here, are not touched.
    for path in [
        *folder.glob("*.tmp"),
        *folder.glob("cache/*/*.tmp*"),
        *folder.glob(f"{TEXT_ENCODER_FOLDER}/*.tmp"),
    ]:
        if path.is_file() and path.stat().st_mtime < newest:
            yield path
