"""The file of a LeRobot dataset that lists every segment with its author, its exact span and its grade."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.export.layout_groups import ExportItem
from ares.export.segments import ExportSegment
from ares.formats import (
    SEGMENTS_PATH,
)

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ares.export.retime import RetimedEpisode


# Rows of SEGMENTS_PATH that wait in memory.
_BUFFERED_ROWS = 10_000


class SegmentFileWriter:
    """Writes SEGMENTS_PATH: every segment of a dataset with its author, its exact span and its grade.

    Args:
        root: Dataset folder.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / SEGMENTS_PATH
        self._rows: list[tuple[Any, ...]] = []
        self._writer: pq.ParquetWriter | None = None

    def add(self, number: int, item: ExportItem, lacks: Mapping[str, str]) -> None:
        """Add the segments of an episode.

        Args:
            number: Its number in the dataset.
            item: The episode.
            lacks: By annotation_id, what the columns of the dataset cannot hold of a segment.
        """
        self._rows.extend(
            _segment_row(number, segment, item.retimed, lacks.get(segment.annotation_id))
            for segment in item.texts.segments
        )
        if len(self._rows) >= _BUFFERED_ROWS:
            self._flush()

    def close(self) -> None:
        """Write what waits and finish the file, which is there where any segment was added; may be called twice."""
        self._flush()
        if self._writer:
            self._writer.close()
            self._writer = None

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not self._rows:
            return
        schema = _segment_file_schema()
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, schema)
        columns = zip(*self._rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        self._rows.clear()


_TEXT_COLUMNS = (
    "episode_id",
    "segment_id",
    "annotation_id",
    "annotator",
    "maker_id",
    "style",
    "text",
    "author",
    "state",
)
_texts_of = attrgetter(*_TEXT_COLUMNS)
_REFUTED = "grade_refuted"
_GRADE_COLUMNS = ("grade", _REFUTED, "grade_verdicts")


def _segment_file_schema() -> pa.Schema:
    import pyarrow as pa

    texts = (*_TEXT_COLUMNS, "role", "camera", "arm", *_GRADE_COLUMNS, "not_held")
    spans = [("start_seconds", pa.float64()), ("stop_seconds", pa.float64())]
    types = {_REFUTED: pa.bool_()}
    columns = ((name, types.get(name, pa.string())) for name in texts)
    return pa.schema([("episode_index", pa.int64()), *spans, *columns])


def _segment_row(
    number: int, segment: ExportSegment, retimed: RetimedEpisode, lacks: str | None
) -> tuple[Any, ...]:
    """The values of a segment in the order of `_segment_file_schema`."""
    return (
        number,
        retimed.written_seconds(segment.start_seconds),
        retimed.written_seconds(segment.stop_seconds),
        *_texts_of(segment),
        segment.text_field("role"),
        segment.camera,
        segment.arm,
        *(segment.grade.get(name) for name in _GRADE_COLUMNS),
        lacks,
    )
