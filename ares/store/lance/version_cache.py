"""Caches of what was computed from one version of a Lance table, and the positions of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from ares.deadline import check_deadline, limit_time, wait_for_lock

if TYPE_CHECKING:
    import lance
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


T = TypeVar("T")
_MAX_MASKS = 32


class VersionCache(Generic[T]):
    """Keeps what a function computes from a version of a table, for the version that was used last.

    Args:
        compute: The function.
    """

    def __init__(self, compute: Callable[[lance.LanceDataset], T]) -> None:
        self._compute = compute
        self._lock = Lock()
        self._entry: tuple[int, T] | None = None

    def get(self, dataset: lance.LanceDataset) -> T:
        """The result for this version."""
        version = int(dataset.version)
        # Concurrent threads wait for one computation instead of each doing its own; once begun it goes to its end.
        with wait_for_lock(self._lock), limit_time(None):
            if self._entry is None or self._entry[0] != version:
                self._entry = (version, self._compute(dataset))
            return self._entry[1]


class RowNumbering:
    """Positions of the rows of one version, from 0 to `size` - 1, in the order of their fragments.

    Deleted rows have positions too.

    Args:
        dataset: That version.
    """

    def __init__(self, dataset: lance.LanceDataset) -> None:
        import numpy as np

        rows = {fragment.fragment_id: int(fragment.physical_rows) for fragment in dataset.get_fragments()}
        self.size = sum(rows.values())
        self._starts = np.zeros(max(rows, default=0) + 1, np.int64)
        self._starts[list(rows)] = np.cumsum([0, *rows.values()])[:-1]

    def positions(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """(N,) positions of the rows of a batch, by its column `_rowaddr`."""
        import numpy as np

        # An address is the number of a fragment and that of a row in it, 32 bits each.
        addresses = batch["_rowaddr"].to_numpy().view(np.int64)
        positions: NDArray[np.int64] = self._starts[addresses >> 32] + (addresses & 0xFFFFFFFF)
        return positions

    def row_mask(self, batches: Iterable[pa.RecordBatch]) -> NDArray[np.bool_]:
        """(size,) whether the row at each position is in one of the batches."""
        import numpy as np

        row_mask = np.zeros(self.size, np.bool_)
        for batch in batches:
            check_deadline()
            row_mask[self.positions(batch)] = True
        return row_mask


def scan_positions(dataset: lance.LanceDataset) -> NDArray[np.int64]:
    """(N,) positions of the rows of a version in the order of a scan."""
    import numpy as np

    numbering = RowNumbering(dataset)
    scanner = dataset.scanner(columns=[], with_row_address=True, scan_in_order=True)
    parts = [numbering.positions(batch) for batch in scanner.to_batches()]
    return np.concatenate([np.zeros(0, np.int64), *parts])


class RowMaskCache:
    """Rows that the last filters matched, one bit for each row: a page uses one filter several times."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._masks: dict[tuple[int, str], tuple[int, NDArray[np.uint8]]] = {}

    def get(self, version: int, where: str) -> NDArray[np.bool_] | None:
        """(P,) whether the row at each position matches, or None when it is not cached."""
        import numpy as np

        with self._lock:
            if (version, where) not in self._masks:
                return None
            size, bits = self._masks[version, where] = self._masks.pop((version, where))
        return np.unpackbits(bits, count=size).view(np.bool_)

    def put(self, version: int, where: str, row_mask: NDArray[np.bool_]) -> None:
        """Keep the result of a filter, in place of the one that was used least recently."""
        import numpy as np

        bits = np.packbits(row_mask)
        with self._lock:
            self._masks[version, where] = len(row_mask), bits
            while len(self._masks) > _MAX_MASKS:
                del self._masks[next(iter(self._masks))]
