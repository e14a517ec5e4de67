"""Nearest: the rows of a vector table nearest to a vector, as exactly as its tuning promises."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ares.store.rows import Chosen, Places, Rows
from ares.store.tuning import Tuning, read_tuning

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import lance
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

PLACE = ("episode_id", "camera", "seconds")
# So few rows are read one by one faster than any index is asked.
FEW = 500
# Rows asked for per episode wanted: neighbouring frames of one episode crowd the top.
_ROWS_PER_EPISODE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How an index is asked: its segments, the partitions to look into, the candidates to compare exactly."""

    segments: tuple[str, ...]
    nprobes: int
    candidates: int
    partitions: int

    @property
    def widest(self) -> bool:
        """Whether every partition is looked into."""
        return self.nprobes >= self.partitions


class Nearest:
    """One version of a vector table.

    Args:
        dataset: That version; columns of the place, and vector.
        place: Columns that say what a row is of; its episode, or what else is wanted once, is the first.
        key: Column that says the same in words, by which filters draw rows when an index is measured.
    """

    def __init__(
        self, dataset: lance.LanceDataset, place: Sequence[str] = PLACE, key: str = "episode_id"
    ) -> None:
        self.dataset = dataset
        self._place = list(place)
        self.version = int(dataset.version)
        self.rows = int(dataset.count_rows())
        self.tuning: Tuning | None = read_tuning(dataset)
        self.length = int(dataset.schema.field("vector").type.list_size)
        self._places = Places(key)
        self._segments = [
            (index.name, str(segment.uuid), frozenset(segment.fragment_ids))
            for index in dataset.describe_indices()
            if list(index.field_names) == ["vector"]
            for segment in index.segments
        ]

    def writing(self) -> lance.LanceDataset:
        """Another handle on this version, for what changes the table: a handle moves on with what it wrote."""
        return self.dataset.checkout_version(self.version)

    @property
    def places(self) -> Rows:
        """Where the rows of each episode are."""
        return self._places.rows(self.dataset)

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The segments of the tuned index; none when it is gone."""
        return self.segments_of(self.tuning.index) if self.tuning else ()

    def segments_of(self, index: str) -> tuple[str, ...]:
        """The segments of an index by its name."""
        return tuple(uuid for name, uuid, _ in self._segments if name == index)

    def vector_indices(self) -> list[str]:
        """Names of all indexes of the vectors."""
        return sorted({name for name, _, _ in self._segments})

    def tail(self, segments: Sequence[str]) -> list[Any]:
        """Fragments that these segments do not cover: what was written after the index."""
        covered = {each for _, uuid, fragments in self._segments if uuid in segments for each in fragments}
        return [one for one in self.dataset.get_fragments() if one.fragment_id not in covered]

    def asked(self, chosen: Chosen | None, wide: bool = False) -> Asked | None:
        """How the index has to be asked for rows of a filter, or `wide` for episodes; None when search is exact."""
        kept = self.rows if chosen is None else len(chosen.row_ids)
        if not self.segments or not self.tuning or (chosen is not None and kept <= FEW):
            return None
        setting = self.tuning.setting(kept / self.rows)
        if setting is None:
            return None
        return Asked(
            segments=self.segments,
            nprobes=setting.wide if wide else setting.nprobes,
            candidates=setting.deep if wide else setting.candidates,
            partitions=self.tuning.partitions,
        )

    def best(
        self, query: NDArray[np.float32], limit: int, chosen: Chosen | None, asked: Asked | None
    ) -> pa.Table:
        """The best rows, by score, then place; the cut does not fall among equals by chance.

        Returns:
            Columns of the place and score (cosine similarity to six digits), at most `limit` rows.
        """
        return self._grow(query, limit, limit + 1, lambda found: found, chosen, asked)

    def best_episodes(
        self, query: NDArray[np.float32], limit: int, chosen: Chosen | None, asked: Asked | None
    ) -> pa.Table:
        """The best row of each of the best episodes, as `best` gives them, however many rows one episode has."""
        return self._grow(query, limit, limit * _ROWS_PER_EPISODE, _firsts, chosen, asked)

    def _grow(
        self,
        query: NDArray[np.float32],
        limit: int,
        count: int,
        pick: Callable[[pa.Table], pa.Table],
        chosen: Chosen | None,
        asked: Asked | None,
    ) -> pa.Table:
        """Ask for more and more rows, and wider, until what is picked of them is enough or there are no more."""
        there = self.rows if chosen is None else len(chosen.row_ids)
        while True:
            count = min(count, there)
            found = ordered(self.find(query, count, chosen, asked))
            picked = pick(found)
            narrow = asked is not None and len(found) < count and not asked.widest
            if (count == there and not narrow) or _surely(picked, found, limit):
                return picked[:limit]
            if narrow and asked:
                asked = replace(asked, nprobes=min(asked.nprobes * 4, asked.partitions))
            else:
                count *= 4

    def find(
        self, query: NDArray[np.float32], count: int, chosen: Chosen | None, asked: Asked | None
    ) -> pa.Table:
        """Rows nearest to a vector in no promised order: columns of the place, and _distance.

        Args:
            query: (D,) float32.
            count: How many.
            chosen: Only these rows, or None for all.
            asked: How to ask the index, or None to look at every row.
        """
        import pyarrow as pa

        if chosen is not None and len(chosen.row_ids) <= FEW:
            return self._few(query, chosen)
        scan: dict[str, Any] = {"prefilter": True}
        if chosen is not None:
            scan["row_addr_allowlist"] = chosen.allowlist
        if asked is None:
            return self._scan(query, count, {"use_index": False}, scan)
        how = {
            "minimum_nprobes": asked.nprobes,
            "maximum_nprobes": asked.nprobes,
            "refine_factor": -(-asked.candidates // count),
        }
        found = self._scan(query, count, how, {**scan, "index_segments": list(asked.segments)})
        tail = self.tail(asked.segments)
        if not tail:
            return found
        newer = self._scan(query, count, {"use_index": False}, {**scan, "fragments": tail})
        # More than asked for: the caller orders and cuts.
        return pa.concat_tables([found, newer])

    def _scan(
        self, query: NDArray[np.float32], count: int, how: dict[str, Any], scan: dict[str, Any]
    ) -> pa.Table:
        nearest = {"column": "vector", "q": query, "k": count, "metric": "cosine", **how}
        return self.dataset.scanner(columns=[*self._place, "_distance"], nearest=nearest, **scan).to_table()

    def compared(self, query: NDArray[np.float32], chosen: Chosen) -> pa.Table:
        """All of some rows as `best` gives them, compared exactly; they are held at once."""
        return ordered(self._few(query, chosen))

    def rounded(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Queries as Lance compares them, rounded to what the vectors are kept as: no way to ask changes a score."""
        import numpy as np

        kept = self.dataset.schema.field("vector").type.value_type.to_pandas_dtype()
        return queries.astype(kept).astype(np.float32)

    def _few(self, query: NDArray[np.float32], chosen: Chosen) -> pa.Table:
        import numpy as np
        import pyarrow as pa

        found = self.dataset.take(chosen.offsets.tolist(), columns=[*self._place, "vector"])
        vectors = matrix(found["vector"])
        query = self.rounded(query)
        norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
        distance = 1 - (vectors @ query) / np.maximum(norms, np.finfo(np.float32).tiny)
        return found.select(self._place).append_column("_distance", pa.array(distance, pa.float32()))


