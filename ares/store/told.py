"""Told: what was said in each row of a table, as numbers that are equal where the texts are equal."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.store.newest import Newest
from ares.store.rows import Places, Rows

if TYPE_CHECKING:
    import lance
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """One version of a table whose rows say something of episodes.

    Attributes:
        dataset: That version.
        rows: Where the rows of each episode lie.
        texts: (N,) uint64 hash of the text of each row, in the order of a scan.
        second: Column of the second that a text is said of; "" for texts of whole episodes.
    """

    dataset: lance.LanceDataset
    rows: Rows
    texts: NDArray[np.uint64]
    second: str

    def kept(self, episode_ids: Collection[str] | None) -> NDArray[np.int64] | slice:
        """Places of the rows of some episodes in the order of a scan; all for None."""
        return slice(None) if episode_ids is None else self.rows.of(episode_ids).offsets

    def seconds(self, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        """The seconds of some rows."""
        import numpy as np

        if not self.second or not len(offsets):
            return np.zeros(len(offsets))
        found: NDArray[np.float64] = self.dataset.take(offsets, columns=[self.second])[self.second].to_numpy()
        return found


class Telling:
    """What a table says in its newest version: eight bytes a row, and what tells the rows of each episode.

    Args:
        places: Where the rows of each episode lie.
        text: Column of the texts.
        second: Column of the second that they are said of, or "".
    """

    def __init__(self, places: Places, text: str, second: str = "") -> None:
        self._places = places
        self._second = second
        self._hashes = Newest(lambda dataset: hashes(dataset, text))

    def of(self, dataset: lance.LanceDataset) -> Told:
        """What is said in this very version."""
        return Told(dataset, self._places.rows(dataset), self._hashes.of(dataset), self._second)


def hashes(dataset: lance.LanceDataset, column: str) -> NDArray[np.uint64]:
    """(N,) a number for the text of each row, in the order of a scan: no two of a million texts share one by chance."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("told", dataset.scanner(columns=[column], scan_in_order=True).to_reader())
        found: NDArray[np.uint64] = connection.sql(f'SELECT hash("{column}") AS text FROM told').fetchnumpy()[
            "text"
        ]
        return found
