"""Column values as small integer codes, and counts of codes decoded into counts of values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


TOP_VALUES = 50
# Codes have two bytes, and one code stands for a missing value.
_MAX_VALUES = 2**16 - 1
# The distinct texts stay in memory.
_MAX_BYTES = 16 * 2**20
# List items encoded one by one, per episode on average.
_MAX_ITEMS = 16


class TooManyValues(Exception):
    """A column has more distinct values than there are codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetCounts:
    """Counts of the values of one column; for the fields see `Facet`."""

    counts: tuple[tuple[str | bool, int], ...] = ()
    distinct: int = 0
    histogram: tuple[int, ...] = ()
    below: int = 0
    above: int = 0
    unreal: int = 0
    missing: int = 0


class CategoricalEncoding:
    """Codes of texts or bools: 0 is missing, code i + 1 stands for `values[i]`, in order of first occurrence.

    Args:
        value_type: Arrow type of the values.
    """

    def __init__(self, value_type: pa.DataType) -> None:
        import pyarrow as pa

        self.values: pa.Array = pa.array([], value_type)

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.values) + 1

    def encode(self, values: pa.Array) -> NDArray[np.int32]:
        """Codes (N,) of N values; new values get new codes. Raises TooManyValues."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        positions = pc.index_in(values, value_set=self.values)
        if positions.null_count > values.null_count:
            new = values.filter(pc.and_(positions.is_null(), values.is_valid())).unique()
            if len(self.values) + len(new) > _MAX_VALUES or self.values.nbytes + new.nbytes > _MAX_BYTES:
                raise TooManyValues
            self.values = pa.concat_arrays([self.values, new])
            positions = pc.index_in(values, value_set=self.values)
        codes: NDArray[np.int32] = positions.fill_null(-1).to_numpy() + np.int32(1)
        return codes

    def decode_counts(self, counts: NDArray[np.int64]) -> FacetCounts:
        """Turn counts per code, (size,), into counts per value, most frequent first."""
        return self.most_frequent(counts[1:], int(counts[0]))

    def most_frequent(self, counts: NDArray[np.int64], missing: int) -> FacetCounts:
        """The most frequent values, equal counts in order of the values.

        Args:
            counts: (size - 1,) occurrences of each value.
            missing: Number of episodes without a value.
        """
        import numpy as np

        top = np.lexsort((self._ranks, -counts))[:TOP_VALUES]
        top = top[counts[top] > 0]
        pairs = zip(self.values.take(top).to_pylist(), counts[top].tolist(), strict=True)
        return FacetCounts(counts=tuple(pairs), distinct=int(np.count_nonzero(counts)), missing=missing)

    @cached_property
    def _ranks(self) -> NDArray[np.int64]:
        """Sort rank (size - 1,) of each value; computed once all values are encoded."""
        import numpy as np
        import pyarrow.compute as pc

        order = pc.sort_indices(self.values.cast("string")).to_numpy()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks


class ListEncoding:
    """Codes of lists of texts: 0 is missing, other codes stand for whole lists; the items of the lists are counted."""

    def __init__(self) -> None:
        import pyarrow as pa

        self._lists, self._items = CategoricalEncoding(pa.binary()), CategoricalEncoding(pa.string())

    @property
    def size(self) -> int:
        """Number of codes."""
        return self._lists.size

    def encode(self, values: pa.Array) -> NDArray[np.int32]:
        """Codes (N,) of N lists; new lists get new codes. Raises TooManyValues."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        items = self._items.encode(values.flatten())
        lengths = pc.list_value_length(values).fill_null(0).to_numpy()
        ends = np.concatenate(([0], np.cumsum(lengths))) * items.itemsize
        # The codes of its items one after another make a list a byte string, which Arrow can look up.
        buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(items)]
        keys = pa.Array.from_buffers(pa.binary(), len(values), buffers)
        return self._lists.encode(pc.if_else(values.is_valid(), keys, pa.scalar(None, pa.binary())))

    def decode_counts(self, counts: NDArray[np.int64]) -> FacetCounts:
        """Turn counts per code, (size,), into counts per item: an item counts once for each list that contains it."""
        import numpy as np

        lists, items = self._list_items
        item_counts = np.bincount(items, weights=counts[1:][lists], minlength=self._items.size)
        # Item code 0 is a missing item.
        return self._items.most_frequent(item_counts[1:].astype(np.int64), int(counts[0]))

    @cached_property
    def _list_items(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Distinct pairs of a list and an item in it, as two arrays; computed once all lists are encoded."""
        import numpy as np

        keys = self._lists.values.to_pylist()
        items = np.frombuffer(b"".join(keys), np.int32).astype(np.int64)
        lists = np.repeat(np.arange(len(keys)), [len(key) // 4 for key in keys])
        pairs = np.unique(lists * self._items.size + items)
        return pairs // self._items.size, pairs % self._items.size


class ListItemEncoding:
    """The items of lists, for a column in which nearly every episode has a different list; each item once per list.

    Args:
        size: Number of rows N.
    """

    def __init__(self, size: int) -> None:
        import numpy as np
        import pyarrow as pa

        self._encoding = CategoricalEncoding(pa.string())
        self._lengths = np.zeros(size, np.uint16)
        self._missing = np.zeros(size, np.bool_)
        self._batches: list[NDArray[np.uint16]] = []
        self._remaining_items = _MAX_ITEMS * (size + 1)

    def add(self, values: pa.Array, offsets: NDArray[np.int64] | NDArray[np.int32]) -> None:
        """Add the lists of further rows, at higher offsets of a scan than all before. Raises TooManyValues."""
        import numpy as np
        import pyarrow.compute as pc

        codes = self._encoding.encode(values.flatten()).astype(np.int64)
        lengths = pc.list_value_length(values).fill_null(0).to_numpy()
        pairs = np.unique(np.repeat(np.arange(len(values)), lengths) << 16 | codes)
        lengths = np.bincount(pairs >> 16, minlength=len(values))
        self._remaining_items -= len(pairs)
        if self._remaining_items < 0:
            raise TooManyValues
        self._batches.append((pairs & 0xFFFF).astype(np.uint16))
        self._lengths[offsets] = lengths
        self._missing[offsets] = values.is_null().to_numpy(zero_copy_only=False)

    def count(self, row_mask: NDArray[np.bool_] | None) -> FacetCounts:
        """Count the items in the lists of masked rows, (N,), or of all rows for None."""
        import numpy as np

        items = self._items
        if row_mask is not None:
            items = items[np.repeat(row_mask, self._lengths)]
        counts = np.bincount(items, minlength=self._encoding.size)
        missing = self._missing if row_mask is None else self._missing & row_mask
        # Item code 0 is a missing item.
        return self._encoding.most_frequent(counts[1:], int(np.count_nonzero(missing)))

    @cached_property
    def _items(self) -> NDArray[np.uint16]:
        """Item codes of all rows, row after row."""
        import numpy as np

        joined = np.concatenate([np.zeros(0, np.uint16), *self._batches])
        self._batches.clear()
        return joined


class BinnedEncoding:
    """Codes of numbers: 0 is below the bins, 1 to B are the bins, then above the bins, not finite, and missing.

    Args:
        edges: Edges of the bins, length B + 1; () for a column without finite values, whose B is 0.
    """

    def __init__(self, edges: tuple[float, ...]) -> None:
        import numpy as np

        self.edges = edges
        self._bin_count = max(0, len(edges) - 1)
        self._edges = np.array(edges)
        # The last bin includes its upper edge; after the largest float comes infinity, which no finite value reaches.
        with np.errstate(over="ignore"):
            self._edges[-1:] = np.nextafter(self._edges[-1:], np.inf)

    @property
    def size(self) -> int:
        """Number of codes."""
        return self._bin_count + 4

    def encode(self, values: pa.Array) -> NDArray[np.int64]:
        """Codes (N,) of N values."""
        import numpy as np

        numbers = to_float64(values)
        codes: NDArray[np.int64] = np.searchsorted(self._edges, numbers, side="right")
        codes[~np.isfinite(numbers)] = self._bin_count + 2
        if values.null_count:
            codes[values.is_null().to_numpy(zero_copy_only=False)] = self._bin_count + 3
        return codes

    def decode_counts(self, counts: NDArray[np.int64]) -> FacetCounts:
        """Turn counts per code, (size,), into a histogram."""
        below, *histogram, above, unreal, missing = counts.tolist()
        return FacetCounts(
            histogram=tuple(histogram), below=below, above=above, unreal=unreal, missing=missing
        )


def to_float64(values: pa.Array) -> NDArray[np.float64]:
    """Numbers, or times as seconds since 1970, as (N,) float64; NaN for a missing value."""
    import pyarrow as pa

    if pa.types.is_timestamp(values.type):
        return to_float64(values.cast(pa.timestamp("us", values.type.tz)).cast("int64")) / 1e6
    numbers: Any = values.cast("float64", safe=False).to_numpy(zero_copy_only=False)
    return numbers  # type: ignore[no-any-return]
