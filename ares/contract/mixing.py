"""Converts the episodes of a set one by one, once its signals mean the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ares.checks import CODES
from ares.contract.clashes import find_clashes, unknown_meanings
from ares.contract.contracts import DatasetKey
from ares.contract.set_contracts import LayoutContract, LayoutConversion, applies, plan_layout_conversion
from ares.contract.statements import CHANGE, ORDER, PERMUTATION, NamedConversion
from ares.episode import Episode, Json, Trajectory
from ares.errors import RequestError
from ares.signals import SignalChange, changed_trajectory

_LayoutKey = tuple[DatasetKey, tuple[str, ...], tuple[str, ...]]


class ClashError(RequestError):
    """Signals of a set mean different things, and no conversion is named for them.

    Args:
        reason: As for every error.
        detail: As for every error.
        lines: What differs, each with its remedy.
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
        is_merged: Whether all become one dataset, so that those that share some dimensions are compared.

    Attributes:
        layouts: The contracts after the conversions.
        unknown: What of the meaning of signals is not known, or seems to differ.
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
        is_merged: bool = False,
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
        differing = find_clashes(self.layouts, is_merged, with_pictures=True)
        lines = tuple(f"{clash}; {clash.remedy}" for clash in differing if not clash.is_question)
        if lines:
            raise ClashError("signals of the set mean different things", " | ".join(lines), lines)
        questions = (f"{clash}; {clash.remedy}" for clash in differing)
        self.unknown = (*questions, *unknown_meanings(self.layouts))

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
