"""What signals mean to measures of motion: kinds, units and end effectors."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest
from math import pi
from typing import TYPE_CHECKING, NamedTuple

from ares.contract import (
    DatasetKey,
    MeaningContract,
    SignalName,
    infer_contracts,
    read_contracts,
)
from ares.signals import (
    ActionMeaning,
    DatasetStatistics,
    DimensionKind,
    TypicalEpisode,
    classify_by_name,
    episode_signals,
)
from ares.store import quote_literal

if TYPE_CHECKING:
    from ares.store import Stores
    from ares_annotators.base import Work


Kinds = tuple[DimensionKind, ...]
UNKNOWN_UNIT = "unknown"
# A robot that is measured in radians or metres, by the unit of its source.
_PATH_UNIT_FACTORS = {"rad": ("rad", 1.0), "deg": ("rad", pi / 180), "m": ("m", 1.0), "mm": ("m", 0.001)}
# Episodes that are read where names or the stored contract say nothing.
_SAMPLE_SIZE = 64
_MAX_CACHED_LAYOUTS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MotionMeaning:
    """What the dimensions of a state and an action are.

    Attributes:
        state_kinds: Kind of each dimension of the state.
        action_kinds: Of the action.
        path_units: Unit of each dimension of the signal of the path in the source; "unknown" where nothing tells it.
        path_signal: The signal whose path is measured: the state, or commanded positions where there is no state.
        action_meaning: What the action commands: positions, or motions from where the robot is; None where the contract
            does not say, or says both.
    """

    state_kinds: Kinds
    action_kinds: Kinds
    path_units: tuple[str, ...]
    path_signal: SignalName = "state"
    action_meaning: ActionMeaning | None = None

    @property
    def path_kinds(self) -> Kinds:
        """Kinds of the signal of the path."""
        return self.state_kinds if self.path_signal == "state" else self.action_kinds

    def factor(self, number: int) -> float:
        """What a dimension of the path is multiplied by to be radians or metres; 1 where it cannot be."""
        return _PATH_UNIT_FACTORS.get(self.path_units[number], ("", 1.0))[1]

    def measured_unit(self, numbers: Sequence[int]) -> str:
        """The unit of dimensions of the path times their factors; "unknown" where they have several."""
        units = {
            _PATH_UNIT_FACTORS.get(unit, (unit, 1.0))[0] for unit in (self.path_units[n] for n in numbers)
        }
        return units.pop() if len(units) == 1 else UNKNOWN_UNIT


def infer_meaning_by_names(state_names: tuple[str, ...], action_names: tuple[str, ...]) -> MotionMeaning:
    """What the names alone say of a robot in radians and metres."""
    kinds = classify_by_name(state_names)
    return MotionMeaning(
        state_kinds=kinds,
        action_kinds=classify_by_name(action_names),
        path_units=tuple("m" if kind == "position" else "rad" for kind in kinds),
    )


class _Layout(NamedTuple):
    key: DatasetKey
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]


class DatasetMeanings:
    """Finds the meaning of the signals of each dataset of a workspace, once for each combination of dimensions.

    Kinds are those of `ares check`: by name, else by the values of a sample. Units are those of the stored contract,
    corrected by the spec; a dataset without a contract gets one from the sample.

    Args:
        stores: Stores of the workspace.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._cached_meaning = lru_cache(maxsize=_MAX_CACHED_LAYOUTS)(self._find_meaning)
        self._cached_sample = lru_cache(maxsize=_MAX_CACHED_LAYOUTS)(self._sample)

    def find(self, work: Work) -> MotionMeaning | None:
        """The meaning of the signals of an episode; None for one without."""
        episode, trajectory = work.episode, work.trajectory
        if trajectory is None:
            return None
        names = (signal.names if signal else () for signal in (trajectory.state, trajectory.action))
        key = DatasetKey(episode.format, episode.dataset, episode.version)
        return self._cached_meaning(_Layout(key, *names))

    def _find_meaning(self, layout: _Layout) -> MotionMeaning:
        contract = self._contract(layout)
        named = infer_meaning_by_names(layout.state_names, layout.action_names)
        typical = None
        if "unknown" in (*named.state_kinds, *named.action_kinds):
            typical = self._typical(layout)
        kinds = (named.state_kinds, named.action_kinds)
        if typical is not None:
            kinds = (typical.state.kinds, typical.action.kinds)
        signal = _path_signal(layout, contract)
        path_kinds = kinds[0] if signal == "state" else kinds[1]
        return MotionMeaning(
            state_kinds=kinds[0],
            action_kinds=kinds[1],
            path_units=_dimension_units(signal, path_kinds, contract, typical),
            path_signal=signal,
            action_meaning=_action_meaning(contract),
        )

    def _contract(self, layout: _Layout) -> MeaningContract | None:
        names = (layout.state_names, layout.action_names)
        known = read_contracts(self._stores.annotations, layout.key).of_layout(*names)
        if known is not None:
            return known
        inferred = infer_contracts(self._stores, layout.key.dataset, self._cached_sample(layout.key))
        return next((c for c in inferred if (c.state_names, c.action_names) == names), None)

    def _typical(self, layout: _Layout) -> TypicalEpisode | None:
        """What is typical of the episodes of a layout in the sample; None where it has none of them."""
        episodes = self._stores.tables.episodes.get(self._cached_sample(layout.key))
        by_id = {episode.episode_id: episode for episode in episodes}
        statistics = DatasetStatistics(state_names=layout.state_names, action_names=layout.action_names)
        for episode_id, trajectory in self._stores.tables.trajectories.read(list(by_id)):
            signals = episode_signals(by_id[episode_id], trajectory)
            if (signals.state_names, signals.action_names) == layout[1:]:
                statistics.add(signals)
        return statistics.typical()

    def _sample(self, key: DatasetKey) -> list[str]:
        """Ids of some episodes of a dataset: ids are hashes, so that the smallest are a fair sample."""
        where = " AND ".join(f"{name} = {quote_literal(value)}" for name, value in key._asdict().items())
        return nsmallest(
            _SAMPLE_SIZE, itertools.chain.from_iterable(self._stores.tables.episodes.id_batches(where))
        )


