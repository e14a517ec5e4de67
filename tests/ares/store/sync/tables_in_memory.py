"""Tables in memory with the methods that the log is applied by: a history takes milliseconds and not seconds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from ares.store import episode_schema, segment_schema
from ares.store.lance.schema import column_types

Row = dict[str, Any]


class RowsInMemory:
    """Rows by key with typed columns, as a Lance table has them."""

    def __init__(self, key: str, schema: pa.Schema) -> None:
        self.key, self.schema = key, schema
        self.rows: dict[str, Row] = {}

    def columns(self) -> dict[str, str]:
        return column_types(self.schema)

    def add_missing_columns(self, columns: pa.Schema) -> None:
        for field in columns:
            if field.name not in self.schema.names:
                self.schema = self.schema.append(field)
            assert self.schema.field(field.name).type == field.type, field

    def set_values(self, values: pa.Table) -> None:
        self.add_missing_columns(values.schema)
        self._write(row for row in values.to_pylist() if row[self.key] in self.rows)

    def upsert(self, values: pa.Table) -> None:
        self.add_missing_columns(values.schema)
        self._write(values.to_pylist())

    def _write(self, rows: Any) -> None:
        for row in rows:
            self.rows.setdefault(row[self.key], {}).update(row)

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            del self.rows[key]

    def select(self, names: Sequence[str], where: str) -> pa.Table:
        ids, stated = set(re.findall(r"'([^']*)'", where)), re.findall(r"(\w+) IS NOT NULL", where)
        rows = [
            {name: row.get(name) for name in names}
            for row in self.rows.values()
            if not where or row["episode_id"] in ids or any(row.get(name) is not None for name in stated)
        ]
        return pa.Table.from_pylist(rows, schema=pa.schema([self.schema.field(name) for name in names]))


class EpisodesInMemory(RowsInMemory):
    """Rows of episodes."""

    def scan(self, names: Sequence[str], where: str = "") -> Iterator[pa.RecordBatch]:
        yield from self.select(names, where).to_batches()

    def id_batches(self, where: str = "") -> Iterator[list[str]]:
        empty = where.removesuffix(" IS NULL")
        yield [key for key, row in self.rows.items() if not where or row.get(empty) is None]


class SegmentsInMemory(RowsInMemory):
    """Rows of segments."""

    def scan(self, names: Sequence[str], where: str = "") -> pa.Table:
        return self.select(names, where)


class TablesInMemory:
    """Tables of episodes that a source says these outcomes of."""

    def __init__(self, successes: dict[str, bool | None]) -> None:
        names = ("episode_id", "success", "success_source", "instruction", "instructions")
        self.episodes = EpisodesInMemory("episode_id", pa.schema([episode_schema().field(n) for n in names]))
        self.episodes.rows = {
            key: dict(zip(names, (key, success, "reward", "lift", ["lift"]), strict=True))
            for key, success in successes.items()
        }
        self.segments = SegmentsInMemory("annotation_id", segment_schema())
        self.state: dict[str, int] = {}


class StateInMemory:
    """Stands in for the Lance table of the state."""

    def __init__(self, tables: TablesInMemory) -> None:
        self._tables = tables

    def load(self) -> dict[str, int]:
        return {key: number for key, number in self._tables.state.items() if number}

    def save(self, rows: dict[str, int]) -> None:
        self._tables.state.update(rows)
