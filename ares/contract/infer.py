"""Infers what the signals of a dataset mean: by names first, then by ranges and by how the state follows the action.

What neither says is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from ares.contract.contracts import (
    NO_ESTIMATE,
    Estimate,
    GroupKind,
    MeaningContract,
    PropertyName,
    SignalContract,
    possible,
)
from ares.contract.conversions import GRIPPER_RANGES
from ares.contract.evidence import (
    ContractEvidence,
    DimensionGroup,
    SignalRanges,
    collect_contract_evidence,
    dimension_groups,
    pair_dimensions,
)
from ares.contract.named_meanings import named_estimates, named_gripper
from ares.contract.units import mixed_angle_units, possible_units
from ares.signals import episode_signals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores


Estimates = dict[PropertyName, Estimate]

# An episode is odd where its values are so many times those of the others, of at least so many.
_OUTLIER_SIZE, _OUTLIER_SHARE, _LEAST_EPISODES = 10.0, 0.2, 6
# A dimension moves where its range is at least this share of that of the dimension that moves most.
_MOVING_SHARE = 0.05
# A dimension follows its command, or its reverse, from this correlation on.
_FOLLOWS = 0.3
# One of two modes is claimed where the state follows it better by this correlation.
_CLEARLY = 0.1
# Motions are in one unit where one is within this factor of the other, as a logarithm.
_NEAR = 0.7
# The state of a gripper stays away from its closed end by this share of its range more than from its open end.
_OBJECT_SHARE = 0.1


def infer_contract(
    dataset: str,
    state_names: tuple[str, ...],
    action_names: tuple[str, ...],
    episodes: Sequence[ContractEvidence],
) -> MeaningContract | None:
    """What the signals mean; None without evidence.

    Args:
        dataset: Name of the dataset.
        state_names: Names of the state's dimensions.
        action_names: Names of the action's dimensions.
        episodes: Evidence of episodes with these dimensions.
    """
    if not episodes:
        return None
    states = {group.kind: group for group in dimension_groups("state", state_names)}
    actions = {group.kind: group for group in dimension_groups("action", action_names)}
    is_outlier = _are_outlier_episodes(episodes, [*states.values(), *actions.values()])
    usual = [part for part, outlier in zip(episodes, is_outlier, strict=True) if not outlier]
    pairs = pair_dimensions(state_names, action_names)
    signals: list[SignalContract] = []
    for kind in dict.fromkeys([*states, *actions]):
        own = _Kind(kind, states.get(kind), actions.get(kind), pairs, usual)
        signals += own.contracts()
    return MeaningContract(
        dataset=dataset,
        state_names=state_names,
        action_names=action_names,
        num_episodes=len(episodes),
        signals=tuple(sorted(signals, key=lambda signal: signal.signal != "state")),
        outlier_episodes=tuple(
            part.episode_id for part, outlier in zip(episodes, is_outlier, strict=True) if outlier
        ),
    )


def _are_outlier_episodes(
    episodes: Sequence[ContractEvidence], groups: Sequence[DimensionGroup]
) -> NDArray[np.bool_]:
    """(N,): whether an episode has values far beyond those of all others; never of few, nor of a fifth of them."""
    import numpy as np

    is_outlier = np.zeros(len(episodes), bool)
    for group in groups if len(episodes) >= _LEAST_EPISODES else ():
        sizes = np.array([ranges.size.max() for ranges in _ranges_of(group, episodes)])
        is_beyond = sizes > _OUTLIER_SIZE * np.median(sizes)
        if np.median(sizes) > 0 and is_beyond.mean() < _OUTLIER_SHARE:
            is_outlier |= is_beyond
    return is_outlier


def _ranges_of(group: DimensionGroup, episodes: Sequence[ContractEvidence]) -> list[SignalRanges]:
    """The ranges of the dimensions of a group, by episode."""
    signals = [part.state if group.signal == "state" else part.action for part in episodes]
    return [signal.select(group.numbers) for signal in signals]


@dataclass(frozen=True, slots=True, eq=False)
class _Following:
    """How the dimensions of a group follow their action.

    Attributes:
        absolute: Correlation of the changes of state and action at the best lag, mean over dimensions that move.
        motion: Correlation of the changes of the state with the action itself, likewise.
        gains: Change of the state per change of the action, and per action, at the best lags; medians.
        signs: By number of the action's dimension 1, -1, or 0 where it does not follow.
    """

    absolute: float
    motion: float
    gains: tuple[float, float]
    signs: dict[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """The dimensions of one kind in state and action, and the evidence of all dimensions."""

    kind: GroupKind
    state: DimensionGroup | None
    action: DimensionGroup | None
    pairs: Sequence[tuple[int, int]]
    episodes: Sequence[ContractEvidence]

    @property
    def pair_numbers(self) -> list[int]:
        """Numbers of the pairs whose action is of this kind."""
        numbers = self.action.numbers if self.action is not None else ()
        return [number for number, (_, action) in enumerate(self.pairs) if action in numbers]

    def contracts(self) -> list[SignalContract]:
        """The contracts of state and action."""
        following = self._measure_following()
        of_state: Estimates = {}
        of_action: Estimates = {}
        if self.kind == "gripper":
            of_state, of_action = self._gripper(following)
        elif self.kind == "unknown":
            of_action = {"mode": NO_ESTIMATE}
        elif self.kind != "other":
            of_state = {"mode": possible(["absolute"], "names"), "unit": self._unit(self.state)}
            of_action = self._motion(following, of_state["unit"])
            if following and of_action["mode"].value == "absolute" and _is_near(following.gains[0]):
                units = of_state["unit"], of_action["unit"]
                of_state["unit"], of_action["unit"] = units[0].narrowed(units[1]), units[1].narrowed(units[0])
        signs = following.signs if following else {}
        groups = ((self.state, of_state), (self.action, of_action))
        return [self._signal_contract(group, part, signs) for group, part in groups if group is not None]

    def _signal_contract(
        self, group: DimensionGroup, estimates: Estimates, signs: dict[int, int]
    ) -> SignalContract:
        ranges = _ranges_of(group, self.episodes)
        sizes = [float(part.size.max()) for part in ranges]
        return SignalContract(
            signal=group.signal,
            kind=group.kind,
            numbers=group.numbers,
            dimensions=group.names,
            low=min(float(part.low.min()) for part in ranges),
            high=max(float(part.high.max()) for part in ranges),
            estimates={**estimates, **named_estimates(group)},
            signs=tuple(signs.get(n, 0) for n in group.numbers) if group.signal == "action" else (),
            mixed_units=mixed_angle_units(sizes) if group.kind == "arm" else (),
        )

    def _unit(self, group: DimensionGroup | None) -> Estimate:
        return possible_units(self.kind, _ranges_of(group, self.episodes)) if group else NO_ESTIMATE

    def _measure_following(self) -> _Following | None:
        """How the pairs of this kind follow; None where none of them moves."""
        import numpy as np

        numbers = self.pair_numbers
        states = [self.pairs[number][0] for number in numbers]
        spans = [(part.state.high - part.state.low)[states] for part in self.episodes]
        ranges = np.median(spans, axis=0)
        is_moving = (ranges > _MOVING_SHARE * ranges.max(initial=0.0)) & (ranges > 0)
        if not is_moving.any():
            return None
        products = np.sum([part.products[:, :, numbers] for part in self.episodes], axis=0)
        state_power = np.sum([part.state_power[numbers] for part in self.episodes], axis=0)
        action_power = np.sum([part.action_power[:, numbers] for part in self.episodes], axis=0)[:, None]
        power = np.sqrt(state_power * action_power)
        correlations = products / np.where(power > 0, power, 1)
        gains = np.abs(products / np.where(action_power > 0, action_power, 1))
        means = np.abs(correlations[:, :, is_moving]).mean(axis=2)
        lags = means.argmax(axis=1)
        better = int(means.max(axis=1).argmax())
        signed = correlations[better, lags[better]]
        absolute, motion = (float(np.median(gains[way, lags[way]][is_moving])) for way in range(2))
        return _Following(
            absolute=float(means[0].max()),
            motion=float(means[1].max()),
            gains=(absolute, motion),
            signs={
                self.pairs[number][1]: int(np.sign(value)) if abs(value) > _FOLLOWS else 0
                for number, value in zip(numbers, signed, strict=True)
            },
        )

    def _motion(self, following: _Following | None, state_unit: Estimate) -> Estimates:
        """Mode and unit of the action of joints, positions or rotations."""
        if self.action is None or following is None:
            return {"mode": NO_ESTIMATE, "unit": NO_ESTIMATE}
        ranges = _ranges_of(self.action, self.episodes)
        # Commands to open and to close do not say in which unit, nor whether they are motions.
        if all(part.is_two_valued.all() for part in ranges):
            return {"mode": NO_ESTIMATE, "unit": NO_ESTIMATE}
        better = following.absolute - following.motion
        if max(following.absolute, following.motion) < _FOLLOWS or abs(better) < _CLEARLY:
            return {"mode": possible(["absolute", "delta", "velocity"]), "unit": NO_ESTIMATE}
        if better > 0:
            return {"mode": possible(["absolute"]), "unit": self._unit(self.action)}
        size, rate = max(float(part.size.max()) for part in ranges), self.episodes[0].rate_hz
        factors = {"delta": 1.0, "velocity": rate}
        modes = [mode for mode, factor in factors.items() if _is_near(following.gains[1] * factor)]
        if modes and size != 1:
            return {"mode": possible(modes), "unit": state_unit}
        # By any factor a speed is a motion too: within 1, it is called a change.
        is_normalised = size <= 1.001
        return {
            "mode": possible(["delta"] if is_normalised else ["delta", "velocity"]),
            "unit": possible(["normalised"] if is_normalised else []),
        }

    def _gripper(self, following: _Following | None) -> tuple[Estimates, Estimates]:
        """Ranges and open ends of state and action."""
        named = [
            named_gripper(group, self._unit(group)) if group else (NO_ESTIMATE, 0)
            for group in (self.state, self.action)
        ]
        units, ends = [unit for unit, _ in named], [end for _, end in named]
        # 1 where state and action rise together, -1 where one falls, 0 where the data do not say.
        rising = sum(following.signs.values()) if following else 0
        sign = (rising > 0) - (rising < 0)
        if sign and not any(ends) and self.state and self.action:
            ends[0] = self._end_without_object(
                self.state, self.action, (units[0].value, units[1].value), sign
            )
        of_state, of_action = ends[0] or sign * ends[1], ends[1] or sign * ends[0]
        return (
            {"unit": units[0], "gripper": _open_end_estimate(of_state)},
            {"unit": units[1], "gripper": _open_end_estimate(of_action)},
        )

    def _end_without_object(
        self, state: DimensionGroup, action: DimensionGroup, units: tuple[str, str], sign: int
    ) -> int:
        """1 where the high end of the state is open, -1 the low one: an object keeps fingers from the closed end."""
        import numpy as np

        if not GRIPPER_RANGES.keys() >= {*units}:
            return 0
        shares = [
            np.array([_mean_ends(part, *GRIPPER_RANGES[unit]) for part in _ranges_of(group, self.episodes)])
            for group, unit in ((state, units[0]), (action, units[1]))
        ]
        command = shares[1] if sign > 0 else 1 - shares[1][:, ::-1]
        inside = np.median(shares[0] - command, axis=0) * (1, -1)
        gap = float(inside[0] - inside[1])
        return int(np.sign(gap)) if abs(gap) > _OBJECT_SHARE else 0


def _mean_ends(ranges: SignalRanges, low: float, high: float) -> tuple[float, float]:
    """Smallest and largest value of an episode as shares of the range of a gripper, mean over the dimensions."""
    import numpy as np

    shares = (np.clip((end - low) / (high - low), 0, 1) for end in (ranges.low, ranges.high))
    smallest, largest = (float(part.mean()) for part in shares)
    return smallest, largest


def _is_near(gain: float) -> bool:
    return gain > 0 and abs(log(gain)) < _NEAR


def _open_end_estimate(end: int) -> Estimate:
    return possible([["high is closed"], [], ["high is open"]][end + 1])


def infer_contracts(stores: Stores, dataset: str, sample: Sequence[str]) -> list[MeaningContract]:
    """Infer the contracts of some stored episodes of a dataset, one for each combination of dimensions."""
    trajectories = dict(stores.tables.trajectories.read(sample))
    evidence: dict[tuple[tuple[str, ...], tuple[str, ...]], list[ContractEvidence]] = {}
    for episode in stores.tables.episodes.get([id for id in sample if id in trajectories]):
        signals = episode_signals(episode, trajectories[episode.episode_id])
        part = collect_contract_evidence(signals)
        if part is not None:
            evidence.setdefault((signals.state_names, signals.action_names), []).append(part)
    inferred = (infer_contract(dataset, *layout, parts) for layout, parts in evidence.items())
    return [contract for contract in inferred if contract is not None]
