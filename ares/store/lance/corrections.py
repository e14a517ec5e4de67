"""What people say in place of the source: it fills the columns of the source, and what was recorded stands beside."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ares.store.sql import TrustedFilter

if TYPE_CHECKING:
    import pyarrow as pa


# The columns of the source that people correct, and beside each the column with what was recorded.
_RECORDED: Mapping[str, str] = {
    "success": "success_original",
    "success_source": "success_source_original",
    "instructions": "instructions_original",
    "instruction": "instruction_original",
}
# By column one whose recorded value is never empty: where it is there, the column is corrected.
_NEVER_EMPTY: Mapping[str, str] = {
    "success": "success_source_original",
    "success_source": "success_source_original",
    "instructions": "instruction_original",
    "instruction": "instruction_original",
}
# Columns that people fill.
_PEOPLE_COLUMNS = ("person_success", "corrected_instruction", "instruction_fits")
# What `success_source` and `outcome_source` say of an outcome by people.
_PERSON_SOURCE = "person"
_OUTCOME_SOURCE = "outcome_source"


class CorrectedTable(Protocol):
    """The table of episodes, as far as corrections need it."""

    def columns(self) -> Mapping[str, str]:
        """Type of each column by its name."""

    def scan(self, columns: Sequence[str], where: str = "") -> Iterator[pa.RecordBatch]:
        """Columns of the episodes that match a filter."""


def recorded_instruction(row: Mapping[str, Any]) -> str:
    """What the source says, of a row of episodes with the columns `instruction` and `instruction_original`."""
    recorded = row.get(_RECORDED["instruction"])
    return str((row["instruction"] if recorded is None else recorded) or "")


def read_recorded(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the source says where people say something else, of a row with the columns of `recorded_columns`."""
    return {
        name: row[_RECORDED[name]]
        for name in ("instruction", "success")
        if row.get(_NEVER_EMPTY[name]) is not None
    }


def recorded_columns(existing: Collection[str], *names: str) -> list[str]:
    """Columns to read for what the source says in some of those that people correct, or in all; as far as there."""
    needed = [column for name in names or _RECORDED for column in (name, _RECORDED[name], _NEVER_EMPTY[name])]
    return [column for column in dict.fromkeys(needed) if column in existing]


def find_corrections(rows: CorrectedTable, *, undo: bool = False) -> Iterator[pa.Table]:
    """Yield what has to be written so that the columns of the source show what people say.

    Args:
        rows: The episodes.
        undo: Whether they are to show what was recorded, whatever people say.
    """
    existing = rows.columns()
    decided = [name for name in (*_PEOPLE_COLUMNS, *_NEVER_EMPTY.values()) if name in existing]
    if not decided:
        return
    read = (*_RECORDED.values(), *_PEOPLE_COLUMNS, _OUTCOME_SOURCE)
    columns = [*_RECORDED, *(name for name in read if name in existing)]
    conditions = [f"{name} IS NOT NULL" for name in dict.fromkeys(decided)]
    if _OUTCOME_SOURCE in existing:
        conditions.append(f"{_OUTCOME_SOURCE} = '{_PERSON_SOURCE}'")
    condition = " OR ".join(conditions)
    for batch in rows.scan(["episode_id", *columns], TrustedFilter(condition)):
        if len(changed := _compare_rows(batch, undo)):
            yield changed


