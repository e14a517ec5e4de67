"""Where signals of one name mean different things in a set: by contracts, and by a comparison of samples."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from operator import itemgetter
from typing import TYPE_CHECKING

from ares.contract.comparison import (
    Dimension,
    Disagreement,
    Names,
    common_dimensions,
    find_disagreement,
)
from ares.contract.contracts import UNKNOWN, Estimate, PropertyName, SignalContract, SignalName, possible
from ares.contract.remedies import candidate_conversions
from ares.contract.rotations import WIDTHS
from ares.contract.set_contracts import LayoutContract, plan_layout_conversion
from ares.contract.statements import parse_conversions
from ares.episode import Json
from ares.errors import RequestError
from ares.media import describe_turn, is_better_fit, median_pictures, picture_fit
from ares.signals import EpisodeSignals, classify_by_name, episode_signals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NAMED, _LISTED = 3, 6
# Episodes whose pictures are looked at, and the difference of the shares of episodes with a text that is asked about.
_VIEWED, _FEWER_TEXTS = 4, 0.5
# Properties of texts and of cameras.
_OBSERVED = ("presence", "view")
# With fewer episodes than these on a side, what a conversion makes alike may be chance.
_LEAST_TRIED = 8
# What is compared of each signal by contract.
COMPARED: tuple[PropertyName, ...] = ("mode", "unit", "rotation", "gripper")
_EXAMPLES: Mapping[str, str] = {"mode": "absolute", "gripper": "open1"}
_SIGNALS: tuple[SignalName, ...] = ("state", "action")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Something of a signal that differs within a set, or seems to.

    Attributes:
        signal: Signal group, such as "action.gripper"; "state" or "action" for what is of several groups.
        name: Property, such as "unit"; "order"; or "values" for what a comparison of samples shows.
        datasets: Datasets by value; a value that is not certain has all its candidates.
        convert: Values of `--convert` after which samples agree; () where none was tried that does.
        sign: Values of `--convert` by which a person states that there is no difference.
        is_question: Whether another task explains it as well: an export names it, and goes on.
    """

    signal: str
    name: str
    datasets: Mapping[str, tuple[str, ...]]
    convert: tuple[str, ...] = ()
    sign: tuple[str, ...] = ()
    is_question: bool = False

    @property
    def names(self) -> set[str]:
        """Names of its datasets."""
        return {name for names in self.datasets.values() for name in names}

    def __str__(self) -> str:
        parts = (f"{value} in {_list_first(names)}" for value, names in sorted(self.datasets.items()))
        return f"{self.name} of {self.signal}: {'; '.join(parts)}"

    @property
    def remedy(self) -> str:
        """The options of `ares export` that solve it, or what else does."""
        if self.name in _OBSERVED:
            return "a spec of the dataset corrects what is read (docs/specs.md)"
        first = "no conversion that was tried makes samples agree: name one, or split the set by dataset"
        if self.convert:
            first = f"name the conversion ({_as_options(self.convert)}), or split the set by dataset"
        return f"{first}; or sign that they mean the same ({_as_options(self.sign)})" if self.sign else first

    def to_json(self) -> dict[str, Json]:
        """The clash as JSON."""
        return {
            "signal": self.signal,
            "property": self.name,
            "datasets": {value: list(names) for value, names in self.datasets.items()},
            "remedy": self.remedy,
            "is_question": self.is_question,
        }


def _as_options(texts: Sequence[str]) -> str:
    return " ".join(f'--convert "{text}"' if " " in text else f"--convert {text}" for text in texts)


def _list_first(names: Sequence[str], most: int = _NAMED) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def find_clashes(
    contracts: Sequence[LayoutContract], is_merged: bool = False, with_pictures: bool = False
) -> list[Clash]:
    """What differs within a set; what is a question is last.

    Args:
        contracts: Contracts of the set, with samples.
        is_merged: Whether those are compared, too, that share only some of their dimensions.
        with_pictures: Whether pictures of the samples are compared.
    """
    pairs = [*_pairs_of(contracts, is_merged)]
    by_name: dict[str, list[tuple[str, SignalContract, int]]] = {}
    for layout in _with_agreement(contracts, pairs):
        for signal in layout.contract.signals if layout.contract is not None else ():
            by_name.setdefault(signal.name, []).append((layout.key.dataset, signal, layout.num_episodes))
    clashes = [clash for name, signals in by_name.items() for clash in _value_clashes(name, signals)]
    untried = {clash.signal for clash in clashes if len(clash.names) < 2}
    clashes = [replace(clash, convert=()) if clash.signal in untried else clash for clash in clashes]
    for pair in pairs:
        clashes = pair.explain(clashes)
    known = [clash for clash in clashes if not clash.is_question]
    return [*known, *_order_clashes(contracts), *(clash for clash in clashes if clash.is_question),
            *compare_observed(contracts, with_pictures)]  # fmt: skip


