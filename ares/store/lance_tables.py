"""Opens, creates and compacts the Lance tables of a workspace, in a folder or an object store."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.errors import RequestError, StoreError
from ares.io import parse_path, translate_remote_errors
from ares.store.lance.episode_snapshot import no_set
from ares.store.lance.episodes import EpisodeTable, RemovedEpisodesTable, delete_rows
from ares.store.lance.lance_api import (
    data_bytes,
    has_fulltext_index,
    lance_errors,
    max_unindexed_rows,
    open_session,
)
from ares.store.lance.schema import episode_schema, trajectory_schema
from ares.store.lance.table import (
    CreateOnWriteTable,
    LanceTable,
    TableWriter,
    create_table,
    undo_truncated_writes,
)
from ares.store.lance.text import create_fulltext_index
from ares.store.lance.trajectories import TrajectoryTable

if TYPE_CHECKING:
    import lance
    import pyarrow as pa
    from lance.lance import _Session as Session

    from ares.store.lance.episode_snapshot import FindSet
    from ares.store.lance.segments import SegmentTable
    from ares.store.lance.table import ScalarIndexKind
    from ares.store.vectors.tables import VectorTable
    from ares.store.vectors.texts import TextVectorTable


_INDEX_CACHE, _METADATA_CACHE = 2 << 30, 128 << 20
# Writers look up ids; vectors and texts are searched by the readers.
_WRITER_INDEX_CACHE, _WRITER_METADATA_CACHE = 256 << 20, 32 << 20
# What Lance says of a folder without a version.
_MISSING = "was not found"
# A version is kept this long after a newer one replaced it, so that its readers can finish.
KEEP_VERSIONS = timedelta(hours=1)
# Fragments below their full size that a table may have; with more of them they are merged.
_MAX_SMALL_FRAGMENTS = 8
# Full size. By default Lance merges into fragments of a million rows, which are fifty gigabytes of signals.
_FRAGMENT_BYTES = 64 * 2**20
_FRAGMENT_ROWS_RANGE = (1_000, 2**20)
_DELETED_SHARE = 0.1
# Rows newer than an index are searched one by one; fewer than this share take no noticeable time.
_UNINDEXED_SHARE = 0.02
# No version is so old: what is cleaned up then are files that belong to none.
_EVERY_VERSION = timedelta(days=36_500)
_VECTORS, _TEXTS = "vectors_", "texts_"
# Text columns that get vectors and a full-text index, by table.
_TEXT_COLUMNS = {"episodes": "instruction", "segments": "text"}
_SPACE_NAME = re.compile(r"[A-Za-z0-9_-]+")
# Below this many rows a scan is as fast as an index of ids.
_MIN_INDEXED_ROWS = 10_000
# Rows that are looked at to tell whether a text column has few values, and how often each value must be among them.
_SAMPLE_ROWS, _ROWS_PER_VALUE = 1_000, 10


class LanceConnection:
    """The tables of one folder, which LanceDB opens as a database. They are listed, read and written without it.

    Args:
        uri: Folder or object-store URI of the tables.

    Raises:
        StoreError: The folder cannot be created.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        # Tables of an object store that have a version, which takes a request to know.
        self._complete_tables: set[str] = set()
        with lance_errors(uri):
            if not self.is_remote:
                Path(uri).mkdir(parents=True, exist_ok=True)

    def __repr__(self) -> str:
        return f"LanceConnection({self.uri!r})"

    @property
    def is_remote(self) -> bool:
        """Whether the tables are on an object store."""
        return "://" in self.uri

    @cached_property
    def _session(self) -> Session:
        """Cache of indexes and file headers, shared by every reader of these tables."""
        # Bounded: the index of ten million frames is about a gigabyte.
        return open_session(_INDEX_CACHE, _METADATA_CACHE)

    @cached_property
    def _writer_session(self) -> Session:
        # By default Lance caches up to seven gigabytes, of every version that was written.
        return open_session(_WRITER_INDEX_CACHE, _WRITER_METADATA_CACHE)

    def table_names(self) -> list[str]:
        """Return the names of all existing tables, sorted."""
        with lance_errors(self.uri), translate_remote_errors(self.uri):
            folder = parse_path(self.uri)
            paths = list(folder.iterdir()) if folder.is_dir() else []
        names = [path.name.removesuffix(".lance") for path in paths if path.name.endswith(".lance")]
        return sorted(filter(self._has_version, names))

    def open_dataset(self, name: str) -> lance.LanceDataset | None:
        """Open the newest version of a table for reading; None when it does not exist. Raises StoreError."""
        return self.newest_version(name) if name in self.table_names() else None

    def open_table(self, name: str) -> TableWriter | None:
        """The writer of a table; None when it does not exist."""
        return self._writer(name) if name in self.table_names() else None

    def drop_table(self, name: str) -> None:
        """Delete a table with all its versions. Raises StoreError when it cannot be deleted."""
        import lance

        with lance_errors(name):
            lance.LanceDataset.drop(self._table_uri(name))

    def open_or_create(self, name: str, schema: pa.Schema, text_column: str = "") -> TableWriter:
        """The writer of a table, which is created when it does not exist.

        Args:
            name: Name of the table.
            schema: Columns of a new table.
            text_column: Column that gets a full-text index, or "".

        Raises:
            StoreError: The table cannot be opened or created.
        """
        self._create_missing(name, schema, text_column)
        return self._writer(name)

    def _create_missing(self, name: str, schema: pa.Schema, text_column: str) -> None:
        """Create a table and its full-text index, as far as they do not exist."""
        if self._exists(name, text_column):
            return
        with self._creation_lock(), lance_errors(name):
            # Another process may have created it while this one waited for the lock.
            if not self._exists(name):
                self._create(name, schema)
            if not self._exists(name, text_column):
                create_fulltext_index(self._writer(name), text_column)

    def _exists(self, name: str, text_column: str = "") -> bool:
        """Whether a table exists, with a full-text index where it has a text column."""
        return name in self.table_names() and (
            not text_column or has_fulltext_index(self.newest_version(name))
        )

    def table(self, name: str, schema: pa.Schema, text_column: str = "") -> LanceTable:
        """Return a handle on a table, created now if it does not exist, as in `open_or_create`. Raises StoreError."""
        self._create_missing(name, schema, text_column)
        return LanceTable(dataset=partial(self.newest_version, name), writer=partial(self._writer, name))

    def lazy_table(self, name: str) -> CreateOnWriteTable:
        """Return a handle on a table that its first write creates."""
        return CreateOnWriteTable(
            name=name,
            dataset=partial(self.open_dataset, name),
            writer=partial(self.open_table, name),
            create=partial(self.open_or_create, name),
        )

    def newest_version(self, name: str) -> lance.LanceDataset:
        """Open the newest version of an existing table for reading. Raises StoreError."""
        return self._open(name, self._session)

    def _open(self, name: str, session: Session) -> lance.LanceDataset:
        import lance

        with lance_errors(name):
            return lance.dataset(self._table_uri(name), session=session)

    def _writer(self, name: str) -> TableWriter:
        return TableWriter(name, lambda: self._open(name, self._writer_session))

    def _create(self, name: str, schema: pa.Schema) -> None:
        # On an object store another process may create it at the same time; only one of them succeeds.
        try:
            create_table(self._table_uri(name), schema)
        except (ValueError, OSError, RuntimeError):
            if not self.is_remote or name not in self.table_names():
                raise

    def _has_version(self, name: str) -> bool:
        # A folder without a version is a table being created, or one whose creator was killed.
        if not self.is_remote:
            return any(Path(self._table_uri(name), "_versions").glob("*.manifest"))
        if name not in self._complete_tables:
            import lance

            try:
                lance.dataset(self._table_uri(name), session=self._session)
            except (ValueError, OSError, RuntimeError) as error:
                if _MISSING in str(error):
                    return False
            else:
                self._complete_tables.add(name)
        return True

    def _table_uri(self, name: str) -> str:
        return f"{self.uri.rstrip('/')}/{name}.lance"

    @contextmanager
    def _creation_lock(self) -> Iterator[None]:
        from filelock import FileLock

        if self.is_remote:
            yield
            return
        with lance_errors(self.uri):
            lock = FileLock(Path(self.uri) / ".making.lock")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


