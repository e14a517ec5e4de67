"""Latest: the newest version of a table of vectors, opened once and followed from there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ares.errors import StoreError
from ares.store.nearest import Nearest
from ares.store.tuning import Tuning

if TYPE_CHECKING:
    import lance


class TableState(NamedTuple):
    """What `ares status` says of a table of vectors.

    Attributes:
        rows: Vectors.
        indexed: Those that the index covers; all others are compared exactly.
        tuning: What was measured of the index; None for a table that is too small for one.
    """

    rows: int
    indexed: int
    tuning: Tuning | None


class Latest:
    """Whatever version of a table is the newest.

    Args:
        open_it: Opens it; None when it has not been made.
        near: Makes of a version what searches it.
    """

    def __init__(
        self,
        open_it: Callable[[], lance.LanceDataset | None],
        near: Callable[[lance.LanceDataset], Nearest],
    ) -> None:
        self._open = open_it
        self._make = near
        self._near: Nearest | None = None

    def look(self) -> Nearest | None:
        """The newest version, or None when there is no table."""
        if self._near is not None:
            with suppress(OSError, ValueError):
                now, latest = self._near.version, self._near.dataset.latest_version
                if latest > now:
                    self._near = self._make(self._near.dataset.checkout_version(latest))
                if latest >= now:
                    return self._near
        dataset = self._open()
        self._near = None if dataset is None else self._make(dataset)
        return self._near

    def there(self) -> Nearest:
        """The same, of a table that was there before. Raises StoreError when it is gone."""
        near = self.look()
        if near is None:
            raise StoreError("a table of vectors is gone", "another process removed it")
        return near


def state_of(near: Nearest | None) -> TableState:
    """Rows, how many of them the index covers, and what was measured of it."""
    if near is None:
        return TableState(0, 0, None)
    tail = sum(fragment.count_rows() for fragment in near.tail(near.segments))
    return TableState(near.rows, near.rows - tail, near.tuning)
