"""Faults at the strength of their code, and how many meanings an inferred contract gets right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ares.contract import MeaningContract, collect_contract_evidence, infer_contract
from ares.contract.contracts import UNKNOWN, PropertyName
from ares.signals.plain_arrays import EpisodeSignals
from ares.statistics import wilson_interval
from tests.generators.contracts import GeneratedDataset, random_meaning
from tests.generators.planting import ANGLES, PLANTERS, FaultSite
from tests.generators.strengths import STRENGTHS


def plant_fault(
    code: str, signals: EpisodeSignals, site: FaultSite, rng: np.random.Generator
) -> EpisodeSignals | None:
    """The episode with the fault that the check of a code is to find; None where it has no room for the fault.

    Raises KeyError where no fault is planted for the code.
    """
    return PLANTERS[code](signals, site, rng)


def fault_site(
    code: str, episode: EpisodeSignals, dim: int, unit_scale: float, multiple: float = 1.0
) -> FaultSite:
    """A site in a dimension of the state and that of its name in the action, at a multiple of the code's strength."""
    name = episode.state_names[dim]
    names = episode.action_names
    strength = STRENGTHS[code].size * multiple * (unit_scale if code in ANGLES else 1.0)
    action_dim = names.index(name) if name in names else 0
    return FaultSite(dim=dim, action_dim=action_dim, strength=strength, unit_scale=unit_scale)


@dataclass(slots=True, kw_only=True)
class ContractScore:
    """Counts of an audit, by signal group and property.

    Attributes:
        total: Values that were to be inferred.
        claimed: Those that were claimed.
        correct: Claimed values that are true.
        errors: Wrong claims: signal group, property, true value, claimed value.
    """

    total: Counter[tuple[str, str]] = field(default_factory=Counter)
    claimed: Counter[tuple[str, str]] = field(default_factory=Counter)
    correct: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)

    def add(self, dataset: GeneratedDataset, contract: MeaningContract) -> None:
        """Compare one contract with the truth."""
        for (signal, name), truth in dataset.truth.items():
            value = _claimed_value(contract, signal, name)
            self.total[signal, name] += 1
            self.claimed[signal, name] += value != UNKNOWN
            self.correct[signal, name] += value == truth
            if value not in (UNKNOWN, truth):
                self.errors[signal, name, truth, value] += 1

    def rows(self) -> Iterator[str]:
        """A row of a Markdown table for each group and property, with 95 % Wilson intervals."""
        for key in sorted(self.total):
            correct = _share_percent(self.correct[key], self.claimed[key])
            claimed = _share_percent(self.claimed[key], self.total[key])
            yield f"| {key[0]} | {key[1]} | {correct} | {claimed} |"


def audit_contracts(seeds: Iterable[int], score: ContractScore) -> None:
    """Add the generated datasets of some seeds."""
    for seed in seeds:
        dataset = random_meaning(seed)
        contract = infer_generated(dataset)
        if contract is not None:
            score.add(dataset, contract)


def infer_generated(dataset: GeneratedDataset) -> MeaningContract | None:
    """The contract of a generated dataset."""
    first = dataset.episodes[0]
    evidence = [part for part in map(collect_contract_evidence, dataset.episodes) if part is not None]
    return infer_contract("generated", first.state_names, first.action_names, evidence)


def _claimed_value(contract: MeaningContract, signal: str, name: str) -> str:
    group = contract.signal(signal)
    properties: dict[str, PropertyName] = {
        "unit": "unit",
        "mode": "mode",
        "rotation": "rotation",
        "gripper": "gripper",
    }
    return UNKNOWN if group is None else group.estimate(properties[name]).value


def _share_percent(hits: int, total: int) -> str:
    low, high = wilson_interval(hits, total)
    return f"{hits}/{total} ({100 * low:.1f}-{100 * high:.1f} %)"
