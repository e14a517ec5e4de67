"""Integer ids of the distinct texts of one text table version, and their ranking by similarity to a vector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from ares.store.lance.row_index import RowSelection
from ares.store.lance.text import hash_texts
from ares.store.vectors.knn import BRUTE_FORCE_ROWS, VectorSnapshot, to_matrix

if TYPE_CHECKING:
    import lance
    import numpy as np
    from numpy.typing import NDArray


# Texts requested at first, and the factor by which that grows until enough were read.
_FIRST_COUNT, _GROWTH = 256, 4
# Up to this many text vectors are cached, 32 MB at 512 dimensions: reading them takes longer than comparing.
_MAX_CACHED_VECTORS = 16_384
# Tables whose text ids are cached: captions and instructions.
_MAX_CACHED_TABLES = 2


class TextIds:
    """Maps text hashes and row ids to text ids; a text id is the offset of the text in a scan, from 0 to T - 1.

    Args:
        dataset: One version of a text table, with T texts; 16 bytes per text stay in memory.
    """

    def __init__(self, dataset: lance.LanceDataset) -> None:
        self.hashes = hash_texts(dataset, "text")
        self.row_ids: NDArray[np.uint64] = (
            dataset.scanner(columns=[], with_row_id=True, scan_in_order=True).to_table()["_rowid"].to_numpy()
        )
        self._dataset = dataset
        self._lock = Lock()
        self._cache: list[tuple[NDArray[np.uint64], NDArray[np.int32]]] = []

    def ids_of(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Text ids (N,) of the rows of another table, -1 for a text without a vector.

        Args:
            hashes: (N,) text hashes of those rows. The ids are cached by the identity of this array, which the table
                keeps for each of its versions.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        with self._lock:
            for cached_hashes, cached_ids in self._cache:
                if cached_hashes is hashes:
                    return cached_ids
            positions = pc.index_in(pa.array(hashes), value_set=pa.array(self.hashes)).fill_null(-1)
            ids: NDArray[np.int32] = positions.to_numpy(zero_copy_only=False).astype(np.int32)
            self._cache = [*self._cache, (hashes, ids)][-_MAX_CACHED_TABLES:]
            return ids

    def ids_at_rows(self, row_ids: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Text ids of the rows with these Lance row ids."""
        import numpy as np

        order, sorted_row_ids = self._sorted_row_ids
        return order[np.searchsorted(sorted_row_ids, row_ids)]

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """Unit vectors (T, D) of all texts; only read for tables of few texts."""
        import numpy as np

        batches = self._dataset.scanner(columns=["vector"], scan_in_order=True).to_batches()
        vectors = np.concatenate([to_matrix(batch["vector"]) for batch in batches])
        unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    @cached_property
    def _sorted_row_ids(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        import numpy as np

        order = np.argsort(self.row_ids, kind="stable")
        return order, self.row_ids[order]


@dataclass(frozen=True, slots=True, eq=False)
class TextSnapshot:
    """One version of a text table.

    Attributes:
        vectors: Searches the vectors of the texts.
        text_ids: Ids of the texts.
    """

    vectors: VectorSnapshot
    text_ids: TextIds

    def rank(
        self, query: NDArray[np.float32], text_mask: NDArray[np.bool_]
    ) -> Iterator[tuple[float, NDArray[np.int64]]]:
        """Texts by falling similarity: a cosine similarity to six digits, and the ids of all texts that have it.

        Args:
            query: (D,) float32.
            text_mask: (T,) whether a text takes part.
        """
        import numpy as np

        if len(text_mask) <= _MAX_CACHED_VECTORS and not self.vectors.segments:
            yield from self._rank_in_memory(query, text_mask)
            return
        remaining, total = text_mask.copy(), int(text_mask.sum())
        # So few texts are all compared anyway.
        count = total if total <= BRUTE_FORCE_ROWS else _FIRST_COUNT
        rows = None
        if total != len(text_mask):
            rows = RowSelection(self.text_ids.row_ids[text_mask], np.flatnonzero(text_mask))
        params = self.vectors.params_for(rows)
        while total:
            neighbours = self.vectors.search(query, min(count, total), rows, params)
            is_last = len(neighbours) < min(count, total) or count >= total
            scores, ids = (
                neighbours["score"].to_numpy(),
                self.text_ids.ids_at_rows(neighbours["_rowid"].to_numpy()),
            )
            # More texts may share the lowest score: they come with the next request.
            is_new = remaining[ids] & (is_last | (scores > scores[-1]))
            scores, ids = scores[is_new], ids[is_new]
            remaining[ids] = False
            for start, stop in _tie_ranges(scores):
                yield float(scores[start]), ids[start:stop]
            if is_last:
                return
            count *= _GROWTH

    def score_all(self, query: NDArray[np.float32]) -> NDArray[np.float64]:
        """Cosine similarity (T,) of every text with a vector (D,), to six digits."""
        import numpy as np

        if len(self.text_ids.row_ids) > _MAX_CACHED_VECTORS:
            return np.round(self.vectors.score_all(query), 6)
        unit = query / np.linalg.norm(query)
        scores: NDArray[np.float64] = np.einsum("td,d->t", self.text_ids.vectors, unit).astype(np.float64)
        return np.round(scores, 6)

    def _rank_in_memory(
        self, query: NDArray[np.float32], text_mask: NDArray[np.bool_]
    ) -> Iterator[tuple[float, NDArray[np.int64]]]:
        """The result of `rank` by comparing every cached vector."""
        import numpy as np

        unit = query / np.linalg.norm(query)
        # All texts are scored whatever the mask, so that a filter cannot change the last digit of a score. And not by
        # BLAS, whose threads block each other while the other rankers of a search need the cores.
        scores = np.einsum("td,d->t", self.text_ids.vectors, unit).astype(np.float64)
        ids = np.flatnonzero(text_mask)
        ids = ids[np.argsort(-np.round(scores[ids], 6), kind="stable")]
        rounded = np.round(scores[ids], 6)
        for start, stop in _tie_ranges(rounded):
            yield float(rounded[start]), ids[start:stop]


def _tie_ranges(scores: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Half-open ranges [start, stop) of equal scores in a sorted array."""
    import numpy as np

    ends = np.flatnonzero(np.diff(scores, append=np.nan)) + 1
    starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    return zip(starts.tolist(), ends.tolist(), strict=True)
