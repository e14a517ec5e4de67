"""What an export does with the signals of a set: refuses clashes, and converts what the user names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ares.episode import Episode, Json, Trajectory
from ares.errors import RequestError
from ares.quality.catalogue import CODES
from ares.quality.contract.clashes import find_clashes, unknown_meanings
from ares.quality.contract.layout_conversion import LayoutConversion, convert_layout
from ares.quality.contract.named_conversions import ORDER, NamedConversion
from ares.quality.contract.set_layouts import LayoutContract
from ares.quality.contract.storage import DatasetKey
from ares.quality.repair import SignalChange, changed_trajectory

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


class SetConversion:
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
            (layout.key, layout.state_names, layout.action_names): convert_layout(
                layout, conversions, _orders(layout, contracts, conversions)
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


def _orders(
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
