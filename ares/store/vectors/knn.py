"""Nearest neighbours in the newest version of a vector table, exact or by the index."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.deadline import check_deadline
from ares.errors import StoreError
from ares.store.lance.lance_api import IndexSearch, scan_nearest, vector_index_segments
from ares.store.lance.row_index import RowIndex, RowSelection, VersionCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    import lance
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


_KEY = "ares.tuning"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRecord:
    """What was built and measured, stored in the configuration of its table as JSON by these names.

    Attributes:
        index: Name of the index; "" when none is used.
        kind: "IVF_RQ" or "IVF_SQ"; "flat" when the index did not reach the target recall and search is exact.
        partitions: Partitions of the index.
        built_rows: Rows of the table when the index was trained and measured.
        queries: Number of queries that measured it.
        measured: Time of the measurement, ISO 8601.
        recall: Measured share of the true 20 nearest rows, 0 to 1, in searches without a filter.
        p50_ms: Median duration of one such query, in milliseconds.
    """

    index: str
    kind: str
    partitions: int
    built_rows: int
    queries: int
    measured: str
    recall: float
    p50_ms: float


def read_index_record(dataset: lance.LanceDataset) -> IndexRecord | None:
    """The record stored with a table, or None when it has none that says what searches find now.

    Earlier versions stored tuned settings. The measurement without a filter is read, unless it read more partitions or
    compared more rows than a search now does.
    """
    text = dataset.config().get(_KEY)
    with suppress(ValueError, TypeError, LookupError, RecursionError):
        document = json.loads(text or "")
        if "settings" in document:
            first, params = document["settings"][0], search_params((), document["partitions"], share=1.0)
            if first["nprobes"] > params.nprobes or first["candidates"] > params.candidates:
                return None
            document |= {"recall": first["recall"], "p50_ms": first["p50_ms"]}
        return IndexRecord(**{item.name: document[item.name] for item in fields(IndexRecord)})
    return None


def write_index_record(dataset: lance.LanceDataset, record: IndexRecord) -> None:
    """Store a record with its table, in place of an earlier one."""
    dataset.update_config({_KEY: json.dumps(asdict(record))})


FRAME_KEY = ("episode_id", "camera", "seconds")
# Up to this many selected rows are read and compared directly, which is faster than an index search.
BRUTE_FORCE_ROWS = 500
# Share of the partitions that a search without a filter reads, the fewest of them, and rows that are then compared
# exactly. Chosen by measurement: docs/why/009-vector-index.md.
_PROBED_SHARE, _MIN_PROBES, _CANDIDATES = 0.05, 16, 100
# Rows requested per episode: neighbouring frames of one episode crowd the top.
_ROWS_PER_EPISODE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchParams:
    """Parameters of an index search.

    Attributes:
        segments: Ids of the index segments to search.
        nprobes: Partitions to search.
        candidates: Rows whose exact distance is computed.
        partitions: Partitions of the index.
    """

    segments: tuple[str, ...]
    nprobes: int
    candidates: int
    partitions: int

    @property
    def probes_all(self) -> bool:
        """Whether every partition is searched."""
        return self.nprobes >= self.partitions


def search_params(segments: Sequence[str], partitions: int, share: float) -> SearchParams:
    """The fixed parameters of an index search among a share of the rows, above 0 to 1.

    So many partitions are searched under a filter that they hold as many of its rows as without one.
    """
    nprobes = math.ceil(max(_PROBED_SHARE * partitions, _MIN_PROBES) / share)
    return SearchParams(
        segments=tuple(segments),
        nprobes=min(nprobes, partitions),
        candidates=_CANDIDATES,
        partitions=partitions,
    )


class VectorSnapshot:
    """One version of a vector table.

    Args:
        dataset: That version, with the key columns and the column "vector".
        key_columns: Columns that identify a row. The first names its episode, or whatever `search_episodes` returns
            once.
    """

    def __init__(self, dataset: lance.LanceDataset, key_columns: Sequence[str] = FRAME_KEY) -> None:
        self.dataset = dataset
        self._key_columns = list(key_columns)
        self.version = int(dataset.version)
        self.row_count = int(dataset.count_rows())
        self.index = read_index_record(dataset)
        self.dimension = int(dataset.schema.field("vector").type.list_size)
        self._row_index_cache = VersionCache(RowIndex)
        self._segments = vector_index_segments(dataset, "vector")

    def writable_dataset(self) -> lance.LanceDataset:
        """Another handle on this version for writing: a handle advances to the version that it writes."""
        return self.dataset.checkout_version(self.version)

    @property
    def row_index(self) -> RowIndex:
        """Row ids by episode id."""
        return self._row_index_cache.get(self.dataset)

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """Segment ids of the index in use; empty when that index does not exist any more."""
        return self.segments_of(self.index.index) if self.index else ()

    def segments_of(self, index: str) -> tuple[str, ...]:
        """Segment ids of the index with this name."""
        return tuple(segment.segment_id for segment in self._segments if segment.index_name == index)

    def vector_indices(self) -> list[str]:
        """Names of all vector indexes, sorted."""
        return sorted({segment.index_name for segment in self._segments})

    def unindexed_fragments(self, segments: Sequence[str]) -> list[Any]:
        """Fragments that these index segments do not cover: rows written after the index."""
        indexed_ids = {
            fragment_id
            for segment in self._segments
            if segment.segment_id in segments
            for fragment_id in segment.fragment_ids
        }
        fragments = self.dataset.get_fragments()
        return [fragment for fragment in fragments if fragment.fragment_id not in indexed_ids]

    def params_for(self, rows: RowSelection | None) -> SearchParams | None:
        """The parameters of an index search among the rows of a filter, None for all; None when search is exact."""
        row_count = self.row_count if rows is None else len(rows.row_ids)
        if not self.segments or not self.index or (rows is not None and row_count <= BRUTE_FORCE_ROWS):
            return None
        return search_params(self.segments, self.index.partitions, row_count / self.row_count)

    def search(
        self, query: NDArray[np.float32], k: int, rows: RowSelection | None, params: SearchParams | None
    ) -> pa.Table:
        """The k best rows by score, ties by key columns, so that the cut among equal scores is deterministic.

        Returns:
            The key columns and "score" (cosine similarity to six digits), at most `k` rows.
        """
        return self._search_until_final(query, k, k + 1, lambda neighbours: neighbours, rows, params)

    def search_episodes(
        self, query: NDArray[np.float32], k: int, rows: RowSelection | None, params: SearchParams | None
    ) -> pa.Table:
        """The best row of each of the k best episodes, in the form of `search`."""
        return self._search_until_final(query, k, k * _ROWS_PER_EPISODE, best_row_per_episode, rows, params)

    def _search_until_final(
        self,
        query: NDArray[np.float32],
        k: int,
        count: int,
        select: Callable[[pa.Table], pa.Table],
        rows: RowSelection | None,
        params: SearchParams | None,
    ) -> pa.Table:
        """Request more rows, then more partitions, until the selected top k is final or no rows remain."""
        import pyarrow as pa

        available = self.row_count if rows is None else len(rows.row_ids)
        while True:
            count = min(count, available)
            indexed, *newer = (rank_by_score(part) for part in self._nearest_rows(query, count, rows, params))
            selected = select(_best_first(pa.concat_tables([indexed, *newer])) if newer else indexed)
            too_few = params is not None and len(indexed) < count and not params.probes_all
            unread = [part for part in (indexed, *newer) if part is indexed or len(part) == count]
            if (count == available and not too_few) or _is_final_top_k(selected, unread, k):
                return selected[:k]
            if too_few and params:
                params = replace(params, nprobes=min(params.nprobes * 4, params.partitions))
            else:
                count *= 4

    def _nearest_rows(
        self, query: NDArray[np.float32], count: int, rows: RowSelection | None, params: SearchParams | None
    ) -> list[pa.Table]:
        """Rows nearest to a vector, in no particular order: the key columns and "_distance".

        The first table has the rows of the index, or of all; the second those that the index does not cover.

        Args:
            query: (D,) float32.
            count: Number of rows of each table.
            rows: Only these rows, or None for all.
            params: Parameters of the index search, or None to compare every row.
        """

        if rows is not None and len(rows.row_ids) <= BRUTE_FORCE_ROWS:
            return [self._brute_force(query, rows)]
        allowlist = None if rows is None else rows.allowlist
        scan = partial(scan_nearest, self.dataset, self._key_columns, query, count, allowlist)
        if params is None:
            return [scan()]
        refine_factor = -(-params.candidates // count)
        indexed = scan(index=IndexSearch(params.segments, params.nprobes, refine_factor))
        fragments = self.unindexed_fragments(params.segments)
        return [indexed, scan(fragments=fragments)] if fragments else [indexed]

    def score_rows(self, query: NDArray[np.float32], rows: RowSelection) -> pa.Table:
        """All selected rows in the form of `search`, compared exactly; their vectors are in memory together."""
        return rank_by_score(self._brute_force(query, rows))

    def score_all_episodes(self, query: NDArray[np.float32]) -> tuple[pa.ChunkedArray, NDArray[np.float64]]:
        """Ids and score of the best row of every run of rows, (R,) each, see `RowIndex`; all vectors are compared."""
        import numpy as np

        scores = np.round(self.score_all(query), 6)
        starts = self.row_index.offsets
        best = np.maximum.reduceat(scores, starts) if len(starts) else np.zeros(0)
        return self.row_index.episode_ids, best

    def score_all(self, query: NDArray[np.float32]) -> NDArray[np.float64]:
        """Cosine similarity (N,) of every row with a vector (D,), in the order of a scan; read batch by batch."""
        import numpy as np

        unit = self.to_stored_precision(query)
        unit = unit / np.linalg.norm(unit)
        scores = [np.zeros(0)]
        for batch in self.dataset.scanner(columns=["vector"], scan_in_order=True).to_batches():
            check_deadline()
            vectors = to_matrix(batch["vector"])
            norms = np.maximum(np.linalg.norm(vectors, axis=1), np.finfo(np.float32).tiny)
            scores.append((np.einsum("nd,d->n", vectors, unit) / norms).astype(np.float64))
        return np.concatenate(scores)

    def to_stored_precision(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Round queries to the float type of the stored vectors, as Lance does: every kind of search scores alike."""
        import numpy as np

        dtype = self.dataset.schema.field("vector").type.value_type.to_pandas_dtype()
        return queries.astype(dtype).astype(np.float32)

    def _brute_force(self, query: NDArray[np.float32], rows: RowSelection) -> pa.Table:
        import numpy as np
        import pyarrow as pa

        stored = self.dataset.take(rows.offsets.tolist(), columns=[*self._key_columns, "vector"])
        vectors = to_matrix(stored["vector"])
        query = self.to_stored_precision(query)
        norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
        distance = 1 - (vectors @ query) / np.maximum(norms, np.finfo(np.float32).tiny)
        return stored.select(self._key_columns).append_column("_distance", pa.array(distance, pa.float32()))


