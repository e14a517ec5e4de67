"""Scores inferred contracts against generated datasets whose meaning is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ares.quality.contract.audit.random_signals import GeneratedDataset, random_meaning
from ares.quality.contract.inference import episode_evidence, infer_contract
from ares.quality.contract.terms import UNKNOWN, MeaningContract, PropertyName
from ares.statistics import wilson_interval


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
            value = _value(contract, signal, name)
            self.total[signal, name] += 1
            self.claimed[signal, name] += value != UNKNOWN
            self.correct[signal, name] += value == truth
            if value not in (UNKNOWN, truth):
                self.errors[signal, name, truth, value] += 1

    def rows(self) -> Iterator[str]:
        """A row of a Markdown table for each group and property, with 95 % Wilson intervals."""
        for key in sorted(self.total):
            correct = _share(self.correct[key], self.claimed[key])
            claimed = _share(self.claimed[key], self.total[key])
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
    evidence = [part for part in map(episode_evidence, dataset.episodes) if part is not None]
    return infer_contract("generated", first.state_names, first.action_names, evidence)


def _value(contract: MeaningContract, signal: str, name: str) -> str:
    group = contract.signal(signal)
    properties: dict[str, PropertyName] = {
        "unit": "unit",
        "mode": "mode",
        "rotation": "rotation",
        "gripper": "gripper",
    }
    return UNKNOWN if group is None else group.estimate(properties[name]).value


def _share(hits: int, total: int) -> str:
    low, high = wilson_interval(hits, total)
    return f"{hits}/{total} ({100 * low:.1f}-{100 * high:.1f} %)"
