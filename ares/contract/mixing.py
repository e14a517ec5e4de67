"""Where signals of one name mean different things in a set, and whether they are refused or converted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ares.checks import CODES
from ares.contract.contracts import UNKNOWN, DatasetKey, Estimate, PropertyName, SignalContract, certain
from ares.contract.conversions import ORDER, NamedConversion
from ares.contract.set_contracts import LayoutContract, LayoutConversion, plan_layout_conversion
from ares.episode import Episode, Json, Trajectory
from ares.errors import RequestError
from ares.signals import SignalChange, changed_trajectory

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
        parts = (f"{value} in {_list_first_names(names)}" for value, names in sorted(self.datasets.items()))
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


def _list_first_names(names: Sequence[str]) -> str:
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
        values = [
            (dataset, value) for dataset, signal in signals for value in _property_estimates(signal, compared)
        ]
        clashing = _clashing_datasets(values)
        if clashing:
            yield Clash(signal=name, name=compared[-1], datasets=clashing)


def _property_estimates(
    signal: SignalContract, names: tuple[PropertyName, ...]
) -> Iterator[tuple[Estimate, ...]]:
    """The estimates of some properties; of each unit for a signal that has several."""
    if "unit" in names and signal.mixed_units:
        yield from ((certain(unit, "values"),) for unit in signal.mixed_units)
    elif any(signal.estimate(name).candidates for name in names):
        yield tuple(signal.estimate(name) for name in names)


def _clashing_datasets(values: Sequence[tuple[str, tuple[Estimate, ...]]]) -> dict[str, tuple[str, ...]]:
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
                by_order = {_list_first_names(names): tuple(datasets[names]) for names in counts}
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
    return [f"{line}: unknown in {_list_first_names(tuple(datasets))}" for line, datasets in lines.items()]


_LayoutKey = tuple[DatasetKey, tuple[str, ...], tuple[str, ...]]


class ClashError(RequestError):
    """Signals of a set mean different things, and no conversion is named for them.

    Args:
        reason: As for every error.
        detail: As for every error.
        lines: One for each clash, with its remedy.
    """

    def __init__(self, reason: str, detail: str, lines: tuple[str, ...] = ()) -> None:
        super().__init__(reason, detail)
        self.lines = lines


class SetConverter:
    """Converts the episodes of a set one by one, and counts them.

    Args:
        contracts: The contracts of the set.
        conversions: What the user names.
        changes: Corrections of single episodes by their id, which come before the conversions.

    Raises:
        ClashError: Signals clash after the conversions.
        RequestError: A conversion is of no signal of the set, or of values that are not known.
    """

    def __init__(
        self,
        contracts: Sequence[LayoutContract],
        conversions: Sequence[NamedConversion] = (),
        changes: Mapping[str, Sequence[SignalChange]] | None = None,
    ) -> None:
        self._counts: Counter[str] = Counter()
        self._changes = changes or {}
        for conversion in conversions:
            _check_used(conversion, contracts)
        self._layouts: dict[_LayoutKey, LayoutConversion] = {
            (layout.key, layout.state_names, layout.action_names): plan_layout_conversion(
                layout, conversions, _usual_orders(layout, contracts, conversions)
            )
            for layout in contracts
        }
        converted = [conversion.layout for conversion in self._layouts.values()]
        _refuse_clashes(converted)
        self.unknown = tuple(unknown_meanings(converted))

    @property
    def changes_signals(self) -> bool:
        """Whether any episode is changed."""
        return bool(self._changes) or any(conversion.reasons for conversion in self._layouts.values())

    def apply(self, episode: Episode, trajectory: Trajectory) -> tuple[Episode, Trajectory]:
        """An episode as it is exported.

        Raises SourceError for one that is in another unit than its dataset, or whose values are not those that are to
        be corrected.
        """
        changes = self._changes.get(episode.episode_id)
        if changes:
            trajectory = changed_trajectory(trajectory, changes)
        key = DatasetKey(episode.format, episode.dataset, episode.version)
        conversion = self._layouts.get((key, episode.state_names, episode.action_names))
        return (episode, trajectory) if conversion is None else conversion.apply(episode, trajectory)

    def reasons(self, episode: Episode) -> tuple[str, ...]:
        """What `apply` changes in an episode, in words; the episode as it is stored."""
        key = DatasetKey(episode.format, episode.dataset, episode.version)
        conversion = self._layouts.get((key, episode.state_names, episode.action_names))
        corrected = _correction_reasons(self._changes.get(episode.episode_id, ()))
        return (*corrected, *(conversion.reasons if conversion is not None else ()))

    def count(self, reasons: Sequence[str]) -> None:
        """Count an episode that was written with these changes."""
        self._counts.update(reasons)

    def to_json(self) -> tuple[dict[str, Json], ...]:
        """What was changed, with the number of episodes; one entry per signal and dataset."""
        return tuple({"reason": reason, "episodes": count} for reason, count in sorted(self._counts.items()))


def _correction_reasons(changes: Iterable[SignalChange]) -> tuple[str, ...]:
    """What changes of an episode correct, in words: one for each code and signal."""
    parts = sorted({(change.code, change.signal) for change in changes})
    return tuple(f"{code} {CODES[code].name} corrected in the {signal}" for code, signal in parts)


def _refuse_clashes(contracts: Sequence[LayoutContract]) -> None:
    lines = tuple(f"{clash}; {clash.remedy}" for clash in find_clashes(contracts))
    if lines:
        raise ClashError("signals of the set mean different things", " | ".join(lines), lines)


def _check_used(conversion: NamedConversion, contracts: Sequence[LayoutContract]) -> None:
    names = {signal.name for layout in contracts if layout.contract for signal in layout.contract.signals}
    if conversion.aspect != ORDER and conversion.signal not in names:
        raise RequestError(
            f"the set has no signal {conversion.signal!r} to convert",
            f"there are: {', '.join(sorted(names))}",
        )


def _usual_orders(
    layout: LayoutContract, contracts: Sequence[LayoutContract], conversions: Sequence[NamedConversion]
) -> Mapping[str, tuple[str, ...]]:
    """The order that most episodes with the same dimensions have, where this layout has another."""
    orders = {}
    for signal in (conversion.signal for conversion in conversions if conversion.aspect == ORDER):
        names = layout.state_names if signal == "state" else layout.action_names
        counts: Counter[tuple[str, ...]] = Counter()
        for other in contracts:
            order = other.state_names if signal == "state" else other.action_names
            if sorted(order) == sorted(names) and len(set(order)) == len(order):
                counts[order] += other.num_episodes
        if counts and (usual := counts.most_common(1)[0][0]) != names:
            orders[signal] = usual
    return orders