def compact(dataset: lance.LanceDataset) -> None:
    """Compact and index the newest version where that is due, and drop old versions; fast when little was written."""
    rows = _fragment_rows(dataset)
    if _needs_compaction(dataset, rows):
        with undo_truncated_writes(dataset):
            dataset.optimize.compact_files(
                target_rows_per_fragment=rows,
                materialize_deletions_threshold=_DELETED_SHARE,
                # Every thread has fragments in memory; with one, the end of a job needs no more memory than the rest.
                num_threads=1,
            )
    if max_unindexed_rows(dataset) > _UNINDEXED_SHARE * dataset.count_rows():
        dataset.optimize.optimize_indices()
    _drop_versions(dataset)


def erase_deleted(table: TableWriter, text_column: str) -> None:
    """Write the fragments again that have deleted rows; indexes, which hold deleted values too, are dropped before.

    The full-text index is created again at once: a search without it returns nothing.

    Args:
        table: The table, open for writing.
        text_column: Column with a full-text index, or "".
    """
    for name in table.indexed_columns():
        table.drop_index(name)
    dataset = table.newest()
    with undo_truncated_writes(dataset):
        dataset.optimize.compact_files(
            target_rows_per_fragment=_fragment_rows(dataset),
            materialize_deletions=True,
            materialize_deletions_threshold=0.0,
            num_threads=1,
        )
    # A version tells what led to it: the condition of a deletion, with its ids, must not be that of the newest one.
    table.newest().update_config({"ares:erased": uuid.uuid4().hex})
    if text_column:
        create_fulltext_index(table, text_column)


