"""Columns of episodes as codes, counted for every facet in one pass."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from ares.deadline import interruptible, wait_for_lock
from ares.search.facet_codes import (
    TOP_VALUES,
    BinnedEncoding,
    CategoricalEncoding,
    FacetCounts,
    ListEncoding,
    ListItemEncoding,
    TooManyValues,
    to_float64,
)
from ares.store import in_condition, lance_errors

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store import EpisodeSnapshot

_MAX_BINS = 20
# A range this many times wider than the central 99% of the values contains outliers.
_OUTLIER_FACTOR = 4.0
_ROUND_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
NUMERIC_TYPES = ("int64", "float64", "timestamp")
_THREADS = 4
_BLOCK_ROWS = 65_536
# Counters of so many code combinations fit into the L1 cache of a core.
_MAX_COMBINATIONS = 2**12
# Values sampled from a numeric column, evenly over its rows, to find where most of them lie.
_SAMPLE_ROWS = 2**16


def count_frequent_values(
    episodes: EpisodeSnapshot,
    where: str,
    column: str,
    type_name: str,
    selected: NDArray[np.bool_] | None = None,
) -> FacetCounts:
    """The most frequent values: selected by an approximate method, then counted exactly.

    Args:
        episodes: One version of the table.
        where: SQL condition; "" is all.
        column: A column of texts or of lists of texts.
        type_name: Its type, "string" or "list<string>".
        selected: (N,) whether the row at each offset of a scan counts; None for all.

    Raises:
        RequestError: The filter is invalid.
    """
    item = f'unnest(list_distinct("{column}"))' if type_name.startswith("list") else f'"{column}"'
    items = f"(SELECT {item} AS item FROM episodes)"
    approximate = f"SELECT approx_top_k(item, {TOP_VALUES}), approx_count_distinct(item) FROM {items}"
    query = partial(_query_column, episodes, column, where, selected)
    ((top, distinct),) = query(approximate)
    is_top = in_condition("item", [value for value in top or () if value is not None])
    exact = f"SELECT item, count(*) FROM {items} WHERE {is_top} GROUP BY item"
    pairs = sorted(query(exact), key=lambda pair: (-pair[1], pair[0]))
    ((missing,),) = query(f'SELECT count(*) FROM episodes WHERE "{column}" IS NULL')
    return FacetCounts(counts=tuple(pairs), distinct=distinct, missing=missing)


def _query_column(
    episodes: EpisodeSnapshot, column: str, where: str, selected: NDArray[np.bool_] | None, sql: str
) -> list[tuple[Any, ...]]:
    import duckdb

    with duckdb.connect() as connection, lance_errors("episodes", where):
        connection.register("episodes", _column_reader(episodes, column, where, selected))
        try:
            with interruptible(connection.interrupt, duckdb.Error):
                return connection.execute(sql).fetchall()
        except duckdb.Error as error:
            # An error of Lance while DuckDB reads from it.
            raise RuntimeError(str(error)) from error


def _column_reader(
    episodes: EpisodeSnapshot, column: str, where: str, selected: NDArray[np.bool_] | None
) -> pa.RecordBatchReader:
    import pyarrow as pa

    if selected is None:
        return episodes.reader([column], where)
    batches, numbering = episodes.reader([column], where, with_row_address=True), episodes.row_numbering()
    return pa.RecordBatchReader.from_batches(
        batches.schema, (batch.filter(pa.array(selected[numbering.offsets(batch)])) for batch in batches)
    )


def bin_edges(lowest: float, highest: float, low: float, high: float, integers: bool) -> tuple[float, ...]:
    """Round edges, length B + 1, of the bins of a column; a bin includes its lower edge, and the last bin both.

    Args:
        lowest: The smallest finite value.
        highest: The largest finite value.
        low: The 0.5% quantile.
        high: The 99.5% quantile.
        integers: Whether the values are whole numbers.
    """
    if low < high and highest / _OUTLIER_FACTOR - lowest / _OUTLIER_FACTOR > high - low:
        # A side without outliers keeps its end.
        margin = high - low
        lowest, highest = max(lowest, low - margin / 2), min(highest, high + margin / 2)
    step = _bin_width(lowest, highest, integers)
    if step <= 0 or not math.isfinite(step):
        return lowest, highest
    first, last = math.floor(lowest / step), math.floor(highest / step)
    # An integer at the end of the range needs a separate bin; any other number shares the last bin.
    stop = last if last * step >= highest and last > first and not integers else last + 1
    digits = max(0, 2 - math.floor(math.log10(step)))
    return tuple(round(number * step, digits) for number in range(first, stop + 1))


def _bin_width(lowest: float, highest: float, integers: bool) -> float:
    """The smallest round width with which `_MAX_BINS` bins cover the range; 0 when the range is a point."""
    target = highest / _MAX_BINS - lowest / _MAX_BINS
    if target <= 0 or lowest + target == lowest:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(target))
    width = next((unit * factor for factor in _ROUND_STEPS if unit * factor >= target), unit * 10.0)
    return max(1.0, float(math.ceil(width))) if integers else width


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedColumn:
    """One column as integer codes.

    Attributes:
        codes: (N,) uint8 or uint16, by scan offset.
        encoding: Decodes them.
    """

    codes: NDArray[np.uint8] | NDArray[np.uint16]
    encoding: CategoricalEncoding | ListEncoding | BinnedEncoding


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedColumnCodes:
    """Several columns combined into one code per row, so that a single pass counts them all.

    Attributes:
        encodings: Encoding of each of the G columns, by name.
        codes: (N,) uint16, by scan offset: C-order index into an array of the shape of `totals`.
        totals: (size, ...) int64 with G dimensions: number of episodes with each combination in the whole table.
    """

    encodings: Mapping[str, CategoricalEncoding | ListEncoding | BinnedEncoding]
    codes: NDArray[np.uint16]
    totals: NDArray[np.int64]

    def decode_counts(self, counts: NDArray[np.int64]) -> dict[str, FacetCounts]:
        """Turn counts per combination, of the shape of `totals`, into counts per value of each column."""
        axes = range(counts.ndim)
        return {
            name: encoding.decode_counts(counts.sum(axis=tuple(other for other in axes if other != axis)))
            for axis, (name, encoding) in enumerate(self.encodings.items())
        }


class EncodedColumns:
    """The columns of one version of the episode table, each encoded on first use.

    Args:
        episodes: That version; see `EpisodeTable.snapshot`.
    """

    def __init__(self, episodes: EpisodeSnapshot) -> None:
        self.episodes = episodes
        self.version = episodes.version
        self._lock = Lock()
        # None for a column with too many values to encode.
        self._encoded: dict[str, CombinedColumnCodes | ListItemEncoding | None] = {}
        self._numbering = episodes.row_numbering()

    def edges(self, column: str) -> tuple[float, ...]:
        """The bin edges of a column that was counted; () when it has none."""
        encoded = self._encoded[column]
        encoding = encoded.encodings[column] if isinstance(encoded, CombinedColumnCodes) else None
        return encoding.edges if isinstance(encoding, BinnedEncoding) else ()

    def count(
        self, where: str, types: Mapping[str, str], selected: NDArray[np.bool_] | None = None
    ) -> dict[str, FacetCounts]:
        """Count the values of columns among the episodes that match a filter.

        Args:
            where: SQL condition; "" is all.
            types: Columns with their types, of `FACET_TYPES`.
            selected: (N,) whether the row at each offset of a scan counts, in addition to the filter; None for all.

        Raises:
            RequestError: The filter is invalid.
        """
        encoded = self._encode_columns(types)
        groups = list(
            {
                id(group): group for group in encoded.values() if isinstance(group, CombinedColumnCodes)
            }.values()
        )
        lists = {name: items for name, items in encoded.items() if isinstance(items, ListItemEncoding)}
        row_mask = self.episodes.row_mask(where) if where.strip() and (groups or lists) else None
        if selected is not None:
            row_mask = selected if row_mask is None else row_mask & selected
        counts = {name: items.count(row_mask) for name, items in lists.items()}
        for group, sums in zip(groups, _count_groups(groups, row_mask), strict=True):
            counts |= group.decode_counts(sums)
        for name, encoding in encoded.items():
            if encoding is None:
                counts[name] = count_frequent_values(self.episodes, where, name, types[name], selected)
        return counts

    def _encode_columns(
        self, types: Mapping[str, str]
    ) -> dict[str, CombinedColumnCodes | ListItemEncoding | None]:
        # Concurrent threads wait for one encoding instead of each computing one. Its threads have no deadline:
        # what depends on the table alone is computed to its end once, and serves every later query.
        with wait_for_lock(self._lock), ThreadPoolExecutor(_THREADS) as threads:
            names = [name for name in types if name not in self._encoded]
            columns: dict[str, EncodedColumn] = {}
            for name, column in zip(
                names, threads.map(lambda name: self._encode(name, types[name]), names), strict=True
            ):
                if isinstance(column, EncodedColumn):
                    columns[name] = column
                else:
                    self._encoded[name] = column
            for members in _group_columns(columns):
                self._encoded |= dict.fromkeys(members, self._combine(members))
            return {name: self._encoded[name] for name in types}

    def _combine(self, columns: Mapping[str, EncodedColumn]) -> CombinedColumnCodes:
        import numpy as np

        sizes = [column.encoding.size for column in columns.values()]
        codes = np.zeros(self._numbering.size, np.uint16)
        for column in columns.values():
            if len(columns) > 1:
                codes *= column.encoding.size
            codes += column.codes
        totals = np.bincount(codes, minlength=math.prod(sizes))
        encodings = {name: column.encoding for name, column in columns.items()}
        return CombinedColumnCodes(encodings=encodings, codes=codes, totals=totals.reshape(sizes))

    def _encode(self, column: str, type_name: str) -> EncodedColumn | ListItemEncoding | None:
        """Encode whole values; list items where too many lists differ; None when there are too many values."""
        with suppress(TooManyValues):
            return self._encode_values(column, type_name)
        if type_name.startswith("list"):
            with suppress(TooManyValues):
                return self._encode_items(column)
        return None

    def _encode_values(self, column: str, type_name: str) -> EncodedColumn:
        import numpy as np

        encoding = self._make_encoding(column, type_name)
        codes: NDArray[np.uint8] | NDArray[np.uint16] = np.zeros(self._numbering.size, np.uint8)
        for batch in self._read(column):
            batch_codes = encoding.encode(batch[column])
            if encoding.size > 256 and codes.dtype == np.uint8:
                codes = codes.astype(np.uint16)
            codes[self._numbering.offsets(batch)] = batch_codes
        return EncodedColumn(codes=codes, encoding=encoding)

    def _encode_items(self, column: str) -> ListItemEncoding:
        items = ListItemEncoding(self._numbering.size)
        for batch in self._read(column):
            items.add(batch[column], self._numbering.offsets(batch))
        return items

    def _make_encoding(
        self, column: str, type_name: str
    ) -> CategoricalEncoding | ListEncoding | BinnedEncoding:
        if type_name in NUMERIC_TYPES:
            return BinnedEncoding(self._bin_edges(column, integers=type_name == "int64"))
        if type_name.startswith("list"):
            return ListEncoding()
        return CategoricalEncoding(self.episodes.schema([column]).field(0).type)

    def _bin_edges(self, column: str, integers: bool) -> tuple[float, ...]:
        """Bin edges for a numeric column; () when it has no finite values."""
        import numpy as np

        lowest, highest, sample = np.inf, -np.inf, [np.zeros(0)]
        for batch in self._read(column):
            values = to_float64(batch[column])
            values = values[np.isfinite(values)]
            lowest = min(lowest, values.min(initial=np.inf))
            highest = max(highest, values.max(initial=-np.inf))
            sample.append(values[:: 1 + self._numbering.size // _SAMPLE_ROWS])
        if lowest > highest:
            return ()
        low, high = np.quantile(np.concatenate(sample), [0.005, 0.995])
        return bin_edges(float(lowest), float(highest), float(low), float(high), integers)

    def _read(self, column: str) -> Iterator[pa.RecordBatch]:
        with lance_errors("episodes"):
            yield from self.episodes.reader([column], with_row_address=True)


def _count_groups(
    groups: Sequence[CombinedColumnCodes], row_mask: NDArray[np.bool_] | None
) -> list[NDArray[np.int64]]:
    """Number of rows with each code combination of each group, among masked rows or all for None."""
    import numpy as np

    if row_mask is None:
        return [group.totals for group in groups]
    counts = [np.zeros_like(group.totals) for group in groups]
    for start in range(0, len(row_mask), _BLOCK_ROWS):
        rows = np.flatnonzero(row_mask[start : start + _BLOCK_ROWS])
        for group, group_counts in zip(groups, counts, strict=True):
            codes = group.codes[start : start + _BLOCK_ROWS][rows]
            group_counts += np.bincount(codes, minlength=group_counts.size).reshape(group_counts.shape)
    return counts


def _group_columns(columns: Mapping[str, EncodedColumn]) -> list[dict[str, EncodedColumn]]:
    """Group columns that have few combinations of codes: one pass costs the same for one column and for a group."""
    groups: list[dict[str, EncodedColumn]] = []
    sizes: list[int] = []
    for name, column in sorted(columns.items(), key=lambda item: -item[1].encoding.size):
        column_size = max(2, column.encoding.size)  # NumPy has 64 dimensions, however small
        fitting = (number for number, size in enumerate(sizes) if size * column_size <= _MAX_COMBINATIONS)
        number = next(fitting, None)
        if number is None:
            groups.append({name: column})
            sizes.append(column_size)
        else:
            groups[number][name] = column
            sizes[number] *= column_size
    return groups
