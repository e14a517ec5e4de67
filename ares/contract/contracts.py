"""What the signals of a dataset mean, in words, and how a workspace stores it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, get_args

from ares.signals import DimensionKind, classify_by_name

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import AnnotationStore


SignalName = Literal["state", "action"]
GroupKind = DimensionKind
Origin = Literal["values", "names", "spec", "none"]
PropertyName = Literal["mode", "unit", "rotation", "gripper", "role", "frame", "same_as"]
PROPERTIES: tuple[PropertyName, ...] = get_args(PropertyName)
# The values that each property may have; a spec may state any of them. "same_as" is the name of another dataset.
VALUES: Mapping[PropertyName, tuple[str, ...]] = {
    "mode": ("absolute", "delta", "velocity"),
    "unit": ("rad", "deg", "percent", "normalised", "ticks", "m", "cm", "mm", "fraction", "signed", "byte"),
    "rotation": ("euler", "axis-angle", "quaternion xyzw", "quaternion wxyz", "6d"),
    "gripper": ("high is open", "high is closed"),
    "role": ("leader", "follower"),
    "frame": ("as the state", "tool", "base", "world"),
}
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one property of a signal is.

    Attributes:
        candidates: The values that are possible; empty where nothing is known.
        origin: What it was told by.
    """

    candidates: tuple[str, ...] = ()
    origin: Origin = "none"

    @property
    def value(self) -> str:
        """The value, where only one is possible, else "unknown"."""
        return self.candidates[0] if len(self.candidates) == 1 else UNKNOWN

    def differs(self, other: Estimate) -> bool:
        """Whether no value is possible for both; an estimate that knows nothing differs from none."""
        return bool(self.candidates and other.candidates) and not {*self.candidates} & {*other.candidates}

    def narrowed(self, other: Estimate) -> Estimate:
        """The values that another estimate allows too; the same where it allows none of them."""
        common = [value for value in self.candidates if value in other.candidates]
        return possible(common, self.origin) if common else self

    def __str__(self) -> str:
        return " or ".join(self.candidates) + "?" if len(self.candidates) > 1 else self.value

    def to_json(self) -> dict[str, Json]:
        """The value, its origin and every candidate."""
        return {"value": self.value, "origin": self.origin, "candidates": list(self.candidates)}


NO_ESTIMATE = Estimate()


def possible(values: Iterable[str], origin: Origin = "values") -> Estimate:
    """One of some values, which is claimed where it is the only one."""
    candidates = tuple(dict.fromkeys(values))
    return Estimate(candidates=candidates, origin=origin) if candidates else NO_ESTIMATE


def is_allowed_property_value(name: PropertyName, value: str) -> bool:
    """Whether a property may have a value."""
    return bool(value) if name == "same_as" else value in VALUES[name]


def is_dimension_group_name(name: str) -> bool:
    """Whether a name is that of a signal and a kind of dimension, such as "action.gripper"."""
    signal, _, kind = name.partition(".")
    return signal in get_args(SignalName) and kind in get_args(GroupKind)


