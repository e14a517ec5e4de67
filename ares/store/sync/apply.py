"""Applies the annotation log to the tables, and keeps how far they follow it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from ares.console import count_of
from ares.errors import StoreError
from ares.process_tuning import tuned_garbage_collector
from ares.registry import GONE_COLUMNS
from ares.store.actions import NOTE_KINDS, NOTES, TAG_KINDS, TAGS, read_history, removed_id_array
from ares.store.lance.corrections import find_corrections
from ares.store.lance.lance_api import lance_errors
from ares.store.lance.schema import arrow_type, episode_schema
from ares.store.lance.segments import segment_schema
from ares.store.log.protocol import AnnotationStore, LogEntry
from ares.store.sql import batched, ids_filter
from ares.store.sync.producers import (
    REVIEWED,
    ColumnTypes,
    ProducerCatalog,
    declared_columns,
    fills_producer_column,
    list_segment_columns,
    read_pins,
)
from ares.store.sync.projection_plugins import InstalledProjections
from ares.store.sync.refresh import (
    drop_removed_segments,
    forget_restored_episodes,
    list_removed_but_present,
    list_restored_but_absent,
    move_in_restored_episodes,
    move_out_removed_episodes,
    refresh_conflicts,
    refresh_corrections,
    refresh_reviewed,
    refresh_texts,
    refresh_user_columns,
)
from ares.store.sync.shown_values import TableChangeCollector, TableChanges

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.lance_tables import Tables


# Numbered where a version computes what follows from the log by other rules: tables of an earlier one are brought up
# to date at the next application.
_LOG, _VIEWS, _ACTIONS = "log", "views5", "actions"
APPLIED_SEQUENCES = (_LOG, _VIEWS)
_PRODUCER, _PIN, _COUNTED = "maker/", "pin/", "counted3/"
# There until a rebuild has dropped all that the tables show of the log.
REBUILD = "rebuild"
# By annotator the producer that earlier versions showed where none was pinned.
_COVERING = "covering/"


@dataclass(slots=True)
class AppliedState:
    """What the tables show.

    Attributes:
        sequence: Sequence number of the log up to which they are complete; 0 before the first annotation.
        views_sequence: The same of the columns that compare producers, which are computed last.
        producer_sequences: Sequence number of the newest applied annotation, by maker_id.
        to_resolve: Annotators whose producers an earlier version chose by another rule; never stored.
        pins: The pinned maker_id by annotator.
        actions: Number of the newest applied action; see `ares.store.actions`.
        counted: Sequence number up to which a projection has counted its annotations, by its name; left out where it
            is to count them again.
        rebuilding: Whether all that comes from the log is to be dropped first.
    """

    sequence: int = 0
    views_sequence: int = 0
    producer_sequences: dict[str, int] = field(default_factory=dict)
    to_resolve: set[str] = field(default_factory=set)
    pins: dict[str, str] = field(default_factory=dict)
    actions: int = 0
    counted: dict[str, int] = field(default_factory=dict)
    rebuilding: bool = False

    def to_rows(self) -> dict[str, int]:
        """The state as a number by key."""
        return {
            _LOG: self.sequence,
            _VIEWS: self.views_sequence,
            _ACTIONS: self.actions,
            REBUILD: int(self.rebuilding),
            **{f"{_PRODUCER}{maker_id}": sequence for maker_id, sequence in self.producer_sequences.items()},
            **{f"{_PIN}{name}/{maker_id}": 1 for name, maker_id in self.pins.items()},
            **{f"{_COUNTED}{name}": sequence for name, sequence in self.counted.items()},
        }


def load_applied_state(tables: Tables) -> AppliedState:
    """The state of the tables of a workspace. Raises StoreError when they cannot be read."""
    rows = _StateTable(tables).load()
    return AppliedState(
        sequence=rows.get(_LOG, 0),
        views_sequence=rows.get(_VIEWS, 0),
        actions=rows.get(_ACTIONS, 0),
        producer_sequences=_numbers_after(rows, _PRODUCER),
        to_resolve=set(_choices_after(rows, _COVERING)),
        pins=_choices_after(rows, _PIN),
        counted=_numbers_after(rows, _COUNTED),
        rebuilding=REBUILD in rows,
    )


def _numbers_after(rows: dict[str, int], prefix: str) -> dict[str, int]:
    """The numbers of the keys that start with a prefix, by the rest of the key."""
    return {key.removeprefix(prefix): number for key, number in rows.items() if key.startswith(prefix)}


def _choices_after(rows: dict[str, int], prefix: str) -> dict[str, str]:
    """The maker_ids by annotator of the keys that start with a prefix."""
    keys = (key.removeprefix(prefix).rpartition("/") for key in rows if key.startswith(prefix))
    return {name: maker_id for name, _, maker_id in keys}


def save_applied_state(tables: Tables, state: AppliedState) -> None:
    """Store a state; only what has changed is written. Raises StoreError."""
    table = _StateTable(tables)
    before, after = table.load(), state.to_rows()
    # 0 stands for a row that is not there: a table of few rows is not worth a deletion.
    after |= dict.fromkeys(before.keys() - after.keys(), 0)
    table.save({key: number for key, number in after.items() if before.get(key, 0) != number})


def applied_sequence(tables: Tables) -> int:
    """Return the sequence number of the log up to which the tables are complete; 0 before the first annotation."""
    return _StateTable(tables).load().get(_LOG, 0)


def skip_applied(tables: Tables, after: int, until: int, maker_id: str) -> None:
    """Skip the annotations (after, until] of one producer, whose values were written with the rows of their episodes.

    Nothing happens unless the tables are complete up to `after`: then `apply_log` applies them as any others.
    """
    state = load_applied_state(tables)
    if after < until and state.sequence == after:
        if state.views_sequence == after:
            state.views_sequence = until
        state.sequence = state.producer_sequences[maker_id] = until
        save_applied_state(tables, state)


def reset_applied_sequence(tables: Tables) -> None:
    """Let the next `apply_log` start from the first annotation, to repair tables that were lost or recreated."""
    save_applied_state(tables, AppliedState())


def applied_action(tables: Tables) -> int:
    """Return the number of the newest action that the tables show; 0 before the first."""
    return _StateTable(tables).load().get(_ACTIONS, 0)


def reset_applied_actions(tables: Tables) -> None:
    """Let the next `apply_log` apply every action again: episodes have come that older actions are about."""
    state = load_applied_state(tables)
    state.actions = 0
    save_applied_state(tables, state)


class _StateTable:
    """The Lance table of the state: a number by key."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def load(self) -> dict[str, int]:
        return self._tables.applied_numbers()

    def save(self, rows: dict[str, int]) -> None:
        import pyarrow as pa

        if rows:
            schema = pa.schema([("key", pa.string()), ("sequence", pa.int64())])
            columns = {"key": list(rows), "sequence": list(rows.values())}
            table = self._tables.connection.open_or_create("index_state", schema)
            with lance_errors("index_state"):
                table.upsert("key", pa.table(columns, schema=schema))


