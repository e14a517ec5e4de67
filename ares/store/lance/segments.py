"""The segments table: one row per caption with its span, its text and its grade."""

from __future__ import annotations

from collections.abc import Collection
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

from ares.store.lance.fulltext import search_fulltext
from ares.store.lance.lance_api import lance_errors, plan_filter
from ares.store.lance.row_index import RowIndexCache
from ares.store.lance.schema import column_types
from ares.store.lance.table import LanceTable
from ares.store.lance.text_hashes import TextHashCache, TextHashes

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.table import Table


class SegmentHit(NamedTuple):
    """The caption of an episode that shares the most words with a query.

    Attributes:
        episode_id: The episode.
        start_seconds: Where its span begins.
        annotation_id: The caption.
        score: BM25.
    """

    episode_id: str
    start_seconds: float
    annotation_id: str
    score: float


class SegmentTable:
    """Captions and their grades, searchable by words.

    Args:
        lance_table: The Lance table "segments".
    """

    def __init__(self, lance_table: LanceTable) -> None:
        self._lance_table = lance_table
        self._row_indexes = RowIndexCache()
        self._text_hashes = TextHashCache("text", "start_seconds")

    @property
    def _table(self) -> Table:
        return self._lance_table.writer()

    def upsert(self, rows: pa.Table) -> None:
        """Write captions; an existing caption keeps the columns that `rows` does not have (its grade).

        Raises:
            StoreError: The table cannot be written.
        """
        with lance_errors("segments"):
            merge = self._table.merge_insert("annotation_id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(rows)

    def set_grades(self, rows: pa.Table) -> None:
        """Set the grades of existing captions: annotation_id and the columns of the grade.

        Raises:
            StoreError: The table cannot be written.
        """
        with lance_errors("segments"):
            self._table.merge_insert("annotation_id").when_matched_update_all().execute(rows)

    def count(self, where: str = "") -> int:
        """Number of captions that match a filter. Raises RequestError for an invalid one."""
        dataset = self._lance_table.dataset()
        condition = plan_filter(dataset, where, column_types(dataset.schema))
        with lance_errors("segments", where):
            return int(dataset.count_rows(condition))

    def read(self, where: str = "") -> pa.Table:
        """Captions that match a filter, by episode and time. Raises RequestError for an invalid one."""
        dataset = self._lance_table.dataset()
        condition = plan_filter(dataset, where, column_types(dataset.schema))
        with lance_errors("segments", where):
            captions = dataset.to_table(filter=condition)
        return captions.sort_by(
            [(name, "ascending") for name in ("episode_id", "start_seconds", "annotation_id")]
        )

    def text_hashes(self) -> TextHashes:
        """Hash of the text of every caption."""
        with lance_errors("segments"):
            dataset = self._lance_table.dataset()
            return self._text_hashes.get(dataset, self._row_indexes.get(dataset))

    def search_text(
        self, text: str, limit: int, episode_ids: Collection[str] | None = None
    ) -> list[SegmentHit]:
        """The best caption of each episode that shares words with a text, best first; ties by episode.

        Of the captions of an episode with equal scores it is the earliest, then the first by id.

        Args:
            text: Any text; nothing in it is an operator.
            limit: Maximum number of episodes.
            episode_ids: Only captions of these, or None for all.
        """
        with lance_errors("segments"):
            dataset = self._lance_table.dataset()
            row_index = self._row_indexes.get(dataset)
            matches = search_fulltext(dataset, row_index, "text", text, limit, episode_ids)
            if not len(matches):
                return []
            captions = dataset.take(matches["offset"].to_numpy(), columns=["start_seconds", "annotation_id"])
        best: dict[str, SegmentHit] = {}
        columns = (
            matches["episode_id"],
            captions["start_seconds"],
            captions["annotation_id"],
            matches["score"],
        )
        for hit in starmap(SegmentHit, zip(*(column.to_pylist() for column in columns), strict=True)):
            best[hit.episode_id] = min(hit, best.get(hit.episode_id, hit))
        return list(best.values())


def segment_schema() -> pa.Schema:
    """Columns of the segments table; without a verdict `acceptable`, `grade` and `score` are null."""
    import pyarrow as pa

    return pa.schema(
        [
            ("annotation_id", pa.string()),
            ("episode_id", pa.string()),
            ("start_seconds", pa.float64()),
            ("stop_seconds", pa.float64()),
            ("camera", pa.string()),
            ("text", pa.string()),
            ("maker_id", pa.string()),
            ("acceptable", pa.bool_()),
            ("grade", pa.string()),
            ("score", pa.float64()),
        ]
    )
