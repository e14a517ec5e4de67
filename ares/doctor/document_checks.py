"""Checks that sets have the members they were frozen with, and that the failure log is up to date."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.curation import MEMBERS_COLLECTION, CurationSet, Sets, hash_ids
from ares.doctor.finding import REPAIR, Finding
from ares.doctor.row_checks import STORED, report_unrepairable
from ares.jobs import FAILURES, resolved_failures
from ares.store.filters import batched

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store import Stores, TempDatabase

_CHUNK = 10_000


def check_sets(stores: Stores, database: TempDatabase, repair: bool) -> Iterator[Finding]:
    """Compare the members of every set with its count and hash, and with the episodes of the workspace."""
    sets = Sets(stores.annotations)
    versions = [episode_set for name in sets for episode_set in sets.versions(name)]
    for episode_set in versions:
        yield from _check_set(sets, episode_set, database)
    # Deleted sets keep their members: they can be brought back.
    prefixes = sets.stored_keys()
    count, example = 0, ""
    keys = (key for key, _ in stores.annotations.find_documents(MEMBERS_COLLECTION))
    # The document of a set is written last: members without it were left by a killed command.
    orphans = (key for key in keys if key.rpartition("/")[0] not in prefixes)
    for chunk in batched(orphans, _CHUNK):
        if repair:
            stores.annotations.drop_documents(MEMBERS_COLLECTION, chunk)
        count, example = count + len(chunk), example or chunk[0]
    if count:
        yield Finding(
            check="no members without a set", count=count, example=example, repaired=repair, remedy=REPAIR
        )


def check_failure_log(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find failures of subjects that were done later."""
    count, example = 0, ""
    for keys in batched((key for key, _ in stores.annotations.find_documents(FAILURES)), _CHUNK):
        resolved = list(resolved_failures(stores, keys))
        if repair and resolved:
            stores.annotations.drop_documents(FAILURES, resolved)
        count, example = count + len(resolved), example or "".join(resolved[:1])
    if count:
        yield Finding(
            check="no failure of work that was done later",
            count=count,
            example=example,
            repaired=repair,
            remedy=REPAIR,
        )


def _check_set(sets: Sets, episode_set: CurationSet, database: TempDatabase) -> Iterator[Finding]:
    import pyarrow as pa

    ids_hash, count = hash_ids(sets.ids(episode_set))
    expected = (episode_set.episodes, episode_set.ids_hash)
    if (count, ids_hash) != expected:
        yield Finding(
            check=f"set {episode_set.label} has the members that it was frozen with",
            count=abs(episode_set.episodes - count) or 1,
            example=f"{count} members with hash {ids_hash}, frozen were {expected[0]} with {expected[1]}",
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