def compare_observed(contracts: Sequence[LayoutContract], with_pictures: bool) -> Iterator[Clash]:
    """Questions about the texts, and the pictures, of the datasets of a set, against those of the largest."""
    ordered = sorted(contracts, key=lambda layout: -layout.num_episodes)
    views = [_median_views(layout) if with_pictures and len(ordered) > 1 else {} for layout in ordered]
    for number, layout in enumerate(ordered[1:], 1):
        first, second = ordered[0].key.dataset, layout.key.dataset
        shares = [_share_with_text(part) for part in (ordered[0], layout)]
        if layout.sample and ordered[0].sample and abs(shares[0] - shares[1]) > _FEWER_TEXTS:
            texts = {
                f"text in {share:.0%}": (name,) for share, name in zip(shares, (first, second), strict=True)
            }
            yield Clash(signal="instruction", name="presence", datasets=texts, is_question=True)
        for name, picture in views[number].items():
            known = next((part for part in views[:number] if name in part), None)
            words = _describe_view(known, name, picture) if known is not None else ""
            if known is not None and words and _is_same_in_all(known, name, layout, words):
                what = {f"pictures fit those of {first} better {words}": (second,)}
                yield Clash(signal=f"camera {name}", name="view", datasets=what, is_question=True)


def _describe_view(known: Mapping[str, NDArray[np.float64]], name: str, picture: NDArray[np.float64]) -> str:
    """Whether a picture fits that of its camera better when it is turned, or that of another camera; "" else."""
    if words := describe_turn(known[name], picture):
        return words
    fits = {other: picture_fit(view, picture) for other, view in known.items()}
    best = max(fits, key=fits.__getitem__)
    return f"as camera {best}" if is_better_fit(fits[best], fits[name]) else ""


def _is_same_in_all(
    known: Mapping[str, NDArray[np.float64]], name: str, layout: LayoutContract, words: str
) -> bool:
    """Whether each episode that is looked at says the same alone: few, or moving, pictures look turned by chance."""
    single = (median_pictures([episode]) for episode, _ in layout.sample[:_VIEWED])
    values = [_describe_view(known, name, view[name]) for view in single if name in view]
    return len(values) == _VIEWED and set(values) == {words}


def _share_with_text(layout: LayoutContract) -> float:
    return sum(bool(episode.instruction.strip()) for episode, _ in layout.sample) / max(len(layout.sample), 1)


def _median_views(layout: LayoutContract) -> dict[str, NDArray[np.float64]]:
    return median_pictures(episode for episode, _ in layout.sample[:_VIEWED])


def _names_of(layout: LayoutContract) -> Names:
    return layout.state_names, layout.action_names


def _groups_of(layout: LayoutContract, dimensions: Sequence[Dimension]) -> list[str]:
    """The signal group of each dimension, such as "state.arm"."""
    kinds: dict[Dimension, str] = {
        Dimension(signal, name): kind
        for signal, names in zip(_SIGNALS, _names_of(layout), strict=True)
        for name, kind in zip(names, classify_by_name(names), strict=True)
    }
    return [f"{dimension.signal}.{kinds[dimension]}" for dimension in dimensions]


def _finite_signals(layout: LayoutContract) -> list[EpisodeSignals]:
    """The signals of the sample that can be compared."""
    import numpy as np

    signals = (episode_signals(*pair) for pair in layout.sample)
    return [
        part
        for part in signals
        if len(part.seconds) and np.isfinite(part.state).all() and np.isfinite(part.action).all()
    ]


def _pairs_of(contracts: Sequence[LayoutContract], is_merged: bool) -> Iterator[_Pair]:
    """Each dataset with the largest one that it shares dimensions with."""
    references: list[LayoutContract] = []
    for second in sorted(contracts, key=lambda layout: -layout.num_episodes):
        for first in references:
            dimensions = common_dimensions(_names_of(first), _names_of(second), is_merged)
            if dimensions:
                yield _compare_pair(first, second, dimensions)
                break
        else:
            references.append(second)


