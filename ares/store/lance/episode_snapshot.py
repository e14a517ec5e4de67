"""Reads one version of the episodes table: filtered rows, sorted pages, row masks, text hashes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import product
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.deadline import check_deadline, current_deadline, limit_time, wait_for_lock
from ares.errors import QueryTimeout, RequestError, StoreError, UnknownName
from ares.registry import suggest_column
from ares.store.lance.lance_api import lance_errors, plan_filter
from ares.store.lance.row_index import (
    RowIndex,
    RowMaskCache,
    RowNumbering,
    VersionCache,
    scan_matching_rows,
)
from ares.store.lance.schema import column_types
from ares.store.lance.text import (
    LEAST_SHARED_ROWS,
    DistinctTexts,
    TextHashCache,
    TextHashes,
    WordRows,
    find_distinct_texts,
    rows_with_words,
    search_fulltext,
)
from ares.store.sql import (
    TrustedFilter,
    column_membership,
    find_set_call,
    names_sets,
    quote_literal,
    replace_membership,
    split_chain,
)
from ares.store.temp_db import TempDatabase

if TYPE_CHECKING:
    import lance
    import numpy as np
    import pyarrow as pa
    from lance.dataset import ColumnOrdering
    from numpy.typing import NDArray


# From this offset on, sorting all rows costs little more than finding those before the page.
DEEP_OFFSET = 10_000
_MAX_ORDERS = 4
# Sets that one filter may name: each doubles the number of plain filters that it is made of.
_MAX_SETS = 4
# The label of a set and the ids of its episodes, by name; see `ares.store.actions.find_set`.
FindSet = Callable[[str], tuple[str, Iterator[str]]]


def no_set(name: str) -> tuple[str, Iterator[str]]:
    """Refuses the name of a set, for tables without a log. Raises RequestError."""
    raise RequestError("there are no sets here", f"in_set({name!r}) selects nothing")


def parse_order(order_by: str) -> list[ColumnOrdering]:
    """Columns such as "dataset, key DESC" as Lance takes them, ties by episode_id; none for "".

    Raises RequestError when they cannot be read.
    """
    from lance.dataset import ColumnOrdering

    parts = [part.split() for part in order_by.split(",")] if order_by.strip() else []
    if any(len(part) not in (1, 2) or part[1:] not in ([], ["ASC"], ["DESC"]) for part in parts):
        raise RequestError(
            "the order cannot be read", f"{order_by!r}; give columns such as 'dataset, key DESC'"
        )
    if parts and "episode_id" not in (name for name, *_ in parts):
        parts.append(["episode_id"])
    return [
        ColumnOrdering(name, ascending=direction != ["DESC"], nulls_first=False) for name, *direction in parts
    ]


class SortedRows:
    """All rows of one version of a table in an order, four bytes for each.

    Args:
        rows: The columns of the order, and `_rowaddr`, of every row.
        order: The order; missing values last.
        numbering: Offsets of the rows.
    """

    def __init__(
        self, rows: pa.RecordBatchReader, order: Sequence[ColumnOrdering], numbering: RowNumbering
    ) -> None:
        import numpy as np

        terms = [
            term for item in order for term in _duckdb_order(item, rows.schema.field(item.column_name).type)
        ]
        offsets = [np.zeros(0, np.uint32)]
        with TempDatabase() as temp_db:
            temp_db.insert("rows", rows.schema, rows)
            for batch in temp_db.stream(f"SELECT _rowaddr FROM rows ORDER BY {', '.join(terms)}"):
                offsets.append(numbering.offsets(batch).astype(np.uint32))
        self._offsets = np.concatenate(offsets)

    def page_offsets(self, row_mask: NDArray[np.bool_] | None, offset: int, limit: int) -> NDArray[np.int64]:
        """Scan offsets, at most (limit,), of one page of the sorted rows.

        Args:
            row_mask: (N,) whether the row at each offset is in the result; None is all.
            offset: Sorted rows to skip.
            limit: Maximum number of rows.
        """
        import numpy as np

        offsets = self._offsets if row_mask is None else self._offsets[row_mask[self._offsets]]
        return offsets[offset : offset + limit].astype(np.int64)


class SortedRowsCache:
    """The orders of the newest version that are worth keeping: those used before, or with a far offset."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._version = 0
        # None for an order that was used once.
        self._sorted: dict[str, SortedRows | None] = {}

    def get(
        self, version: int, order: Sequence[ColumnOrdering], offset: int, sort: Callable[[], SortedRows]
    ) -> SortedRows | None:
        """The rows of one version in an order, or None when a page is faster to compute without them.

        Args:
            version: The version.
            order: The order.
            offset: Where the page begins.
            sort: Sorts the rows of that version.
        """
        name = ", ".join(f"{item.column_name} {item.ascending}" for item in order)
        # Concurrent threads wait for one sort instead of each doing its own; once begun it goes to its end.
        with wait_for_lock(self._lock), limit_time(None):
            if self._version != version:
                self._version, self._sorted = version, {}
            is_known = name in self._sorted
            rows = self._sorted.pop(name, None)
            if rows is None and (is_known or offset >= DEEP_OFFSET):
                rows = sort()
            self._sorted[name] = rows
            while len(self._sorted) > _MAX_ORDERS:
                del self._sorted[next(iter(self._sorted))]
            return rows