# Annotations per read of the log, and per write to the tables: each write goes through the ids of a whole table.
_READ_BATCH, _WRITE_BATCH = 10_000, 50_000
# Episodes whose columns are computed again at once, and whose old segments are looked up.
_RESOLVE_BATCH, _LOOKUP_BATCH = 50_000, 5_000


# Annotations hold no reference cycles: with ordinary collections a third of the time goes to finding none.
@tuned_garbage_collector()
def apply_log(tables: Tables, annotations: AnnotationStore) -> int:
    """Apply the annotations that the tables lack; applying one again changes nothing.

    Values that are columns of the annotation's producer go to the episodes, annotations with a span to the segments,
    values about a segment or an annotation to its segment; which producer is shown says `ProducerCatalog`. A column
    that a producer declares exists from then on, also before its first value.

    Returns:
        Number of annotations applied.

    Raises:
        StoreError: Some values do not have the declared type; all others have been applied by then.
    """
    # Numbers of annotations that existed already stay unused: the end of the log may lie behind its last annotation.
    end = annotations.last_sequence()
    catalog = ProducerCatalog(annotations.producers())
    tables.episodes.add_missing_columns(catalog.declared_schema())
    # A table of an earlier version lacks some.
    schema = segment_schema()
    if not tables.segments.columns().keys() >= set(schema.names):
        tables.segments.add_missing_columns(schema)
    _drop_older_columns(tables, annotations, catalog)
    job = _ApplyJob(tables, annotations)
    if job.state.rebuilding:
        _drop_applied(tables, annotations)
        reset_applied_sequence(tables)
        return apply_log(tables, annotations)
    job.follow_pins()
    applied = sum(job.apply(changes) for changes in job.read_log_changes(job.state.sequence, _WRITE_BATCH))
    job.follow_actions()
    job.finish(max(end, job.state.sequence))
    if job.errors:
        count, first = len(job.errors), next(iter(job.errors))
        raise StoreError(
            f"{count_of(count, 'value')} of the annotation log cannot be shown as columns", first
        )
    return applied


