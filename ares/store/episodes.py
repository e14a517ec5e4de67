"""EpisodeTable: one light row per episode, with the columns that annotators add, and everything that filters."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ares.episode import Episode, Record
from ares.errors import RequestError, StoreError
from ares.store import arrow, filters
from ares.store.layout import Layout, Marks
from ares.store.packed import Packed, pack
from ares.store.paging import Orders, ordering
from ares.store.rows import Ids, Places
from ares.store.scratch import Scratch
from ares.store.stored import Stored
from ares.store.told import Telling, Told
from ares.store.trajectories import TrajectoryTable
from ares.store.words import search_words

if TYPE_CHECKING:
    import lance
    import numpy as np
    import pyarrow as pa
    from lancedb.table import Table
    from numpy.typing import NDArray

_CHUNK = 1000
_STRETCH = 10_000
_MARKS = 100_000
# Rows that a scan gives at once: whole episodes are four kilobytes each in Python. Rows that a stream for DuckDB gives.
_SCAN_ROWS, _READER_ROWS = 4_096, 65_536
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
# No filter columns: a structure, and JSON text.
_NO_FILTER = ("cameras", "metadata")
_TWICE = "SELECT content_hash FROM hashes WHERE content_hash <> '' GROUP BY content_hash HAVING count(*) > 1"
_FIRST_OF_SAME_CONTENT = """
SELECT episode_id, CASE WHEN first = episode_id THEN NULL ELSE first END AS now, duplicate_of AS before
FROM (
    SELECT episode_id, duplicate_of, first_value(episode_id) OVER (
        PARTITION BY content_hash ORDER BY dataset, version, split, key, episode_id
    ) AS first
    FROM alike WHERE content_hash <> ''
)
"""
_CHANGED_MARKS = "SELECT episode_id, now AS duplicate_of FROM marks WHERE now IS DISTINCT FROM before"


class EpisodeTable:
    """Episodes by id, by filter and in order.

    Args:
        stored: The Lance table "episodes".
        trajectories: The signals that are written with them.
        root: Folder or URI of the workspace, where copied media are.
    """

    def __init__(self, stored: Stored, trajectories: TrajectoryTable, root: str) -> None:
        self._stored = stored
        self._trajectories = trajectories
        self._root = root
        self._places = Places()
        self._orders = Orders()
        self._marks = Marks()
        self._telling = Telling(self._places, "instruction")

    @property
    def _table(self) -> Table:
        return self._stored.writer()

    def add(self, records: Sequence[Record]) -> None:
        """Write new episodes: first their signals, then their rows, so that a row means that all is there.

        Episodes that are there already are left as they are; of one id given twice the first counts.

        Raises:
            StoreError: A table cannot be written.
        """

        given = {record.episode.episode_id: record for record in reversed(records)}
        there = self.ids(filters.among("episode_id", given))
        new = [record for record in reversed(given.values()) if record.episode.episode_id not in there]
        if not new:
            return
        self._trajectories.forget([record.episode.episode_id for record in new])
        self.write([pack(new)])

    def write(self, packed: Sequence[Packed]) -> None:
        """Write episodes of which neither row nor signals are there, like `add`; the caller has seen to that.

        Raises:
            StoreError: A table cannot be written.
        """
        import pyarrow as pa

        self._trajectories.write([each.trajectories for each in packed])
        self._add_columns(pa.schema([arrow.episode_schema().field(name) for name in arrow.STAMPS]))
        with filters.failures("episodes"):
            schema = self._table.schema
            rows = [arrow.fit_cameras(each.episodes, schema) for each in packed]
            self._table.add(pa.Table.from_batches(rows))

    def ids(self, where: str = "") -> set[str]:
        """Ids of the episodes that fulfil a filter that leaves few; see `stretches` for any number of them.

        Raises RequestError for a filter that cannot be read.
        """
        return {each for ids in self.stretches(where) for each in ids}

    def held(self, where: str = "") -> Ids:
        """Ids of the episodes that fulfil a filter, held as Arrow. Raises RequestError like `ids`."""
        import pyarrow as pa

        batches = self.scan(["episode_id"], where)
        return Ids(pa.chunked_array([batch["episode_id"] for batch in batches], pa.string()))

    def stretches(self, where: str = "") -> Iterator[list[str]]:
        """Ids of the episodes that fulfil a filter, some thousands at a time. Raises RequestError like `ids`."""
        for batch in self.scan(["episode_id"], where):
            for start in range(0, batch.num_rows, _STRETCH):
                yield batch["episode_id"].slice(start, _STRETCH).to_pylist()

    def count(self, where: str = "") -> int:
        """Number of episodes that fulfil a filter. Raises RequestError for a filter that cannot be read."""
        dataset, condition = self._checked(where)
        known = self._marks.get(int(dataset.version), where)
        if known is not None:
            return int(known.sum())
        with filters.failures("episodes", where, self.columns()):
            return int(dataset.count_rows(condition))

    def marks(self, where: str) -> NDArray[np.bool_]:
        """Which rows fulfil a filter, by their places in `layout`. Raises RequestError like `scan`."""
        self._checked(where)
        now = self.pinned()
        known = self._marks.get(now.version(), where)
        if known is None:
            known = now._joined(where)
            self._marks.put(now.version(), where, known)
        return known

    def _joined(self, where: str) -> NDArray[np.bool_]:
        parts = filters.conjuncts(where)
        if len(parts) > 1:
            # A page asks for all conditions of a view, and without each of them. A condition that cannot be computed
            # of every row may be computed where the others hold.
            with suppress(RequestError, StoreError):
                return functools.reduce(operator.and_, map(self.marks, parts))
        with filters.failures("episodes", where, self.columns()):
            return self.layout().marks(self.reader([], where, with_addresses=True))

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Arrow schema of some columns, in that order. Raises RequestError for an unknown one."""
        import pyarrow as pa

        schema = self._dataset().schema
        self._known(columns, schema.names)
        return pa.schema([schema.field(name) for name in columns])

    def columns(self) -> dict[str, str]:
        """Type of every column that can stand in a filter: an Arrow type name, or "list<string>"."""
        schema = self._dataset().schema
        return {field.name: _type_name(field.type) for field in schema if field.name not in _NO_FILTER}

    def scan(
        self,
        columns: Sequence[str],
        where: str = "",
        limit: int | None = None,
        offset: int = 0,
        order_by: str = "",
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the episodes that fulfil a filter, streamed.

        Args:
            columns: Names of columns.
            where: SQL condition; "" is all.
            limit: Most rows.
            offset: Rows to pass over.
            order_by: Columns such as "dataset, key" or "num_steps DESC"; missing values last, ties by episode_id.

        Raises:
            RequestError: An unknown column, or a filter that cannot be read.
        """
        if not (0 <= offset < 2**63 and (limit is None or 0 <= limit < 2**63)):
            raise RequestError("a limit and an offset are numbers from 0 on", f"got {limit} and {offset}")
        dataset, condition = self._checked(where)
        self._known(columns, dataset.schema.names)
        order = ordering(order_by)
        self._known([one.column_name for one in order], dataset.schema.names)
        if order and limit is not None:
            with filters.failures("episodes", where, dataset.schema.names):
                if kept := self._orders.of(self.pinned(), order, offset):
                    return iter(kept.stretch(columns, where, offset, limit).to_batches())
        scanner = {
            "batch_size": _SCAN_ROWS,
            "filter": condition,
            "limit": limit,
            "offset": offset or None,
            "order_by": order or None,
            # Without row ids Lance cannot order by a column that is not asked for.
            "with_row_id": bool(order),
        }
        return self._batches(dataset, list(columns), where, scanner)

    def reader(
        self, columns: Sequence[str], where: str = "", with_addresses: bool = False
    ) -> pa.RecordBatchReader:
        """Columns of the episodes that fulfil a filter, as a stream for DuckDB or NumPy.

        Args:
            columns: Names of columns.
            where: SQL condition; "" is all.
            with_addresses: Whether a column `_rowaddr` says where each row lies: uint64, the number of its fragment
                in the upper 32 bits, its place there in the lower; see `layout`.

        Raises:
            RequestError: An unknown column, or a filter that cannot be read.
        """
        dataset, condition = self._checked(where)
        self._known(columns, dataset.schema.names)
        with filters.failures("episodes", where, dataset.schema.names):
            # Light columns of many rows: to read them all is quicker than to pick those that a filter keeps.
            scanner = dataset.scanner(
                columns=list(columns),
                filter=condition,
                batch_size=_READER_ROWS,
                late_materialization=False,
                with_row_address=with_addresses,
            )
            return scanner.to_reader()

    def layout(self) -> Layout:
        """A number for each row, for `_rowaddr` of `reader`."""
        return Layout(self._dataset())

    def take(self, columns: Sequence[str], offsets: NDArray[np.int64]) -> pa.Table:
        """Columns of the rows at some places in the order of a scan without a filter, in that order."""
        with filters.failures("episodes"):
            return self._dataset().take(offsets.tolist(), columns=list(columns))

    def pinned(self) -> EpisodeTable:
        """The newest version there is, for reading: it stays as it is, whatever is written meanwhile."""
        dataset = self._dataset()
        stored = replace(self._stored, dataset=lambda: dataset)
        pinned = EpisodeTable(stored, self._trajectories, self._root)
        pinned._marks = self._marks
        return pinned

    def version(self) -> int:
        """Number of the newest version: what was computed of it holds until this changes."""
        return int(self._dataset().version)

    def read(self, where: str = "", limit: int | None = None) -> Iterator[Episode]:
        """Episodes that fulfil a filter, streamed. Raises RequestError for a filter that cannot be read."""
        there = set(self._dataset().schema.names)
        names = [name for name in arrow.episode_schema().names if name in there or name not in arrow.STAMPS]
        for batch in self.scan(names, where, limit):
            yield from arrow.episodes_from_arrow(batch, self._root)

    def get(self, ids: Sequence[str]) -> list[Episode]:
        """Episodes by id, in the order asked; unknown ids are left out."""
        found: dict[str, Episode] = {}
        for chunk in filters.chunks(ids, _CHUNK):
            for episode in self.read(filters.among("episode_id", chunk)):
                found[episode.episode_id] = episode
        return [found[each] for each in ids if each in found]

    def set_values(self, values: pa.Table) -> None:
        """Set columns of some episodes; columns that are not there are added, ids that are not there passed over.

        Args:
            values: Column episode_id, each id once, and the columns to set with their Arrow types.

        Raises:
            StoreError: A column has another type in the table, or a name that no filter could use.
        """
        self._add_columns(values.schema)
        with filters.failures("episodes"):
            self._table.merge_insert("episode_id").when_matched_update_all().execute(values)

    def declare(self, columns: pa.Schema) -> None:
        """Add the columns that are not there, without values; those that no filter could name are passed over."""
        import pyarrow as pa

        there = self._dataset().schema.names
        new = [field for field in columns if field.name not in there and _NAME.fullmatch(field.name)]
        if new:
            self._add_columns(pa.schema(new))

    def mark_duplicates(self) -> int:
        """Set `duplicate_of` to the first episode of the same content, whatever the order of ingestion.

        Returns:
            How many episodes have the content of an earlier one (by dataset, version, split, key).
        """
        import pyarrow as pa

        columns = ["episode_id", "content_hash", "dataset", "version", "split", "key", "duplicate_of"]
        with Scratch() as scratch:
            scratch.put("hashes", self.schema(["content_hash"]), self.reader(["content_hash"]))
            scratch.make("twice", _TWICE)
            # As a rule few have the content of another, or did when this was last done.
            alike = "duplicate_of IS NOT NULL OR content_hash IN (SELECT content_hash FROM twice)"
            scratch.put("alike", self.schema(columns), self.reader(columns), alike)
            scratch.make("marks", _FIRST_OF_SAME_CONTENT)
            for batch in scratch.stream(_CHANGED_MARKS, _MARKS):
                self.set_values(pa.Table.from_batches([batch]))
            return int(scratch.ask("SELECT count(now) AS marked FROM marks")["marked"][0].as_py())

    def drop_orphans(self) -> int:
        """Remove signals whose episode was never written, left by a crash between both. Returns how many."""
        if self._trajectories.count() == self.count():
            return 0  # every episode has its signals, so there are no others
        return self._trajectories.keep_only(lambda ids: self.ids(filters.among("episode_id", ids)))

    def search_instruction(
        self, text: str, limit: int, episode_ids: Collection[str] | None = None
    ) -> list[tuple[str, float]]:
        """Episodes whose instruction has words of the text: (episode_id, BM25 score), best first, ties by id."""
        with filters.failures("episodes"):
            dataset = self._dataset()
            rows = self._places.rows(dataset)
            found = search_words(dataset, rows, "instruction", text, limit, episode_ids)
        return list(zip(found["episode_id"].to_pylist(), found["score"].to_pylist(), strict=True))

    def told(self) -> Told:
        """What each episode was told."""
        with filters.failures("episodes"):
            return self._telling.of(self._dataset())

    def _dataset(self) -> lance.LanceDataset:
        return self._stored.dataset()

    def check(self, where: str) -> None:
        """Raise RequestError for a filter that cannot be read; nothing is asked of it."""
        self._checked(where)

    def _checked(self, where: str) -> tuple[lance.LanceDataset, str | None]:
        """The newest version, and the filter as it has to be given to it."""
        dataset = self._dataset()
        return dataset, filters.check(dataset, where, self.columns())

    def _known(self, wanted: Collection[str], there: Collection[str]) -> None:
        for name in wanted:
            if name not in there:
                raise RequestError(
                    f"no column {name!r} in episodes", f"there are: {', '.join(sorted(there))}"
                )

    def _batches(
        self, dataset: lance.LanceDataset, columns: list[str], where: str, scanner: dict[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        if scanner["limit"] == 0:
            return
        with filters.failures("episodes", where, dataset.schema.names):
            for batch in dataset.scanner(columns=columns, **scanner).to_batches():
                yield batch.select(columns)

    def _add_columns(self, wanted: pa.Schema) -> None:
        import pyarrow as pa

        there = self._dataset().schema
        new = [field for field in wanted if field.name not in there.names]
        for field in wanted:
            if field not in new and there.field(field.name).type != field.type:
                raise StoreError(
                    f"column {field.name!r} has another type",
                    f"it is {there.field(field.name).type}, but {field.type} was given",
                )
            if not _NAME.fullmatch(field.name):
                raise StoreError(f"{field.name!r} is no column name", "use small letters, digits and '_'")
        if new:
            with filters.failures("episodes"):
                self._table.add_columns(pa.schema(new))


def _type_name(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_list(kind):
        return f"list<{_type_name(kind.value_type)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return {"double": "float64"}.get(str(kind), str(kind))
