"""One Lance table through pylance: its newest version for reading, and a writer, each call of which is one version."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    import lance
    import pyarrow as pa


# Version of the files of a new table; later rows are written as the first ones. In 2.2, the default of Lance 14, a
# column of nulls alone costs 2 ms for each row that is read by its number: docs/why/021-one-library-for-tables.md.
_FILE_FORMAT: Final = "2.1"
# Slices of less are no matter.
_SMALL_BYTES = 1_000_000
ScalarIndexKind = Literal["INVERTED", "BTREE", "BITMAP"]


class TableWriter:
    """A Lance table, open for writing. Every call starts from the newest version, whoever wrote it.

    Lance runs a write again that met another one, up to ten times, where the two do not contradict each other.

    Args:
        name: Name of the table, for messages.
        newest: Opens its newest version.

    Raises:
        OSError, RuntimeError, ValueError: From every method, when Lance cannot write; see `lance_errors`.
    """

    def __init__(self, name: str, newest: Callable[[], lance.LanceDataset]) -> None:
        self.name = name
        self.newest = newest

    @property
    def schema(self) -> pa.Schema:
        """Columns of the newest version."""
        return self.newest().schema

    def add(self, rows: pa.Table) -> None:
        """Append rows; columns that they lack are null."""
        with undo_truncated_writes(self.newest()) as dataset:
            dataset.insert(rows)

    def update(self, key: str, rows: pa.Table) -> None:
        """Set columns of the existing rows with these keys; rows of unknown keys are ignored."""
        if rows.get_total_buffer_size() > 2 * rows.nbytes + _SMALL_BYTES:
            # A slice holds the memory of all that it was cut from, and Lance counts that for each of its batches: of a
            # table of a million rows it refused a hundred thousand ("Resources exhausted").
            rows = rows.take(list(range(len(rows))))
        with undo_truncated_writes(self.newest()) as dataset:
            dataset.merge_insert(key).when_matched_update_all().execute(rows)

    def upsert(self, key: str, rows: pa.Table) -> None:
        """Set columns of the existing rows with these keys, and append the rows of unknown keys."""
        with undo_truncated_writes(self.newest()) as dataset:
            merge = dataset.merge_insert(key)
            merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def overwrite(self, schema: pa.Schema) -> None:
        """Write a version without rows and with other columns; earlier versions stay until the table is optimized."""
        import lance

        uri, empty = self.newest().uri, schema.empty_table()
        lance.write_dataset(empty, uri, mode="overwrite", data_storage_version=_FILE_FORMAT)

    def delete(self, where: str) -> None:
        """Delete the rows that match a filter."""
        with undo_truncated_writes(self.newest()) as dataset:
            dataset.delete(where)

    def add_columns(self, columns: pa.Schema | pa.RecordBatchReader) -> None:
        """Add columns without values, or with those of all rows in the order of a scan."""
        with undo_truncated_writes(self.newest()) as dataset:
            dataset.add_columns(columns)

    def drop_column(self, name: str) -> None:
        """Drop a column with its values."""
        self.newest().drop_columns([name])

    def indexed_columns(self) -> dict[str, list[str]]:
        """Columns of every index, by its name."""
        return {index.name: list(index.field_names) for index in self.newest().describe_indices()}

    def create_index(self, column: str, kind: ScalarIndexKind, **options: Any) -> None:
        """Create an index of words ("INVERTED") or values. Options are those of Lance."""
        self.newest().create_scalar_index(column, kind, **options)

    def create_vector_index(self, name: str, kind: str, partitions: int, **options: Any) -> None:
        """Train an index of the column "vector" for cosine distances. Options are those of Lance."""
        self.newest().create_index(
            "vector", kind, name=name, metric="cosine", num_partitions=partitions, **options
        )

    def drop_index(self, name: str) -> None:
        """Drop an index."""
        self.newest().drop_index(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LanceTable:
    """A table that exists.

    Attributes:
        dataset: Opens its newest version for reading; what was read before is cached, so this takes no time.
        writer: Returns its writer.
    """

    dataset: Callable[[], lance.LanceDataset]
    writer: Callable[[], TableWriter]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOnWriteTable:
    """A table that its first write creates, because only that write determines the schema.

    Attributes:
        name: Name of the table, for messages.
        dataset: Opens the newest version for reading; returns None while the table does not exist.
        writer: Returns the writer of the table, or None while it does not exist.
        create: Returns the writer of the table, after creating it with a schema when it does not exist.
    """

    name: str
    dataset: Callable[[], lance.LanceDataset | None]
    writer: Callable[[], TableWriter | None]
    create: Callable[[pa.Schema], TableWriter]


def create_table(uri: str, schema: pa.Schema) -> None:
    """Create a table without rows. Raises OSError, RuntimeError or ValueError, also where there is one."""
    import lance

    lance.write_dataset(schema.empty_table(), uri, mode="create", data_storage_version=_FILE_FORMAT)


@contextmanager
def undo_truncated_writes(dataset: lance.LanceDataset) -> Iterator[lance.LanceDataset]:
    """Write to a table inside the block; a version with a file that is cut is undone.

    Lance 13 and 14 lose an error of the disk in the middle of a file, and commit the file without that part.

    Args:
        dataset: The newest version of a table. On an object store, which tells of a lost part itself, nothing is done.

    Raises:
        OSError: A file that was written is cut.
    """
    version, known = dataset.version, frozenset(path for path, *_ in _version_files(dataset))
    yield dataset
    if "://" in dataset.uri:
        return
    latest = dataset.checkout_version(dataset.latest_version)
    cut = _cut_file(latest, known)
    if cut:
        # What another process has committed since then is not undone with it.
        if latest.version == dataset.version:
            restored: Any = dataset.checkout_version(version)
            restored.restore()
        raise OSError(f"the disk failed while {cut} was written; it is cut")


def _cut_file(dataset: lance.LanceDataset, known: Collection[str]) -> str:
    """Path of the first file that is not known and is cut, or ""."""
    for path, size, fragment in _version_files(dataset):
        if path not in known:
            whole = _can_list_rows(fragment) if size is None else size in (0, _file_size(dataset, path))
            if not whole:
                return f"{dataset.uri}/{path}"
    return ""


def _version_files(dataset: lance.LanceDataset) -> Iterator[tuple[str, int | None, lance.LanceFragment]]:
    """Each file of a version by its path in the table, with its fragment.

    The bytes of a data file are those that were counted while it was written, 0 where they are not known; a list of
    deleted rows has None.
    """
    for fragment in dataset.get_fragments():
        # As JSON: `DataFile.path` makes a class for each call, which only the garbage collector removes.
        for file in fragment.metadata.to_json()["files"]:
            yield f"data/{file['path']}", file["file_size_bytes"] or 0, fragment
        if deleted := fragment.deletion_file():
            yield str(deleted), None, fragment


def _file_size(dataset: lance.LanceDataset, path: str) -> int:
    return Path(dataset.uri, path).stat().st_size


def _can_list_rows(fragment: lance.LanceFragment) -> bool:
    """Whether the list of deleted rows can be read."""
    try:
        deque(fragment.scanner(columns=[], with_row_id=True).to_batches(), maxlen=0)
    except (OSError, RuntimeError, ValueError):
        return False
    return True