def to_matrix(column: pa.ChunkedArray | pa.Array) -> NDArray[np.float32]:
    """A column of vectors as (N, D) float32, whatever float type is stored."""
    import numpy as np
    import pyarrow as pa

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values = array.flatten() if isinstance(array, pa.FixedSizeListArray) else array.values
    numbers: NDArray[np.float32] = values.to_numpy(zero_copy_only=False).astype(np.float32)
    return numbers.reshape(len(column), -1)


def rank_by_score(neighbours: pa.Table) -> pa.Table:
    """Have "score" in place of "_distance", and sort: best score first, ties by key columns."""
    import numpy as np
    import pyarrow as pa

    # Exact and index search differ in the last digits of the same distance.
    score = np.round(1.0 - neighbours["_distance"].to_numpy().astype(np.float64), 6)
    key_columns = [name for name in neighbours.column_names if name != "_distance"]
    return _best_first(neighbours.select(key_columns).append_column("score", pa.array(score)))


def _best_first(scored: pa.Table) -> pa.Table:
    keys = [name for name in scored.column_names if name != "score"]
    return scored.sort_by([("score", "descending"), *((name, "ascending") for name in keys)])


def best_row_per_episode(rows: pa.Table) -> pa.Table:
    """The first row of each value of the first column, in the order of the rows."""
    import numpy as np

    _, first_rows = np.unique(rows[0].to_numpy(zero_copy_only=False), return_index=True)
    return rows.take(np.sort(first_rows))


