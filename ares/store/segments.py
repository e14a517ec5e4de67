"""SegmentTable: one row per caption with its span, its words and its grade."""

from __future__ import annotations

from collections.abc import Collection
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

from ares.store import filters
from ares.store.rows import Places
from ares.store.stored import Stored
from ares.store.told import Telling, Told
from ares.store.words import search_words

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
        stored: The Lance table "segments".
    """

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._places = Places()
        self._telling = Telling(self._places, "text", "start_seconds")

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

    def told(self) -> Told:
        """What is said in each caption."""
        with filters.failures("segments"):
            return self._telling.of(self._stored.dataset())

    def search_text(
        self, text: str, limit: int, episode_ids: Collection[str] | None = None
    ) -> list[SegmentHit]:
        """The best caption of each episode with captions that share words with a text, best first; ties by episode.

        Of captions of an episode with equal scores it is the earliest, then the first by id.

        Args:
            text: Any text; nothing in it is an operator.
            limit: Most episodes.
            episode_ids: Only captions of these, or None for all.
        """
        with filters.failures("segments"):
            dataset = self._stored.dataset()
            rows = self._places.rows(dataset)
            found = search_words(dataset, rows, "text", text, limit, episode_ids)
            if not len(found):
                return []
            said = dataset.take(found["offset"].to_numpy(), columns=["start_seconds", "annotation_id"])
        best: dict[str, SegmentHit] = {}
        columns = (found["episode_id"], said["start_seconds"], said["annotation_id"], found["score"])
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
