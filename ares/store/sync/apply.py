"""Applies the annotation log to the Lance tables, and remembers up to which sequence number they are complete."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from ares.errors import StoreError
from ares.process_tuning import tuned_garbage_collector
from ares.store.actions import NOTE_KINDS, TAG_KINDS, read_history, removed_id_array
from ares.store.annotations import AnnotationStore, LogEntry
from ares.store.filters import batched, ids_filter
from ares.store.lance import arrow_type, episode_schema, segment_schema
from ares.store.sync.changes import ChangeCollector, LogChanges
from ares.store.sync.columns import episode_column_types, segment_column_types
from ares.store.sync.makers import MakerCatalog
from ares.store.sync.mixing import scan_batch
from ares.store.sync.pins import read_pins
from ares.store.sync.progress import load_applied_state, save_applied_state
from ares.store.sync.projection_plugins import InstalledProjections
from ares.store.sync.removals import (
    absent_restored,
    forget_removed,
    leave_out_removed,
    move_in,
    move_out,
    present_removed,
)
from ares.store.sync.tags import refresh_texts
from ares.store.sync.views import (
    annotators_with_stale_values,
    episodes_to_refresh,
    refresh_conflicts,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.database import Tables

# Annotations per read of the log, and per write to the tables: each write goes through the ids of a whole table.
_READ_BATCH, _WRITE_BATCH = 10_000, 50_000
# Episodes whose columns are computed anew at once, and whose old segments are looked up.
_RESOLVE_BATCH, _LOOKUP_BATCH = 50_000, 5_000


def apply_log(tables: Tables, annotations: AnnotationStore) -> int:
    """Apply the annotations that the tables lack; applying one again changes nothing.

    Values that are columns of the annotation's maker go to the episodes, annotations with a span to the segments,
    values about a segment or an annotation to its segment; which maker is shown says `MakerCatalog`. A column that a
    maker declares exists from then on, also before its first value.

    Returns:
        Number of annotations applied.

    Raises:
        StoreError: Some values do not have the declared type; all others have been applied by then.
    """
    # Annotations hold no reference cycles: with ordinary collections a third of the time goes to finding none.
    with tuned_garbage_collector():
        return _apply_log(tables, annotations)


def _apply_log(tables: Tables, annotations: AnnotationStore) -> int:
    # Numbers of annotations that existed already stay unused: the end of the log may lie behind its last annotation.
    end = annotations.last_sequence()
    catalog = MakerCatalog(annotations.makers())
    tables.episodes.add_missing_columns(catalog.declared_schema())
    job = _ApplyJob(tables, annotations)
    job.follow_pins()
    applied = sum(job.apply(changes) for changes in job.read_changes(job.state.sequence, _WRITE_BATCH))
    job.follow_actions()
    job.finish(max(end, job.state.sequence))
    if job.errors:
        count, first = len(job.errors), next(iter(job.errors))
        raise StoreError(f"{count} values of the annotation log cannot be shown as columns", first)
    return applied


def read_changes(tables: Tables, annotations: AnnotationStore, sequence: int) -> Iterator[LogChanges]:
    """Yield the changes of the log from its start to a sequence number, in batches, without applying them."""
    yield from _ApplyJob(tables, annotations).read_changes(0, _READ_BATCH, sequence)


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
        self._load_makers()

    def _load_makers(self) -> None:
        makers = self._annotations.makers()
        self.catalog = MakerCatalog(makers, read_pins(self._annotations), self.state.maker_sequences)
        self._collector = ChangeCollector(
            self._annotations,
            self.catalog,
            episode_column_types(self._tables.episodes.columns(), episode_schema().names, makers.values()),
            segment_column_types(self._tables.segments.columns(), segment_schema().names, makers.values()),
            self.state.mixed,
            self._projections.correct,
        )

    def read_changes(self, after: int, size: int, until: int | None = None) -> Iterator[LogChanges]:
        """Yield the changes after a sequence number, up to another one, for `size` or more annotations at a time."""
        changes = self._collector.new_changes(after)
        while batch := self._read(changes.last_sequence, until):
            if any(annotation.maker_id not in self.catalog.makers for _, annotation in batch):
                self._collector.finish(changes)
                self._load_makers()
                self._collector.update_types(changes)
            self._note_makers(batch)
            self._collector.add(batch, changes)
            if changes.annotation_count >= size:
                yield self._finish(changes)
                changes = self._collector.new_changes(changes.last_sequence)
        if changes.annotation_count:
            yield self._finish(changes)

    def _finish(self, changes: LogChanges) -> LogChanges:
        self._collector.finish(changes)
        leave_out_removed(changes, self._removed)
        return changes

    def _read(self, after: int, until: int | None) -> list[LogEntry]:
        batch = self._annotations.read(after=after, limit=_READ_BATCH)
        return [entry for entry in batch if until is None or entry.sequence <= until]

    def _note_makers(self, batch: Sequence[LogEntry]) -> None:
        """Take note of who annotated last, and of what makes the columns of a group depend on several annotations."""
        for name in self._projections.counting(batch):
            self.state.counted.pop(name, None)
        scan = scan_batch(batch, self.catalog, self.state.mixed)
        sequences = self.state.maker_sequences
        for maker_id, sequence in scan.maker_sequences.items():
            sequences[maker_id] = max(sequence, sequences.get(maker_id, 0))
        # New makers may have joined the group of a mixed annotator.
        self._mix(self.state.mixed | self.catalog.several_makers() | self.catalog.pins.keys() | scan.mixing)
        for maker_id, episode_ids in scan.possibly_repeated.items():
            annotator = self.catalog.makers[maker_id].annotator
            if annotator not in self.state.mixed and self._annotations.find_repeated_subjects(
                maker_id, sorted(episode_ids)
            ):
                self._mix([annotator])

    def _mix(self, names: Iterable[str]) -> None:
        """Let the groups of some annotators be mixed."""
        groups = self.catalog.groups
        self.state.mixed.update(*(groups.get(name, {name}) for name in set(names)))

    def apply(self, changes: LogChanges) -> int:
        """Write changes to the tables and save the state. Returns the number of annotations."""
        self._write(changes)
        self.state.sequence = changes.last_sequence
        save_applied_state(self._tables, self.state)
        return changes.annotation_count

    def _write(self, changes: LogChanges) -> None:
        write_changes(self._tables, changes)
        self.errors |= dict.fromkeys(changes.errors)

    def follow_pins(self) -> None:
        """Compute the columns of annotators anew whose pinned maker has changed."""
        before, pins = self.state.pins, self.catalog.pins
        changed = {name for name in before.keys() | pins.keys() if before.get(name) != pins.get(name)}
        groups = {self.catalog.groups[name] for name in changed if name in self.catalog.groups}
        self.state.mixed.update(*groups)
        for group in groups:
            self._resolve(chain.from_iterable(self._tables.episodes.id_batches()), group)
        if changed:
            # The columns that compare makers follow from these, also when the log has nothing new.
            self.state.views_sequence = 0
            self.state.pins = dict(pins)
            save_applied_state(self._tables, self.state)

    def follow_actions(self) -> None:
        """Let the tables show what people have removed, brought back, tagged and noted since the last application."""
        kinds = self._history.kinds_after(self.state.actions)
        if "remove" in kinds or "purge" in kinds:
            removed = present_removed(self._tables, self._removed)
            restored = absent_restored(self._tables, self._removed)
            move_out(self._tables, removed)
            for ids in move_in(self._tables, restored):
                for group in set(self.catalog.groups.values()):
                    self._resolve(ids, group)
            if len(restored):
                refresh_texts(self._tables, self._annotations, self._history, TAG_KINDS | NOTE_KINDS)
            forget_removed(self._tables, restored)
            if len(removed) or len(restored):
                self._tables.episodes.mark_duplicates()
                # What a projection counts counts with the episode that it is of.
                self.state.views_sequence = 0
                self.state.counted = {}
        refresh_texts(self._tables, self._annotations, self._history, kinds)
        if self.state.actions != self._history.last:
            self.state.actions = self._history.last
            save_applied_state(self._tables, self.state)

    def _resolve(self, episode_ids: Iterable[str], group: Collection[str]) -> None:
        for ids in batched(episode_ids, _RESOLVE_BATCH):
            changes = self._collector.new_changes(self.state.sequence)
            self._collector.resolve(ids, group, changes)
            self._write(changes)

    def finish(self, end: int) -> None:
        """Bring the columns up to date that compare makers, and mark the log as applied up to its end."""
        if self.state.views_sequence < end:
            for name in annotators_with_stale_values(self.catalog):
                wrong = episodes_to_refresh(self._tables, self.catalog, name)
                self._resolve(wrong, self.catalog.groups[name])
            refresh_conflicts(self._tables, self.catalog)
            self._follow_projections(end)
        if self.state.views_sequence < end or self.state.sequence < end:
            self.state.views_sequence = self.state.sequence = end
            save_applied_state(self._tables, self.state)

    def _follow_projections(self, end: int) -> None:
        """Let the tables show what other rooms make of several annotations; up to the end all is then counted."""
        names = self._projections.refresh(
            self._tables, self._annotations, self.catalog, self.state.counted.keys()
        )
        self.state.counted = dict.fromkeys(names, end)


def write_changes(tables: Tables, changes: LogChanges) -> None:
    """Write changes to the episodes and segments tables. Raises StoreError."""
    for rows in _tables_by_columns("episode_id", changes.episode_values, changes.column_types):
        tables.episodes.set_values(rows)
    if changes.resolved:
        _delete_old_segments(tables, changes)
    types = {**changes.segment_types, **tables.segments.columns()}
    # As few writes as can be: each goes through the ids of the whole table.
    new_rows = {key: row | changes.segment_values.get(key, {}) for key, row in changes.segment_rows.items()}
    other_values = {key: row for key, row in changes.segment_values.items() if key not in new_rows}
    for rows in _tables_by_columns("annotation_id", new_rows, types):
        tables.segments.upsert(rows)
    for rows in _tables_by_columns("annotation_id", other_values, types):
        tables.segments.set_values(rows)


def _delete_old_segments(tables: Tables, changes: LogChanges) -> None:
    """Delete the segments of resolved episodes that are no longer shown."""
    for ids in batched(changes.resolved, _LOOKUP_BATCH):
        rows = tables.segments.scan(["annotation_id", "episode_id", "maker_id"], ids_filter(ids)).to_pylist()
        tables.segments.delete(
            [
                row["annotation_id"]
                for row in rows
                if row["maker_id"] in changes.resolved[row["episode_id"]]
                and row["annotation_id"] not in changes.segment_rows
            ]
        )


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
