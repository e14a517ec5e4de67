"""TextTable: the vector of each different text that was said of episodes, in one embedding space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ares.errors import StoreError
from ares.store import filters

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store.tables import Tables

_TEXTS = "texts_"
_BATCH = 8_192


class TextTable:
    """Different texts with their vectors; a robot is told the same thousand times, so they are few.

    Args:
        tables: The tables of the workspace.
        space: Name of the embedding space.
    """

    def __init__(self, tables: Tables, space: str) -> None:
        self._tables = tables
        self._name = f"{_TEXTS}{space}"

    def missing(self) -> list[str]:
        """Captions and instructions that have no vector yet, each once."""
        import pyarrow.compute as pc

        known = self._column(self._name, "text")
        said = {text for text in self._said() if text.strip()}
        return sorted(said - set(pc.unique(known).to_pylist() if known is not None else ()))

    def add(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Write vectors (N, D) of texts that are not there yet. Raises StoreError."""
        import pyarrow as pa

        kind = pa.list_(pa.float32(), vectors.shape[1])
        schema = pa.schema([("text", pa.string()), ("vector", kind)])
        rows = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        table = self._tables.open(self._name, schema)
        if table.schema.field("vector").type != kind:
            raise StoreError(
                "vectors have another length", f"{self._name}: {table.schema.field('vector').type}"
            )
        with filters.failures(self._name):
            table.add(pa.Table.from_arrays([pa.array(texts, pa.string()), rows], schema=schema))

    def nearest(self, query: NDArray[np.float32]) -> Iterator[tuple[str, float]]:
        """All texts with their cosine similarity, best first, ties by text. Raises StoreError."""
        import numpy as np

        dataset = self._tables.dataset(self._name)
        if dataset is None:
            return
        texts: list[pa.Array] = []
        scores: list[NDArray[np.float32]] = []
        with filters.failures(self._name):
            for batch in dataset.scanner(columns=["text", "vector"], batch_size=_BATCH).to_batches():
                texts.append(batch["text"])
                matrix = batch["vector"].flatten().to_numpy().reshape(batch.num_rows, -1)
                scores.append(np.round(matrix @ query, 6))
        yield from _ordered(texts, scores)

    def _said(self) -> Iterator[str]:
        for table, column in (("episodes", "instruction"), ("segments", "text")):
            values = self._column(table, column)
            if values is not None:
                yield from (str(value) for value in values.to_pylist() if value is not None)

    def _column(self, table: str, column: str) -> pa.Array | None:
        """The different values of a column, gathered batch by batch."""
        import pyarrow as pa
        import pyarrow.compute as pc

        dataset = self._tables.dataset(table)
        if dataset is None:
            return None
        found = pa.array([], pa.string())
        with filters.failures(table):
            for batch in dataset.scanner(columns=[column]).to_batches():
                found = pc.unique(pa.concat_arrays([found, pc.unique(batch[column])]))
        return found


def _ordered(texts: Sequence[pa.Array], scores: Sequence[NDArray[np.float32]]) -> Iterator[tuple[str, float]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not texts:
        return
    rows = pa.table({"text": pa.chunked_array(texts), "score": pa.chunked_array(list(scores))})
    order = pc.sort_indices(rows, [("score", "descending"), ("text", "ascending")])
    for start in range(0, len(order), _BATCH):
        part = rows.take(order[start : start + _BATCH])
        yield from zip(part["text"].to_pylist(), part["score"].to_pylist(), strict=True)