def _drop_older_columns(tables: Tables, annotations: AnnotationStore, catalog: ProducerCatalog) -> None:
    """Drop the columns of earlier versions: on what is not by the current producer, and on the trust in judges."""
    import pyarrow as pa

    names = {
        f"{producer.annotator}_stale"
        for producer in catalog.producers.values()
        if fills_producer_column(producer)
    }
    if gone := GONE_COLUMNS.keys() & {*tables.episodes.columns(), *tables.segments.columns()}:
        # A person or another annotator may have a column of that name.
        names |= gone - {*catalog.declared_schema().names, *read_history(annotations).user_columns()}
        # What grades of today fill follows for older ones without a new value, also of segments.
        types = catalog.segment_columns(catalog.groups)
        tables.segments.add_missing_columns(pa.schema([(name, arrow_type(types[name])) for name in types]))
    for name in names & tables.episodes.columns().keys():
        tables.episodes.replace_column(name, None)
    for name in names & tables.segments.columns().keys():
        tables.segments.drop_column(name)


def read_episode_changes(
    tables: Tables, annotations: AnnotationStore, episode_ids: Sequence[str]
) -> TableChanges:
    """What the log says of some episodes of the tables, without applying it. Raises StoreError."""
    return _ApplyJob(tables, annotations).read_episode_changes(episode_ids)


def rebuild_from_log(tables: Tables, annotations: AnnotationStore) -> int:
    """Drop the segments and the columns of episodes that come from the log, and apply all of it.

    After a crash in between, the next `apply_log` completes it.

    Returns:
        Number of annotations applied.

    Raises:
        StoreError: As `apply_log`.
    """
    save_applied_state(tables, AppliedState(rebuilding=True))
    applied = apply_log(tables, annotations)
    tables.optimize()
    return applied


def _drop_applied(tables: Tables, annotations: AnnotationStore) -> None:
    """Drop the segments and the columns of episodes that come from the log."""
    import pyarrow as pa

    for rows in find_corrections(tables.episodes, undo=True):
        tables.episodes.set_values(rows)
    existing, source = tables.episodes.snapshot().arrow_schema, set(episode_schema().names)
    declared = ProducerCatalog(annotations.producers()).declared_schema().names
    from_log = {*declared, TAGS, NOTES, *read_history(annotations).user_columns()} - source
    dropped = [name for name in existing.names if name in from_log]
    for name in dropped:
        tables.episodes.replace_column(name, None)
    # Producers may declare a column with several types: the one that it had stays.
    tables.episodes.add_missing_columns(pa.schema([existing.field(n) for n in dropped if n in declared]))
    tables.segments.clear()


def find_unshowable_values(tables: Tables, annotations: AnnotationStore) -> Iterator[str]:
    """Yield messages about the values of a log that tables cannot show, without applying them.

    Raises what making the rows raises, such as ValueError, for a log that nothing has checked.
    """
    for changes in _ApplyJob(tables, annotations).read_log_changes(0, _READ_BATCH):
        yield from changes.errors
        rows = ((changes.episode_values, changes.column_types), (changes.segment_rows, changes.segment_types))
        for values, types in rows:
            for _ in _tables_by_columns("id", values, {**tables.segments.columns(), **types}):
                pass