def drop_old_versions(dataset: lance.LanceDataset) -> None:
    """Delete all versions but the newest, and every file that belongs to none."""
    dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)


def count_unused_files(dataset: lance.LanceDataset) -> int:
    """Data files of a table that belong to no version of it."""
    unused = dataset.explain_cleanup_old_versions(older_than=_EVERY_VERSION, delete_unverified=True)
    return int(unused.stats.data_files_removed)


def delete_unused_files(dataset: lance.LanceDataset) -> None:
    """Delete the files that belong to no version; nobody may be writing the table."""
    dataset.cleanup_old_versions(older_than=_EVERY_VERSION, delete_unverified=True)


def _drop_versions(dataset: lance.LanceDataset) -> None:
    """Drop versions that nobody can have opened within `KEEP_VERSIONS`."""
    now = datetime.now()
    old = [version for version in dataset.versions() if _version_age(version, now) >= KEEP_VERSIONS]
    # A version of last year may have been the newest a second ago, so the last of the old ones stays. They are named
    # one by one: Lance reckons ages by a clock of its own, a moment later.
    if len(old) > 1:
        dataset.cleanup_old_versions(versions=[version["version"] for version in old[:-1]])


def _version_age(version: lance.Version, now: datetime) -> timedelta:
    created: datetime | int = version["timestamp"]
    assert isinstance(created, datetime)
    return now - created.replace(tzinfo=None)


