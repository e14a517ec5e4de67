"""Layout: a number for every row of one version of a table, that of deleted rows too, and which rows a filter left."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import lance
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_MOST_FILTERS = 32


class Layout:
    """The places of rows, from 0 to `size` - 1, in the order of the fragments that hold them.

    Args:
        dataset: That version.
    """

    def __init__(self, dataset: lance.LanceDataset) -> None:
        import numpy as np

        rows = {one.fragment_id: int(one.physical_rows) for one in dataset.get_fragments()}
        self.size = sum(rows.values())
        self._starts = np.zeros(max(rows, default=0) + 1, np.int64)
        self._starts[list(rows)] = np.cumsum([0, *rows.values()])[:-1]

    def places(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Where the rows of a batch lie, by its column `_rowaddr`."""
        import numpy as np

        # An address is the number of a fragment and that of a row in it, 32 bits each.
        addresses = batch["_rowaddr"].to_numpy().view(np.int64)
        places: NDArray[np.int64] = self._starts[addresses >> 32] + (addresses & 0xFFFFFFFF)
        return places

    def marks(self, batches: Iterable[pa.RecordBatch]) -> NDArray[np.bool_]:
        """(size,) whether the row at each place is in one of the batches."""
        import numpy as np

        marks = np.zeros(self.size, np.bool_)
        for batch in batches:
            marks[self.places(batch)] = True
        return marks


class Marks:
    """Which rows the last filters left, a bit for each row: a page asks several things of the same filter."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[tuple[int, str], tuple[int, NDArray[np.uint8]]] = {}

    def get(self, version: int, where: str) -> NDArray[np.bool_] | None:
        """(P,) whether the row at each place is left, or None when that is not known."""
        import numpy as np

        with self._lock:
            if (version, where) not in self._kept:
                return None
            size, bits = self._kept[version, where] = self._kept.pop((version, where))
        return np.unpackbits(bits, count=size).view(np.bool_)

    def put(self, version: int, where: str, marks: NDArray[np.bool_]) -> None:
        """Keep what a filter left, in place of the one that was not asked for longest."""
        import numpy as np

        bits = np.packbits(marks)
        with self._lock:
            self._kept[version, where] = len(marks), bits
            while len(self._kept) > _MOST_FILTERS:
                del self._kept[next(iter(self._kept))]