def _duckdb_order(ordering: ColumnOrdering, column_type: pa.DataType) -> list[str]:
    """Terms of DuckDB that order a column like Lance, for which -0.0 comes before 0.0."""
    import pyarrow as pa

    name, direction = f'"{ordering.column_name}"', "ASC" if ordering.ascending else "DESC"
    signs = [f"NOT signbit({name}) {direction}"] if pa.types.is_floating(column_type) else []
    return [f"{name} {direction} NULLS LAST", *signs]


# Rows that a scan returns at once, as a whole episode takes four kilobytes in Python, and rows of a stream for DuckDB.
_SCAN_ROWS, _READER_ROWS = 4_096, 65_536
# Columns that are no facts of their own: a structure, and JSON text, of which a filter can look for a part.
_COMPOUND, _FILTERED_TEXTS = ("cameras", "metadata"), {"metadata": "string"}


class EpisodeCaches:
    """What was computed from the versions of one table, shared by its snapshots; each is made on first use.

    Attributes:
        find_set: Finds the members of a set that a filter names.
    """

    find_set: FindSet = staticmethod(no_set)

    @cached_property
    def row_masks(self) -> RowMaskCache:
        """Rows that the last filters matched."""
        return RowMaskCache()

    @cached_property
    def row_indexes(self) -> VersionCache[RowIndex]:
        """Row ids by episode."""
        return VersionCache(RowIndex)

    @cached_property
    def numbering(self) -> VersionCache[RowNumbering]:
        """Offsets of the rows in a scan."""
        return VersionCache(RowNumbering)

    @cached_property
    def sorted_rows(self) -> SortedRowsCache:
        """Orders of all rows."""
        return SortedRowsCache()

    @cached_property
    def text_hashes(self) -> TextHashCache:
        """Hashes of the instructions."""
        return TextHashCache("instruction")

    @cached_property
    def distinct_instructions(self) -> VersionCache[DistinctTexts | None]:
        """The different instructions, where many episodes share them."""
        return VersionCache(lambda dataset: find_distinct_texts(dataset, "instruction"))


