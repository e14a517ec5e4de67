"""The LanceDB tables of a workspace: episodes, trajectories, segments, and vector tables per embedding space."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from ares.errors import RequestError, StoreError
from ares.store.compaction import (
    compact,
    count_unused_files,
    delete_unused_files,
    drop_old_versions,
    erase_deleted,
)
from ares.store.connection import LanceConnection
from ares.store.lance import (
    EpisodeTable,
    RemovedTable,
    TrajectoryTable,
    delete_rows,
    episode_schema,
    lance_errors,
    trajectory_schema,
)

if TYPE_CHECKING:
    import lance

    from ares.store.lance import ScalarIndexKind, SegmentTable, TableWriter
    from ares.store.vectors import TextTable, VectorTable

_VECTORS, _TEXTS = "vectors_", "texts_"
# Text columns that get vectors and a full-text index, by table.
_TEXT_COLUMNS = {"episodes": "instruction", "segments": "text"}
_SPACE_NAME = re.compile(r"[A-Za-z0-9_-]+")
# Below this many rows a scan is as fast as an index of ids.
_MIN_INDEXED_ROWS = 10_000
# Rows that are looked at to tell whether a text column has few values, and how often each value must be among them.
_SAMPLE_ROWS, _ROWS_PER_VALUE = 1_000, 10


class Tables:
    """The tables of one workspace; each is opened on first use.

    Args:
        uri: Folder or object-store URI of the tables.

    Attributes:
        connection: Opens tables by name, for checks and repairs.

    Raises:
        StoreError: The folder cannot be created.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.connection = LanceConnection(uri)
        self._vectors: dict[str, VectorTable] = {}
        self._texts: dict[str, TextTable] = {}

    def __repr__(self) -> str:
        return f"Tables({self.uri!r})"

    @cached_property
    def episodes(self) -> EpisodeTable:
        """One row per episode."""
        return EpisodeTable(
            self.connection.table("episodes", episode_schema(), text_column="instruction"),
            self.trajectories,
            self.uri.rstrip("/").rpartition("/")[0],
            self.removed,
        )

    @cached_property
    def removed(self) -> RemovedTable:
        """The rows of removed episodes."""
        return RemovedTable(self.connection.lazy_table("removed_episodes"))

    @cached_property
    def trajectories(self) -> TrajectoryTable:
        """Signals by episode."""
        return TrajectoryTable(self.connection.table("trajectories", trajectory_schema()))

    @cached_property
    def segments(self) -> SegmentTable:
        """One row per caption."""
        from ares.store.lance import SegmentTable, segment_schema

        return SegmentTable(self.connection.table("segments", segment_schema(), text_column="text"))

    def vectors(self, space: str) -> VectorTable:
        """Return the frame vectors of an embedding space; the first vectors added create the table.

        Raises:
            RequestError: The name cannot be that of a space.
        """
        from ares.store.vectors import VectorTable

        # One handle per space: it caches the newest version and its index.
        table = self.connection.lazy_table(_table_name(_VECTORS, space))
        return self._vectors.setdefault(space, VectorTable(table))

    def texts(self, space: str) -> TextTable:
        """Return the vectors of captions and instructions in an embedding space; created and named as `vectors`."""
        from ares.store.vectors import TextColumn, TextTable

        sources = [
            TextColumn(table=name, column=column, dataset=partial(self.connection.open_dataset, name))
            for name, column in _TEXT_COLUMNS.items()
        ]
        table = self.connection.lazy_table(_table_name(_TEXTS, space))
        return self._texts.setdefault(space, TextTable(table, sources))

    def spaces(self) -> list[str]:
        """Return the embedding spaces that have frame vectors, sorted."""
        return self._names_without(_VECTORS)

    def text_spaces(self) -> list[str]:
        """Return the embedding spaces that have text vectors, sorted."""
        return self._names_without(_TEXTS)

    def _names_without(self, prefix: str) -> list[str]:
        names = self.connection.table_names()
        return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))

    def optimize(self, names: Sequence[str] = ()) -> None:
        """Compact the tables, update their indexes and drop old versions, where that is due.

        A job calls this at its end; see `ares.store.compaction`.

        Args:
            names: Only these tables; a long job calls this in between, for the tables that it writes to.

        Raises:
            StoreError: A table cannot be written.
        """
        for name in names or self.connection.table_names():
            with lance_errors(name):
                table = self.connection.open_table(name)
                if table is None:
                    raise StoreError(f"table {name} does not exist")
                _create_scalar_indexes(table, self.connection.newest_version(name), name)
                compact(self.connection.newest_version(name))

    def delete_episodes(self, name: str, episode_ids: Collection[str]) -> None:
        """Delete the rows of some episodes from any table with a column episode_id. Raises StoreError."""
        table = self.connection.open_table(name)
        if table is not None:
            delete_rows(table, "episode_id", episode_ids)

    def erase_deleted(self, names: Sequence[str]) -> None:
        """Write tables anew that have deleted rows, without their indexes; `optimize` and `refresh_indexes` follow.

        Raises:
            StoreError: A table cannot be written.
        """
        for name in names:
            with lance_errors(name):
                table = self.connection.open_table(name)
                if table is None:
                    continue
                text_column = _TEXT_COLUMNS.get(name, "")
                erase_deleted(table, text_column)

    def drop_old_versions(self, names: Sequence[str]) -> None:
        """Delete all versions of tables but the newest, also those that somebody may read. Raises StoreError."""
        for name in names:
            with lance_errors(name):
                drop_old_versions(self.connection.newest_version(name))

    def unused_vector_files(self) -> dict[str, int]:
        """Files of vector tables that belong to no version, where there are any: by table. Raises StoreError.

        A worker that is killed leaves what it was writing, and a run what its workers had written.
        """
        counts = {}
        for name in (f"{_VECTORS}{space}" for space in self.spaces()):
            with lance_errors(name):
                counts[name] = count_unused_files(self.connection.newest_version(name))
        return {name: count for name, count in counts.items() if count}

    def delete_unused_files(self, names: Sequence[str]) -> None:
        """Delete the files of tables that belong to no version; nobody may be writing them. Raises StoreError."""
        for name in names:
            with lance_errors(name):
                delete_unused_files(self.connection.newest_version(name))

    def refresh_indexes(self, report: Callable[[str], None], flat_rows: int | None = None) -> None:
        """Refresh the index of every vector table; one that fails is reported and searched as before.

        Args:
            report: Takes a line for a person.
            flat_rows: Number of rows from which a table has an index, or None for the default.
        """
        from ares.store.vectors import FLAT_ROWS

        for label, table in self._vector_tables():
            _refresh_index(table, label, report, FLAT_ROWS if flat_rows is None else flat_rows)

    def unindexed_vectors(self, flat_rows: int | None = None) -> dict[str, int]:
        """Vectors that searches compare one by one until the next `refresh_indexes`, where they are many: by table.

        Args:
            flat_rows: Number of vectors that are many, or None for the number from which a table has an index.
        """
        from ares.store.vectors import FLAT_ROWS, unindexed_rows

        many = FLAT_ROWS if flat_rows is None else flat_rows
        counts = {label: unindexed_rows(table.state()) for label, table in self._vector_tables()}
        return {label: count for label, count in counts.items() if count >= many}

    def _vector_tables(self) -> list[tuple[str, VectorTable | TextTable]]:
        """Every vector table, with what a person calls it."""
        return [
            *((space, self.vectors(space)) for space in self.spaces()),
            *((f"the texts in {space}", self.texts(space)) for space in self.text_spaces()),
        ]


