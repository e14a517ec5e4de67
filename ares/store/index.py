"""Index: the Lance tables follow the annotation log by its sequence numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ares.annotation import Annotation, Column, Maker
from ares.episode import Json
from ares.errors import StoreError
from ares.store import arrow
from ares.store.annotations import AnnotationStore, Logged
from ares.store.segments import segment_schema
from ares.store.values import arrow_type, misfit, sendable

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.tables import Tables

# Facts read at once, and facts whose changes are written together: each write goes through the ids of the whole table.
_BATCH, _PER_WRITE = 10_000, 50_000
_GRADE = {"acceptable": "bool", "grade": "string", "score": "float64"}
_CAPTION = ("annotation_id", "episode_id", "start_seconds", "stop_seconds", "camera", "text", "maker_id")


@dataclass(slots=True)
class Changes:
    """What a batch of facts changes; a later fact overwrites an earlier one.

    Attributes:
        values: Episode columns by episode.
        captions: Segment rows by annotation_id.
        grades: Grade columns by the annotation_id of the caption.
        faults: Facts that cannot be applied, in words.
        strangers: A fact in words by the maker_id that was never stored.
        embedded: Frames with a vector by space and episode, as facts tell them.
        types: Column types of `values`.
        facts: How many there are.
        last: Sequence number of the last of them.
    """

    values: dict[str, dict[str, Json]] = field(default_factory=dict)
    captions: dict[str, dict[str, Json]] = field(default_factory=dict)
    grades: dict[str, dict[str, Json]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    strangers: dict[str, str] = field(default_factory=dict)
    embedded: dict[tuple[str, str], int] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    facts: int = 0
    last: int = 0


def apply_log(tables: Tables, annotations: AnnotationStore) -> int:
    """Apply the facts that the tables have not seen; doing it twice changes nothing.

    Values that are columns of their fact's maker go to the episodes, captions to the segments, grades to the
    segment of their caption; the latest fact wins. A column that a maker declares is there from then on, also
    before its first value.

    Returns:
        Number of facts applied.

    Raises:
        StoreError: Facts whose values are not of the declared type; all others have been applied by then.
    """
    state = _State(tables)
    # Numbers of facts that were there already stay unused: the end of the log may lie behind its last fact.
    end = annotations.last_sequence()
    columns = _Columns(annotations, tables.episodes.columns())
    tables.episodes.declare(columns.declared())
    applied, faults, first = 0, 0, ""
    for changes in _batches(annotations, columns, state.sequence(), _PER_WRITE):
        _apply(tables, changes, columns.types)
        state.remember(changes.last)
        applied += changes.facts
        faults, first = faults + len(changes.faults), first or "".join(changes.faults[:1])
    if state.sequence() < end:
        state.remember(end)
    if faults:
        raise StoreError(f"{faults} values of the annotation log cannot be shown as columns", first)
    return applied


def changes_until(tables: Tables, annotations: AnnotationStore, sequence: int) -> Iterator[Changes]:
    """What the log changes from its first fact to a sequence number, batch by batch, without applying it."""
    columns = _Columns(annotations, tables.episodes.columns())
    yield from _batches(annotations, columns, 0, _BATCH, sequence)


def applied_sequence(tables: Tables) -> int:
    """The sequence number of the log up to which the tables are complete; 0 before the first fact."""
    return _State(tables).sequence()


def skip_log(tables: Tables, after: int, until: int) -> None:
    """Pass over the facts (after, until], whose values were written with the rows of their episodes.

    Nothing happens unless the tables are complete up to `after`: then `apply_log` applies them as any others.
    """
    state = _State(tables)
    if after < until and state.sequence() == after:
        state.remember(until)


def forget_log(tables: Tables) -> None:
    """Let the next `apply_log` start from the first fact, to mend tables that were lost or made anew."""
    _State(tables).remember(0)


class _State:
    """The sequence number up to which the tables are complete, kept in a table of its own."""

    def __init__(self, tables: Tables) -> None:
        import pyarrow as pa

        self._schema = pa.schema([("key", pa.string()), ("sequence", pa.int64())])
        self._stored = tables.stored("index_state", self._schema)

    def sequence(self) -> int:
        rows = self._stored.dataset().to_table().to_pylist()
        return int(rows[0]["sequence"]) if rows else 0

    def remember(self, sequence: int) -> None:
        import pyarrow as pa

        row = pa.Table.from_pylist([{"key": "log", "sequence": sequence}], schema=self._schema)
        merge = (
            self._stored.writer().merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
        )
        merge.execute(row)


class _Columns:
    """Which values of a fact are columns, by its maker."""

    def __init__(self, annotations: AnnotationStore, there: Mapping[str, str]) -> None:
        self._annotations = annotations
        self._makers: Mapping[str, Maker] = annotations.makers()
        self._reserved = set(arrow.episode_schema().names)
        self.types = dict(there)

    def of(self, fact: Annotation) -> Sequence[Column] | None:
        """Columns that the maker of a fact declares, or None for a maker that was never stored."""
        if fact.maker_id not in self._makers:
            self._makers = self._annotations.makers()
        maker = self._makers.get(fact.maker_id)
        return None if maker is None else maker.columns

    def declared(self) -> pa.Schema:
        """Every column that a maker declares, whether or not a fact has a value for it yet."""
        import pyarrow as pa

        declared = {column.name: column.type for maker in self._makers.values() for column in maker.columns}
        return pa.schema([(name, arrow_type(kind)) for name, kind in declared.items()])

    def fault(self, column: Column, value: Json) -> str:
        """Why a value cannot stand in a column, or ""."""
        if column.name in self._reserved:
            return f"{column.name!r} is a column of the source"
        kind = self.types.setdefault(column.name, column.type)
        if kind != column.type:
            return f"column {column.name!r} is {kind}, but its maker declares {column.type}"
        return misfit(value, kind, f"column {column.name!r}", column.choices)


def _batches(
    annotations: AnnotationStore, columns: _Columns, after: int, size: int, until: int | None = None
) -> Iterator[Changes]:
    """What the log changes behind a sequence number, up to another one, by so many facts at a time."""
    changes = Changes(types=columns.types, last=after)
    while batch := annotations.read(after=changes.last, limit=_BATCH):
        batch = [one for one in batch if until is None or one.sequence <= until]
        if not batch:
            break
        _take(batch, columns, changes)
        if changes.facts >= size:
            yield changes
            changes = Changes(types=columns.types, last=changes.last)
    if changes.facts:
        yield changes


def _take(batch: Sequence[Logged], columns: _Columns, changes: Changes) -> None:
    changes.facts += len(batch)
    changes.last = batch[-1].sequence
    for _, fact in batch:
        _take_values(fact, columns, changes)
        if isinstance(space := fact.value.get("space"), str):
            frames = fact.value.get("frames")
            changes.embedded[space, fact.episode_id] = frames if isinstance(frames, int) else 0
        if fact.name == "caption":
            _take_caption(fact, changes)
        elif fact.name == "grade":
            _take_grade(fact, changes)


def _take_values(fact: Annotation, columns: _Columns, changes: Changes) -> None:
    declared = columns.of(fact)
    if declared is None:
        changes.faults.append(f"maker {fact.maker_id} is unknown in {_told(fact)}")
        changes.strangers.setdefault(fact.maker_id, _told(fact))
    for column in declared or ():
        if column.name not in fact.value:
            continue
        value = fact.value[column.name]
        fault = columns.fault(column, value)
        if fault:
            changes.faults.append(f"{fault} in {_told(fact)}")
        else:
            changes.values.setdefault(fact.episode_id, {})[column.name] = sendable(value, column.type)


def _take_caption(fact: Annotation, changes: Changes) -> None:
    text = fact.value.get("text")
    if not isinstance(text, str):
        changes.faults.append(f"'text' is string, but got {text!r} in {_told(fact)}")
        return
    row = {name: getattr(fact, name) for name in _CAPTION if name != "text"}
    changes.captions[fact.annotation_id] = {**row, "text": sendable(text, "string")}


def _take_grade(fact: Annotation, changes: Changes) -> None:
    row = {name: fact.value.get(name) for name in _GRADE}
    faults = [misfit(row[name], kind, repr(name)) for name, kind in _GRADE.items()]
    if any(faults):
        changes.faults.append(
            f"{next(filter(None, faults))} in grade {fact.annotation_id} ({fact.episode_id})"
        )
        return
    graded = {name: sendable(row[name], kind) for name, kind in _GRADE.items()}
    changes.grades[fact.subject] = {"annotation_id": fact.subject, **graded}


def _told(fact: Annotation) -> str:
    return f"fact {fact.annotation_id} ({fact.name} of episode {fact.episode_id})"


def _apply(tables: Tables, changes: Changes, types: Mapping[str, str]) -> None:
    import pyarrow as pa

    alike: dict[tuple[str, ...], list[dict[str, Json]]] = {}
    for episode_id, values in changes.values.items():
        alike.setdefault(tuple(sorted(values)), []).append({"episode_id": episode_id, **values})
    for names, rows in alike.items():
        fields = [("episode_id", "string"), *((name, types[name]) for name in names)]
        tables.episodes.set_values(
            _table(rows, pa.schema([(name, arrow_type(kind)) for name, kind in fields]))
        )
    schema = segment_schema()
    if changes.captions:
        fresh = pa.schema([schema.field(name) for name in _CAPTION])
        tables.segments.upsert(_table(changes.captions.values(), fresh))
    if changes.grades:
        graded = pa.schema([schema.field(name) for name in ("annotation_id", *_GRADE)])
        tables.segments.grade(_table(changes.grades.values(), graded))


def _table(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist(list(rows), schema=schema)
