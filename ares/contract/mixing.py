"""Where signals of one name mean different things in a set, whether that is refused, and how episodes are converted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import pi
from operator import itemgetter

from ares.checks import CODES
from ares.contract.contracts import (
    UNKNOWN,
    DatasetKey,
    Estimate,
    PropertyName,
    SignalContract,
    SignalName,
    certain,
)
from ares.contract.conversions import WIDTHS
from ares.contract.overlay import Difference, Overlay, lay_over
from ares.contract.set_contracts import LayoutContract, LayoutConversion, applies, plan_layout_conversion
from ares.contract.statements import CHANGE, ORDER, PERMUTATION, NamedConversion
from ares.episode import Episode, Json, Trajectory
from ares.errors import RequestError
from ares.signals import SignalChange, changed_trajectory, classify_by_name

_NAMED = 3
# What is compared of each signal; "order" is the order of the dimensions.
COMPARED: tuple[PropertyName, ...] = ("mode", "unit", "rotation", "gripper")
_EXAMPLES: Mapping[str, str] = {"mode": "absolute", "gripper": "open1"}
_SIGNALS: tuple[SignalName, ...] = ("state", "action")
# Factors that are said as units, by what the second dataset is multiplied with.
_UNIT_FACTORS = {pi / 180: "deg -> rad", 180 / pi: "rad -> deg", 0.001: "mm -> m", 1000.0: "m -> mm"}
_NEAR = 0.05
# An exchange of joints that shows in one signal alone is told from these odds on, in nats.
_LONE_ODDS = 20.0
_ROUND_ENDS = (0.0, 1.0, 100.0, 255.0, 1000.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """A property of a signal that differs within a set.

    Attributes:
        signal: Signal group, such as "action.gripper"; "state" or "action" for what is of several groups.
        name: Property, such as "unit"; "order"; or "scale", "sign", "offset", "open end" or "exchanged" for what shows
            where two datasets are laid over each other.
        datasets: Datasets by value; a value that is not certain has all its candidates.
        convert: Values of `--convert` that solve it; () where there is none.
        sign: Values of `--convert` by which a person states that there is no difference.
        by_values: Whether it is concluded from values alone, and no name or spec says so.
    """

    signal: str
    name: str
    datasets: Mapping[str, tuple[str, ...]]
    convert: tuple[str, ...] = ()
    sign: tuple[str, ...] = ()
    by_values: bool = False

    def __str__(self) -> str:
        parts = (f"{value} in {_list_first_names(names)}" for value, names in sorted(self.datasets.items()))
        return f"{self.name} of {self.signal}: {'; '.join(parts)}"

    @property
    def remedy(self) -> str:
        """The options of `ares export` that solve it, or what else does."""
        if not self.convert:
            first = "no factor exists between them: split the set by dataset"
        else:
            first = f"name the conversion ({_as_options(self.convert)}), or split the set by dataset"
        return f"{first}; or sign that they mean the same ({_as_options(self.sign)})" if self.sign else first

    def to_json(self) -> dict[str, Json]:
        """The clash as JSON."""
        return {
            "signal": self.signal,
            "property": self.name,
            "datasets": {value: list(names) for value, names in self.datasets.items()},
            "remedy": self.remedy,
        }


def _as_options(texts: Sequence[str]) -> str:
    return " ".join(f'--convert "{text}"' if " " in text else f"--convert {text}" for text in texts)


def _common_unit(units: Collection[str]) -> str:
    """A unit that all can be converted to, or ""."""
    if {"m", "mm"}.issuperset(units):
        return "m"
    return "rad" if {"rad", "deg"}.issuperset(units) else ""


def _usual_rotation(signals: Sequence[tuple[str, SignalContract, int]]) -> str:
    """The rotation of most episodes, where all that are known have as many numbers; else ""."""
    known = [(contract.estimate("rotation").value, episodes) for _, contract, episodes in signals]
    known = [(value, episodes) for value, episodes in known if value in WIDTHS]
    has_equal_widths = len({WIDTHS[value] for value, _ in known}) == 1
    return max(known, key=itemgetter(1))[0].removeprefix("quaternion ") if has_equal_widths else ""


def _list_first_names(names: Sequence[str], most: int = _NAMED) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def find_clashes(contracts: Sequence[LayoutContract]) -> list[Clash]:
    """The clashes of a set, by signal: what is unknown of a dataset is compared with another of the same dimensions."""
    overlays = _overlay_signals(contracts)
    known = _with_agreement(contracts, overlays)
    by_name: dict[str, list[tuple[str, SignalContract, int]]] = {}
    for layout in known:
        for signal in layout.contract.signals if layout.contract is not None else ():
            by_name.setdefault(signal.name, []).append((layout.key.dataset, signal, layout.num_episodes))
    values = [
        _with_ways_out(clash, overlays)
        for name, signals in by_name.items()
        for clash in _value_clashes(name, signals)
    ]
    reported = {
        (dataset, clash.signal) for clash in values for names in clash.datasets.values() for dataset in names
    }
    shown = [clash for overlay in overlays for clash in _overlay_clashes(overlay, reported)]
    return [*values, *shown, *_order_clashes(contracts)]


@dataclass(frozen=True, slots=True)
class _OverlaidDatasets:
    """One signal of two datasets, laid over each other.

    Attributes:
        signal: State or action.
        first: The dataset that most episodes are of.
        second: Another.
        names: Names of the dimensions, in the order of the first.
        overlay: What differs.
    """

    signal: SignalName
    first: LayoutContract
    second: LayoutContract
    names: tuple[str, ...]
    overlay: Overlay


def _layout_names(layout: LayoutContract, signal: SignalName) -> tuple[str, ...]:
    return layout.state_names if signal == "state" else layout.action_names


def _overlay_signals(contracts: Sequence[LayoutContract]) -> list[_OverlaidDatasets]:
    """State and action of every dataset, each with that of the dataset that most episodes are of.

    Joints are exchanged in both. An exchange in one of them alone is chance, as fingers that move alike have it,
    unless it is far more probable than none.
    """
    parts = [part for signal in _SIGNALS for part in _overlay_datasets(contracts, signal)]
    agreeing = {(part.signal, part.first.key, part.second.key) for part in parts if part.overlay.is_same_task}
    others: Mapping[SignalName, SignalName] = {"state": "action", "action": "state"}
    return [
        replace(part, overlay=replace(part.overlay, differences=(), is_same_task=True))
        if (others[part.signal], part.first.key, part.second.key) in agreeing
        and _is_lone_exchange(part.overlay)
        else part
        for part in parts
    ]


def _is_lone_exchange(overlay: Overlay) -> bool:
    return bool(overlay.differences) and all(
        difference.kind == "exchanged" and difference.odds < _LONE_ODDS for difference in overlay.differences
    )


def _overlay_datasets(contracts: Sequence[LayoutContract], signal: SignalName) -> Iterator[_OverlaidDatasets]:
    """Every dataset with the one that has most episodes of the same dimensions."""
    groups: dict[tuple[str, ...], list[LayoutContract]] = {}
    for layout in contracts:
        names = _layout_names(layout, signal)
        if (
            layout.contract is not None
            and signal in layout.contract.profiles
            and len(set(names)) == len(names)
        ):
            groups.setdefault(tuple(sorted(names)), []).append(layout)
    for layouts in groups.values():
        first, *others = sorted(layouts, key=lambda layout: -layout.num_episodes)
        yield from (_lay_over_pair(first, second, signal) for second in others)


def _lay_over_pair(first: LayoutContract, second: LayoutContract, signal: SignalName) -> _OverlaidDatasets:
    assert first.contract is not None and second.contract is not None
    names, others = _layout_names(first, signal), _layout_names(second, signal)
    profile = second.contract.profiles[signal].reordered([others.index(name) for name in names])
    overlay = lay_over(first.contract.profiles[signal], profile, classify_by_name(names))
    return _OverlaidDatasets(signal, first, second, names, overlay)


def _with_agreement(
    contracts: Sequence[LayoutContract], overlays: Sequence[_OverlaidDatasets]
) -> list[LayoutContract]:
    """The contracts; a group that a person or the values show to be as in another dataset has its meaning."""
    known = {id(layout): layout for layout in contracts}
    for part in overlays:
        aligned = {f"{part.signal}.{kind}" for kind in part.overlay.aligned}
        known[id(part.second)] = _taking_values(known[id(part.second)], part.first, aligned)
    by_dataset = {layout.key.dataset: layout for layout in contracts}
    for layout in contracts:
        for group in layout.contract.signals if layout.contract is not None else ():
            other = by_dataset.get(group.estimate("same_as").value)
            if other is not None:
                known[id(layout)] = _taking_values(known[id(layout)], other, {group.name}, by_person=True)
    return list(known.values())


def _taking_values(
    layout: LayoutContract, other: LayoutContract, names: Collection[str], by_person: bool = False
) -> LayoutContract:
    """A layout whose groups of these names have the values of another; what names or a spec tell stays."""
    if layout.contract is None or other.contract is None:
        return layout
    signals = []
    for group in layout.contract.signals:
        model = other.contract.signal(group.name) if group.name in names else None
        if model is not None:
            estimates = {
                name: model.estimate(name)
                for name in COMPARED
                if by_person or (name in ("unit", "gripper") and _is_inferred(group, model, name))
            }
            mixed = model.mixed_units if by_person else group.mixed_units
            group = replace(group, estimates={**group.estimates, **estimates}, mixed_units=mixed)
        signals.append(group)
    return replace(layout, contract=replace(layout.contract, signals=tuple(signals)))


def _is_inferred(group: SignalContract, model: SignalContract, name: PropertyName) -> bool:
    return {group.estimate(name).origin, model.estimate(name).origin} <= {"values", "none"}


def _value_clashes(name: str, signals: Sequence[tuple[str, SignalContract, int]]) -> Iterator[Clash]:
    """Of one signal group: a gripper has unit and open end together."""
    parts: list[tuple[PropertyName, ...]] = [(part,) for part in COMPARED]
    if name.endswith(".gripper"):
        parts = [("mode",), ("unit", "gripper")]
    for compared in parts:
        values = [
            (dataset, value)
            for dataset, signal, _ in signals
            for value in _property_estimates(signal, compared)
        ]
        clashing = _clashing_datasets(values)
        if clashing:
            target = _EXAMPLES.get(compared[-1]) or _common_unit(clashing) or _usual_rotation(signals)
            convert = (f"{name}={target}",) if target else ()
            by_values = all(
                _is_inferred(contract, contract, part) for _, contract, _ in signals for part in compared
            )
            yield Clash(
                signal=name, name=compared[-1], datasets=clashing, convert=convert, by_values=by_values
            )


def _with_ways_out(clash: Clash, overlays: Sequence[_OverlaidDatasets]) -> Clash:
    """The clash with what a person may name or sign: the conversion that shows, or a unit that is stated."""
    datasets = list(dict.fromkeys(name for names in clash.datasets.values() for name in names))
    if len(datasets) < 2:
        return clash
    sign = tuple(f"{name}/{clash.signal}: as in {datasets[0]}" for name in datasets[1:])
    convert = clash.convert or _shown_conversions(clash, overlays) or _stated_units(clash)
    return replace(clash, convert=convert, sign=sign)


def _shown_conversions(clash: Clash, overlays: Sequence[_OverlaidDatasets]) -> tuple[str, ...]:
    """The factors by which datasets of the clash differ where they are laid over each other."""
    conversions: list[str] = []
    for part in overlays:
        kinds = classify_by_name(part.names)
        for difference in part.overlay.differences:
            groups = {f"{part.signal}.{kinds[number]}" for number in difference.numbers}
            if difference.kind == "scale" and groups == {clash.signal}:
                conversions += _suggest_conversions(part, difference, list(groups))
    return tuple(conversions)


def _stated_units(clash: Clash) -> tuple[str, ...]:
    """For each dataset whose unit is one of several, the first that a factor exists for."""
    conversions = []
    for value, names in clash.datasets.items():
        unit = next(
            (unit for unit in ("deg", "mm") if clash.name == "unit" and unit in value.rstrip("?").split()), ""
        )
        target = {"deg": "rad", "mm": "m"}.get(unit, "")
        conversions += [f"{name}/{clash.signal}: {unit} -> {target}" for name in names if unit]
    return tuple(conversions)


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
    for signal in _SIGNALS:
        orders: dict[tuple[str, ...], Counter[tuple[str, ...]]] = {}
        datasets: dict[tuple[str, ...], dict[str, None]] = {}
        for layout in contracts:
            names = _layout_names(layout, signal)
            if len(set(names)) == len(names) > 1:
                orders.setdefault(tuple(sorted(names)), Counter())[names] += layout.num_episodes
                datasets.setdefault(names, {})[layout.key.dataset] = None
        for counts in orders.values():
            if len(counts) > 1:
                by_order = {_list_first_names(names): tuple(datasets[names]) for names in counts}
                yield Clash(signal=signal, name="order", datasets=by_order, convert=(f"{signal}=order",))


def _overlay_clashes(part: _OverlaidDatasets, reported: Collection[tuple[str, str]]) -> Iterator[Clash]:
    """What differs where two datasets are laid over each other, but for what is told already or signed."""
    kinds = classify_by_name(part.names)
    for difference in part.overlay.differences:
        groups = dict.fromkeys(f"{part.signal}.{kinds[number]}" for number in difference.numbers)
        dataset, other = part.second.key.dataset, part.first.key.dataset
        is_known = all((dataset, group) in reported and (other, group) in reported for group in groups)
        if is_known or all(_is_signed(part, group) for group in groups):
            continue
        yield Clash(
            signal=next(iter(groups)) if len(groups) == 1 else part.signal,
            name=difference.kind,
            datasets={f"{_difference_text(difference, part.names)} that of {other}": (dataset,)},
            convert=_suggest_conversions(part, difference, list(groups)),
            sign=tuple(f"{dataset}/{group}: as in {other}" for group in groups),
            by_values=True,
        )


def _is_signed(part: _OverlaidDatasets, group: str) -> bool:
    """Whether a person states that a group means the same in both datasets."""
    datasets = (part.first.key.dataset, part.second.key.dataset)
    signals = (layout.contract and layout.contract.signal(group) for layout in (part.first, part.second))
    return any(signal and signal.estimate("same_as").value in datasets for signal in signals)


def _difference_text(difference: Difference, names: Sequence[str]) -> str:
    """What the second dataset is to the first, before "that of DATASET"."""
    dimensions = _list_first_names([names[number] for number in difference.numbers], 6)
    if difference.kind == "exchanged":
        return f"{dimensions} fit {_list_first_names([names[number] for number in difference.sources], 6)} of"
    if difference.kind == "scale":
        return f"{dimensions} are {1 / difference.factor:.4g} times"
    if difference.kind == "offset":
        return f"{dimensions} is {-difference.offsets[0]:+.4g} from"
    return (
        f"{dimensions} turned round against"
        if difference.kind == "open end"
        else f"{dimensions} has the other sign than"
    )


def _suggest_conversions(
    part: _OverlaidDatasets, difference: Difference, groups: Sequence[str]
) -> tuple[str, ...]:
    """Values of `--convert` that make the second dataset like the first."""
    dataset, names = part.second.key.dataset, part.names
    dimensions = ", ".join(names[number] for number in difference.numbers)
    signal = f"{dataset}/{part.signal}[{dimensions}]"
    if difference.kind == "exchanged":
        return (f"{signal}: from {', '.join(names[number] for number in difference.sources)}",)
    if difference.kind == "scale":
        words = _unit_words(difference.factor)
        kinds = classify_by_name(names)
        whole = [number for number, kind in enumerate(kinds) if groups == [f"{part.signal}.{kind}"]]
        is_whole = whole == list(difference.numbers)
        return (
            f"{dataset}/{groups[0]}: {words}"
            if words and is_whole
            else f"{signal}: {_scale_text(difference.factor)}",
        )
    if difference.kind == "sign":
        return (f"{signal}: times -1",)
    if difference.kind == "offset":
        return (f"{signal}: plus {difference.offsets[0]:.4g}",)
    return (f"{signal}: times -1 plus {_rounded_end(difference.offsets[0]):.4g}",)


def _unit_words(factor: float) -> str:
    return next((words for known, words in _UNIT_FACTORS.items() if abs(factor / known - 1) < _NEAR), "")


def _scale_text(factor: float) -> str:
    """A factor, as that of known units where it is near it."""
    known = next((known for known in _UNIT_FACTORS if abs(factor / known - 1) < _NEAR), factor)
    return f"times {known:.6g}" if known != factor else f"times {factor:.4g}"


def _rounded_end(value: float) -> float:
    """The sum of both ends of a gripper: a round number where it is near one."""
    return next((end for end in _ROUND_ENDS if abs(value - end) <= _NEAR * max(end, 1e-9)), value)


def unknown_meanings(contracts: Sequence[LayoutContract]) -> list[str]:
    """What of the signals is unknown, where the set has several datasets: it may clash, and nothing can say."""
    if sum(layout.contract is not None for layout in contracts) < 2:
        return []
    lines: dict[str, dict[str, None]] = {}
    for layout in contracts:
        for signal in layout.contract.signals if layout.contract is not None else ():
            for part, estimate in signal.estimates.items():
                if part in COMPARED and estimate.value == UNKNOWN:
                    lines.setdefault(f"{part} of {signal.name}", {})[layout.key.dataset] = None
    return [f"{line}: unknown in {', '.join(list(datasets)[:_NAMED])}" for line, datasets in lines.items()]


_LayoutKey = tuple[DatasetKey, tuple[str, ...], tuple[str, ...]]


class ClashError(RequestError):
    """Signals of a set mean different things, and no conversion is named for them.

    Args:
        reason: As for every error.
        detail: As for every error.
        clashes: What differs.
    """

    def __init__(self, reason: str, detail: str, clashes: tuple[Clash, ...] = ()) -> None:
        super().__init__(reason, detail)
        self.clashes = clashes

    @property
    def lines(self) -> tuple[str, ...]:
        """One for each clash, with its remedy."""
        return tuple(f"{clash}; {clash.remedy}" for clash in self.clashes)


class SetConverter:
    """Converts the episodes of a set one by one, and counts them.

    Args:
        contracts: The contracts of the set.
        conversions: What the user names.
        changes: Corrections of single episodes by their id, which come before the conversions.

    Attributes:
        layouts: The contracts after the conversions.
        unknown: What of the meaning of signals is not known.
        left_out: What the conversions leave out, in words: nothing.

    Raises:
        ClashError: Signals clash after the conversions.
        RequestError: A conversion is of no signal of the set, or of values that are not known.
    """

    left_out: tuple[str, ...] = ()

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
        self.layouts = tuple(conversion.layout for conversion in self._layouts.values())
        if clashes := tuple(find_clashes(self.layouts)):
            detail = " | ".join(f"{clash}; {clash.remedy}" for clash in clashes)
            raise ClashError("signals of the set mean different things", detail, clashes)
        self.unknown = tuple(unknown_meanings(self.layouts))

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
        changes = self._changes.get(episode.episode_id, ())
        parts = sorted({(change.code, change.signal) for change in changes})
        corrected = [f"{code} {CODES[code].name} corrected in the {signal}" for code, signal in parts]
        return (*corrected, *(conversion.reasons if conversion is not None else ()))

    def count(self, reasons: Sequence[str]) -> None:
        """Count an episode that was written with these changes."""
        self._counts.update(reasons)

    def to_json(self) -> tuple[dict[str, Json], ...]:
        """What was changed, with the number of episodes; one entry per signal and dataset."""
        return tuple({"reason": reason, "episodes": count} for reason, count in sorted(self._counts.items()))


def _check_used(conversion: NamedConversion, contracts: Sequence[LayoutContract]) -> None:
    """Raises RequestError for a conversion of a dataset, signal or dimension that the set does not have."""
    datasets = dict.fromkeys(layout.key.dataset for layout in contracts)
    for name in (conversion.dataset, conversion.target if conversion.aspect == "same_as" else ""):
        if name and name not in datasets:
            raise RequestError(f"the set has no dataset {name!r}", f"there are: {', '.join(datasets)}")
    names = {signal.name for layout in contracts if layout.contract for signal in layout.contract.signals}
    if conversion.aspect == ORDER or conversion.dimensions:
        _check_dimensions(conversion, contracts)
    elif conversion.signal not in names:
        raise RequestError(
            f"the set has no signal {conversion.signal!r} to convert",
            f"there are: {', '.join(sorted(names))}",
        )
    elif conversion.source and not any(applies(conversion, layout) for layout in contracts):
        raise RequestError(
            f"no dataset of the set has {conversion.signal} as {conversion.source}",
            f'to state it for one, name it: "DATASET/{conversion.signal}: {conversion.source} -> ..."',
        )


def _check_dimensions(conversion: NamedConversion, contracts: Sequence[LayoutContract]) -> None:
    if conversion.aspect not in (CHANGE, PERMUTATION):
        return
    layouts = [layout for layout in contracts if conversion.dataset in ("", layout.key.dataset)]
    names = {
        name
        for layout in layouts
        for name in (layout.state_names if conversion.signal == "state" else layout.action_names)
    }
    missing = [name for name in conversion.dimensions if name not in names]
    if missing:
        raise RequestError(
            f"the {conversion.signal} has no dimension {missing[0]!r}",
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
