"""What the dimensions of a dataset are to the measures of motion: their kinds, learnt from values, and their units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest
from itertools import chain
from math import pi
from typing import TYPE_CHECKING, NamedTuple

from annotators.motion.end_effectors import EndEffector, find_end_effectors
from ares.kinematics import Kinematics
from ares.quality import DatasetStatistics, TypicalEpisode, episode_signals
from ares.quality.contract import (
    DatasetKey,
    MeaningContract,
    SignalName,
    StoredContracts,
    infer_stored,
    read_contracts,
)
from ares.quality.kinds import DimensionKind, kinds_by_name
from ares.store.filters import quote_literal

if TYPE_CHECKING:
    from annotators.base import Work
    from ares.store import Stores

Kinds = tuple[DimensionKind, ...]
UNKNOWN_UNIT = "unknown"
# A robot that is measured in radians or metres, by the unit of its source.
_FACTORS = {"rad": ("rad", 1.0), "deg": ("rad", pi / 180), "m": ("m", 1.0), "mm": ("m", 0.001)}
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
        end_effectors: Links whose position follows from that signal.
        kinematics_gap: Why there is none although there is a URDF, or "".
    """

    state_kinds: Kinds
    action_kinds: Kinds
    path_units: tuple[str, ...]
    path_signal: SignalName = "state"
    end_effectors: tuple[EndEffector, ...] = ()
    kinematics_gap: str = ""

    @property
    def path_kinds(self) -> Kinds:
        """Kinds of the signal of the path."""
        return self.state_kinds if self.path_signal == "state" else self.action_kinds

    def factor(self, number: int) -> float:
        """What a dimension of the path is multiplied by to be radians or metres; 1 where it cannot be."""
        return _FACTORS.get(self.path_units[number], ("", 1.0))[1]

    def measured_unit(self, numbers: Sequence[int]) -> str:
        """The unit of dimensions of the path times their factors; "unknown" where they have several."""
        units = {_FACTORS.get(unit, (unit, 1.0))[0] for unit in (self.path_units[n] for n in numbers)}
        return units.pop() if len(units) == 1 else UNKNOWN_UNIT


def named_meaning(state_names: tuple[str, ...], action_names: tuple[str, ...]) -> MotionMeaning:
    """What the names alone say of a robot in radians and metres."""
    kinds = kinds_by_name(state_names)
    return MotionMeaning(
        state_kinds=kinds,
        action_kinds=kinds_by_name(action_names),
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
        kinematics: Of the robot of all datasets; None for what the spec of each says.
    """

    def __init__(self, stores: Stores, kinematics: Kinematics | None = None) -> None:
        self._stores, self._kinematics = stores, kinematics
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
        stored = read_contracts(self._stores.annotations, layout.key)
        contract = self._contract(layout, stored)
        named = named_meaning(layout.state_names, layout.action_names)
        typical = None
        if "unknown" in (*named.state_kinds, *named.action_kinds):
            typical = self._typical(layout)
        kinds = (named.state_kinds, named.action_kinds)
        if typical is not None:
            kinds = (typical.state.kinds, typical.action.kinds)
        signal = _path_signal(layout, contract)
        path_kinds, names = (
            (kinds[0], layout.state_names) if signal == "state" else (kinds[1], layout.action_names)
        )
        units = _units(signal, path_kinds, contract, typical)
        kinematics = self._kinematics or stored.kinematics
        ends, gap = ((), "") if kinematics is None else find_end_effectors(kinematics, names, units)
        return MotionMeaning(
            state_kinds=kinds[0],
            action_kinds=kinds[1],
            path_units=units,
            path_signal=signal,
            end_effectors=ends,
            kinematics_gap=gap,
        )

    def _contract(self, layout: _Layout, stored: StoredContracts) -> MeaningContract | None:
        names = (layout.state_names, layout.action_names)
        known = stored.of_layout(*names)
        if known is not None:
            return known
        inferred = infer_stored(self._stores, layout.key.dataset, self._cached_sample(layout.key))
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
        return nsmallest(_SAMPLE_SIZE, chain.from_iterable(self._stores.tables.episodes.id_batches(where)))


def _path_signal(layout: _Layout, contract: MeaningContract | None) -> SignalName:
    """The state; the action where there is no state and the contract says that it commands positions."""
    actions = [part for part in (contract.signals if contract else ()) if part.kind in ("arm", "position")]
    commands = actions and all(part.estimate("mode").value == "absolute" for part in actions)
    return "action" if commands and not layout.state_names else "state"


def _units(
    signal: SignalName, kinds: Kinds, contract: MeaningContract | None, typical: TypicalEpisode | None
) -> tuple[str, ...]:
    """Unit of each dimension: by the contract, or by size for joints that were learnt from values."""
    units = [UNKNOWN_UNIT] * len(kinds)
    if typical is not None:
        own = typical.state if signal == "state" else typical.action
        learnt = "deg" if own.units_per_radian > 1 else "rad"
        units = [learnt if kind == "arm" else unit for kind, unit in zip(kinds, units, strict=True)]
    for part in contract.signals if contract is not None else ():
        if part.signal == signal and part.kind != "unknown":
            unit = UNKNOWN_UNIT if part.mixed_units else part.estimate("unit").value
            for number in part.numbers:
                units[number] = unit
    return tuple(units)
