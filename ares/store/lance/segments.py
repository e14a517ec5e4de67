"""The segments table: one row per shown span of an episode with its text, and what annotators say of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.store.lance.episodes import delete_rows
from ares.store.lance.lance_api import lance_errors, plan_filter
from ares.store.lance.row_index import RowIndex, VersionCache
from ares.store.lance.schema import add_columns, column_types
from ares.store.lance.table import LanceTable
from ares.store.lance.text import (
    TextHashCache,
    TextHashes,
    WordRows,
    find_rows_like_text,
    rows_with_words,
    search_fulltext,
)
from ares.store.sql import in_condition, quote_literal

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.episode import Json
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSegment:
    """A shown span of an episode, and what is said of it.

    Attributes:
        episode_id: The episode.
        start_seconds: Start of the span [start, stop), seconds from the start of the episode.
        stop_seconds: End of the span; the start again for an instant.
        style: What kind of text it is ("subtask", "plan"), or "".
        author: "person", the name of a model, or "" where nobody says.
        text: The text, or "".
        grade: What a judge or a person made of the text, or None.
        annotator: Name of the annotator that made it.
        camera: Camera that it is about, or "".
        maker_id: Its provenance, see `ares.annotation.Producer`.
        annotation_id: The annotation that it is.
        score: BM25 of a search by words; 0 without one.
        columns: What else annotators say of it, by column; what has no value is left out.
    """

    episode_id: str
    start_seconds: float
    stop_seconds: float
    style: str
    author: str
    text: str
    grade: str | None
    annotator: str
    camera: str
    maker_id: str
    annotation_id: str
    score: float = 0.0
    columns: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """The fields, and the columns as fields."""
        own: dict[str, Json] = {name: getattr(self, name) for name in self.__slots__ if name != "columns"}
        return {**own, **self.columns}


# Fields of `StoredSegment` that are "" where the table has no value, or no such column.
_TEXT_FIELDS = ("style", "author", "text", "annotator", "camera", "maker_id")
_OTHER_FIELDS = ("episode_id", "start_seconds", "stop_seconds", "annotation_id", "grade", "segment_id")


def make_stored_segments(rows: pa.Table, scores: Sequence[float] = ()) -> list[StoredSegment]:
    """Segments from rows of the table, in their order, with the score of each where there is one."""
    segments = []
    for number, row in enumerate(rows.to_pylist()):
        others = {
            name: _json_value(value)
            for name, value in row.items()
            if name not in (*_TEXT_FIELDS, *_OTHER_FIELDS) and value is not None
        }
        segment = StoredSegment(
            episode_id=row["episode_id"],
            start_seconds=row["start_seconds"],
            stop_seconds=row["stop_seconds"],
            annotation_id=row["annotation_id"],
            grade=row.get("grade"),
            score=scores[number] if len(scores) else 0.0,
            columns=others,
            **{name: row.get(name) or "" for name in _TEXT_FIELDS},
        )
        segments.append(segment)
    return segments


def _json_value(value: Any) -> Json:
    """A value of a column as JSON: a time as ISO 8601."""
    return value.isoformat() if isinstance(value, datetime) else value


class SegmentTable:
    """Spans of episodes with texts, searchable by words.

    Args:
        lance_table: The Lance table "segments".
        episode_ids: The ids of the episodes that match a filter.
    """

    def __init__(self, lance_table: LanceTable, episode_ids: Callable[[str], Collection[str]]) -> None:
        self._lance_table = lance_table
        self._episode_ids = episode_ids
        self._row_indexes = VersionCache(RowIndex)
        self._text_hashes = TextHashCache("text", "start_seconds")

    @property
    def _table(self) -> TableWriter:
        return self._lance_table.writer()

    def _membership(self, name: str, argument: str) -> str:
        """The segments of the episodes that are in a set, tagged or reviewed."""
        call = f"{name}({quote_literal(argument) if argument else ''})"
        return in_condition("episode_id", self._episode_ids(call))

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

    def clear(self) -> None:
        """Delete all rows, and the columns that others than `segment_schema` have added. Raises StoreError."""
        with lance_errors("segments"):
            self._table.delete("true")
            for name in set(self._table.schema.names) - set(segment_schema().names):
                self._table.drop_column(name)

    def drop_column(self, name: str) -> None:
        """Drop a column with its values. Raises StoreError."""
        with lance_errors("segments"):
            self._table.drop_column(name)

    def add_missing_columns(self, columns: pa.Schema) -> None:
        """Add the columns that the table does not have, without values. Raises StoreError."""
        existing = self._lance_table.dataset().schema
        add_columns(self._table, existing, columns)

    def count(self, where: str = "") -> int:
        """Number of segments that match a filter. Raises RequestError for an invalid one."""
        dataset = self._lance_table.dataset()
        condition = plan_filter(dataset, where, column_types(dataset.schema), self._membership)
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
        condition = plan_filter(dataset, where, column_types(dataset.schema), self._membership)
        requested = list(columns) or list(dict.fromkeys([*dataset.schema.names, *segment_schema().names]))
        absent = {name for name in segment_schema().names if name not in dataset.schema.names}
        with lance_errors("segments", where):
            rows = dataset.to_table(columns=[n for n in requested if n not in absent], filter=condition)
        return _with_empty_columns(rows, requested) if absent & set(requested) else rows

    def find(self, text: str = "", where: str = "", limit: int = 20) -> list[StoredSegment]:
        """Segments that share words with a text, best first; without one those of a filter, by episode and time.

        Equal scores are ordered by episode, then time.

        Args:
            text: Any text; nothing in it is an operator.
            where: SQL filter over the columns of segments.
            limit: Most segments to return.

        Raises:
            RequestError: The filter is wrong.
        """
        import pyarrow as pa

        dataset = self._lance_table.dataset()
        condition = plan_filter(dataset, where, column_types(dataset.schema), self._membership)
        if limit <= 0:
            return []
        with lance_errors("segments", where):
            row_index = self._row_indexes.get(dataset)
            if text.strip():
                row_ids, scores = find_rows_like_text(dataset, "text", text, limit, condition)
                keys = dataset.take(row_index.locate(row_ids)[1], columns=_ORDER)
            else:
                keys = dataset.scanner(columns=_ORDER, filter=condition, with_row_id=True).to_table()
                row_ids, scores = keys["_rowid"].to_numpy(), pa.nulls(len(keys), pa.float64()).fill_null(0.0)
            keys = keys.append_column("score", pa.array(scores))
            first = _first_rows(keys, limit)
            rows = dataset.take(row_index.locate(row_ids[first])[1])
        return make_stored_segments(rows, keys["score"].take(first).to_pylist())

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


# Columns that order segments of equal scores.
_ORDER = ["episode_id", "start_seconds", "annotation_id"]


def _first_rows(keys: pa.Table, limit: int) -> NDArray[np.uint64]:
    """(N,) numbers of the first rows of `_ORDER` and "score": best score first, then by episode and time."""
    import pyarrow.compute as pc

    order = [("score", "descending"), *((name, "ascending") for name in _ORDER)]
    numbers: NDArray[np.uint64] = pc.select_k_unstable(keys, min(limit, len(keys)), order).to_numpy()
    return numbers


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
