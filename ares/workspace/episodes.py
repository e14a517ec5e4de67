"""A lazy view of episodes: which rows it selects, in which order, before anything is read."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex, overload

from ares.console import count_of
from ares.episode import Episode
from ares.errors import EpisodeIndexError, RequestError, UnknownEpisode, WrongArguments, shorten
from ares.imports import import_optional
from ares.registry import column_of, suggest_column
from ares.workspace.arguments import read_episode_ids
from ares.workspace.episode import StoredEpisode, best_poster_html, read_rows
from ares.workspace.foreign_names import explain_mistakes, is_function, resolve_view_name
from ares.workspace.printed_tables import format_table, html_table
from ares.workspace.row_selection import Selection

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from ares.store import Action, EpisodeTable, Stores
    from ares.workspace.groups import Groups
    from ares.workspace.result_lists import DuplicateTable, GroupTable

# Ids in the filter of a job.
_MOST_LISTED = 20_000


# Episodes that the text and the page of a view show.
_SHOWN_ROWS = 8
_SHOWN_COLUMNS = ("episode_id", "dataset", "instruction", "num_steps", "success", "caption")


@explain_mistakes
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

    _called: ClassVar = "view"
    _resolve_name = resolve_view_name

    def __init__(self, stores: Stores, selection: Selection | None = None) -> None:
        self._stores = stores
        self._selection = selection or Selection()

    def where(self, filter: str | Callable[[StoredEpisode], object]) -> Episodes:
        """Keep the episodes that fulfil an SQL filter, in addition to those before.

            >>> ws.episodes.where("dataset = 'bridge' AND num_steps > 20")

        Args:
            filter: Condition over `columns`; or a function of an episode, which is called for each of them now.

        Raises:
            FilterError: The filter cannot be read.
            RequestError: A column does not exist.
        """
        if is_function(filter):
            import numpy as np

            return self[np.array([bool(filter(episode)) for episode in self], np.bool_)]  # type: ignore[no-any-return]
        if not isinstance(filter, str):
            raise RequestError(
                "a filter is a text in SQL",
                f"got a {type(filter).__name__}; give for example 'num_steps > 20'",
            )
        self._table.check(filter)
        return self._view(self._selection.filtered(filter))

    def sort(self, column: str | Iterable[str], descending: bool | Iterable[bool] = False) -> Episodes:
        """Order by columns, the first one first; missing values come last, and equal values keep the order before.

            >>> ws.episodes.sort("num_steps", descending=True)
            >>> ws.episodes.sort(["success", "num_steps"], descending=[True, False])

        Args:
            column: A column, or several.
            descending: Whether the highest value comes first; one flag for all columns, or one for each.

        Raises:
            RequestError: A column does not exist, or there is another number of flags.
        """
        names = [column_of(name, self.columns) for name in _read_names(column)]
        self._table.schema(names)
        flags = list(descending) if isinstance(descending, Iterable) else [descending] * len(names)
        if len(flags) != len(names) or isinstance(descending, str):
            raise WrongArguments("descending is one flag, or one for each column", f"got {descending!r}")
        # The first of a name decides.
        by_name = dict(reversed(list(zip(names, flags, strict=True))))
        order = ", ".join(f"{name} DESC" if by_name[name] else name for name in dict.fromkeys(names))
        return self._view(self._selection.sorted_by(order))

    def take(self, count: int) -> Episodes:
        """Keep the first episodes.

            >>> ws.episodes.take(10)

        Raises:
            RequestError: The number is below 0.
        """
        return self._view(self._selection.sliced(0, _check_count(count)))

    def sample(self, count: int | None = None, seed: int = 0) -> Episodes:
        """Choose episodes at random, in a random order; the same seed chooses the same ones in the same order.

            >>> ws.episodes.where("success").sample(20, seed=1)

        Args:
            count: How many; None for all of them.
            seed: Of the choice and the order.

        Raises:
            RequestError: The number is below 0.
        """
        size = None if count is None else _check_count(count)
        return self._view(self._selection.sampled(size, operator.index(seed)))

    def __and__(self, other: object) -> Episodes:
        """The episodes that are also in another view, a set, hits or a list of ids, in the order of this view.

        Unknown ids are left out. A Series of flags is a mask of this view.
        """
        return self._view(self._selection.combined("and", self._other(other)))

    # So that pandas leaves `mask & view` to this class.
    __rand__, __pandas_priority__ = __and__, 5_000

    def __or__(self, other: object) -> Episodes:
        return self._view(self._selection.combined("or", self._other(other)))

    __add__ = __or__

    def __sub__(self, other: object) -> Episodes:
        return self._view(self._selection.combined("minus", self._other(other)))

    def _other(self, other: object) -> Selection:
        """The rows of another view, or of what has ids: a set, hits, episodes, a list of ids."""
        other = (
            self[other] if str(getattr(other, "dtype", "")) == "bool" else getattr(other, "members", other)
        )
        if isinstance(other, Episodes):
            if other._stores is not self._stores and other._stores.location != self._stores.location:
                raise RequestError("the views are of two workspaces", "combine views of one")
            return other._selection
        return Selection(ids=frozenset(read_episode_ids(other)), base=Selection())  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self._selection.count(self._table.snapshot())

    def __iter__(self) -> Iterator[StoredEpisode]:
        snapshot = self._table.snapshot()
        for batch in self._selection.batches(snapshot, self._table.episode_columns(snapshot)):
            episodes = self._table.from_batch(batch)
            ids = [episode.episode_id for episode in episodes]
            rows = lru_cache(maxsize=1)(partial(read_rows, self._stores, ids))
            for episode in episodes:
                yield StoredEpisode.from_episode(episode, self._stores, rows)

    @overload
    def __getitem__(self, key: int) -> StoredEpisode: ...
    @overload
    def __getitem__(self, key: slice) -> Episodes: ...
    @overload
    def __getitem__(self, key: Any) -> Any: ...
    def __getitem__(self, key: Any) -> Any:
        """An episode, a view, or columns, by the kind of the key.

            >>> ws.episodes["3f2a"], ws.episodes[0], ws.episodes[10:20], ws.episodes[["3f2a90c1d2e3f405"]]
            >>> long = ws.episodes[ws.episodes["num_steps"] > 50]

        Args:
            key: The id of an episode, or its unique start; a number; a slice; a list of ids or of numbers; a mask of
                flags, one for each episode; the name of a column, or a list of names.

        Returns:
            A `StoredEpisode`; a view for a slice, a list or a mask; a pandas Series or DataFrame for columns.

        Raises:
            UnknownEpisode: No episode has that id; also a KeyError.
            EpisodeIndexError: There are not so many; also an IndexError.
            RequestError: Several ids start so, or the key is something else.
        """
        if isinstance(key, str):
            column = column_of(key, self.columns)
            if column in self.columns or column == "metadata":
                return self.to_pandas([key])[key]
            hint = suggest_column(key, self.columns) if key.isidentifier() else ""
            if hint:
                raise UnknownEpisode(f"no episode and no column {key!r}", hint.rstrip("; "))
            return StoredEpisode.from_episode(
                self._table.get_episode(self._table.resolve_id(key)), self._stores
            )
        if isinstance(key, slice):
            return self._slice(key)
        if isinstance(key, SupportsIndex) and not isinstance(key, bool) and not getattr(key, "ndim", 0):
            return self._at(operator.index(key))
        if isinstance(key, tuple) and any(
            isinstance(part, slice) or getattr(part, "ndim", 0) for part in key
        ):
            return self._read_cells(key)
        if (numbers := self._read_numbers(key)) is not None:
            return self._view(self._selection.numbered(numbers))
        if isinstance(key, list | tuple) and any(
            isinstance(name, str) and column_of(name, self.columns) in self.columns for name in key
        ):
            return self.to_pandas(key)
        if not isinstance(key, Iterable):
            kinds = "a number, a slice, an id, a column, a mask, or a list of ids, numbers or columns"
            raise WrongArguments(f"a view takes {kinds}", f"got {key!r}")
        return self._listed(read_episode_ids(key))

    def _read_cells(self, key: tuple[Any, ...]) -> Any:
        """Columns of some rows, as `loc` of pandas takes them. Raises WrongArguments for another key."""
        names = key[1] if len(key) == 2 and isinstance(key[1], list) else list(key[1:])
        if len(key) != 2 or not all(isinstance(name, str) for name in names):
            raise WrongArguments(
                "a view takes rows, and names of columns", "use view[:5, ['num_steps', 'success']]"
            )
        return self[key[0]][key[1]]

    def _read_numbers(self, key: object) -> Any:
        """(N,) int64 numbers of rows by a mask or a list of numbers; None for any other key."""
        import numpy as np

        key = key.to_numpy(zero_copy_only=False) if type(key).__module__.startswith("pyarrow") else key  # type: ignore[attr-defined]
        if isinstance(key, str | bytes | Mapping | set | frozenset) or not isinstance(key, Iterable):
            return None
        if not hasattr(key, "__array__"):
            key = list(key)
            if not all(isinstance(number, SupportsIndex | np.bool_) for number in key):
                return None
        values = np.asarray(key)
        if (
            values.ndim == 1
            and values.dtype == object
            and all(type(flag) is bool or flag is None for flag in values)
        ):
            values = values.astype(np.bool_)  # what is not known is not selected, as in a filter
        if values.ndim != 1 or values.dtype.kind not in "biu" or not values.size:
            return None
        count = len(self)
        if values.dtype.kind == "b":
            if len(values) != count:
                raise EpisodeIndexError(
                    "a mask has a flag for each episode",
                    f"{count_of(len(values), 'flag')}, {count_of(count, 'episode')}",
                )
            return np.flatnonzero(values)
        numbers = np.where(values < 0, values + count, values).astype(np.int64)
        if (wrong := values[(numbers < 0) | (numbers >= count)]).size:
            raise EpisodeIndexError(f"there is no episode number {wrong[0]}", f"the view has {count}")
        return numbers

    def __contains__(self, episode: object) -> bool:
        episode_id = episode.episode_id if isinstance(episode, Episode) else episode
        if not isinstance(episode_id, str):
            return False
        return column_of(episode_id, self.columns) in self.columns or len(self & [episode_id]) > 0

    def _at(self, number: int) -> StoredEpisode:
        start = number if number >= 0 else number + len(self)
        for episode in self._view(self._selection.sliced(start, start + 1)) if start >= 0 else ():
            return episode
        raise EpisodeIndexError(
            f"there is no episode number {number}", f"the view has {len(self)}, counted from 0"
        )

    def _listed(self, ids: list[str]) -> Episodes:
        view = self & ids
        existing = set(view.ids())
        for episode_id in ids:
            if episode_id not in existing:
                raise UnknownEpisode(f"no episode {episode_id!r} in the view", "ids() gives its ids")
        return view

    def _slice(self, key: slice) -> Episodes:
        if not all(isinstance(end, SupportsIndex | None) for end in (key.start, key.stop, key.step)):
            raise WrongArguments(
                "a slice of a view is by whole numbers", f"got {key.start!r} to {key.stop!r}"
            )
        start, stop, step = key.indices(len(self))
        if step != 1:
            import numpy as np

            return self._view(self._selection.numbered(np.arange(start, stop, step, dtype=np.int64)))
        return self._view(self._selection.sliced(start, max(start, stop)))

    def ids(self) -> Iterator[str]:
        """Ids of the episodes, in order."""
        # As one column: of many rows picking them is far slower than reading all.
        ids = self._selection.table(self._table.snapshot(), ["episode_id"])["episode_id"]
        for chunk in ids.chunks:
            yield from chunk.to_pylist()

    @property
    def columns(self) -> dict[str, str]:
        """Type of every column that `where`, `sort` and `to_pandas` take, those of annotators among them."""
        return self._table.columns()

    def condition(self) -> str:
        """The filter of these episodes: as it was written, or of a list, a slice or a sample their ids.

        Raises RequestError for a list of more than 20,000.
        """
        from ares.store import ids_filter

        if self._selection.base is None and not self._selection.is_cut:
            return self._selection.where
        ids = list(self.ids())
        if len(ids) > _MOST_LISTED:
            raise RequestError(
                f"a list has at most {_MOST_LISTED:,} episodes here",
                f"got {len(ids):,}; freeze them by ws.sets.create(name, view) and give where=\"in_set('name')\"",
            )
        return ids_filter(ids)

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Columns of the episodes as an Arrow table, in order.

            >>> ws.episodes.to_arrow(["episode_id", "num_steps"])

        Args:
            columns: Names; None for all of `columns`.

        Raises:
            RequestError: A column does not exist.
        """
        snapshot = self._table.snapshot()
        known = snapshot.columns()
        names = _read_names(known if columns is None else columns)
        stored = [column_of(name, known) for name in names]
        table = self._selection.table(snapshot, list(dict.fromkeys(stored)))
        return table.select(stored).rename_columns(names)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The columns for any library of tables: `polars.DataFrame(view)`, `pyarrow.table(view)`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Columns of the episodes as a pandas DataFrame, see `to_arrow`.

        Raises:
            RequestError: A column does not exist, or pandas is not installed.
        """
        import_optional("pandas", instead="use to_arrow()")
        return self.to_arrow(columns).to_pandas()

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
        from ares.workspace.result_lists import GroupTable

        statistics = count_groups(self._table.snapshot(), name, self._read_batches, self.columns)
        return GroupTable(statistics.groups, statistics)

    def set_values(self, column: str, values: Any) -> Action:
        """Set values of a column of your own for these episodes, see `Workspace.set_values`.

            >>> view.set_values("seen", True)
            >>> view.set_values("per_second", lambda row: row["num_steps"] / row["duration_seconds"])

        Args:
            column: The column.
            values: One value for all; as many as there are episodes, in order; by id; or a function of an episode.

        Raises:
            RequestError: As `Workspace.set_values`, or their number is another one.
        """
        from ares.curation import set_values
        from ares.workspace.arguments import make_values_array, read_values

        ids = self.to_arrow(["episode_id"])["episode_id"].combine_chunks()
        if isinstance(values, Mapping):
            return set_values(self._stores, column, *read_values(values))
        if is_function(values):
            values = [values(episode) for episode in self]
        elif values is None or isinstance(values, str) or not hasattr(values, "__len__"):
            values = [values] * len(ids)
        if len(values) != len(ids):
            raise RequestError(
                "a view takes a value for each episode",
                f"{count_of(len(values), 'value')}, {count_of(len(ids), 'episode')}",
            )
        return set_values(self._stores, column, ids, make_values_array(values))

    def groupby(self, column: str | Iterable[str]) -> Groups[Episodes]:
        """The episodes by the values of a column, or of several, see `Groups`; the metadata is not taken.

            >>> for robot, view in ws.episodes.groupby("robot"):
            ...     print(robot, len(view))
            >>> ws.episodes.groupby("dataset").mean()["num_steps"]

        Raises:
            RequestError: The column does not exist.
        """
        from ares.workspace.groups import Groups

        names = _read_names(column)
        self.take(0).to_arrow(names)  # refuses what is no column
        return Groups(self, names)

    def info(self) -> None:
        """Print the columns by name: their types, and in how many episodes each has a value.

        Raises:
            RequestError: pandas is not installed.
        """
        columns = self.columns
        counts = dict.fromkeys(columns, 0)
        for batch in self._read_batches(list(columns)):
            for name, values in zip(batch.schema.names, batch.columns, strict=True):
                counts[name] += len(values) - values.null_count
        frame = import_optional("pandas").DataFrame({"type": columns, "episodes": counts})
        print(frame.rename_axis("column").to_string())

    def _read_batches(self, columns: Sequence[str]) -> pa.RecordBatchReader:
        """Columns of the episodes in any order, streamed."""
        snapshot, selection = self._table.snapshot(), self._selection
        if selection.is_cut or selection.base is not None:
            return selection.table(snapshot, columns).to_reader()
        return snapshot.reader(columns, selection.where)

    def plot(self, column: str = "num_steps", color: str = "") -> Any:
        """A chart of a column for a notebook: how numbers spread, or how often each value is.

        Args:
            column: The column.
            color: A column that colours the bars, or "".

        Raises:
            RequestError: A column does not exist, or the extra `notebook` is not installed.
        """
        from ares.workspace.view_tables import plot_column

        return plot_column(self.to_pandas(list(dict.fromkeys(filter(None, (column, color))))), column, color)

    def find_duplicates(self) -> DuplicateTable:
        """Find the copies among the episodes, and keep the group of each in the column `duplicate_group`.

            >>> ws.episodes.where("dataset = 'bridge'").find_duplicates()
            >>> ws.episodes.where("num_duplicates > 0").sort("duplicate_group")

        It replaces what an earlier call has kept of these episodes; `num_duplicates`, `duplicate_by` and
        `duplicate_score` are columns, too.
        """
        from ares.curation import keep_duplicate_groups
        from ares.workspace.result_lists import DuplicateTable

        return DuplicateTable(*keep_duplicate_groups(self._stores, list(self.ids())))

    def __repr__(self) -> str:
        count = len(self)
        rows = self._shown_rows()
        table = format_table([list(row.values()) for row in rows], list(rows[0] if rows else ()))
        more = f"\n... {count - len(rows):,} more" if count > len(rows) else ""
        return f"{count_of(count, 'episode', comma=True)}\n{table}{more}".rstrip()

    def _repr_html_(self) -> str:
        """The first episodes with a poster of each, for notebooks."""
        pictures = [best_poster_html(self._stores, episode) for episode in self.take(_SHOWN_ROWS)]
        rows = self._shown_rows()
        header = ("", *rows[0]) if rows else ()
        table = html_table([tuple(row.values()) for row in rows], header, pictures)
        return f"<div><p><b>{count_of(len(self), 'episode', comma=True)}</b></p>{table}</div>"

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


def _read_names(columns: object) -> list[str]:
    """The names of columns. Raises WrongArguments for what is neither a name nor some names."""
    names = [columns] if isinstance(columns, str) else list(columns) if isinstance(columns, Iterable) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise WrongArguments(
            "name one column, or several", f"got {shorten(repr(columns), 60)}; give ['num_steps']"
        )
    return names


def _check_count(count: int) -> int:
    if not isinstance(count, SupportsIndex) or operator.index(count) < 0:
        raise WrongArguments("a number of episodes is a whole number from 0 on", f"got {count!r}")
    return operator.index(count)