def _is_final_top_k(selected: pa.Table, parts: Sequence[pa.Table], k: int) -> bool:
    """Whether no unread row can enter the top k: the last row read of each part scores below the k-th selected one."""
    if len(selected) < k:
        return False
    least = selected["score"][k - 1].as_py()
    return all(part["score"][-1].as_py() < least for part in parts if len(part))


class VectorTableState(NamedTuple):
    """What `ares status` reports of a vector table.

    Attributes:
        rows: Number of vectors.
        indexed: Number of vectors that the index covers; all others are compared exactly.
        record: What was built and measured; None for a table too small for an index.
    """

    rows: int
    indexed: int
    record: IndexRecord | None


class VectorSnapshots:
    """Snapshots of a vector table, one per version, cached until the version changes.

    Args:
        open_dataset: Opens the newest version; returns None while the table does not exist.
        make_snapshot: Makes a snapshot of an opened version.
    """

    def __init__(
        self,
        open_dataset: Callable[[], lance.LanceDataset | None],
        make_snapshot: Callable[[lance.LanceDataset], VectorSnapshot],
    ) -> None:
        self._open_dataset = open_dataset
        self._make_snapshot = make_snapshot
        self._current: VectorSnapshot | None = None

    def current(self) -> VectorSnapshot | None:
        """The newest version, or None when the table does not exist."""
        if self._current is not None:
            with suppress(OSError, ValueError):
                version, latest = self._current.version, self._current.dataset.latest_version
                if latest > version:
                    self._current = self._make_snapshot(self._current.dataset.checkout_version(latest))
                if latest >= version:
                    return self._current
        dataset = self._open_dataset()
        self._current = None if dataset is None else self._make_snapshot(dataset)
        return self._current

    def require(self) -> VectorSnapshot:
        """The newest version of a table that exists. Raises StoreError when the table was removed."""
        snapshot = self.current()
        if snapshot is None:
            raise StoreError("a vector table does not exist any more", "another process removed it")
        return snapshot


def count_table_vectors(snapshot: VectorSnapshot | None) -> VectorTableState:
    """Count the rows of a snapshot and those that its index covers; zeros for None."""
    if snapshot is None:
        return VectorTableState(0, 0, None)
    fragments = snapshot.unindexed_fragments(snapshot.segments)
    unindexed = sum(fragment.count_rows() for fragment in fragments)
    return VectorTableState(snapshot.row_count, snapshot.row_count - unindexed, snapshot.index)


def dimension_error(name: str, stored: int, actual: int) -> StoreError:
    """The error for vectors or queries whose dimension is not that of the table."""
    return StoreError("vectors have another dimension", f"{name} stores {stored}, but got {actual}")