def _compare_pair(first: LayoutContract, second: LayoutContract, dimensions: tuple[Dimension, ...]) -> _Pair:
    """The comparison of all that no person signs to mean the same."""
    groups = _groups_of(second, dimensions)
    compared = tuple(
        dimension
        for dimension, group in zip(dimensions, groups, strict=True)
        if not _is_signed(first, second, group)
    )
    samples = (_finite_signals(first), _finite_signals(second))
    compared = compared if all(samples) else ()
    shown = find_disagreement(*samples, compared) if compared else Disagreement(is_sure=False)
    return _Pair(first, second, compared, {*groups}, shown)


def _is_signed(first: LayoutContract, second: LayoutContract, group: str) -> bool:
    """Whether a person states that a group means the same in both datasets."""
    signals = (layout.contract and layout.contract.signal(group) for layout in (first, second))
    datasets = (first.key.dataset, second.key.dataset)
    return any(signal and signal.estimate("same_as").value in datasets for signal in signals)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two datasets that have dimensions of the same names.

    Attributes:
        first: The one with more episodes.
        second: The other.
        dimensions: What was compared.
        groups: Signal groups that both have.
        shown: What they do not agree in.
    """

    first: LayoutContract
    second: LayoutContract
    dimensions: tuple[Dimension, ...]
    groups: Collection[str]
    shown: Disagreement

    @property
    def agreeing(self) -> set[str]:
        """Groups none of whose dimensions differ."""
        groups = _groups_of(self.second, self.dimensions)
        return {*groups} - {groups[number] for number in self.shown.numbers}

    def explain(self, clashes: Sequence[Clash]) -> list[Clash]:
        """The clashes, those of both datasets with a conversion that was tried, and what else differs."""
        datasets = {self.first.key.dataset, self.second.key.dataset}
        own = [clash for clash in clashes if clash.signal in self.groups and datasets <= clash.names]
        texts = self._find_conversion(own)
        if not own:
            return [*clashes, *([self._difference(texts)] if self.shown.aspects else [])]
        rest = tuple(text for text in texts if not any(clash.signal in text for clash in own))
        return [
            replace(
                clash,
                convert=tuple(
                    text for text in texts if clash.signal in text or (clash is own[0] and text in rest)
                ),
            )
            if clash in own
            else clash
            for clash in clashes
        ]

    def _difference(self, texts: tuple[str, ...]) -> Clash:
        """What a comparison shows: a clash where one conversion alone makes both agree, else a question."""
        first, second = self.first.key.dataset, self.second.key.dataset
        differing = [self.dimensions[number] for number in sorted(self.shown.numbers)]
        names = {signal: [name for part, name in differing if part == signal] for signal, _ in differing}
        groups = [*dict.fromkeys(_groups_of(self.second, differing))]
        listed = " and ".join(f"{signal} {_list_first(part, _LISTED)}" for signal, part in names.items())
        why = "" if texts else ": another task, or another unit, zero, sign, order or lag"
        return Clash(
            signal=groups[0] if len(groups) == 1 else " and ".join(names),
            name="values",
            datasets={f"{listed} unlike {first} ({', '.join(self.shown.aspects)}){why}": (second,)},
            convert=texts,
            sign=tuple(f"{second}/{group}: as in {first}" for group in groups),
            is_question=not texts,
        )

    def _find_conversion(self, own: Sequence[Clash]) -> tuple[str, ...]:
        """The one conversion after which samples agree; () where there is none, or more than one."""
        known = tuple(dict.fromkeys(text for clash in own for text in clash.convert))
        if known and self._agree_after(known):
            return known
        first, second = (_finite_signals(layout) for layout in (self.first, self.second))
        if not self.shown.aspects or min(len(first), len(second)) < _LEAST_TRIED:
            return ()
        candidates = candidate_conversions(
            first, second, self.dimensions, self.shown.numbers, self.second.key.dataset
        )
        fitting = [*islice((texts for texts in candidates if self._agree_after(texts)), 2)]
        return fitting[0] if len(fitting) == 1 else ()

    def _agree_after(self, texts: tuple[str, ...]) -> bool:
        """Whether samples of both agree once the conversions were applied to them."""
        try:
            conversions = parse_conversions(texts)
            changed = [
                plan_layout_conversion(layout, conversions, {}).layout for layout in (self.first, self.second)
            ]
        except RequestError:
            return False
        first, second = (_finite_signals(layout) for layout in changed)
        if not (first and second):
            return False
        return not find_disagreement(first, second, self.dimensions, is_early_stop=True).aspects


def _with_agreement(contracts: Sequence[LayoutContract], pairs: Sequence[_Pair]) -> list[LayoutContract]:
    """The contracts; a group that a person or a sample shows to be as in another dataset has its meaning."""
    known = {id(layout): layout for layout in contracts}
    for pair in pairs:
        # Few episodes show that a unit is the same, and no more.
        names = COMPARED if pair.shown.is_sure else ("unit",)
        known[id(pair.second)] = _taking_values(known[id(pair.second)], pair.first, pair.agreeing, names)
    by_dataset = {layout.key.dataset: layout for layout in contracts}
    for layout in contracts:
        for group in layout.contract.signals if layout.contract is not None else ():
            other = by_dataset.get(group.estimate("same_as").value)
            if other is not None:
                known[id(layout)] = _taking_values(known[id(layout)], other, {group.name}, ())
    return list(known.values())


def _taking_values(
    layout: LayoutContract, other: LayoutContract, groups: Collection[str], names: Sequence[PropertyName]
) -> LayoutContract:
    """A layout whose groups have the values of another.

    Args:
        layout: The layout.
        other: The other.
        groups: Names of the groups.
        names: What is taken as samples show it, so that what names or a spec tell stays; () takes all, for a person.
    """
    if layout.contract is None or other.contract is None:
        return layout
    signals = []
    for group in layout.contract.signals:
        model = other.contract.signal(group.name) if group.name in groups else None
        if model is not None:
            estimates = {
                name: model.estimate(name)
                for name in names or COMPARED
                if not names
                or {group.estimate(name).origin, model.estimate(name).origin} <= {"values", "none"}
            }
            mixed = group.mixed_units if names else model.mixed_units
            group = replace(group, estimates={**group.estimates, **estimates}, mixed_units=mixed)
        signals.append(group)
    return replace(layout, contract=replace(layout.contract, signals=tuple(signals)))


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


def _value_clashes(name: str, signals: Sequence[tuple[str, SignalContract, int]]) -> Iterator[Clash]:
    """Of one signal group, by contract, with the target that would solve it: a gripper has unit and end together."""
    parts: list[tuple[PropertyName, ...]] = [(part,) for part in COMPARED]
    if name.endswith(".gripper"):
        parts = [("mode",), ("unit", "gripper")]
    for compared in parts:
        values = [
            (dataset, value)
            for dataset, signal, _ in signals
            for value in _property_estimates(signal, compared)
        ]
        if clashing := _clashing_datasets(values):
            target = _EXAMPLES.get(compared[-1]) or _common_unit(clashing) or _usual_rotation(signals)
            datasets = list(dict.fromkeys(part for names in clashing.values() for part in names))
            yield Clash(
                signal=name,
                name=compared[-1],
                datasets=clashing,
                convert=(f"{name}={target}",) if target else (),
                sign=tuple(f"{part}/{name}: as in {datasets[0]}" for part in datasets[1:]),
            )


def _property_estimates(
    signal: SignalContract, names: tuple[PropertyName, ...]
) -> Iterator[tuple[Estimate, ...]]:
    """The estimates of some properties; of each unit for a signal that has several."""
    if "unit" in names and signal.mixed_units:
        yield from ((possible([unit]),) for unit in signal.mixed_units)
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
    for number, signal in enumerate(_SIGNALS):
        orders: dict[tuple[str, ...], dict[tuple[str, ...], dict[str, None]]] = {}
        for layout in contracts:
            names = _names_of(layout)[number]
            if len(set(names)) == len(names) > 1:
                datasets = orders.setdefault(tuple(sorted(names)), {}).setdefault(names, {})
                datasets[layout.key.dataset] = None
        for by_order in orders.values():
            if len(by_order) > 1:
                listed = {_list_first(names): tuple(datasets) for names, datasets in by_order.items()}
                yield Clash(signal=signal, name="order", datasets=listed, convert=(f"{signal}=order",))


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
