"""Clashes between the contracts of a set: signals of one name that mean different things."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from ares.quality.contract.set_layouts import LayoutContract
from ares.quality.contract.terms import UNKNOWN, Estimate, PropertyName, SignalContract, certain

if TYPE_CHECKING:
    from ares.episode import Json

_NAMED_DATASETS = 3
# What is compared of each signal; "order" is the order of the dimensions.
_COMPARED: tuple[PropertyName, ...] = ("mode", "unit", "rotation", "gripper")
_EXAMPLES: Mapping[str, str] = {
    "mode": "absolute",
    "rotation": "xyzw",
    "gripper": "open1",
    "order": "order",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """A property of a signal that differs within a set.

    Attributes:
        signal: Signal group, such as "action.gripper"; "state" or "action" for the order.
        name: Property, such as "unit", or "order".
        datasets: Datasets by value; a value that is not certain has all its candidates.
    """

    signal: str
    name: str
    datasets: Mapping[str, tuple[str, ...]]

    def __str__(self) -> str:
        parts = (f"{value} in {_listed(names)}" for value, names in sorted(self.datasets.items()))
        return f"{self.name} of {self.signal}: {'; '.join(parts)}"

    @property
    def remedy(self) -> str:
        """The option of `ares export` that solves it, or what else does."""
        target = _EXAMPLES.get(self.name) or _common_unit(self.datasets)
        if not target:
            return "no factor exists between them: split the set by dataset"
        return f"name the conversion (--convert {self.signal}={target}), or split the set by dataset"

    def to_json(self) -> dict[str, Json]:
        """The clash as JSON."""
        return {
            "signal": self.signal,
            "property": self.name,
            "datasets": {value: list(names) for value, names in self.datasets.items()},
            "remedy": self.remedy,
        }


def _common_unit(units: Collection[str]) -> str:
    """A unit that all can be converted to, or ""."""
    if {"m", "mm"}.issuperset(units):
        return "m"
    return "rad" if {"rad", "deg"}.issuperset(units) else ""


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED_DATASETS} more" if len(names) > _NAMED_DATASETS else ""
    return ", ".join(names[:_NAMED_DATASETS]) + more


def find_clashes(contracts: Sequence[LayoutContract]) -> list[Clash]:
    """The clashes of a set, by signal; what is unknown clashes with nothing."""
    by_name: dict[str, list[tuple[str, SignalContract]]] = {}
    for layout in contracts:
        for signal in layout.contract.signals if layout.contract is not None else ():
            by_name.setdefault(signal.name, []).append((layout.key.dataset, signal))
    values = (clash for name, signals in by_name.items() for clash in _value_clashes(name, signals))
    return [*values, *_order_clashes(contracts)]


def _value_clashes(name: str, signals: Sequence[tuple[str, SignalContract]]) -> Iterator[Clash]:
    """Of one signal group: a gripper has unit and open end together."""
    parts: list[tuple[PropertyName, ...]] = [(part,) for part in _COMPARED]
    if name.endswith(".gripper"):
        parts = [("mode",), ("unit", "gripper")]
    for compared in parts:
        values = [(dataset, value) for dataset, signal in signals for value in _values(signal, compared)]
        clashing = _clashing(values)
        if clashing:
            yield Clash(signal=name, name=compared[-1], datasets=clashing)


def _values(signal: SignalContract, names: tuple[PropertyName, ...]) -> Iterator[tuple[Estimate, ...]]:
    """The estimates of some properties; of each unit for a signal that has several."""
    if "unit" in names and signal.mixed_units:
        yield from ((certain(unit, "values"),) for unit in signal.mixed_units)
    elif any(signal.estimate(name).candidates for name in names):
        yield tuple(signal.estimate(name) for name in names)


def _clashing(values: Sequence[tuple[str, tuple[Estimate, ...]]]) -> dict[str, tuple[str, ...]]:
    """Datasets by value, of the values that differ from another; empty where none does."""
    estimates: dict[str, tuple[Estimate, ...]] = {}
    datasets: dict[str, dict[str, None]] = {}
    for dataset, value in values:
        text = ", ".join(map(str, value))
        estimates.setdefault(text, value)
        datasets.setdefault(text, {})[dataset] = None
    clashing = {
        text
        for first, second in combinations(estimates, 2)
        if any(a.differs(b) for a, b in zip(estimates[first], estimates[second], strict=False))
        for text in (first, second)
    }
    return {text: tuple(datasets[text]) for text in sorted(clashing)}


def _order_clashes(contracts: Sequence[LayoutContract]) -> Iterator[Clash]:
    for signal in ("state", "action"):
        orders: dict[tuple[str, ...], Counter[tuple[str, ...]]] = {}
        datasets: dict[tuple[str, ...], dict[str, None]] = {}
        for layout in contracts:
            names = layout.state_names if signal == "state" else layout.action_names
            if len(set(names)) == len(names) > 1:
                orders.setdefault(tuple(sorted(names)), Counter())[names] += layout.num_episodes
                datasets.setdefault(names, {})[layout.key.dataset] = None
        for counts in orders.values():
            if len(counts) > 1:
                by_order = {_listed(names): tuple(datasets[names]) for names in counts}
                yield Clash(signal=signal, name="order", datasets=by_order)


def unknown_meanings(contracts: Sequence[LayoutContract]) -> list[str]:
    """What of the signals is unknown, where the set has several datasets: it may clash, and nothing can say."""
    if sum(layout.contract is not None for layout in contracts) < 2:
        return []
    lines: dict[str, dict[str, None]] = {}
    for layout in contracts:
        for signal in layout.contract.signals if layout.contract is not None else ():
            for part, estimate in signal.estimates.items():
                if part in _COMPARED and estimate.value == UNKNOWN:
                    lines.setdefault(f"{part} of {signal.name}", {})[layout.key.dataset] = None
    return [f"{line}: unknown in {_listed(tuple(datasets))}" for line, datasets in lines.items()]