class _ApplyJob:
    """One application of the log to the tables.

    Attributes:
        state: What the tables show, saved after every batch.
        errors: Messages about values that cannot be shown.
    """

    def __init__(self, tables: Tables, annotations: AnnotationStore) -> None:
        self._tables, self._annotations = tables, annotations
        self.state = load_applied_state(tables)
        self.errors: dict[str, None] = {}
        self._projections = InstalledProjections()
        self._history = read_history(annotations)
        self._removed = removed_id_array(annotations, self._history)
        self._load_producers()

    def _load_producers(self) -> None:
        producers = self._annotations.producers()
        self.catalog = ProducerCatalog(producers, read_pins(self._annotations), self.state.producer_sequences)
        of_segments = [column for producer in producers.values() for column in list_segment_columns(producer)]
        self._collector = TableChangeCollector(
            self._annotations,
            self.catalog,
            ColumnTypes(
                self._tables.episodes.columns(), episode_schema().names, declared_columns(producers.values())
            ),
            ColumnTypes(self._tables.segments.columns(), segment_schema().names, of_segments),
            self._projections.correct,
        )

    def read_episode_changes(self, episode_ids: Sequence[str]) -> TableChanges:
        """What all annotations of some episodes say; none of them is removed."""
        changes = self._collector.new_changes(self.state.sequence)
        for ids in batched(episode_ids, _LOOKUP_BATCH):
            if entries := [(changes.last_sequence, item) for item in self._annotations.find_annotations(ids)]:
                self._collector.add(entries, changes)
        self._collector.finish(changes)
        return changes

    def read_log_changes(self, after: int, size: int) -> Iterator[TableChanges]:
        """Yield the changes after a sequence number, for `size` or more annotations at a time."""
        changes = self._collector.new_changes(after)
        while batch := self._annotations.read(after=changes.last_sequence, limit=_READ_BATCH):
            if any(annotation.maker_id not in self.catalog.producers for _, annotation in batch):
                self._collector.finish(changes)
                self._load_producers()
                self._collector.update_types(changes)
            self._note_producers(batch)
            self._collector.add(batch, changes)
            if changes.annotation_count >= size:
                yield self._finish(changes)
                changes = self._collector.new_changes(changes.last_sequence)
        if changes.annotation_count:
            yield self._finish(changes)

    def _finish(self, changes: TableChanges) -> TableChanges:
        self._collector.finish(changes)
        drop_removed_segments(changes, self._removed)
        return changes

    def _note_producers(self, batch: Sequence[LogEntry]) -> None:
        """Take note of who annotated last, and of which projections have something new to count."""
        for name in self._projections.counting(batch):
            self.state.counted.pop(name, None)
        sequences = self.state.producer_sequences
        for sequence, annotation in batch:
            sequences[annotation.maker_id] = max(sequence, sequences.get(annotation.maker_id, 0))

    def apply(self, changes: TableChanges) -> int:
        """Write changes to the tables and save the state. Returns the number of annotations."""
        self._write(changes)
        self.state.sequence = changes.last_sequence
        save_applied_state(self._tables, self.state)
        return changes.annotation_count

    def _write(self, changes: TableChanges) -> None:
        write_changes(self._tables, changes)
        self.errors |= dict.fromkeys(changes.errors)

    def follow_pins(self) -> None:
        """Compute the columns of annotators again whose pinned producer has changed, or the rule that chooses it."""
        before, pins = self.state.pins, self.catalog.pins
        changed = {name for name in before.keys() | pins.keys() if before.get(name) != pins.get(name)}
        changed |= self.state.to_resolve & self.catalog.several_producers()
        groups = {self.catalog.groups[name] for name in changed if name in self.catalog.groups}
        for group in groups:
            self._resolve(chain.from_iterable(self._tables.episodes.id_batches()), group)
        if changed:
            # The columns that compare producers follow from these, also when the log has nothing new.
            self.state.views_sequence = 0

    def follow_actions(self) -> None:
        """Let the tables show what people have removed, brought back, tagged and noted since the last application."""
        kinds = self._history.kinds_after(self.state.actions)
        if "remove" in kinds or "purge" in kinds:
            removed = list_removed_but_present(self._tables, self._removed)
            restored = list_restored_but_absent(self._tables, self._removed)
            move_out_removed_episodes(self._tables, removed, self._history.user_columns())
            for ids in move_in_restored_episodes(self._tables, restored):
                for group in set(self.catalog.groups.values()):
                    self._resolve(ids, group)
            if len(restored):
                refresh_texts(self._tables, self._annotations, self._history, TAG_KINDS | NOTE_KINDS)
                user_columns = self._history.user_columns()
                refresh_user_columns(self._tables, self._annotations, self._history, user_columns)
            forget_restored_episodes(self._tables, restored)
            # Also where nothing is left to be moved: a killed command may have moved it, a purge deleted it. What a
            # projection counts counts with the episode that it is of.
            self._tables.episodes.mark_duplicates()
            self.state.views_sequence = 0
            self.state.counted = {}
        refresh_texts(self._tables, self._annotations, self._history, kinds)
        if "set_values" in kinds:
            user_columns = self._history.user_columns(self.state.actions)
            refresh_user_columns(self._tables, self._annotations, self._history, user_columns)

    def _resolve(self, episode_ids: Iterable[str], group: Collection[str]) -> None:
        for ids in batched(episode_ids, _RESOLVE_BATCH):
            changes = self._collector.new_changes(self.state.sequence)
            self._collector.resolve(ids, group, changes)
            self._write(changes)

    def finish(self, end: int) -> None:
        """Bring the columns up to date that compare producers, and mark log, actions and pins as applied."""
        if self.state.views_sequence < end:
            refresh_corrections(self._tables)
            refresh_conflicts(self._tables, self.catalog)
            if REVIEWED in self._tables.episodes.columns():
                refresh_reviewed(self._tables)
            self._follow_projections(end)
        # Until everything that follows from actions and pins is shown, `Stores.find_lag` names them.
        self.state.views_sequence = self.state.sequence = end
        self.state.actions, self.state.pins = self._history.last, dict(self.catalog.pins)
        save_applied_state(self._tables, self.state)

    def _follow_projections(self, end: int) -> None:
        """Let the tables show what other rooms make of several annotations; up to the end all is then counted."""
        names = self._projections.refresh(
            self._tables, self._annotations, self.catalog, self.state.counted.keys()
        )
        self.state.counted = dict.fromkeys(names, end)