def matrix(column: pa.ChunkedArray | pa.Array) -> NDArray[np.float32]:
    """(N, D) float32 of a column of vectors, whatever float they are kept as."""
    import numpy as np
    import pyarrow as pa

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values = whole.flatten() if isinstance(whole, pa.FixedSizeListArray) else whole.values
    numbers: NDArray[np.float32] = values.to_numpy(zero_copy_only=False).astype(np.float32)
    return numbers.reshape(len(column), -1)


def ordered(found: pa.Table) -> pa.Table:
    """Rows with a score in place of a distance, best first, equals by place."""
    import numpy as np
    import pyarrow as pa

    # The last digits differ between the ways to compute one and the same distance.
    score = np.round(1.0 - found["_distance"].to_numpy().astype(np.float64), 6)
    place = [name for name in found.column_names if name != "_distance"]
    scored = found.select(place).append_column("score", pa.array(score))
    return scored.sort_by([("score", "descending"), *((name, "ascending") for name in place)])


def _firsts(rows: pa.Table) -> pa.Table:
    import numpy as np

    _, first = np.unique(rows[0].to_numpy(zero_copy_only=False), return_index=True)
    return rows.take(np.sort(first))


def _surely(picked: pa.Table, found: pa.Table, limit: int) -> bool:
    """Whether no row beyond those found could stand among the first `limit`: the last is worse than all of them."""
    if len(picked) < limit:
        return False
    return bool(found["score"][-1].as_py() < picked["score"][limit - 1].as_py())
