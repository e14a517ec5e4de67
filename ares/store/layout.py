"""Layout: a number for every row of one version of a table, that of deleted rows too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import lance
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


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
