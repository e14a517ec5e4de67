"""Tables of episodes, signals and segments in Lance, read by version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.store.lance.column_types import arrow_type, to_arrow_value, type_mismatch
    from ares.store.lance.episode_snapshot import EpisodeSnapshot, SelectedRows
    from ares.store.lance.episodes import EpisodeTable
    from ares.store.lance.fulltext import WordRows, create_fulltext_index, has_fulltext_index
    from ares.store.lance.lance_api import (
        IndexSearch,
        data_bytes,
        lance_errors,
        max_unindexed_rows,
        open_session,
        scan_nearest,
        vector_index_segments,
    )
    from ares.store.lance.record_batch import EpisodeBatch, encode_records
    from ares.store.lance.removed import RemovedTable, delete_rows
    from ares.store.lance.row_index import (
        EpisodeIds,
        EpisodeRuns,
        RowIndex,
        RowIndexCache,
        RowSelection,
        best_rows_per_episode,
    )
    from ares.store.lance.schema import CLOCK_COLUMNS, episode_schema, trajectory_schema
    from ares.store.lance.segments import SegmentTable, segment_schema
    from ares.store.lance.snapshot import VersionCache
    from ares.store.lance.sort_orders import DEEP_OFFSET
    from ares.store.lance.table import LanceTable, LazyLanceTable, ScalarIndexKind, TableWriter, whole_files
    from ares.store.lance.text_hashes import TextHashes, hash_texts
    from ares.store.lance.trajectories import TrajectoryTable

__all__ = [
    "CLOCK_COLUMNS",
    "DEEP_OFFSET",
    "EpisodeBatch",
    "EpisodeIds",
    "EpisodeRuns",
    "EpisodeSnapshot",
    "EpisodeTable",
    "IndexSearch",
    "LanceTable",
    "LazyLanceTable",
    "RemovedTable",
    "RowIndex",
    "RowIndexCache",
    "RowSelection",
    "ScalarIndexKind",
    "SegmentTable",
    "SelectedRows",
    "TableWriter",
    "TextHashes",
    "TrajectoryTable",
    "VersionCache",
    "WordRows",
    "arrow_type",
    "best_rows_per_episode",
    "create_fulltext_index",
    "data_bytes",
    "delete_rows",
    "encode_records",
    "episode_schema",
    "has_fulltext_index",
    "hash_texts",
    "lance_errors",
    "max_unindexed_rows",
    "open_session",
    "scan_nearest",
    "segment_schema",
    "to_arrow_value",
    "trajectory_schema",
    "type_mismatch",
    "vector_index_segments",
    "whole_files",
]

__getattr__ = lazy_exports(__name__)