def open_tables(uri: str) -> Tables:
    """Open the tables in a folder or under an object-store URI. Raises StoreError when it cannot be used."""
    return Tables(uri)


def _table_name(prefix: str, space: str) -> str:
    if not _SPACE_NAME.fullmatch(space):
        raise RequestError(f"{space!r} cannot be the name of a space", "use letters, digits, '_' and '-'")
    return f"{prefix}{space}"


def _refresh_index(
    table: VectorTable | TextTable, label: str, report: Callable[[str], None], min_rows: int
) -> None:
    state = table.state()
    if state.rows >= min_rows and state.indexed < state.rows:
        report(f"indexing {state.rows - state.indexed} vectors of {label}; they can be searched meanwhile")
    try:
        tuning = table.refresh(min_rows)
    except StoreError as error:
        report(f"the index of {label} could not be updated and is used as before: {error}")
        return
    if tuning and tuning.kind == "flat":
        report(f"no index of {label} reaches the target recall: its search stays exact, and slow")


def _create_scalar_indexes(table: TableWriter, dataset: lance.LanceDataset, name: str) -> None:
    """Create the indexes of the columns that most filters use.

    At a million episodes they take a count from 20 ms to 1 ms. Numbers, bools and lists have none: counting them
    takes less than 20 ms, and an index slows down a filter that matches many episodes.
    """
    if dataset.count_rows() < _MIN_INDEXED_ROWS:
        return
    indexed = {column for columns in table.indexed_columns().values() for column in columns}
    kinds: dict[str, ScalarIndexKind] = {"episode_id": "BTREE"}
    if name == "episodes":
        kinds |= dict.fromkeys(("dataset", *_categorical_columns(dataset, indexed)), "BITMAP")
    for column, kind in kinds.items():
        if column in dataset.schema.names and column not in indexed:
            table.create_index(column, kind)


def _categorical_columns(dataset: lance.LanceDataset, indexed: Collection[str]) -> list[str]:
    """Text columns of annotators that have few values, such as grades, judged by a sample of the rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    known = {*indexed, *episode_schema().names}
    texts = [field.name for field in dataset.schema if field.name not in known and field.type == pa.string()]
    if not texts:
        return []
    rows = np.linspace(0, dataset.count_rows() - 1, _SAMPLE_ROWS, dtype=np.int64)
    sample = dataset.take(np.unique(rows).tolist(), columns=texts)
    counts = {name: pc.value_counts(sample[name].drop_null()).field("counts").to_pylist() for name in texts}
    return [name for name in texts if counts[name] and np.mean(counts[name]) >= _ROWS_PER_VALUE]
