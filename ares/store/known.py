"""Known: the different texts of one version of a text table, numbered, and the best of them for a vector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from ares.store.nearest import FEW, Nearest, matrix
from ares.store.rows import Chosen
from ares.store.told import hashes

if TYPE_CHECKING:
    import lance
    import numpy as np
    from numpy.typing import NDArray

# Texts asked for at first, and how many times more when they were not enough.
_FIRST, _GROWTH = 256, 4
# So many vectors of texts stay in memory, 32 MB of 512 numbers each: to read them takes longer than to compare.
_HELD = 16_384
# Tables whose rows are known by the numbers of their texts: captions and instructions.
_TABLES = 2


class Numbers:
    """What tells texts apart: sixteen bytes for each.

    Args:
        dataset: One version of a text table.
    """

    def __init__(self, dataset: lance.LanceDataset) -> None:
        self.hashes = hashes(dataset, "text")
        self.row_ids: NDArray[np.uint64] = (
            dataset.scanner(columns=[], with_row_id=True, scan_in_order=True).to_table()["_rowid"].to_numpy()
        )
        self._dataset = dataset
        self._lock = Lock()
        self._known: list[tuple[NDArray[np.uint64], NDArray[np.int32]]] = []

    def of(self, texts: NDArray[np.uint64]) -> NDArray[np.int32]:
        """(N,) the number of the text of each row of a table, -1 without one; remembered, as no version changes.

        Args:
            texts: (N,) hashes of the texts of a table.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        with self._lock:
            for asked, known in self._known:
                if asked is texts:
                    return known
            found = pc.index_in(pa.array(texts), value_set=pa.array(self.hashes)).fill_null(-1)
            numbers: NDArray[np.int32] = found.to_numpy(zero_copy_only=False).astype(np.int32)
            self._known = [*self._known, (texts, numbers)][-_TABLES:]
            return numbers

    def at(self, row_ids: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The numbers of the texts in some rows."""
        import numpy as np

        order, ids = self._by_row
        return order[np.searchsorted(ids, row_ids)]

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """(T, D) unit vectors of all texts; only asked of few."""
        import numpy as np

        batches = self._dataset.scanner(columns=["vector"], scan_in_order=True).to_batches()
        found = np.concatenate([matrix(batch["vector"]) for batch in batches])
        unit: NDArray[np.float32] = found / np.linalg.norm(found, axis=1, keepdims=True)
        return unit

    @cached_property
    def _by_row(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        import numpy as np

        order = np.argsort(self.row_ids, kind="stable")
        return order, self.row_ids[order]


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """One version of a text table.

    Attributes:
        near: Searches its vectors.
        numbers: Tells its texts apart.
    """

    near: Nearest
    numbers: Numbers

    def ranked(
        self, query: NDArray[np.float32], said: NDArray[np.bool_]
    ) -> Iterator[tuple[float, NDArray[np.int64]]]:
        """Texts from the best on: a cosine similarity to six digits and the numbers of all texts that have it.

        Args:
            query: (D,) float32.
            said: (T,) whether a text is wanted.
        """
        import numpy as np

        if len(said) <= _HELD and not self.near.segments:
            yield from self._compared(query, said)
            return
        left, total = said.copy(), int(said.sum())
        # So few are all looked at anyway.
        count = total if total <= FEW else _FIRST
        chosen = None if total == len(said) else Chosen(self.numbers.row_ids[said], np.flatnonzero(said))
        asked = self.near.asked(chosen)
        while total:
            found = self.near.best(query, min(count, total), chosen, asked)
            whole = len(found) < min(count, total) or count >= total
            scores, numbers = found["score"].to_numpy(), self.numbers.at(found["_rowid"].to_numpy())
            # Equal to the last there may be more.
            fresh = left[numbers] & (whole | (scores > scores[-1]))
            scores, numbers = scores[fresh], numbers[fresh]
            left[numbers] = False
            for start, stop in _spans(scores):
                yield float(scores[start]), numbers[start:stop]
            if whole:
                return
            count *= _GROWTH

    def _compared(
        self, query: NDArray[np.float32], said: NDArray[np.bool_]
    ) -> Iterator[tuple[float, NDArray[np.int64]]]:
        """The same, each text compared in memory."""
        import numpy as np

        unit = query / np.linalg.norm(query)
        # Of all texts, whatever the filter, which must not change the last digit of a score; and not by BLAS, whose
        # threads wait for each other while the other parts of a search need the cores.
        scores = np.einsum("td,d->t", self.numbers.vectors, unit).astype(np.float64)
        numbers = np.flatnonzero(said)
        numbers = numbers[np.argsort(-np.round(scores[numbers], 6), kind="stable")]
        ranked = np.round(scores[numbers], 6)
        for start, stop in _spans(ranked):
            yield float(ranked[start]), numbers[start:stop]


def _spans(scores: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Where equal scores begin and end."""
    import numpy as np

    ends = np.flatnonzero(np.diff(scores, append=np.nan)) + 1
    starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    return zip(starts.tolist(), ends.tolist(), strict=True)
