"""Tables of frame and text vectors, searched exactly or by a measured index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.store.vectors.embedding_space import (
        EmbeddingSpace,
        Encoder,
        StorableTextEncoder,
        TextEncoder,
    )
    from ares.store.vectors.frame_table import Moment, VectorFragments, VectorTable
    from ares.store.vectors.maintenance import FLAT_ROWS, unindexed_rows
    from ares.store.vectors.query_vectors import QueryVectors
    from ares.store.vectors.snapshots import VectorTableState
    from ares.store.vectors.text_ids import TextIds
    from ares.store.vectors.text_table import TextColumn, TextTable

__all__ = [
    "FLAT_ROWS",
    "EmbeddingSpace",
    "Encoder",
    "Moment",
    "QueryVectors",
    "StorableTextEncoder",
    "TextColumn",
    "TextEncoder",
    "TextIds",
    "TextTable",
    "VectorFragments",
    "VectorTable",
    "VectorTableState",
    "unindexed_rows",
]

__getattr__ = lazy_exports(__name__)
