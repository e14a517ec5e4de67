"""Whether the tables show what the annotation log says: how far they follow it, and the values of a sample."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ares.annotation import canonical_json
from ares.console import count_of, print_message
from ares.doctor.checks import REPAIR, Finding
from ares.rubric import JUDGE_TRIPWIRE, REFUTED_COLUMN, find_outdated_grades, tripwire_documents
from ares.store import (
    CONFLICT,
    REVIEWED,
    InstalledProjections,
    ProducerCatalog,
    applied_sequence,
    conflict_changes,
    conjunction,
    declared_columns,
    find_corrections,
    ids_filter,
    read_episode_changes,
    rebuild_from_log,
    reset_applied_sequence,
    segment_schema,
)

if TYPE_CHECKING:
    from ares.store import Stores

REBUILD = "ares doctor --rebuild"
# Damage to one episode in a thousand is found with a chance of 0.99.
_SAMPLE_EPISODES = 5_000
_Row = dict[str, Any]


def rebuild_columns(stores: Stores) -> None:
    """Drop what the tables show of the log, and apply all of it; the caller holds the write lock. Raises StoreError."""
    applied = count_of(rebuild_from_log(stores.tables, stores.annotations), "annotation")
    print_message(f"dropped the columns and segments that come from the log, and applied {applied}")


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


def check_values(stores: Stores) -> Iterator[Finding]:
    """Compare what the tables show with the log: of all episodes where they are few, else of some drawn at random."""
    ids, catalog = stores.tables.episodes.arrow_ids().array, ProducerCatalog(stores.annotations.producers())
    if len(ids) > _SAMPLE_EPISODES:
        ids = ids.take(random.sample(range(len(ids)), _SAMPLE_EPISODES))
        print_message(
            f"the values of {_SAMPLE_EPISODES} episodes, drawn at random, are compared with the log"
        )
    if len(ids):
        yield from _check_sample(stores, catalog, ids.to_pylist())
    corrections = [row for rows in find_corrections(stores.tables.episodes) for row in rows.to_pylist()]
    if corrections:
        example = f"episode {corrections[0]['episode_id']}: what people say is not shown"
        yield _value_finding("columns of the source match what people say", len(corrections), example)
    if conflicts := list(conflict_changes(stores.tables, catalog)):
        example = f"episode {conflicts[0]['episode_id']}: they say {conflicts[0][CONFLICT]!r}"
        yield _value_finding(f"column {CONFLICT} matches the outcomes", len(conflicts), example)
    yield from _check_judges(stores, catalog)


def _check_sample(stores: Stores, catalog: ProducerCatalog, ids: Sequence[str]) -> Iterator[Finding]:
    """Compare the values and segments of some episodes with what the log says of them."""
    episodes, segments = stores.tables.episodes, stores.tables.segments
    changes, where = read_episode_changes(stores.tables, stores.annotations, ids), ids_filter(ids)

    def read_episodes(names: Sequence[str], condition: str) -> list[_Row]:
        batches = episodes.scan(names, conjunction([where, condition]))
        return [row for batch in batches for row in batch.to_pylist()]

    def read_segments(names: Sequence[str], condition: str) -> list[_Row]:
        return list(segments.scan(names, conjunction([where, condition])).to_pylist())

    declared = {column.name: column.episode_type for column in declared_columns(catalog.producers.values())}
    declared.pop(CONFLICT, None)  # follows from other columns
    # What nobody has reviewed is written as such, and the log says nothing of it.
    expected = {id: {REVIEWED: False, **changes.episode_values.get(id, {})} for id in ids}
    names = _columns_of_types(episodes.columns(), declared)
    yield from _compare_rows(("episode_id", *names), read_episodes, expected, catalog)
    expected = changes.segment_rows
    shown = {row["annotation_id"] for row in read_segments(["annotation_id"], "")}
    if different := sorted(shown ^ expected.keys()):
        example = f"segment {different[0]} is only in the {'tables' if different[0] in shown else 'log'}"
        yield _value_finding("the segments are those that the log shows", len(different), example)
    producer_columns = catalog.segment_columns(
        {producer.annotator for producer in catalog.producers.values()}
    )
    existing = segments.columns()
    # A table of an earlier version gets the columns that it lacks when it is written.
    names = [
        *filter(existing.__contains__, segment_schema().names),
        *_columns_of_types(existing, producer_columns),
    ]
    yield from _compare_rows(names, read_segments, expected, catalog)


def _columns_of_types(existing: Mapping[str, str], declared: Mapping[str, str]) -> list[str]:
    """The declared columns that a table has, of the type that is declared."""
    return [name for name, kind in sorted(declared.items()) if existing.get(name) == kind]


def _compare_rows(
    columns: Sequence[str],
    read: Callable[[Sequence[str], str], list[_Row]],
    expected: Mapping[str, _Row],
    catalog: ProducerCatalog,
) -> Iterator[Finding]:
    """One finding for each column that differs from what the log says.

    Args:
        columns: The columns, the key first.
        read: Reads columns of the rows of the sample that match a filter.
        expected: Values by key, as the log says; a column that is left out is empty.
        catalog: All producers.
    """
    key, rows = columns[0], read(columns, "")
    projected: dict[str, Collection[str]] = {
        name: {row[key] for row in read([key], condition)}
        for name, condition in InstalledProjections().followed_columns(catalog, columns).items()
    }
    prefix = "" if key == "episode_id" else "segment "
    for name in columns[1:]:
        logged = {row_key: row.get(name) for row_key, row in expected.items()}
        others = projected.get(name, ())
        wrong = [
            row[key]
            for row in rows
            if row[name] != logged.get(row[key], row[name]) and row[key] not in others
        ]
        if wrong:
            example = f"{prefix or 'episode '}{min(wrong)}: the log says {logged[min(wrong)]!r}"
            yield _value_finding(f"{prefix}column {name} matches the log", len(wrong), example)


def _value_finding(check: str, count: int, example: str) -> Finding:
    return Finding(check=check, count=count, example=example, repaired=False, remedy=REBUILD)


def _check_judges(stores: Stores, catalog: ProducerCatalog) -> Iterator[Finding]:
    """Compare what is kept of judges with their controls, and their grades with what is kept."""
    tables, annotations = stores.tables, stores.annotations
    counted = tripwire_documents(tables, annotations)
    kept = dict(annotations.find_documents(JUDGE_TRIPWIRE))
    keys = sorted(counted.keys() | kept.keys())
    if wrong := [key for key in keys if canonical_json(counted.get(key)) != canonical_json(kept.get(key))]:
        yield _value_finding("what is kept of judges follows from their controls", len(wrong), wrong[0])
    outdated = [(key, rows) for key, rows in find_outdated_grades(tables, annotations, catalog) if len(rows)]
    for key, rows in outdated[:1]:
        label = "episode" if key == "episode_id" else "segment"
        count = sum(len(rows) for _, rows in outdated)
        is_refuted = rows[REFUTED_COLUMN][0].as_py() is True
        example = f"{label} {rows[key][0]}: its judge is {'' if is_refuted else 'not '}refuted"
        yield _value_finding("each grade follows from the controls of its judge", count, example)