def estimate_from_json(document: Json) -> Estimate:
    """The estimate that `Estimate.to_json` wrote, now or when candidates had probabilities: one may be too unsure."""
    fields = cast("Mapping[str, Json]", document)
    value, candidates = str(fields["value"]), [*cast("Iterable[str]", fields["candidates"])]
    if value == UNKNOWN and len(candidates) == 1:
        return NO_ESTIMATE
    return possible(candidates if value == UNKNOWN else [value], cast("Origin", fields["origin"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalContract:
    """What one group of dimensions of a state or an action means.

    Attributes:
        signal: State or action.
        kind: What the dimensions are by their names.
        numbers: Numbers of the dimensions in the signal, from 0.
        dimensions: Their names.
        low: Smallest value in the sample.
        high: Largest value in the sample.
        estimates: By property.
        signs: For each dimension of an action 1 or -1 where the state moves with or against it, 0 where unknown.
        mixed_units: Units of different episodes of the sample, where they are not the same; () where they are.
    """

    signal: SignalName
    kind: GroupKind
    numbers: tuple[int, ...]
    dimensions: tuple[str, ...]
    low: float
    high: float
    estimates: Mapping[PropertyName, Estimate] = field(default_factory=dict)
    signs: tuple[int, ...] = ()
    mixed_units: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For example "action.gripper": what `--convert` and a spec call it."""
        return f"{self.signal}.{self.kind}"

    @property
    def space(self) -> str:
        """ "joint", "end effector", or "unknown"."""
        if self.kind in ("position", "rotation"):
            return "end effector"
        return UNKNOWN if self.kind in ("unknown", "other") else "joint"

    def estimate(self, name: PropertyName) -> Estimate:
        """The estimate of a property; one without candidates where the property does not apply."""
        return self.estimates.get(name, NO_ESTIMATE)

    def with_values(self, values: Mapping[PropertyName, str]) -> SignalContract:
        """The contract with values that a person stated."""
        stated = {name: possible([value], "spec") for name, value in values.items()}
        return replace(self, estimates={**self.estimates, **stated})

    def to_json(self) -> dict[str, Json]:
        """The contract as JSON."""
        return {
            "signal": self.name,
            "space": self.space,
            "numbers": list(self.numbers),
            "dimensions": list(self.dimensions),
            "low": self.low,
            "high": self.high,
            "signs": list(self.signs),
            "mixed_units": list(self.mixed_units),
            **{name: estimate.to_json() for name, estimate in self.estimates.items()},
        }


def signal_contract_from_json(document: Json) -> SignalContract:
    """The contract that `SignalContract.to_json` wrote."""
    fields = cast("Mapping[str, Json]", document)
    signal, _, kind = str(fields["signal"]).partition(".")
    return SignalContract(
        signal=cast("SignalName", signal),
        kind=cast("GroupKind", kind),
        numbers=tuple(cast("list[int]", fields["numbers"])),
        dimensions=tuple(cast("list[str]", fields["dimensions"])),
        low=float(cast("float", fields["low"])),
        high=float(cast("float", fields["high"])),
        signs=tuple(cast("list[int]", fields["signs"])),
        mixed_units=tuple(cast("list[str]", fields["mixed_units"])),
        estimates={name: estimate_from_json(fields[name]) for name in PROPERTIES if name in fields},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeaningContract:
    """What the signals of the episodes of one dataset with the same dimensions mean.

    Attributes:
        dataset: Name of the dataset.
        state_names: Names of the state's dimensions.
        action_names: Names of the action's dimensions.
        num_episodes: Episodes that it was learnt from.
        signals: One per group of dimensions.
        outlier_episodes: Episodes of the sample whose values are far beyond those of all others, which teach nothing.
    """

    dataset: str
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    num_episodes: int
    signals: tuple[SignalContract, ...]
    outlier_episodes: tuple[str, ...] = ()

    def signal(self, name: str) -> SignalContract | None:
        """The group of a name such as "action.gripper"; None where there is none."""
        return next((signal for signal in self.signals if signal.name == name), None)

    def to_json(self) -> dict[str, Json]:
        """The contract as JSON."""
        return {
            "dataset": self.dataset,
            "state_names": list(self.state_names),
            "action_names": list(self.action_names),
            "episodes": self.num_episodes,
            "signals": [signal.to_json() for signal in self.signals],
            **({"outlier_episodes": list(self.outlier_episodes)} if self.outlier_episodes else {}),
        }


@dataclass(frozen=True, slots=True)
class DimensionPlan:
    """What becomes of the dimensions of one signal of a source in a dataset of several.

    Attributes:
        numbers: Numbers of those that stay, in the order of the merged dataset.
        names: Their names there.
        positions: Where they stand among all dimensions of the merged dataset.
    """

    numbers: tuple[int, ...]
    names: tuple[str, ...]
    positions: tuple[int, ...]


def plan_dimensions(names: Sequence[str], mapping: Mapping[str, str], goals: Sequence[str]) -> DimensionPlan:
    """Which of the dimensions of a signal stand where among others, by what each name becomes."""
    number_by_goal = {mapping[name]: number for number, name in enumerate(names) if mapping[name] in goals}
    kept = [(position, goal) for position, goal in enumerate(goals) if goal in number_by_goal]
    return DimensionPlan(
        tuple(number_by_goal[goal] for _, goal in kept),
        tuple(goal for _, goal in kept),
        tuple(position for position, _ in kept),
    )


def rename_contract_dimensions(
    contract: MeaningContract, plans: Mapping[str, DimensionPlan]
) -> MeaningContract:
    """What the signals mean, by the names of the merged dataset: their kinds are those of the new names."""
    signals = [part for group in contract.signals for part in _rename_group(group, plans[group.signal])]
    return replace(
        contract,
        state_names=plans["state"].names,
        action_names=plans["action"].names,
        signals=tuple(signals),
    )


def _rename_group(group: SignalContract, plan: DimensionPlan) -> list[SignalContract]:
    """The group under the new names; several where the new names are of several kinds."""
    kinds = classify_by_name(plan.names)
    members = [position for position, number in enumerate(plan.numbers) if number in group.numbers]
    parts = []
    for kind in dict.fromkeys(kinds[position] for position in members):
        positions = [position for position in members if kinds[position] == kind]
        signs = [
            group.signs[group.numbers.index(plan.numbers[position])] for position in positions if group.signs
        ]
        estimates = dict(group.estimates)
        order = [plan.numbers[position] for position in positions]
        if "rotation" in estimates and order != list(group.numbers):
            estimates["rotation"] = NO_ESTIMATE
        parts.append(
            replace(
                group,
                kind=kind,
                estimates=estimates,
                numbers=tuple(positions),
                dimensions=tuple(plan.names[position] for position in positions),
                signs=tuple(signs),
            )
        )
    return parts


def meaning_contract_from_json(document: Json) -> MeaningContract:
    """The contract that `MeaningContract.to_json` wrote."""
    fields = cast("Mapping[str, Json]", document)
    return MeaningContract(
        dataset=str(fields["dataset"]),
        state_names=tuple(cast("list[str]", fields["state_names"])),
        action_names=tuple(cast("list[str]", fields["action_names"])),
        num_episodes=int(cast("int", fields["episodes"])),
        signals=tuple(map(signal_contract_from_json, cast("Iterable[Json]", fields["signals"]))),
        outlier_episodes=tuple(cast("list[str]", fields.get("outlier_episodes", []))),
    )


_COLLECTION = "contracts"
# Values by signal group, such as {"action.gripper": {"gripper": "high is open"}}.
StatedValues = Mapping[str, Mapping[PropertyName, str]]


class DatasetKey(NamedTuple):
    """A dataset of a workspace."""

    format: str
    dataset: str
    version: str

    @property
    def document_key(self) -> str:
        """Key of its document."""
        return "/".join(self)


class StoredContracts(NamedTuple):
    """What is stored of one dataset: its contracts as inferred, what a spec states of them, what its ingestion
    warned of, by reason with the number of episodes, the hash of what the episodes were read by, and the facts of the
    source: `folder`, `options` that it was read with, `licences` and
    `consents` that it states.
    """

    contracts: tuple[MeaningContract, ...] = ()
    stated: StatedValues = MappingProxyType({})
    warnings: Mapping[str, int] = MappingProxyType({})
    spec_hash: str = ""
    source: Mapping[str, Json] = MappingProxyType({})

    def of_layout(
        self, state_names: tuple[str, ...], action_names: tuple[str, ...]
    ) -> MeaningContract | None:
        """The contract for some dimensions, corrected by the spec; None where none was inferred."""
        layout = (state_names, action_names)
        match = (c for c in self.contracts if (c.state_names, c.action_names) == layout)
        contract = next(match, None)
        return None if contract is None else correct_contract(contract, self.stated)


def correct_contract(contract: MeaningContract, stated: StatedValues) -> MeaningContract:
    """A contract with the values that a person stated."""
    signals = tuple(signal.with_values(stated.get(signal.name, {})) for signal in contract.signals)
    return replace(contract, signals=signals)


def read_contracts(annotations: AnnotationStore, key: DatasetKey) -> StoredContracts:
    """The stored contracts of a dataset; empty for one without. Raises StoreError."""
    document = annotations.get_document(_COLLECTION, key.document_key)
    if document is None:
        return StoredContracts()
    fields = cast("Mapping[str, Json]", document)
    contracts = cast("Sequence[Json]", fields["contracts"])
    return StoredContracts(
        tuple(map(meaning_contract_from_json, contracts)),
        cast("StatedValues", fields["stated"]),
        cast("Mapping[str, int]", fields.get("warnings", {})),
        str(fields.get("spec_hash", "")),
        cast("Mapping[str, Json]", fields.get("source", {})),
    )


def delete_contracts_except(annotations: AnnotationStore, kept: Collection[DatasetKey]) -> None:
    """Delete the contracts of all datasets but some. Raises StoreError."""
    kept_keys = {key.document_key for key in kept}
    stored = (key for key, _ in annotations.find_documents(_COLLECTION))
    annotations.drop_documents(_COLLECTION, [key for key in stored if key not in kept_keys])


def write_contracts(annotations: AnnotationStore, key: DatasetKey, stored: StoredContracts) -> None:
    """Store the contracts of a dataset in place of earlier ones. Raises StoreError."""
    stated: dict[str, Json] = {
        signal: {str(name): value for name, value in values.items()}
        for signal, values in stored.stated.items()
    }
    document: Json = {
        "contracts": [contract.to_json() for contract in stored.contracts],
        "stated": stated,
        "warnings": {reason: int(count) for reason, count in stored.warnings.items()},
        "spec_hash": stored.spec_hash,
        **({"source": dict(stored.source)} if stored.source else {}),
    }
    annotations.put_documents(_COLLECTION, {key.document_key: document})
