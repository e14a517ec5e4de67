"""Infers what the signals of a dataset mean, from names and from the evidence of a sample of its episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import TYPE_CHECKING

from ares.contract.action_mode import (
    Following,
    log_likelihoods_of_mode_and_units,
    measure_action_following,
    score_action_mode_by_level,
)
from ares.contract.candidates import (
    ValueRange,
    mixed_angle_units,
    normalize_log_likelihoods,
    score_angle_units,
    score_length_units,
    scores_to_estimate,
    value_range,
)
from ares.contract.contracts import (
    NO_ESTIMATE,
    Estimate,
    GroupKind,
    MeaningContract,
    PropertyName,
    SignalContract,
    certain,
)
from ares.contract.evidence import (
    ContractEvidence,
    DimensionGroup,
    PooledContractEvidence,
    PooledSignal,
    are_outlier_episodes,
    collect_contract_evidence,
    dimension_groups,
    pair_dimensions,
    pool_contract_evidence,
)
from ares.contract.gripper_ends import estimate_gripper_open_end, score_gripper_ranges
from ares.contract.rotation_convention import rotation_estimate
from ares.signals import episode_signals, name_tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from ares.store import Stores


Estimates = dict[PropertyName, Estimate]

_VELOCITY_WORDS = frozenset(["vel", "velocity", "velocities", "dq", "qd", "speed"])
_ROLES = {
    "leader": "leader",
    "master": "leader",
    "follower": "follower",
    "puppet": "follower",
    "slave": "follower",
}
_FRAMES = {"world": "world", "base": "base", "tool": "tool", "local": "tool"}
_BY_NAME = 0.97
# Commands have two values in so many of the episodes.
_TWO_VALUED = 0.95
# A state that follows its action is measured, and so a follower; an axis that follows has the frame of the state.
_BY_FOLLOWING = 0.95
_FOLLOWS = 0.5


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
    if not (state_names or action_names):  # videos alone: nothing is to be inferred
        return MeaningContract(
            dataset=dataset, state_names=(), action_names=(), num_episodes=len(episodes), signals=()
        )
    states = {group.kind: group for group in dimension_groups("state", state_names)}
    actions = {group.kind: group for group in dimension_groups("action", action_names)}
    is_outlier = are_outlier_episodes(episodes, [*states.values(), *actions.values()])
    evidence = pool_contract_evidence(
        [part for part, outlier in zip(episodes, is_outlier, strict=True) if not outlier]
    )
    pairs = pair_dimensions(state_names, action_names)
    signals: list[SignalContract] = []
    for kind in dict.fromkeys([*states, *actions]):
        signals += _infer_kind(kind, states.get(kind), actions.get(kind), pairs, evidence)
    return MeaningContract(
        dataset=dataset,
        state_names=state_names,
        action_names=action_names,
        num_episodes=len(episodes),
        signals=tuple(sorted(signals, key=lambda signal: signal.signal != "state")),
        outlier_episodes=tuple(
            part.episode_id for part, outlier in zip(episodes, is_outlier, strict=True) if outlier
        ),
        profiles={"state": evidence.state.profile, "action": evidence.action.profile},
    )


def _infer_kind(
    kind: GroupKind,
    state: DimensionGroup | None,
    action: DimensionGroup | None,
    pairs: Sequence[tuple[int, int]],
    evidence: PooledContractEvidence,
) -> list[SignalContract]:
    """The contracts of state and action for one kind of dimensions."""
    numbers = [n for n, pair in enumerate(pairs) if action is not None and pair[1] in action.numbers]
    following = measure_action_following(evidence, numbers, [pairs[number][0] for number in numbers])
    of_state: Estimates = {}
    of_action: Estimates = {}
    if kind == "gripper":
        _estimate_gripper(evidence, state, action, numbers, of_state, of_action)
    elif kind == "unknown":
        _estimate_unnamed(evidence, action, of_action)
    elif kind != "other":
        _estimate_motion(kind, evidence, state, action, following, of_state, of_action)
    contracts = []
    if state is not None:
        contracts.append(_signal_contract(state, evidence.state, of_state, ()))
    if action is not None:
        by_action = (
            dict(zip((pairs[number][1] for number in numbers), following.signs, strict=True))
            if following
            else {}
        )
        signs = tuple(by_action.get(number, 0) for number in action.numbers)
        contracts.append(_signal_contract(action, evidence.action, of_action, signs))
    return contracts


def _signal_contract(
    group: DimensionGroup, signal: PooledSignal, estimates: Estimates, signs: tuple[int, ...]
) -> SignalContract:
    numbers = list(group.numbers)
    if group.kind == "rotation":
        estimates["rotation"] = rotation_estimate(group, signal)
    named = _named_estimates(group)
    return SignalContract(
        signal=group.signal,
        kind=group.kind,
        numbers=group.numbers,
        dimensions=group.names,
        low=float(signal.low[numbers].min()),
        high=float(signal.high[numbers].max()),
        estimates={**estimates, **named},
        signs=signs,
        mixed_units=mixed_angle_units(signal.sizes[:, numbers].max(axis=1)) if group.kind == "arm" else (),
    )


def _named_estimates(group: DimensionGroup) -> Estimates:
    """What the names say outright."""
    words = group.words
    named: Estimates = {}
    if all(_VELOCITY_WORDS & {*name_tokens(name)} for name in group.names):
        named["mode"] = certain("velocity", "names", _BY_NAME)
    roles = {role for word, role in _ROLES.items() if word in words}
    if len(roles) == 1:
        named["role"] = certain(roles.pop(), "names", _BY_NAME)
    frames = {frame for word, frame in _FRAMES.items() if word in words}
    if len(frames) == 1 and group.kind in ("position", "rotation"):
        named["frame"] = certain(frames.pop(), "names", _BY_NAME)
    return named


def _group_value_range(group: DimensionGroup, signal: PooledSignal) -> ValueRange:
    numbers = list(group.numbers)
    parts = (signal.low, signal.high, signal.at_unit, signal.at_hundred, signal.is_whole)
    return value_range(*(part[numbers] for part in parts))


def _estimate_gripper(
    evidence: PooledContractEvidence,
    state: DimensionGroup | None,
    action: DimensionGroup | None,
    pairs: Sequence[int],
    of_state: Estimates,
    of_action: Estimates,
) -> None:
    units = tuple(
        scores_to_estimate(score_gripper_ranges(_group_value_range(group, signal)), "values")
        if group
        else NO_ESTIMATE
        for group, signal in ((state, evidence.state), (action, evidence.action))
    )
    ends = estimate_gripper_open_end(evidence, state, action, pairs, (units[0], units[1]))
    for estimates, unit, end in ((of_state, units[0], ends[0]), (of_action, units[1], ends[1])):
        estimates["unit"], estimates["gripper"] = unit, end


def _estimate_motion(
    kind: GroupKind,
    evidence: PooledContractEvidence,
    state: DimensionGroup | None,
    action: DimensionGroup | None,
    following: Following | None,
    of_state: Estimates,
    of_action: Estimates,
) -> None:
    """Mode, unit, role and frame of joints, positions and rotations."""
    scores_of = _unit_scores(kind)
    state_scores = scores_of(_group_value_range(state, evidence.state)) if state else {}
    if state:
        of_state["mode"] = certain("absolute", "names", _BY_NAME)
        of_state["unit"] = scores_to_estimate(state_scores, "values")
    if action is None:
        return
    if (evidence.action.has_two_values[list(action.numbers)] > _TWO_VALUED).all():
        # Commands to open and to close do not say in which unit, nor whether they are motions.
        of_action["mode"] = of_action["unit"] = NO_ESTIMATE
        return
    action_scores = scores_of(_group_value_range(action, evidence.action))
    if following is None or not state_scores:
        _estimate_unnamed(evidence, action, of_action)
        is_absolute = of_action["mode"].value == "absolute"
        of_action["unit"] = scores_to_estimate(action_scores, "values") if is_absolute else NO_ESTIMATE
        return
    _estimate_followed(kind, evidence, following, action_scores, state_scores, of_state, of_action)


def _estimate_unnamed(
    evidence: PooledContractEvidence, action: DimensionGroup | None, of_action: Estimates
) -> None:
    """The mode of an action that no state belongs to."""
    if action is not None:
        numbers = list(action.numbers)
        parts = (evidence.action.low, evidence.action.high, evidence.action.middle)
        of_action["mode"] = scores_to_estimate(
            score_action_mode_by_level(*(part[numbers] for part in parts)), "values"
        )


def _unit_scores(kind: GroupKind) -> Callable[[ValueRange], dict[str, float]]:
    return score_length_units if kind == "position" else score_angle_units


def _estimate_followed(
    kind: GroupKind,
    evidence: PooledContractEvidence,
    following: Following,
    action_scores: Mapping[str, float],
    state_scores: Mapping[str, float],
    of_state: Estimates,
    of_action: Estimates,
) -> None:
    scores = log_likelihoods_of_mode_and_units(following, evidence.rate_hz, action_scores, state_scores)
    if not scores:
        return
    of_action["mode"], of_action["unit"] = _marginal_estimate(scores, 0), _marginal_estimate(scores, 1)
    of_state["unit"] = _marginal_estimate(scores, 2)
    if of_action["mode"].value == "absolute" and following.absolute > _FOLLOWS and following.lag_steps > 0:
        of_state["role"] = certain("follower", "values", _BY_FOLLOWING)
    is_motion = of_action["mode"].value in ("delta", "velocity")
    if is_motion and kind == "position" and following.motion > _FOLLOWS and min(following.signs) >= 0:
        of_action["frame"] = certain("as the state", "values", _BY_FOLLOWING)


def _marginal_estimate(scores: Mapping[tuple[str, str, str], float], position: int) -> Estimate:
    """The estimate of one of the values that scores are about."""
    shares = normalize_log_likelihoods(scores)
    totals: dict[str, float] = {}
    for values, share in shares.items():
        totals[values[position]] = totals.get(values[position], 0.0) + share
    return scores_to_estimate({value: log(total) for value, total in totals.items()}, "values")


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
