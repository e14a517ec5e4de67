"""What the signals of a dataset mean, in words with probabilities, and how a workspace stores it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, get_args

from ares.contract.conversions import ROTATION_FORMS, WIDTHS
from ares.contract.kinematics import Kinematics, kinematics_from_json
from ares.contract.profiles import NUM_ROWS, SignalProfile
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
    "unit": ("rad", "deg", "percent", "normalised", "ticks", "m", "mm", "fraction", "signed"),
    "rotation": ("euler", "axis-angle", "quaternion xyzw", "quaternion wxyz", "6d"),
    "gripper": ("high is open", "high is closed"),
    "role": ("leader", "follower"),
    "frame": ("as the state", "tool", "base", "world"),
}
UNKNOWN = "unknown"
# A value is claimed from this probability on; measured on generated robots, see benchmarks/RESULTS.md.
CLAIMED_PROBABILITY = 0.9
# Two values are held to be different where they are equal with less than this probability.
_SAME_PROBABILITY = 0.1
_LEAST_SHOWN = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one property of a signal is.

    Attributes:
        candidates: Probability by value; they sum to 1. Empty where nothing is known.
        origin: What it was told by.
    """

    candidates: Mapping[str, float] = field(default_factory=dict)
    origin: Origin = "none"

    @property
    def value(self) -> str:
        """The value that is claimed, or "unknown"."""
        best = max(self.candidates, key=self.candidates.__getitem__, default=UNKNOWN)
        return best if self.confidence >= CLAIMED_PROBABILITY else UNKNOWN

    @property
    def confidence(self) -> float:
        """Probability of the most probable value; 0 where nothing is known."""
        return max(self.candidates.values(), default=0.0)

    def differs(self, other: Estimate) -> bool:
        """Whether the two are hardly the same value; an estimate that knows nothing differs from none."""
        if not (self.candidates and other.candidates):
            return False
        same = sum(share * other.candidates.get(value, 0.0) for value, share in self.candidates.items())
        return same < _SAME_PROBABILITY

    def __str__(self) -> str:
        if self.value != UNKNOWN or not self.candidates:
            return self.value
        ordered = sorted(self.candidates.items(), key=lambda item: -item[1])
        return " or ".join(value for value, share in ordered if share >= _LEAST_SHOWN) + "?"

    def to_json(self) -> dict[str, Json]:
        """The value, its confidence, its origin and the probability of every candidate."""
        return {
            "value": self.value,
            "confidence": round(self.confidence, 3),
            "origin": self.origin,
            "candidates": {value: round(share, 3) for value, share in self.candidates.items()},
        }


NO_ESTIMATE = Estimate()


def certain(value: str, origin: Origin, probability: float = 1.0) -> Estimate:
    """One value with a probability; the rest is left to no value."""
    return Estimate(candidates={value: probability}, origin=origin)


def is_allowed_property_value(name: PropertyName, value: str) -> bool:
    """Whether a property may have a value."""
    return bool(value) if name == "same_as" else value in VALUES[name]


def is_dimension_group_name(name: str) -> bool:
    """Whether a name is that of a signal and a kind of dimension, such as "action.gripper"."""
    signal, _, kind = name.partition(".")
    return signal in get_args(SignalName) and kind in get_args(GroupKind)


