"""The segments table: one row per shown span of an episode with its text, and what annotators say of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

from ares.store.lance.episodes import delete_rows
from ares.store.lance.lance_api import lance_errors, plan_filter
from ares.store.lance.row_index import RowIndexCache
from ares.store.lance.schema import add_columns, column_types
from ares.store.lance.table import LanceTable
from ares.store.lance.text import TextHashCache, TextHashes, WordRows, rows_with_words, search_fulltext
from ares.store.sql import in_condition

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.lance.table import TableWriter


class SegmentHit(NamedTuple):
    """The segment of an episode whose text shares the most words with a query.

    Attributes:
        episode_id: The episode.
        start_seconds: Where its span begins.
        annotation_id: The annotation that it is.
        score: BM25.
    """

    episode_id: str
    start_seconds: float
    annotation_id: str
    score: float


class SegmentTable:
    """Spans of episodes with texts, searchable by words.

    Args:
        lance_table: The Lance table "segments".
    """

    def __init__(self, lance_table: LanceTable) -> None:
        self._lance_table = lance_table
        self._row_indexes = RowIndexCache()
        self._text_hashes = TextHashCache("text", "start_seconds")

    @property
    def _table(self) -> TableWriter:
        return self._lance_table.writer

    def columns(self) -> dict[str, str]:
        """Type of every column: an Arrow type name, or "list<string>"."""
        return column_types(self._lance_table.dataset().schema)

    def version(self) -> int:
        """Number of the newest version."""
        with lance_errors("segments"):
            return int(self._lance_table.dataset().version)

    def upsert(self, rows: pa.Table) -> None:
        """Write segments; an existing one keeps the columns that `rows` does not have.

        Args:
            rows: Columns of `segment_schema`, and others, which are added to the table.

        Raises:
            StoreError: The table cannot be written, or a column has another type.
        """
        self.add_missing_columns(rows.schema)
        with lance_errors("segments"):
            self._table.upsert("annotation_id", rows)

    def set_values(self, rows: pa.Table) -> None:
        """Set columns of existing segments: annotation_id and the columns; unknown ids are ignored.

        Raises:
            StoreError: The table cannot be written, or a column has another type.
        """
        self.add_missing_columns(rows.schema)
        with lance_errors("segments"):
            self._table.update("annotation_id", rows)

    def delete(self, annotation_ids: Sequence[str]) -> None:
        """Delete segments. Raises StoreError when the table cannot be written."""
        if annotation_ids:
            with lance_errors("segments"):
                self._table.delete(in_condition("annotation_id", annotation_ids))

    def delete_episodes(self, episode_ids: Collection[str]) -> None:
        """Delete all segments of some episodes. Raises StoreError when the table cannot be written."""
        delete_rows(self._table, "episode_id", episode_ids)

    def add_missing_columns(self, columns: pa.Schema) -> None:
        """Add the columns that the table does not have, without values. Raises StoreError."""
        existing = self._lance_table.dataset().schema
        add_columns(self._table, existing, columns)

    def count(self, where: str = "") -> int:
        """Number of segments that match a filter. Raises RequestError for an invalid one."""
        dataset = self._lance_table.dataset()
        condition = plan_filter(dataset, where, column_types(dataset.schema))
        with lance_errors("segments", where):
            return int(dataset.count_rows(condition))

    def read(self, where: str = "") -> pa.Table:
        """Segments that match a filter, by episode and time. Raises RequestError for an invalid one."""
        return self.scan([], where).sort_by(
            [(name, "ascending") for name in ("episode_id", "start_seconds", "annotation_id")]
        )

    def scan(self, columns: Sequence[str], where: str = "") -> pa.Table:
        """Columns of the segments that match a filter, in no order; no names are all columns. Raises RequestError.

        A column of `segment_schema` that an older table lacks is empty.
        """
        dataset = self._lance_table.dataset()
        condition = plan_filter(dataset, where, column_types(dataset.schema))
        requested = list(columns) or list(dict.fromkeys([*dataset.schema.names, *segment_schema().names]))
        absent = {name for name in segment_schema().names if name not in dataset.schema.names}
        with lance_errors("segments", where):
            rows = dataset.to_table(columns=[n for n in requested if n not in absent], filter=condition)
        return _with_empty_columns(rows, requested) if absent & set(requested) else rows

    def text_hashes(self) -> TextHashes:
        """Hash of the text of every segment."""
        with lance_errors("segments"):
            dataset = self._lance_table.dataset()
            return self._text_hashes.get(dataset, self._row_indexes.get(dataset))

    def texts_with_words(self, words: Sequence[str]) -> WordRows:
        """The segments whose text has each of some words."""
        with lance_errors("segments"):
            dataset = self._lance_table.dataset()
            row_index = self._row_indexes.get(dataset)
            return WordRows(row_index, rows_with_words(dataset, row_index, "text", words))

    def search_text(
        self, text: str, limit: int, episode_ids: Collection[str] | None = None
    ) -> list[SegmentHit]:
        """The best segment of each episode that shares words with a text, best first; ties by episode.

        Of the segments of an episode with equal scores it is the earliest, then the first by id.

        Args:
            text: Any text; nothing in it is an operator.
            limit: Maximum number of episodes.
            episode_ids: Only segments of these, or None for all.
        """
        with lance_errors("segments"):
            dataset = self._lance_table.dataset()
            row_index = self._row_indexes.get(dataset)
            matches = search_fulltext(dataset, row_index, "text", text, limit, episode_ids)
            if not len(matches):
                return []
            segments = dataset.take(matches["offset"].to_numpy(), columns=["start_seconds", "annotation_id"])
        best: dict[str, SegmentHit] = {}
        columns = (
            matches["episode_id"],
            segments["start_seconds"],
            segments["annotation_id"],
            matches["score"],
        )
        for hit in starmap(SegmentHit, zip(*(column.to_pylist() for column in columns), strict=True)):
            best[hit.episode_id] = min(hit, best.get(hit.episode_id, hit))
        return list(best.values())


def _with_empty_columns(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows with these columns, of which those that they lack are empty."""
    import pyarrow as pa

    schema = segment_schema()
    columns = [
        rows[name] if name in rows.column_names else pa.nulls(len(rows), schema.field(name).type)
        for name in names
    ]
    return pa.table(columns, names=list(names))


def segment_schema() -> pa.Schema:
    """Columns of the segments table without those of annotators.

    `annotator` is the kind of the annotation; `segment_id` is the same for all of one episode and span. `style` is the
    kind of text ("subtask", "plan") and `author` who wrote it ("person", the name of a model), where that is said.
    """
    import pyarrow as pa

    return pa.schema(
        [
            ("annotation_id", pa.string()),
            ("episode_id", pa.string()),
            ("annotator", pa.string()),
            ("segment_id", pa.string()),
            ("start_seconds", pa.float64()),
            ("stop_seconds", pa.float64()),
            ("camera", pa.string()),
            ("text", pa.string()),
            ("maker_id", pa.string()),
            ("style", pa.string()),
            ("author", pa.string()),
        ]
    )