def write_changes(tables: Tables, changes: TableChanges) -> None:
    """Write changes to the episodes and segments tables. Raises StoreError."""
    for rows in _tables_by_columns("episode_id", changes.episode_values, changes.column_types):
        tables.episodes.set_values(rows)
    if changes.hidden_segments:
        _delete_hidden_segments(tables, changes.hidden_segments)
    types = {**changes.segment_types, **tables.segments.columns()}
    for rows in _tables_by_columns("annotation_id", changes.segment_rows, types):
        tables.segments.upsert(rows)


def _delete_hidden_segments(tables: Tables, hidden: Mapping[str, str]) -> None:
    """Delete the segments that are not shown, given with their episodes, where the table has them."""
    for ids in batched(sorted(set(hidden.values())), _LOOKUP_BATCH):
        rows = tables.segments.scan(["annotation_id"], ids_filter(ids))["annotation_id"].to_pylist()
        tables.segments.delete([annotation_id for annotation_id in rows if annotation_id in hidden])


def _tables_by_columns(
    key: str, rows: Mapping[str, Mapping[str, Any]], types: Mapping[str, str]
) -> Iterator[pa.Table]:
    """A table for each set of columns that some rows set; without columns there is nothing to write."""
    import pyarrow as pa

    groups: dict[tuple[str, ...], tuple[list[str], list[Mapping[str, Any]]]] = {}
    # Most rows set the same columns in the same order.
    sorted_names: dict[tuple[str, ...], tuple[str, ...]] = {}
    for row_key, row in rows.items():
        order = tuple(row)
        if order not in sorted_names:
            sorted_names[order] = tuple(sorted(order))
        keys, members = groups.setdefault(sorted_names[order], ([], []))
        keys.append(row_key)
        members.append(row)
    for names, (keys, members) in groups.items():
        columns = {name: pa.array([row[name] for row in members], arrow_type(types[name])) for name in names}
        if columns:
            yield pa.table({key: pa.array(keys, pa.string()), **columns})
