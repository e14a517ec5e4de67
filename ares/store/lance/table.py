"""A handle of one Lance table, read through pylance; the first write opens it in LanceDB, a second to import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import lance
    import pyarrow as pa
    from lancedb.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class LanceTable:
    """A table that exists.

    Attributes:
        dataset: Opens its newest version for reading; what was read before is cached, so this takes no time.
        writer: Opens it for writing and for searches by word or vector.
    """

    dataset: Callable[[], lance.LanceDataset]
    writer: Callable[[], Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyLanceTable:
    """A table that its first write creates, because only that write determines the schema.

    Attributes:
        name: Name of the table, for messages.
        dataset: Opens the newest version for reading; returns None while the table does not exist.
        writer: Opens the table for writing; returns None while it does not exist.
        create: Opens the table for writing, after creating it with a schema when it does not exist.
    """

    name: str
    dataset: Callable[[], lance.LanceDataset | None]
    writer: Callable[[], Table | None]
    create: Callable[[pa.Schema], Table]
