"""Values that stay in the worker that made them until another worker needs them; the caller of the pool has tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol

# The token of a value: the name of the worker that keeps it, and its number there. A plain tuple is pickled in C.
KeptValue = tuple[str, int]


class ValueKeeper(Protocol):
    """Keeps values on workers; its methods are called there. It can be pickled."""

    def keep(self, values: Sequence[Any]) -> list[KeptValue]:
        """Keep values until they are forgotten, or until this worker ends; a token for each."""

    def fetch(self, kept: Sequence[KeptValue]) -> list[Any | None]:
        """The values, which workers go on keeping; None for each that was forgotten or whose worker has ended."""

    def forget(self, kept: Sequence[KeptValue]) -> None:
        """Keep some values no longer."""


class LocalKeeper:
    """Keeps values in this process."""

    def __init__(self) -> None:
        self._values: dict[int, Any] = {}
        self._numbers = count()

    def keep(self, values: Sequence[Any]) -> list[KeptValue]:
        """As `ValueKeeper.keep`."""
        kept = [("", next(self._numbers)) for _ in values]
        self._values.update((number, value) for (_, number), value in zip(kept, values, strict=True))
        return kept

    def fetch(self, kept: Sequence[KeptValue]) -> list[Any | None]:
        """As `ValueKeeper.fetch`."""
        return [self._values.get(number) for _, number in kept]

    def forget(self, kept: Sequence[KeptValue]) -> None:
        """As `ValueKeeper.forget`."""
        for _, number in kept:
            self._values.pop(number, None)