def estimate_from_json(document: Json) -> Estimate:
    """The estimate that `Estimate.to_json` wrote."""
    fields = cast("Mapping[str, Json]", document)
    shares = cast("Mapping[str, float]", fields["candidates"])
    return Estimate(candidates=dict(shares), origin=cast("Origin", fields["origin"]))


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
        stated = {name: certain(value, "spec") for name, value in values.items()}
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
        profiles: How the dimensions of each signal are distributed, by "state" and "action"; stored, and no part of
            the JSON.
    """

    dataset: str
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    num_episodes: int
    signals: tuple[SignalContract, ...]
    outlier_episodes: tuple[str, ...] = ()
    profiles: Mapping[str, SignalProfile] = field(default_factory=dict)

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


def with_turned_rotation(
    contract: MeaningContract,
    signal: SignalName,
    signal_names: Sequence[str],
    names: Sequence[str],
    to: Sequence[str],
    form: str,
) -> MeaningContract:
    """The contract once the dimensions of a rotation have become others, in a form of `ROTATION_FORMS`.

    Args:
        contract: What the signals mean.
        signal: The signal that has the rotation.
        signal_names: Names of all of its dimensions, each once.
        names: Those of the rotation.
        to: What they become, at the place of the first.
        form: The form of what they become.
    """
    new, (rotation, unit) = replace_names(signal_names, names, to), ROTATION_FORMS[form]
    stated: dict[PropertyName, str] = {"rotation": rotation}
    if unit:
        stated["unit"] = unit
    groups = []
    for group in contract.signals:
        if group.signal == signal:
            kept = [part for part, number in enumerate(group.numbers) if signal_names[number] not in names]
            if len(kept) < len(group.numbers):
                numbers, estimates = tuple(map(new.index, to)), {**group.estimates, "unit": NO_ESTIMATE}
                turned = replace(group, numbers=numbers, dimensions=tuple(to), signs=(), estimates=estimates)
                groups.append(turned.with_values(stated))
            group = replace(
                group,
                numbers=tuple(new.index(signal_names[group.numbers[part]]) for part in kept),
                dimensions=tuple(signal_names[group.numbers[part]] for part in kept),
                signs=tuple(group.signs[part] for part in kept if group.signs),
            )
        groups += [group] if group.numbers else []
    profiles = {name: profile for name, profile in contract.profiles.items() if name != signal}
    contract = replace(contract, signals=tuple(groups), profiles=profiles)
    return replace(contract, state_names=new) if signal == "state" else replace(contract, action_names=new)


def _reordered_rotation(estimate: Estimate, order: Sequence[int]) -> Estimate:
    """The convention of a rotation whose numbers stand in another order; unknown where that has no name."""
    if list(order) == sorted(order):
        return estimate
    has_equal_arms = len(order) % 4 == 0 and all(
        number == order[part % 4] + part // 4 * 4 for part, number in enumerate(order)
    )
    shares = {}
    for value, share in estimate.candidates.items() if has_equal_arms and max(order[:4]) < 4 else ():
        letters = "".join(value[-4:][number] for number in order[:4])
        shares[f"{value[:-4]}{letters}"] = share
    is_known = bool(shares) and all(value in WIDTHS for value in shares)
    return replace(estimate, candidates=shares) if is_known else NO_ESTIMATE


def replace_names(names: Sequence[str], old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """The names with others in place of some, where the first of these stands."""
    first = min(names.index(name) for name in old)
    kept = [name for name in names if name not in old]
    return (*kept[:first], *new, *kept[first:])


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
    profiles = {
        name: profile.reordered(plans[name].numbers)
        for name, profile in contract.profiles.items()
        if plans[name].numbers
    }
    return replace(
        contract,
        state_names=plans["state"].names,
        action_names=plans["action"].names,
        signals=tuple(signals),
        profiles=profiles,
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
        if "rotation" in estimates:
            order = [group.numbers.index(plan.numbers[position]) for position in positions]
            estimates["rotation"] = _reordered_rotation(estimates["rotation"], order)
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
        profiles=_stored_profiles(fields.get("profiles")),
    )


def _stored_profile(document: Json) -> SignalProfile | None:
    """The profile that `SignalProfile.to_json` wrote; None where none was written."""
    rows = cast("Sequence[Sequence[float]] | None", document)
    if not rows or len(rows) != NUM_ROWS:
        return None
    return SignalProfile(tuple(tuple(float(value) for value in row) for row in rows))


def _stored_profiles(document: Json) -> dict[str, SignalProfile]:
    read = (
        (name, _stored_profile(rows)) for name, rows in cast("Mapping[str, Json]", document or {}).items()
    )
    return {name: profile for name, profile in read if profile is not None}


def _stored_contract(contract: MeaningContract) -> Json:
    """The JSON of a contract with the profiles of its signals."""
    profiles: Json = {name: profile.to_json() for name, profile in contract.profiles.items()}
    return {**contract.to_json(), "profiles": profiles}


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
    """What is stored of one dataset: its contracts as inferred, what a spec states of them and of the robot, what its
    ingestion warned of, by reason with the number of episodes, the hash of what the episodes were read by, what changes
    with the segments of the source, and the facts of the source: `folder`, `options` that it was read with, `licences`
    and `consents` that it states.
    """

    contracts: tuple[MeaningContract, ...] = ()
    stated: StatedValues = MappingProxyType({})
    kinematics: Kinematics | None = None
    warnings: Mapping[str, int] = MappingProxyType({})
    spec_hash: str = ""
    segments_stamp: str = ""
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
    kinematics = fields.get("kinematics")
    return StoredContracts(
        tuple(map(meaning_contract_from_json, contracts)),
        cast("StatedValues", fields["stated"]),
        None if kinematics is None else kinematics_from_json(kinematics),
        cast("Mapping[str, int]", fields.get("warnings", {})),
        str(fields.get("spec_hash", "")),
        str(fields.get("segments_stamp", "")),
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
    kinematics = stored.kinematics
    document: Json = {
        "contracts": [_stored_contract(contract) for contract in stored.contracts],
        "stated": stated,
        **({} if kinematics is None else {"kinematics": kinematics.to_json()}),
        "warnings": {reason: int(count) for reason, count in stored.warnings.items()},
        "spec_hash": stored.spec_hash,
        **({"segments_stamp": stored.segments_stamp} if stored.segments_stamp else {}),
        **({"source": dict(stored.source)} if stored.source else {}),
    }
    annotations.put_documents(_COLLECTION, {key.document_key: document})
