"""SegmentTable: one row per caption with its span, its words and its grade."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ares.store import filters
from ares.store.rows import Places
from ares.store.stored import Stored
from ares.store.words import search_words

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.table import Table


class SegmentHit(NamedTuple):
    """A caption that shares words with a query.

    Attributes:
        episode_id: The episode.
        start_seconds: Where its span begins.
        camera: Camera it was made from, or "".
        text: The caption.
        score: BM25.
    """

    episode_id: str
    start_seconds: float
    camera: str
    text: str
    score: float


class SegmentTable:
    """Captions and their grades, searchable by words.

    Args:
        stored: The Lance table "segments".
    """

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._places = Places()

    @property
    def _table(self) -> Table:
        return self._stored.writer()

    def upsert(self, rows: pa.Table) -> None:
        """Write captions; one that is there keeps the columns that `rows` does not have (its grade).

        Raises:
            StoreError: The table cannot be written.
        """
        with filters.failures("segments"):
            merge = self._table.merge_insert("annotation_id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(rows)

    def grade(self, rows: pa.Table) -> None:
        """Set grades of captions that are there: annotation_id and the columns of the grade.

        Raises:
            StoreError: The table cannot be written.
        """
        with filters.failures("segments"):
            self._table.merge_insert("annotation_id").when_matched_update_all().execute(rows)

    def count(self, where: str = "") -> int:
        """Number of captions that fulfil a filter. Raises RequestError for a filter that cannot be read."""
        dataset = self._stored.dataset()
        condition = filters.check(dataset, where, segment_schema().names)
        with filters.failures("segments", where, segment_schema().names):
            return int(dataset.count_rows(condition))

    def read(self, where: str = "") -> pa.Table:
        """Captions that fulfil a filter, by episode and time. Raises RequestError for a filter that cannot be read."""
        dataset = self._stored.dataset()
        condition = filters.check(dataset, where, segment_schema().names)
        with filters.failures("segments", where, segment_schema().names):
            found = dataset.to_table(filter=condition)
        return found.sort_by(
            [(name, "ascending") for name in ("episode_id", "start_seconds", "annotation_id")]
        )

    def spans(self, column: str, values: Sequence[str]) -> pa.Table:
        """Where captions stand whose column is one of some values: columns episode_id, seconds and text."""
        with filters.failures("segments"):
            found = self._stored.dataset().to_table(
                columns=["episode_id", "start_seconds", "text"], filter=filters.among(column, values)
            )
        return found.rename_columns(["episode_id", "seconds", "text"])

    def search_text(
        self, text: str, limit: int, episode_ids: Collection[str] | None = None
    ) -> list[SegmentHit]:
        """Captions that share words with a text, best first; ties by episode, start and caption.

        Args:
            text: Any text; nothing in it is an operator.
            limit: Most captions.
            episode_ids: Only captions of these, or None for all.
        """
        columns = ["episode_id", "start_seconds", "annotation_id", "camera", "text"]
        with filters.failures("segments"):
            dataset = self._stored.dataset()
            chosen = self._places.of(dataset, episode_ids)
            found = search_words(dataset, "text", text, columns, limit, chosen)
        taken = ("episode_id", "start_seconds", "camera", "text", "_score")
        return [SegmentHit(*(row[name] for name in taken)) for row in found]


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
