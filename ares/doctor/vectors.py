"""Whether vectors belong to episodes and annotations, and what killed runs left of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ares.doctor.checks import (
    REPAIR,
    ROWS_WITHOUT,
    STORED,
    Finding,
    copy_table_to_database,
    report_and_repair_rows,
    report_cases,
    report_unrepairable,
)
from ares.episode import Json
from ares.store import quote_literal

if TYPE_CHECKING:
    from ares.store import Stores, TempDatabase

# Table of the temporary database: the episodes that the log says are embedded.
_EMBEDDED = "embedded"
# Documents: for each space that a run writes to, the annotator and model of the run.
UNFINISHED_SPACES = "unfinished_spaces"


# Annotations of the log that are in memory together.
_ENTRIES_PER_READ = 10_000


def copy_embedded_episodes(stores: Stores, database: TempDatabase) -> Iterator[Finding]:
    """Read the log once: which episodes it says are embedded, and annotations whose producer is unknown.

    The temporary database then has the table "embedded": space, episode_id and number of frames.
    """
    import pyarrow as pa

    producers, unknown, sequence = stores.annotations.producers(), dict[str, str](), 0
    schema = pa.schema([("space", pa.string()), ("episode_id", pa.string()), ("frames", pa.int64())])
    while entries := stores.annotations.read(after=sequence, limit=_ENTRIES_PER_READ):
        sequence, rows = entries[-1].sequence, list[dict[str, Any]]()
        for _, annotation in entries:
            if annotation.maker_id not in producers:
                unknown.setdefault(annotation.maker_id, annotation.annotation_id)
            space, frames = annotation.value.get("space"), annotation.value.get("frames")
            if isinstance(space, str):
                count = frames if isinstance(frames, int) else 0
                rows.append({"space": space, "episode_id": annotation.episode_id, "frames": count})
        database.insert(_EMBEDDED, schema, pa.Table.from_pylist(rows, schema=schema).to_batches())
    yield from report_cases(
        "each annotation has a known producer",
        (f"producer {maker_id} of annotation {id} is unknown" for maker_id, id in unknown.items()),
        remedy="restore the annotations from a backup",
    )


def check_vectors(stores: Stores, database: TempDatabase, repair: bool) -> Iterator[Finding]:
    """Compare vectors with the episodes, and with the annotations in the table "embedded" of the database."""
    for space in stores.tables.spaces():
        table = f"vectors_{space}"
        copy_table_to_database(stores, database, table, ["episode_id"])
        orphans = ROWS_WITHOUT.format(table=table, other=STORED)
        check = f"no vectors without an episode in {space}"
        yield from report_and_repair_rows(stores, database, table, orphans, check, repair)
        # Vectors cannot be checked when their annotator's annotations do not name the space.
        annotated = f"(SELECT * FROM {_EMBEDDED} WHERE space = {quote_literal(space)})"
        if database.has_table(_EMBEDDED) and database.query(f"FROM {annotated} LIMIT 1").num_rows:
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
    yield from report_and_repair_rows(stores, database, table, unannotated, check, repair)
    yield from report_unrepairable(
        database,
        f'SELECT episode_id AS id FROM {annotated} m ANTI JOIN "{table}" USING (episode_id) WHERE frames > 0',
        f"each annotation of an embedding has its vectors, in {space}",
        "restore lance/ from a backup, or embed with another --model",
    )


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
    if spaces and repair:
        delete_unrecorded_vectors(stores)
    yield from report_cases("each vector has its annotation", spaces, repaired=repair)


def _annotated_ids(stores: Stores, run: Json, episode_ids: Sequence[str]) -> set[str]:
    """Episodes with an annotation by any producer of the run's annotator and model: they share the table."""
    producers = [
        producer
        for producer in stores.annotations.producers().values()
        if {"annotator": producer.annotator, "model": producer.model} == run
    ]
    subjects = (
        stores.annotations.find_done_subjects(producer.maker_id, episode_ids) for producer in producers
    )
    return set().union(*subjects)


def check_leftover_vector_files(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find files of vectors that a killed worker was writing; the caller holds the write lock."""
    if not stores.is_writable:
        return  # without the lock these may be files that somebody is writing
    unused = stores.tables.unused_vector_files()
    if unused:
        if repair:
            stores.tables.delete_unused_files(list(unused))
        yield Finding(
            check="each file of vectors belongs to its table",
            count=sum(unused.values()),
            example=f"{stores.tables.uri}/{next(iter(unused))}.lance",
            repaired=repair,
            remedy=REPAIR,
        )
