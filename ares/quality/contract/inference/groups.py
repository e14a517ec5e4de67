"""Groups of dimensions of one signal that mean the same, by the kinds that their names say."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ares.quality.contract.terms import GroupKind, SignalName
from ares.quality.kinds import kinds_by_name, name_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionGroup:
    """Dimensions of one signal that mean the same.

    Attributes:
        signal: State or action.
        kind: What they are.
        numbers: Their numbers in the signal.
        names: Their names.
    """

    signal: SignalName
    kind: GroupKind
    numbers: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def words(self) -> frozenset[str]:
        """All words of the names."""
        return frozenset(word for name in self.names for word in name_tokens(name))


@functools.lru_cache(maxsize=256)
def dimension_groups(signal: SignalName, names: tuple[str, ...]) -> tuple[DimensionGroup, ...]:
    """The groups of a signal, in the order of their first dimensions."""
    by_kind: dict[GroupKind, list[int]] = {}
    for number, kind in enumerate(kinds_by_name(names)):
        by_kind.setdefault(kind, []).append(number)
    return tuple(
        DimensionGroup(
            signal=signal, kind=kind, numbers=tuple(numbers), names=tuple(names[number] for number in numbers)
        )
        for kind, numbers in by_kind.items()
    )