def _compare_rows(batch: pa.RecordBatch, undo: bool) -> pa.Table:
    """The rows whose columns do not show what people say, as they should be."""
    import pyarrow as pa
    import pyarrow.compute as pc

    recorded = take_recorded(batch)
    by_column = {} if undo else _read_corrections(batch, recorded)
    is_right = pa.repeat(pa.scalar(value=True), batch.num_rows)
    columns: dict[str, pa.Array] = {"episode_id": batch["episode_id"]}
    for name, original in _RECORDED.items():
        value = recorded[name].combine_chunks()
        nothing = pa.nulls(len(value), value.type)
        is_corrected, by_people = by_column.get(name, (pa.repeat(pa.scalar(value=False), len(value)), value))
        columns[name] = pc.if_else(is_corrected, by_people, value)
        columns[original] = pc.if_else(is_corrected, value, nothing)
        stored = batch[original] if original in batch.schema.names else nothing
        if not pa.types.is_list(value.type):
            for now, right in ((batch[name], columns[name]), (stored, columns[original])):
                is_right = pc.and_(is_right, _is_same(now, right))
    return pa.table(columns).filter(pc.invert(is_right))


def _read_corrections(batch: pa.RecordBatch, recorded: pa.Table) -> dict[str, tuple[pa.Array, pa.Array]]:
    """By column of the source where people say something else, and what."""
    import pyarrow as pa
    import pyarrow.compute as pc

    count, by_column = batch.num_rows, dict[str, tuple[pa.Array, pa.Array]]()
    if "person_success" in batch.schema.names:
        outcome = batch["person_success"]
        is_stated = outcome.is_valid()
        if _OUTCOME_SOURCE in batch.schema.names:  # partial and aborted are neither success nor failure
            is_stated = pc.or_(
                is_stated, pc.fill_null(pc.equal(batch[_OUTCOME_SOURCE], _PERSON_SOURCE), False)
            )
        is_other = pc.and_(is_stated, pc.invert(_is_same(outcome, recorded["success"])))
        by_column["success"] = is_other, outcome
        by_column["success_source"] = is_other, pa.repeat(pa.scalar(_PERSON_SOURCE), count)
    if "corrected_instruction" in batch.schema.names:
        text = batch["corrected_instruction"]
        # Where nothing takes the place of an instruction that people refuse, the episode has none.
        is_refused = pc.fill_null(pc.invert(batch["instruction_fits"]), False)
        text = pc.if_else(pc.and_(text.is_null(), is_refused), "", text)
        is_other = pc.and_(text.is_valid(), pc.invert(_is_same(text, recorded["instruction"])))
        lists = pa.array([[value] if value else [] for value in text.to_pylist()], pa.list_(pa.string()))
        by_column["instruction"], by_column["instructions"] = (is_other, text), (is_other, lists)
    return by_column


def _is_same(left: pa.Array, right: pa.Array) -> pa.Array:
    """(N,) whether two columns have the same value, or both have none."""
    import pyarrow.compute as pc

    both_empty = pc.and_(left.is_null(), right.is_null())
    return pc.or_(both_empty, pc.fill_null(pc.equal(left, right), False))


def take_recorded(rows: pa.RecordBatch | pa.Table) -> pa.Table:
    """Rows in which the columns of the source have what it says, without what stood beside them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    for name, original in _RECORDED.items():
        if original in table.column_names and name in table.column_names:
            is_corrected = table[_NEVER_EMPTY[name]].is_valid()
            value = pc.if_else(is_corrected, table[original], table[name])
            table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), value)
    return table.drop_columns([name for name in _RECORDED.values() if name in table.column_names])


def keep_corrections(values: pa.Table, stored: pa.Table) -> pa.Table:
    """Rows of a source that was read again, as they are stored: what people say of them stays.

    Args:
        values: The rows, with all columns of the source.
        stored: Rows of the same episodes as they are stored, with `episode_id` and the columns of `recorded_columns`.
    """
    import pyarrow.compute as pc

    rows = stored.take(pc.index_in(values["episode_id"], value_set=stored["episode_id"]))
    for name, original in _RECORDED.items():
        if original in rows.column_names:
            is_corrected = rows[_NEVER_EMPTY[name]].is_valid()
            value, field = values[name], values.schema.field(name)
            shown = pc.if_else(is_corrected, rows[name], value)
            values = values.set_column(values.schema.get_field_index(name), field, shown)
            values = values.append_column(original, pc.if_else(is_corrected, value, rows[original]))
    return values