def _fragment_rows(dataset: lance.LanceDataset) -> int:
    fragments = dataset.get_fragments()
    rows = sum(fragment.physical_rows for fragment in fragments)
    low, high = _FRAGMENT_ROWS_RANGE
    return max(low, min(high, _FRAGMENT_BYTES * rows // max(data_bytes(dataset), 1)))


def _needs_compaction(dataset: lance.LanceDataset, full_rows: int) -> bool:
    fragments = dataset.get_fragments()
    num_small = sum(fragment.physical_rows < full_rows for fragment in fragments)
    has_deletions = any(
        fragment.num_deletions > _DELETED_SHARE * fragment.physical_rows for fragment in fragments
    )
    return num_small > _MAX_SMALL_FRAGMENTS or has_deletions


class Tables:
    """The tables of one workspace; each is opened on first use.

    Args:
        uri: Folder or object-store URI of the tables.
        find_set: Finds the members of a set that a filter names; see `ares.store.actions`.

    Attributes:
        connection: Opens tables by name, for checks and repairs.

    Raises:
        StoreError: The folder cannot be created.
    """

    def __init__(self, uri: str, find_set: FindSet) -> None:
        self.uri = uri
        self.connection = LanceConnection(uri)
        self._find_set = find_set
        self._vectors: dict[str, VectorTable] = {}
        self._texts: dict[str, TextVectorTable] = {}

    def __repr__(self) -> str:
        return f"Tables({self.uri!r})"

    def applied_numbers(self) -> dict[str, int]:
        """How far the tables follow the log, as numbers by key; see `ares.store.sync.apply`. Raises StoreError."""
        dataset = self.connection.open_dataset("index_state")
        if dataset is None:
            return {}
        with lance_errors("index_state"):
            rows = dataset.to_table().to_pylist()
        return {row["key"]: int(row["sequence"]) for row in rows if row["sequence"]}

    @cached_property
    def episodes(self) -> EpisodeTable:
        """One row per episode."""
        return EpisodeTable(
            self.connection.table("episodes", episode_schema(), text_column="instruction"),
            lambda: self.trajectories,
            self.uri.rstrip("/").rpartition("/")[0],
            self.removed,
            self._find_set,
        )

    @cached_property
    def removed(self) -> RemovedEpisodesTable:
        """The rows of removed episodes."""
        return RemovedEpisodesTable(self.connection.lazy_table("removed_episodes"), self._find_set)

    @cached_property
    def trajectories(self) -> TrajectoryTable:
        """Signals by episode."""
        return TrajectoryTable(self.connection.table("trajectories", trajectory_schema()))

    @cached_property
    def segments(self) -> SegmentTable:
        """One row per caption."""
        from ares.store.lance.segments import SegmentTable, segment_schema

        table = self.connection.table("segments", segment_schema(), text_column="text")
        return SegmentTable(table, lambda where: self.episodes.ids(where))

    def vectors(self, space: str) -> VectorTable:
        """Return the frame vectors of an embedding space; the first vectors added create the table.

        Raises:
            RequestError: The name cannot be that of a space.
        """
        from ares.store.vectors.tables import VectorTable

        # One handle per space: it caches the newest version and its index.
        table = self.connection.lazy_table(_table_name(_VECTORS, space))
        return self._vectors.setdefault(space, VectorTable(table))

    def texts(self, space: str) -> TextVectorTable:
        """Return the vectors of captions and instructions in an embedding space; created and named as `vectors`."""
        from ares.store.vectors.texts import TextColumn, TextVectorTable

        sources = [
            TextColumn(table=name, column=column, dataset=partial(self.connection.open_dataset, name))
            for name, column in _TEXT_COLUMNS.items()
        ]
        table = self.connection.lazy_table(_table_name(_TEXTS, space))
        return self._texts.setdefault(space, TextVectorTable(table, sources))

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

        A job calls this at its end; see `ares.store.lance_tables`.

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
        """Write tables again that have deleted rows, without their indexes; `optimize` and `refresh_indexes` follow.

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
        from ares.store.vectors.index import FLAT_ROWS

        for label, table in self._vector_tables():
            _refresh_index(table, label, report, FLAT_ROWS if flat_rows is None else flat_rows)

    def unindexed_vectors(self, flat_rows: int | None = None) -> dict[str, int]:
        """Vectors that searches compare one by one until the next `refresh_indexes`, where they are many: by table.

        Args:
            flat_rows: Number of vectors that are many, or None for the number from which a table has an index.
        """
        from ares.store.vectors.index import FLAT_ROWS, unindexed_rows

        many = FLAT_ROWS if flat_rows is None else flat_rows
        counts = {label: unindexed_rows(table.state()) for label, table in self._vector_tables()}
        return {label: count for label, count in counts.items() if count >= many}

    def _vector_tables(self) -> list[tuple[str, VectorTable | TextVectorTable]]:
        """Every vector table, with what a person calls it."""
        return [
            *((space, self.vectors(space)) for space in self.spaces()),
            *((f"the texts in {space}", self.texts(space)) for space in self.text_spaces()),
        ]


def open_tables(uri: str, find_set: FindSet = no_set) -> Tables:
    """Open the tables in a folder or under an object-store URI. Raises StoreError when it cannot be used."""
    return Tables(uri, find_set)


def _table_name(prefix: str, space: str) -> str:
    if not _SPACE_NAME.fullmatch(space):
        raise RequestError(f"{space!r} cannot be the name of a space", "use letters, digits, '_' and '-'")
    return f"{prefix}{space}"


def _refresh_index(
    table: VectorTable | TextVectorTable, label: str, report: Callable[[str], None], min_rows: int
) -> None:
    from ares.store.vectors.index import TARGET

    state = table.state()
    if state.rows >= min_rows and state.indexed < state.rows:
        report(
            f"indexing {count_of(state.rows - state.indexed, 'vector')} of {label}; they can be searched meanwhile"
        )
    try:
        record = table.refresh(min_rows)
    except StoreError as error:
        report(f"the index of {label} could not be updated and is used as before: {error}")
        return
    if record and record.kind == "flat":
        report(
            f"an index of {label} finds {record.recall:.1%} of the true nearest, and {TARGET:.0%} are wanted: "
            "its search stays exact, and slow"
        )
    elif record and record != state.record:
        report(f"the index of {label} finds {record.recall:.1%} of the true nearest")


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
        kinds["key"] = "BTREE"
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
