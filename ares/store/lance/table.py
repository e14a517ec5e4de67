"""One Lance table through pylance: its newest version for reading, and a writer, each call of which is one version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

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
        self.newest().insert(rows)

    def update(self, key: str, rows: pa.Table) -> None:
        """Set columns of the existing rows with these keys; rows of unknown keys are ignored."""
        self.newest().merge_insert(key).when_matched_update_all().execute(rows)

    def upsert(self, key: str, rows: pa.Table) -> None:
        """Set columns of the existing rows with these keys, and append the rows of unknown keys."""
        merge = self.newest().merge_insert(key)
        merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def delete(self, where: str) -> None:
        """Delete the rows that match a filter."""
        self.newest().delete(where)

    def add_columns(self, columns: pa.Schema) -> None:
        """Add columns without values."""
        self.newest().add_columns(columns)

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
        writer: Writes it.
    """

    dataset: Callable[[], lance.LanceDataset]
    writer: TableWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyLanceTable:
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
