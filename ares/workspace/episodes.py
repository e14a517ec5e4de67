"""A lazy view of episodes: which rows it selects, in which order, before anything is read."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex, overload

from ares.curation import SOURCE_ORDER
from ares.episode import Episode
from ares.errors import EpisodeIndexError, RequestError, UnknownEpisode
from ares.imports import import_optional
from ares.registry import refuse_unknown_keywords
from ares.search import Hit
from ares.store import conjunction
from ares.workspace.arguments import read_episode_ids
from ares.workspace.episode import StoredEpisode, best_poster_html, build_picture_table
from ares.workspace.printed_tables import format_table

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store import EpisodeSnapshot, EpisodeTable, Stores
    from ares.workspace.episode import DuplicateTable, GroupTable


# Rows that are read at once, and the longest slice that the table sorts for itself.
BATCH_ROWS = 1_024
# From this share of the table on, reading every row and dropping some is faster than picking rows.
_SCAN_SHARE = 0.1


class Sample(NamedTuple):
    """A random choice of rows: how many, and the seed."""

    size: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Rows that fulfil a filter, in an order, from `start` to `stop`, or a sample of them.

    Attributes:
        where: SQL filter; "" is all.
        order_by: Columns as for `EpisodeSnapshot.scan`; "" is the order of `base`, or of the sources.
        start: First row.
        stop: Row after the last one, or None for all that follow.
        sample: A random choice in place of a slice.
        ids: The only episodes that it may have; None for any.
        base: The slice or sample that this selection narrows; None for the whole table.
    """

    where: str = ""
    order_by: str = ""
    start: int = 0
    stop: int | None = None
    sample: Sample | None = None
    ids: frozenset[str] | None = None
    base: Selection | None = None

    @property
    def is_cut(self) -> bool:
        """Whether it is a slice, a sample or a list: what follows applies to these rows alone."""
        return bool(self.start or self.stop is not None or self.sample or self.ids is not None)

    def filtered(self, where: str) -> Selection:
        """Those rows that fulfil a filter, too."""
        if self.is_cut:
            return Selection(where=where, base=self)
        return replace(self, where=conjunction([self.where, where]))

    def sorted_by(self, order: str) -> Selection:
        """The same rows in another order; the order before decides between equal values."""
        if self.is_cut:
            return Selection(order_by=order, base=self)
        return replace(self, order_by=f"{order}, {self.order_by}" if self.order_by else order)

    def sliced(self, start: int, stop: int | None) -> Selection:
        """The rows from `start` to `stop`, counted from the first row of this selection."""
        if self.sample or self.ids is not None:
            return Selection(start=start, stop=stop, base=self)
        first = self.start + start
        ends = [end for end in (self.stop, None if stop is None else self.start + stop) if end is not None]
        return replace(self, start=first, stop=max(min(ends), first) if ends else None)

    def sampled(self, size: int, seed: int) -> Selection:
        """A random choice of the rows, in their order."""
        if self.is_cut:
            return Selection(sample=Sample(size, seed), base=self)
        return replace(self, sample=Sample(size, seed))

    def listed(self, ids: frozenset[str]) -> Selection:
        """Those rows whose episode is in a list."""
        return Selection(ids=ids, base=self)

    def count(self, snapshot: EpisodeSnapshot) -> int:
        """Number of rows, without reading them where that is possible."""
        if self.base is not None:
            return len(self.offsets(snapshot))
        matching = snapshot.count(self.where)
        if self.sample:
            return min(self.sample.size, matching)
        return max(0, min(matching, matching if self.stop is None else self.stop) - self.start)

    def offsets(self, snapshot: EpisodeSnapshot) -> NDArray[np.int64]:
        """(N,) offsets of the rows, in order, see `EpisodeSnapshot.take`."""
        rows = self._uncut_offsets(snapshot)[self.start : self.stop]
        return _choose_sample(rows, self.sample) if self.sample else rows

    def _uncut_offsets(self, snapshot: EpisodeSnapshot) -> NDArray[np.int64]:
        import numpy as np

        if self.base is None:
            return snapshot.offsets(self.where, self.order_by or SOURCE_ORDER)
        base_rows = self.base.offsets(snapshot)
        if self.ids is not None:
            listed: NDArray[np.int64] = base_rows[np.isin(base_rows, _listed_offsets(snapshot, self.ids))]
            return listed
        matching = snapshot.offsets(self.where, self.order_by or SOURCE_ORDER)
        if self.order_by:
            ordered: NDArray[np.int64] = matching[np.isin(matching, base_rows)]
            return ordered
        narrowed: NDArray[np.int64] = base_rows[np.isin(base_rows, matching)]
        return narrowed

    def batches(self, snapshot: EpisodeSnapshot, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of the rows, in order, streamed.

        Raises:
            RequestError: A column does not exist.
        """
        if self.base is None and not self.sample and self.stop is not None:
            size = self.stop - self.start
            if size <= BATCH_ROWS:
                order = self.order_by or SOURCE_ORDER
                return snapshot.scan(columns, self.where, size, self.start, order)
        snapshot.schema(columns)
        return self._picked_batches(snapshot, columns)

    def _picked_batches(self, snapshot: EpisodeSnapshot, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        offsets = self.offsets(snapshot)
        for start in range(0, len(offsets), BATCH_ROWS):
            yield from snapshot.take(columns, offsets[start : start + BATCH_ROWS]).to_batches()

    def table(self, snapshot: EpisodeSnapshot, columns: Sequence[str]) -> pa.Table:
        """Columns of the rows as one table, in order.

        Raises:
            RequestError: A column does not exist.
        """
        import pyarrow as pa

        schema = snapshot.schema(columns)
        if self.base is None and self.stop is not None and not self.sample:
            return pa.Table.from_batches(self.batches(snapshot, columns), schema=schema)
        offsets = self.offsets(snapshot)
        if len(offsets) < _SCAN_SHARE * snapshot.count():
            return snapshot.take(columns, offsets)
        return pa.Table.from_batches(snapshot.reader(columns), schema=schema).take(pa.array(offsets))


def _listed_offsets(snapshot: EpisodeSnapshot, ids: frozenset[str]) -> NDArray[np.int64]:
    """Offsets of the episodes with these ids."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    known_ids = pa.array(sorted(ids), pa.string())
    batches = snapshot.reader(["episode_id"])
    is_listed = [pc.is_in(batch["episode_id"], known_ids).to_numpy(zero_copy_only=False) for batch in batches]
    return np.flatnonzero(np.concatenate(is_listed)) if is_listed else np.zeros(0, np.int64)


def _choose_sample(rows: NDArray[np.int64], sample: Sample) -> NDArray[np.int64]:
    """A random choice of (N,) rows, in their order; the same for the same seed with any version of NumPy."""
    import numpy as np

    if sample.size >= len(rows):
        return rows
    positions = np.random.RandomState(sample.seed).permutation(len(rows))[: sample.size]
    sample_rows: NDArray[np.int64] = rows[np.sort(positions)]
    return sample_rows


# Episodes that the text and the page of a view show.
_SHOWN_ROWS = 8
_SHOWN_COLUMNS = ("episode_id", "dataset", "instruction", "num_steps", "success", "caption")


class Episodes:
    """Episodes of a workspace, read when they are needed; every method returns a new view.

    Their order is that of the sources (dataset, version, split, key) unless `sort` gives another.

        >>> long = ws.episodes.where("num_steps > 100 AND success").sort("num_steps", descending=True)
        >>> len(long)
        >>> for episode in long.take(10):
        ...     print(episode.episode_id, episode.instruction)

    Args:
        stores: Stores of the workspace.
        selection: Which rows, in which order; by default all.
    """

    def __init__(self, stores: Stores, selection: Selection | None = None) -> None:
        self._stores = stores
        self._selection = selection or Selection()

    def where(self, filter: str) -> Episodes:
        """Keep the episodes that fulfil an SQL filter, in addition to those before.

            >>> ws.episodes.where("dataset = 'bridge' AND num_steps > 20")

        Args:
            filter: Condition over `columns`.

        Raises:
            FilterError: The filter cannot be read.
            RequestError: A column does not exist.
        """
        if not isinstance(filter, str):
            raise RequestError(
                "a filter is a text in SQL",
                f"got a {type(filter).__name__}; give for example 'num_steps > 20'",
            )
        self._table.check(filter)
        return self._view(self._selection.filtered(filter))

    @refuse_unknown_keywords
    def sort(self, column: str, descending: bool = False) -> Episodes:
        """Order by a column; missing values come last, and equal values keep the order before.

            >>> ws.episodes.sort("num_steps", descending=True)

        Raises:
            RequestError: The column does not exist.
        """
        self._table.schema([column])
        return self._view(self._selection.sorted_by(f"{column} DESC" if descending else column))

    def take(self, count: int) -> Episodes:
        """Keep the first episodes.

            >>> ws.episodes.take(10)

        Raises:
            RequestError: The number is below 0.
        """
        return self._view(self._selection.sliced(0, _check_count(count)))

    def skip(self, count: int) -> Episodes:
        """Leave the first episodes out. Raises RequestError for a number below 0."""
        return self._view(self._selection.sliced(_check_count(count), None))

    @refuse_unknown_keywords
    def sample(self, count: int, seed: int = 0) -> Episodes:
        """Choose some episodes at random; the same seed chooses the same ones.

            >>> ws.episodes.where("success").sample(20, seed=1)

        Raises:
            RequestError: The number is below 0.
        """
        return self._view(self._selection.sampled(_check_count(count), operator.index(seed)))

    def with_ids(self, ids: Iterable[str | Episode | Hit]) -> Episodes:
        """Keep the episodes of a list of ids, episodes or hits, in the order of the view; unknown ids are left out.

            >>> ws.episodes.with_ids(ws.search("open the drawer"))

        Raises:
            RequestError: It is a table, a single text, or a list of something else.
        """
        return self._view(self._selection.listed(frozenset(read_episode_ids(ids))))

    def __len__(self) -> int:
        return self._selection.count(self._table.snapshot())

    def __iter__(self) -> Iterator[StoredEpisode]:
        snapshot = self._table.snapshot()
        for batch in self._selection.batches(snapshot, self._table.episode_columns(snapshot)):
            for episode in self._table.from_batch(batch):
                yield StoredEpisode.from_episode(episode, self._stores)

    @overload
    def __getitem__(self, key: str | int) -> StoredEpisode: ...
    @overload
    def __getitem__(self, key: slice | list[str] | tuple[str, ...] | set[str]) -> Episodes: ...
    def __getitem__(
        self, key: str | int | slice | list[str] | tuple[str, ...] | set[str]
    ) -> StoredEpisode | Episodes:
        """An episode by its id, the unique start of it, or its number; the episodes of a slice or of a list of ids.

            >>> ws.episodes["3f2a"], ws.episodes[0], ws.episodes[10:20], ws.episodes[["3f2a90c1d2e3f405"]]

        Raises:
            UnknownEpisode: No episode has that id; also a KeyError.
            EpisodeIndexError: There are not so many; also an IndexError.
            RequestError: Several ids start so, or the key is something else.
        """
        if isinstance(key, str):
            return StoredEpisode.from_episode(
                self._table.get_episode(self._table.resolve_id(key)), self._stores
            )
        if isinstance(key, slice):
            return self._slice(key)
        if isinstance(key, SupportsIndex):
            return self._at(operator.index(key))
        return self._listed(read_episode_ids(key))

    def __contains__(self, episode: object) -> bool:
        episode_id = episode.episode_id if isinstance(episode, Episode) else episode
        return isinstance(episode_id, str) and len(self.with_ids([episode_id])) > 0

    def _at(self, number: int) -> StoredEpisode:
        start = number if number >= 0 else number + len(self)
        for episode in self._view(self._selection.sliced(start, start + 1)) if start >= 0 else ():
            return episode
        raise EpisodeIndexError(
            f"there is no episode number {number}", f"the view has {len(self)}, counted from 0"
        )

    def _listed(self, ids: list[str]) -> Episodes:
        view = self.with_ids(ids)
        existing = set(view.ids())
        for episode_id in ids:
            if episode_id not in existing:
                raise UnknownEpisode(f"no episode {episode_id!r} in the view", "ids() gives its ids")
        return view

    def _slice(self, key: slice) -> Episodes:
        if key.step not in (None, 1):
            raise RequestError("a slice of episodes has no step", f"got {key.step}; use sample(n)")
        start, stop, _ = key.indices(len(self))
        return self._view(self._selection.sliced(start, max(start, stop)))

    def ids(self) -> Iterator[str]:
        """Ids of the episodes, in order, streamed."""
        for batch in self._selection.batches(self._table.snapshot(), ["episode_id"]):
            yield from batch["episode_id"].to_pylist()

    @property
    def columns(self) -> dict[str, str]:
        """Type of every column that `where`, `sort` and `to_pandas` take, those of annotators among them."""
        return self._table.columns()

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Columns of the episodes as an Arrow table, in order.

            >>> ws.episodes.to_arrow(["episode_id", "num_steps"])

        Args:
            columns: Names; None for all of `columns`.

        Raises:
            RequestError: A column does not exist.
        """
        if isinstance(columns, str):
            raise RequestError("columns are a list of names", f"got {columns!r}; give [{columns!r}]")
        snapshot = self._table.snapshot()
        return self._selection.table(snapshot, list(snapshot.columns() if columns is None else columns))

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Columns of the episodes as a pandas DataFrame, see `to_arrow`.

        Raises:
            RequestError: A column does not exist, or pandas is not installed.
        """
        import_optional("pandas", instead="use to_arrow()")
        return self.to_arrow(columns).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Columns of the episodes as a Polars DataFrame, see `to_arrow`.

        Raises:
            RequestError: A column does not exist, or Polars is not installed.
        """
        polars = import_optional("polars", instead="use to_arrow()")
        return polars.from_arrow(self.to_arrow(columns))

    def count_by(self, name: str) -> GroupTable:
        """Count by task, robot, operator, day or any name: hours, successes, accepted captions, reviewed episodes.

            >>> ws.episodes.where("dataset = 'bridge'").count_by("task")

        Args:
            name: "task" (the instruction), "scene", "operator", "day", a column of texts, flags or whole numbers, or a
                key of the metadata.

        Raises:
            RequestError: No episode has this name, or it is a column of another type.
        """
        from ares.curation import count_groups
        from ares.workspace.episode import GroupTable

        snapshot, selection = self._table.snapshot(), self._selection

        def read(columns: Sequence[str]) -> pa.RecordBatchReader:
            if selection.is_cut or selection.base is not None:
                return selection.table(snapshot, columns).to_reader()
            return snapshot.reader(columns, selection.where)

        statistics = count_groups(snapshot, name, read, self.columns)
        return GroupTable(statistics.groups, statistics)

    @refuse_unknown_keywords
    def find_duplicates(self, ways: Sequence[str] = (), seed: int = 0) -> DuplicateTable:
        """Find the near duplicates among the episodes, and keep the group of each in the column `duplicate_group`.

            >>> ws.episodes.where("dataset = 'bridge'").find_duplicates()
            >>> ws.episodes.where("num_duplicates > 0").sort("duplicate_group")

        It replaces what an earlier call has kept of these episodes; `num_duplicates`, `duplicate_by` and
        `duplicate_score` are columns, too.

        Args:
            ways: Of "signals", "pixels" and "text"; by default signals, and pixels where there are none.
            seed: Of the search.

        Raises:
            RequestError: A way does not exist, or "text" is the only one.
        """
        from ares.curation import keep_duplicate_groups
        from ares.workspace.episode import DuplicateTable

        if isinstance(ways, str):
            raise RequestError("ways are a list of names", f"got {ways!r}; give [{ways!r}]")
        return DuplicateTable(
            *keep_duplicate_groups(self._stores, list(self.ids()), list(ways), operator.index(seed))
        )

    def __repr__(self) -> str:
        count = len(self)
        rows = self._shown_rows()
        table = format_table([list(row.values()) for row in rows], list(rows[0] if rows else ()))
        more = f"\n... {count - len(rows):,} more" if count > len(rows) else ""
        return f"{count:,} episodes\n{table}{more}".rstrip()

    def _repr_html_(self) -> str:
        """The first episodes with a poster of each, for notebooks."""
        pictures = [best_poster_html(self._stores, episode) for episode in self.take(_SHOWN_ROWS)]
        return build_picture_table(f"{len(self):,} episodes", self._shown_rows(), pictures)

    def _shown_rows(self) -> list[dict[str, object]]:
        columns = [name for name in _SHOWN_COLUMNS if name in self.columns]
        rows: list[dict[str, object]] = self.take(_SHOWN_ROWS).to_arrow(columns).to_pylist()
        return rows

    def _view(self, selection: Selection) -> Episodes:
        return Episodes(self._stores, selection)

    @property
    def _table(self) -> EpisodeTable:
        if self._stores.is_closed:
            raise RequestError("the workspace is closed", f"ares.open({self._stores.path!r}) opens it again")
        return self._stores.tables.episodes


def _check_count(count: int) -> int:
    if not isinstance(count, SupportsIndex) or operator.index(count) < 0:
        raise RequestError("a number of episodes is a whole number from 0 on", f"got {count!r}")
    return operator.index(count)
