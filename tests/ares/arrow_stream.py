"""Frames and columns of a library that ARES does not know, by the Arrow C stream interface that Polars has, too."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


class Stream:
    """A frame, or a column, of a library that ARES does not know: it has the Arrow C stream interface, as Polars."""

    def __init__(self, data: pa.Table | pa.ChunkedArray) -> None:
        self._data = data
        if isinstance(data, pa.ChunkedArray):
            self.dtype = data.type

    def __len__(self) -> int:
        return len(self._data)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._data.__arrow_c_stream__(requested_schema)


def frame_of(view: Any, **columns: Any) -> Stream:
    """A frame with the ids of a view, its texts as views, as those of Polars are."""
    texts = pa.array(list(view.ids()), pa.string()).cast(pa.string_view())
    return Stream(pa.table({"episode_id": texts, **columns}))
