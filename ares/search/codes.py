"""Codes: the values of a column as small numbers, and what it means how often each of them was counted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

TOP_VALUES = 50
# Codes of two bytes, one of them for no value; and of long texts no more than this, for they stay in memory.
_MOST_VALUES = 2**16 - 1
_MOST_BYTES = 16 * 2**20
# Items of lists that are kept one by one, for each episode on average.
_MOST_ITEMS = 16


class TooManyValues(Exception):
    """A column has more different values than there are codes for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted of one column; see `ares.search.facets.Facet`."""

    values: tuple[tuple[str | bool, int], ...] = ()
    distinct: int = 0
    histogram: tuple[int, ...] = ()
    below: int = 0
    above: int = 0
    unreal: int = 0
    missing: int = 0


class Words:
    """Codes of texts or bools: 0 is no value, the others stand for the values in the order in which they were met.

    Args:
        kind: Their Arrow type.
    """

    def __init__(self, kind: pa.DataType) -> None:
        import pyarrow as pa

        self.values: pa.Array = pa.array([], kind)

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.values) + 1

    def encode(self, values: pa.Array) -> NDArray[np.int32]:
        """The codes of some values; those not met before get new ones. Raises TooManyValues."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pc.index_in(values, value_set=self.values)
        if found.null_count > values.null_count:
            new = values.filter(pc.and_(found.is_null(), values.is_valid())).unique()
            if len(self.values) + len(new) > _MOST_VALUES or self.values.nbytes + new.nbytes > _MOST_BYTES:
                raise TooManyValues
            self.values = pa.concat_arrays([self.values, new])
            found = pc.index_in(values, value_set=self.values)
        codes: NDArray[np.int32] = found.fill_null(-1).to_numpy() + np.int32(1)
        return codes

    def counted(self, numbers: NDArray[np.int64]) -> Counted:
        """What it means that each code was counted so often. Args: (size,) int64."""
        return self.ranked(numbers[1:], int(numbers[0]))

    def ranked(self, numbers: NDArray[np.int64], missing: int) -> Counted:
        """The most frequent values, ties in their order. Args: (size - 1,) int64, and episodes without a value."""
        import numpy as np

        best = np.lexsort((self._ranks, -numbers))[:TOP_VALUES]
        best = best[numbers[best] > 0]
        pairs = zip(self.values.take(best).to_pylist(), numbers[best].tolist(), strict=True)
        return Counted(values=tuple(pairs), distinct=int(np.count_nonzero(numbers)), missing=missing)

    @cached_property
    def _ranks(self) -> NDArray[np.int64]:
        """(size - 1,) the place of each value in their order, once all have been met."""
        import numpy as np
        import pyarrow.compute as pc

        order = pc.sort_indices(self.values.cast("string")).to_numpy()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks


class Lists:
    """Codes of lists of texts: 0 is no list, the others stand for whole lists; what is counted are their items."""

    def __init__(self) -> None:
        import pyarrow as pa

        self._lists, self._items = Words(pa.binary()), Words(pa.string())

    @property
    def size(self) -> int:
        """Number of codes."""
        return self._lists.size

    def encode(self, values: pa.Array) -> NDArray[np.int32]:
        """The codes of some lists; those not met before get new ones. Raises TooManyValues."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        items = self._items.encode(values.flatten())
        lengths = pc.list_value_length(values).fill_null(0).to_numpy()
        ends = np.concatenate(([0], np.cumsum(lengths))) * items.itemsize
        # The codes of its items, one after the other, are a list as bytes, which Arrow can look up.
        buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(items)]
        written = pa.Array.from_buffers(pa.binary(), len(values), buffers)
        return self._lists.encode(pc.if_else(values.is_valid(), written, pa.scalar(None, pa.binary())))

    def counted(self, numbers: NDArray[np.int64]) -> Counted:
        """What it means that each code was counted so often: an item counts once for each list that has it."""
        import numpy as np

        lists, items = self._pairs
        found = np.bincount(items, weights=numbers[1:][lists], minlength=self._items.size)
        # Item 0 is an item that is no text.
        return self._items.ranked(found[1:].astype(np.int64), int(numbers[0]))

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which list has which item, each pair once, once all have been met."""
        import numpy as np

        written = self._lists.values.to_pylist()
        items = np.frombuffer(b"".join(written), np.int32).astype(np.int64)
        lists = np.repeat(np.arange(len(written)), [len(one) // 4 for one in written])
        pairs = np.unique(lists * self._items.size + items)
        return pairs // self._items.size, pairs % self._items.size


class Items:
    """The items of lists of which nearly every episode has its own, as codes of texts, each once for each list.

    Args:
        size: Number of places of rows, P; see `ares.store.layout`.
    """

    def __init__(self, size: int) -> None:
        import numpy as np
        import pyarrow as pa

        self._words = Words(pa.string())
        self._lengths = np.zeros(size, np.uint16)
        self._missing = np.zeros(size, np.bool_)
        self._parts: list[NDArray[np.uint16]] = []
        self._room = _MOST_ITEMS * (size + 1)

    def add(self, values: pa.Array, places: NDArray[np.int64]) -> None:
        """Add lists, of rows that lie behind those added before. Raises TooManyValues."""
        import numpy as np
        import pyarrow.compute as pc

        codes = self._words.encode(values.flatten()).astype(np.int64)
        lengths = pc.list_value_length(values).fill_null(0).to_numpy()
        pairs = np.unique(np.repeat(np.arange(len(values)), lengths) << 16 | codes)
        lengths = np.bincount(pairs >> 16, minlength=len(values))
        self._room -= len(pairs)
        if self._room < 0:
            raise TooManyValues
        self._parts.append((pairs & 0xFFFF).astype(np.uint16))
        self._lengths[places] = lengths
        self._missing[places] = values.is_null().to_numpy(zero_copy_only=False)

    def counted(self, rows: NDArray[np.bool_] | None) -> Counted:
        """What is in the lists of some rows. Args: (P,) whether a row counts; None for all."""
        import numpy as np

        items = self._items
        if rows is not None:
            items = items[np.repeat(rows, self._lengths)]
        numbers = np.bincount(items, minlength=self._words.size)
        missing = self._missing if rows is None else self._missing & rows
        # Item 0 is an item that is no text.
        return self._words.ranked(numbers[1:], int(np.count_nonzero(missing)))

    @cached_property
    def _items(self) -> NDArray[np.uint16]:
        """The items of all rows, one row after the other."""
        import numpy as np

        joined = np.concatenate([np.zeros(0, np.uint16), *self._parts])
        self._parts.clear()
        return joined


class Bars:
    """Codes of numbers: 0 is below the bins, 1 to B are they, then come above, not finite, and no value.

    Args:
        edges: Of the bins, length B + 1; none for a column without finite values, whose B is 0.
    """

    def __init__(self, edges: tuple[float, ...]) -> None:
        import numpy as np

        self.edges = edges
        self._count = max(0, len(edges) - 1)
        self._edges = np.array(edges)
        # The last bin holds its upper edge too.
        self._edges[-1:] = np.nextafter(self._edges[-1:], np.inf)

    @property
    def size(self) -> int:
        """Number of codes."""
        return self._count + 4

    def encode(self, values: pa.Array) -> NDArray[np.int64]:
        """The codes of some values."""
        import numpy as np

        real = numbers(values)
        codes: NDArray[np.int64] = np.searchsorted(self._edges, real, side="right")
        codes[~np.isfinite(real)] = self._count + 2
        if values.null_count:
            codes[values.is_null().to_numpy(zero_copy_only=False)] = self._count + 3
        return codes

    def counted(self, numbers: NDArray[np.int64]) -> Counted:
        """What it means that each code was counted so often. Args: (size,) int64."""
        below, *histogram, above, unreal, missing = numbers.tolist()
        return Counted(histogram=tuple(histogram), below=below, above=above, unreal=unreal, missing=missing)


def numbers(values: pa.Array) -> NDArray[np.float64]:
    """Numbers or times as float64, times as seconds since 1970; NaN for no value."""
    import pyarrow as pa

    if pa.types.is_timestamp(values.type):
        return numbers(values.cast(pa.timestamp("us", values.type.tz)).cast("int64")) / 1e6
    real: Any = values.cast("float64", safe=False).to_numpy(zero_copy_only=False)
    return real  # type: ignore[no-any-return]
