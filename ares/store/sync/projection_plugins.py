"""What rooms above the store write into its tables: the plug-ins of the group `ares.projections`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from ares.registry import plugin_faults, projections

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store.lance_tables import Tables
    from ares.store.log.protocol import AnnotationStore, LogEntry
    from ares.store.sync.producers import ProducerCatalog


class Projection(Protocol):
    """Columns that no annotation fills by itself, because they follow from several; the entry point is its class.

    Attributes:
        counted: Name of the annotations that `count` counts, or "".
    """

    counted: str

    def count(self, tables: Tables, annotations: AnnotationStore) -> None:
        """Count the annotations again, of the episodes that are shown, and keep what they say as documents."""

    def refresh(self, tables: Tables, annotations: AnnotationStore, catalog: ProducerCatalog) -> None:
        """Write the columns that follow from the documents into the rows that show something else."""

    def correct(self, value: Mapping[str, Json], rulings: Sequence[Mapping[str, Json]]) -> Mapping[str, Json]:
        """The values that change when people have ruled on an annotation; {} when it is not this projection's.

        Args:
            value: Value of the annotation.
            rulings: Rulings of people, the newest last.

        Raises:
            ValueError: A ruling cannot be read.
        """

    def followed_columns(self, catalog: ProducerCatalog, existing: Collection[str]) -> Mapping[str, str]:
        """Filter of the rows in which a column does not follow from the log alone, by column.

        Args:
            catalog: All producers.
            existing: Columns of the table.
        """


class InstalledProjections:
    """All installed projections, in the order of their names; they are imported when the first is needed."""

    @cached_property
    def _members(self) -> dict[str, Projection]:
        return {name: projections.get(name)() for name in projections.names()}

    def counting(self, batch: Iterable[LogEntry]) -> set[str]:
        """Names of the projections that count one of these annotations."""
        names = {annotation.name for _, annotation in batch}
        return {name for name, projection in self._members.items() if projection.counted in names}

    def refresh(
        self,
        tables: Tables,
        annotations: AnnotationStore,
        catalog: ProducerCatalog,
        counted: Collection[str],
    ) -> list[str]:
        """Bring the columns of all projections up to date.

        Args:
            tables: The tables.
            annotations: The log.
            catalog: All producers.
            counted: Names of the projections that need not count again.

        Returns:
            The names of all.

        Raises:
            PluginError: A projection raised an exception.
            StoreError: The tables or the log cannot be read or written.
        """
        for name, projection in self._members.items():
            with plugin_faults(projections.label(name)):
                if name not in counted:
                    projection.count(tables, annotations)
                projection.refresh(tables, annotations, catalog)
        return list(self._members)

    def correct(self, value: Mapping[str, Json], rulings: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
        """The value of an annotation after the rulings of people. Raises ValueError for one that cannot be read."""
        corrected = dict(value)
        for projection in self._members.values():
            corrected |= projection.correct(corrected, rulings)
        return corrected

    def followed_columns(self, catalog: ProducerCatalog, existing: Collection[str]) -> dict[str, str]:
        """Filter of the rows in which a column follows from a projection, by column; see `Projection`."""
        followed: dict[str, str] = {}
        for projection in self._members.values():
            followed |= projection.followed_columns(catalog, existing)
        return followed
