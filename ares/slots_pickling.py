"""Fast pickling of frozen dataclasses with slots, which travel to worker processes and back in large numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")


def pickled_by_slots(cls: type[T]) -> type[T]:
    """Let a frozen dataclass with slots be pickled in less than half the time, in the same form.

    Python's own methods look up the fields of the class for every object.

    Args:
        cls: The class, with at least two fields.
    """
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    values = attrgetter(*names)
    setters = [getattr(cls, name).__set__ for name in names]

    def get_state(self: T) -> Sequence[Any]:
        return list(values(self))

    def set_state(self: T, state: Sequence[Any]) -> None:
        for setter, value in zip(setters, state, strict=True):
            setter(self, value)

    cls.__getstate__ = get_state  # type: ignore[method-assign, assignment]
    cls.__setstate__ = set_state  # type: ignore[attr-defined]
    return cls