class EpisodeSnapshot:
    """One version of the episodes table; later writes do not change it.

    Args:
        dataset: That version.
        caches: Caches of the table.
    """

    def __init__(self, dataset: lance.LanceDataset, caches: EpisodeCaches) -> None:
        self._dataset = dataset
        self._caches = caches

    @property
    def version(self) -> int:
        """Number of the version."""
        return int(self._dataset.version)

    @property
    def arrow_schema(self) -> pa.Schema:
        """Arrow schema of all columns."""
        return self._dataset.schema

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Arrow schema of some columns, in that order. Raises RequestError for an unknown one."""
        import pyarrow as pa

        self._check_columns(columns)
        return pa.schema([self.arrow_schema.field(name) for name in columns])

    def columns(self) -> dict[str, str]:
        """Type of every column that a filter can use: an Arrow type name, or "list<string>"."""
        types = column_types(self.arrow_schema)
        return {name: type_name for name, type_name in types.items() if name not in _COMPOUND}

    def plan(self, where: str) -> str | None:
        """The filter as Lance has to read it, of one that names no set; it is not evaluated. Raises RequestError."""
        columns = self.columns() | _FILTERED_TEXTS
        if not (find_set_call(where) and names_sets(where)):
            return plan_filter(self._dataset, where, columns)

        def expand(name: str, argument: str) -> str | None:
            if name == "in_set":
                self._caches.find_set(argument)  # raises for one that does not exist
                return "true"
            return column_membership(name, argument, columns)

        return plan_filter(self._dataset, where, columns, expand)

    def count(self, where: str = "") -> int:
        """Number of episodes that match a filter. Raises RequestError for an invalid one."""
        condition = self.plan(where)
        row_mask = self._caches.row_masks.get(self.version, where)
        if (
            row_mask is None
            and condition
            and (current_deadline() or (find_set_call(where) and names_sets(where)))
        ):
            # Lance counts in one call, which cannot be ended; and a page needs the mask for its facets.
            row_mask = self.row_mask(where)
        if row_mask is not None:
            return int(row_mask.sum())
        with lance_errors("episodes", where):
            return int(self._dataset.count_rows(condition))

    def row_mask(self, where: str) -> NDArray[np.bool_]:
        """(N,) whether the row at each offset of a scan matches a filter. Raises RequestError."""
        self.plan(where)
        if find_set_call(where) and names_sets(where):
            # By its version: what is kept of a filter would be wrong once a name has another one.
            where = _replace_sets(
                where, lambda name: f"in_set({quote_literal(self._caches.find_set(name)[0])})"
            )
        row_mask = self._caches.row_masks.get(self.version, where)
        if row_mask is None:
            row_mask = self._compute_row_mask(where)
            self._caches.row_masks.put(self.version, where, row_mask)
        return row_mask

    def _compute_row_mask(self, where: str) -> NDArray[np.bool_]:
        conditions = split_chain(where, "AND")
        if len(conditions) > 1:
            # A page needs all conditions of a view, and all but one of them. A condition that cannot be evaluated
            # for every row may be evaluated where the others are true.
            try:
                return functools.reduce(operator.and_, map(self.row_mask, conditions))
            except QueryTimeout:
                raise
            except (RequestError, StoreError):
                pass
        if find_set_call(where) and names_sets(where):
            return self._compute_mask_with_sets(where)
        with lance_errors("episodes", where):
            numbering, is_trusted = self.row_numbering(), isinstance(where, TrustedFilter)
            if "instruction" in where and numbering.size >= LEAST_SHARED_ROWS and not is_trusted:
                by_text = self._mask_by_instruction(where)
                if by_text is not None:
                    return by_text
            if current_deadline() is None or is_trusted:
                return numbering.row_mask(self.reader([], where, with_row_address=True))
            # With a deadline in batches that come steadily.
            return numbering.row_mask(scan_matching_rows(self._dataset, self.plan(where) or "true"))

    def _compute_mask_with_sets(self, where: str) -> NDArray[np.bool_]:
        """The rows of a filter that names sets: a plain filter decides for those in each combination of the sets."""
        import numpy as np

        labels: dict[str, str] = {}
        _replace_sets(where, lambda label: labels.setdefault(label, ""))
        if len(labels) > _MAX_SETS:
            raise RequestError(f"a filter names at most {_MAX_SETS} sets", f"got {len(labels)}")
        masks = {label: self._member_mask(label) for label in labels}
        result = np.zeros(self.row_numbering().size, np.bool_)
        for flags in product((True, False), repeat=len(masks)):
            is_member = dict(zip(masks, flags, strict=True))
            rows = functools.reduce(
                operator.and_, (masks[label] == flag for label, flag in is_member.items()), ~result
            )
            if rows.any():
                constants = {label: str(flag).lower() for label, flag in is_member.items()}
                result |= rows & self.row_mask(_replace_sets(where, constants.__getitem__))
        return result

    def _member_mask(self, label: str) -> NDArray[np.bool_]:
        """(N,) whether the row at each offset is of a member of a set."""
        import pyarrow as pa
        import pyarrow.compute as pc

        row_mask = self._caches.row_masks.get(self.version, label)
        if row_mask is None:
            members = pa.array(self._caches.find_set(label)[1], pa.string())
            # All at once: the members would be hashed again for each batch.
            rows = self.reader(["episode_id"], with_row_address=True).read_all()
            own = rows.filter(pc.is_in(rows["episode_id"], value_set=members))
            row_mask = self.row_numbering().row_mask(own.to_batches())
            self._caches.row_masks.put(self.version, label, row_mask)
        return row_mask

    def _mask_by_instruction(self, where: str) -> NDArray[np.bool_] | None:
        """As `row_mask`, the alternatives of a filter that name the instruction alone by its different values.

        None where no alternative does, or where most episodes have an instruction of their own.
        """
        if not (texts := self._caches.distinct_instructions.get(self._dataset)):
            return None
        alternatives = {part: texts.matching_rows(part) for part in split_chain(where, "OR")}
        by_text = [matching for matching in alternatives.values() if matching is not None]
        if not by_text:
            return None
        row_mask = functools.reduce(operator.or_, by_text)
        others = " OR ".join(part for part, matching in alternatives.items() if matching is None)
        return row_mask | self.row_mask(others) if others else row_mask

    def row_numbering(self) -> RowNumbering:
        """Offsets of the rows in a scan, by column `_rowaddr` of `reader`."""
        with lance_errors("episodes"):
            return self._caches.numbering.get(self._dataset)

    def scan(
        self,
        columns: Sequence[str],
        where: str = "",
        limit: int | None = None,
        offset: int = 0,
        order_by: str = "",
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the episodes that match a filter, streamed.

        Args:
            columns: Names of columns.
            where: SQL condition; "" is all.
            limit: Maximum number of rows.
            offset: Rows to skip.
            order_by: Columns such as "dataset, key" or "num_steps DESC"; missing values last, ties by episode_id.

        Raises:
            RequestError: An unknown column, or an invalid filter, order, limit or offset.
        """
        if not (0 <= offset < 2**63 and (limit is None or 0 <= limit < 2**63)):
            raise RequestError("a limit and an offset are numbers from 0 on", f"got {limit} and {offset}")
        condition, order = self.plan(where), parse_order(order_by)
        self._check_columns([*columns, *(ordering.column_name for ordering in order)])
        if order and limit is not None:
            sorted_rows = self._caches.sorted_rows.get(self.version, order, offset, lambda: self._sort(order))
            if sorted_rows is not None:
                row_mask = self.row_mask(where) if where.strip() else None
                return iter(
                    self.take(columns, sorted_rows.page_offsets(row_mask, offset, limit)).to_batches()
                )
        if find_set_call(where) and names_sets(where):
            return self._scan_with_sets(columns, where, limit, offset, order_by)
        options = {
            "batch_size": _SCAN_ROWS,
            "filter": condition,
            "limit": limit,
            "offset": offset or None,
            "order_by": order or None,
            # Without row ids Lance cannot order by a column that is not read.
            "with_row_id": bool(order),
        }
        return self._batches(list(columns), where, options)

    def _scan_with_sets(
        self, columns: Sequence[str], where: str, limit: int | None, offset: int, order_by: str
    ) -> Iterator[pa.RecordBatch]:
        import numpy as np

        if not order_by and limit is None and not offset:
            yield from self.reader(columns, where)
            return
        rows = self.offsets(where, order_by) if order_by else np.flatnonzero(self.row_mask(where))
        rows = rows[offset : None if limit is None else offset + limit]
        for start in range(0, len(rows), _SCAN_ROWS):
            check_deadline()
            yield from self.take(columns, rows[start : start + _SCAN_ROWS]).to_batches()

    def _sort(self, order: Sequence[ColumnOrdering]) -> SortedRows:
        names = [ordering.column_name for ordering in order]
        with lance_errors("episodes"):
            return SortedRows(self.reader(names, with_row_address=True), order, self.row_numbering())

    def _batches(self, columns: list[str], where: str, options: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        if options["limit"] == 0:
            return
        with lance_errors("episodes", where):
            for batch in self._dataset.scanner(columns=columns, **options).to_batches():
                check_deadline()
                yield batch.select(columns)

    def reader(
        self, columns: Sequence[str], where: str = "", with_row_address: bool = False
    ) -> pa.RecordBatchReader:
        """Columns of the episodes that match a filter, as a stream for DuckDB or NumPy.

        Args:
            columns: Names of columns.
            where: SQL condition; "" is all.
            with_row_address: Whether to add a column `_rowaddr`, uint64: the number of the row's fragment in the upper
                32 bits, its number in the fragment in the lower ones; see `row_numbering`.

        Raises:
            RequestError: An unknown column, or an invalid filter.
            StoreError: The table cannot be read; also while the stream is read.
        """
        import pyarrow as pa

        condition = self.plan(where)
        self._check_columns(columns)
        if find_set_call(where) and names_sets(where):
            return self._read_rows(columns, self.row_mask(where), with_row_address)
        with lance_errors("episodes", where):
            # Light columns of many rows: to read them all is faster than to pick the rows that match.
            scanner = self._dataset.scanner(
                columns=list(columns),
                filter=condition,
                batch_size=_READER_ROWS,
                late_materialization=False,
                with_row_address=with_row_address,
            )
            stream = scanner.to_reader()
        # What fails later, while the stream is read, is an error of ARES too.
        return pa.RecordBatchReader.from_batches(stream.schema, _with_lance_errors(stream, where))

    def _read_rows(
        self, columns: Sequence[str], row_mask: NDArray[np.bool_], with_row_address: bool
    ) -> pa.RecordBatchReader:
        """As `reader`, of the rows at some offsets."""
        import pyarrow as pa

        numbering, stream = self.row_numbering(), self.reader(columns, with_row_address=True)
        names = [name for name in stream.schema.names if with_row_address or name != "_rowaddr"]
        schema = pa.schema([stream.schema.field(name) for name in names])
        batches = (
            batch.filter(pa.array(row_mask[numbering.offsets(batch)])).select(names) for batch in stream
        )
        return pa.RecordBatchReader.from_batches(schema, batches)

    def offsets(self, where: str, order_by: str) -> NDArray[np.int64]:
        """(N,) offsets in a scan without a filter, in an order, of the episodes that match a filter; see `take`.

        Args:
            where: SQL condition; "" is all.
            order_by: Columns as for `scan`, at least one.

        Raises:
            RequestError: An unknown column, or an invalid filter or order.
        """
        row_mask, order = self.row_mask(where) if where.strip() else None, parse_order(order_by)
        self._check_columns([ordering.column_name for ordering in order])
        rows = self._caches.sorted_rows.get(self.version, order, DEEP_OFFSET, lambda: self._sort(order))
        assert rows is not None  # a far offset has the rows sorted
        return rows.page_offsets(row_mask, 0, self.row_numbering().size)

    def take(self, columns: Sequence[str], offsets: NDArray[np.int64]) -> pa.Table:
        """Columns of the rows at (N,) offsets of a scan without a filter, in that order."""
        with lance_errors("episodes"):
            return self._dataset.take(offsets.tolist(), columns=list(columns))

    def text_hashes(self) -> TextHashes:
        """Hash of the instruction of every episode."""
        with lance_errors("episodes"):
            return self._caches.text_hashes.get(self._dataset, self.row_index())

    def search_instruction(
        self, text: str, limit: int, episode_ids: Collection[str] | None = None
    ) -> list[tuple[str, float]]:
        """Episodes whose instruction has words of the text: (episode_id, BM25 score), best first, ties by id."""
        with lance_errors("episodes"):
            row_index = self.row_index()
            matches = search_fulltext(self._dataset, row_index, "instruction", text, limit, episode_ids)
        return list(zip(matches["episode_id"].to_pylist(), matches["score"].to_pylist(), strict=True))

    def instructions_with_words(self, words: Sequence[str]) -> WordRows:
        """The episodes whose instruction has each of some words."""
        with lance_errors("episodes"):
            row_index = self.row_index()
            is_large = row_index.count >= LEAST_SHARED_ROWS
            if is_large and (texts := self._caches.distinct_instructions.get(self._dataset)):
                return WordRows(row_index, texts.rows_with_words(words))
            return WordRows(row_index, rows_with_words(self._dataset, row_index, "instruction", words))

    def row_index(self) -> RowIndex:
        """The row of every episode: one run for each, in the order of a scan."""
        with lance_errors("episodes"):
            return self._caches.row_indexes.get(self._dataset)

    def _check_columns(self, columns: Collection[str]) -> None:
        names = self.arrow_schema.names
        for name in columns:
            if name not in names:
                raise UnknownName(
                    f"no column {name!r} in episodes",
                    f"{suggest_column(name, names)}the columns are {', '.join(sorted(names))}",
                )


class SelectedRows(NamedTuple):
    """Some episodes of one version of the table.

    Attributes:
        episodes: That version.
        row_mask: (N,) whether the row at each offset of a scan is selected.
    """

    episodes: EpisodeSnapshot
    row_mask: NDArray[np.bool_]


def _replace_sets(where: str, replace: Callable[[str], str]) -> str:
    """A filter with other SQL in place of each `in_set`, by the name of the set."""
    user_filter = where.user_filter if isinstance(where, TrustedFilter) else where
    text = replace_membership(
        user_filter, lambda name, argument: replace(argument) if name == "in_set" else None
    )
    return TrustedFilter(where.trusted, text) if isinstance(where, TrustedFilter) else text


def _with_lance_errors(batches: Iterator[pa.RecordBatch], where: str) -> Iterator[pa.RecordBatch]:
    with lance_errors("episodes", where):
        yield from batches