_ACTION_MEANINGS: Mapping[str, ActionMeaning] = {
    "absolute": "absolute",
    "delta": "relative",
    "velocity": "relative",
}


def _action_meaning(contract: MeaningContract | None) -> ActionMeaning | None:
    parts = contract.signals if contract else ()
    moved = [part for part in parts if part.signal == "action" and part.kind in ("arm", "position")]
    meanings = {_ACTION_MEANINGS.get(part.estimate("mode").value) for part in moved}
    return meanings.pop() if len(meanings) == 1 else None


def _path_signal(layout: _Layout, contract: MeaningContract | None) -> SignalName:
    """The state; the action where there is no state and the contract says that it commands positions."""
    actions = [part for part in (contract.signals if contract else ()) if part.kind in ("arm", "position")]
    commands = actions and all(part.estimate("mode").value == "absolute" for part in actions)
    return "action" if commands and not layout.state_names else "state"


def _dimension_units(
    signal: SignalName, kinds: Kinds, contract: MeaningContract | None, typical: TypicalEpisode | None
) -> tuple[str, ...]:
    """Unit of each dimension: by the contract, or by size for joints that were learnt from values."""
    units = [UNKNOWN_UNIT] * len(kinds)
    if typical is not None:
        typical_signal = typical.state if signal == "state" else typical.action
        learnt = "deg" if typical_signal.units_per_radian > 1 else "rad"
        units = [learnt if kind == "arm" else unit for kind, unit in zip(kinds, units, strict=True)]
    for part in contract.signals if contract is not None else ():
        if part.signal == signal and part.kind != "unknown":
            unit = UNKNOWN_UNIT if part.mixed_units else part.estimate("unit").value
            for number in part.numbers:
                units[number] = unit
    return tuple(units)
