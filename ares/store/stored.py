"""Stored: one Lance table, read through lance; LanceDB, a second to import, is opened by the first write or search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import lance
    from lancedb.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A table that is there.

    Attributes:
        dataset: Opens its newest version for reading; what was read before stays in memory, so this takes no time.
        writer: Opens it for writing and for searches by word or vector.
    """

    dataset: Callable[[], lance.LanceDataset]
    writer: Callable[[], Table]
