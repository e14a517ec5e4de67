"""64-bit hashes of a text column, for every row of one version of a table: equal where the texts are equal."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.store.lance.row_index import RowIndex
from ares.store.lance.snapshot import VersionCache

if TYPE_CHECKING:
    import lance
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class TextHashes:
    """Hashes of the texts of one version of a table.

    Attributes:
        dataset: That version.
        row_index: Rows of each episode.
        hashes: (N,) uint64 hash of the text of each row, in the order of a scan.
        second_column: Column of the second that a text describes; "" for texts of whole episodes.
    """

    dataset: lance.LanceDataset
    row_index: RowIndex
    hashes: NDArray[np.uint64]
    second_column: str

    def row_offsets(self, episode_ids: Collection[str] | None) -> NDArray[np.int64] | slice:
        """Scan offsets, int64 (N,), of the rows of some episodes; None means every row."""
        return slice(None) if episode_ids is None else self.row_index.select(episode_ids).offsets

    def seconds(self, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        """(N,) seconds that the rows at (N,) scan offsets describe; 0 for texts of whole episodes."""
        import numpy as np

        if not self.second_column or not len(offsets):
            return np.zeros(len(offsets))
        rows = self.dataset.take(offsets, columns=[self.second_column])
        seconds: NDArray[np.float64] = rows[self.second_column].to_numpy()
        return seconds


class TextHashCache:
    """The hashes of the newest version of a table, eight bytes a row.

    Args:
        text_column: Column of the texts.
        second_column: Column of the second that they describe, or "".
    """

    def __init__(self, text_column: str, second_column: str = "") -> None:
        self._second_column = second_column
        self._cache = VersionCache(lambda dataset: hash_texts(dataset, text_column))

    def get(self, dataset: lance.LanceDataset, row_index: RowIndex) -> TextHashes:
        """Hashes of one version. Args: the version, and its rows by episode."""
        return TextHashes(dataset, row_index, self._cache.get(dataset), self._second_column)


def hash_texts(dataset: lance.LanceDataset, column: str) -> NDArray[np.uint64]:
    """(N,) hash of the text of each row, in the order of a scan: a million texts have no collision by chance."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("texts", dataset.scanner(columns=[column], scan_in_order=True).to_reader())
        rows = connection.sql(f'SELECT hash("{column}") AS text_hash FROM texts').fetchnumpy()
        hashes: NDArray[np.uint64] = rows["text_hash"]
        return hashes
