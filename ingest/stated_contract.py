"""What a spec states of the meaning of signals and of the robot: contract, units and conventions, kinematics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ares.kinematics import Kinematics, read_chains
from ares.quality.contract import StatedValues, stated_value
from ares.quality.kinds import kinds_by_name

if TYPE_CHECKING:
    from ares.quality.contract import PropertyName
    from ingest.dataset_spec import DatasetSpec, SliceSpec

# How slices of a spec say the convention of a rotation or a gripper.
_CONVENTIONS: Mapping[str, tuple[PropertyName, str]] = {
    "euler xyz": ("rotation", "euler"),
    "axis-angle": ("rotation", "axis-angle"),
    "quaternion xyzw": ("rotation", "quaternion xyzw"),
    "quaternion wxyz": ("rotation", "quaternion wxyz"),
    "1 is open": ("gripper", "high is open"),
    "1 is closed": ("gripper", "high is closed"),
    "0 is open, 1 is closed": ("gripper", "high is closed"),
}


def stated_contract(spec: DatasetSpec | None) -> StatedValues:
    """The values by signal group; those under `contract:` decide over those of the slices."""
    if spec is None:
        return {}
    stated: dict[str, dict[PropertyName, str]] = {}
    for signal, slices in (("state", spec.state), ("action", spec.action)):
        for kind, values in _slice_values(slices).items():
            stated[f"{signal}.{kind}"] = values
    for signal, part in spec.contract.items():
        stated.setdefault(signal, {}).update(part.values())
    return {signal: values for signal, values in stated.items() if values}


def stated_kinematics(spec: DatasetSpec | None) -> Kinematics | None:
    """The chains of the robot's end effectors, read from the URDF of a spec; None where it names none.

    Raises:
        RequestError: The URDF has no such link.
        SourceError: The URDF cannot be read or is wrong.
    """
    if spec is None or spec.kinematics is None:
        return None
    stated = spec.kinematics
    chains = read_chains(stated.urdf, stated.end_effectors, stated.base_link)
    return Kinematics(chains=chains, joints=stated.joints)


def _slice_values(slices: Sequence[SliceSpec]) -> dict[str, dict[PropertyName, str]]:
    """By kind of dimension, what all slices of the kind say alike."""
    by_kind: dict[str, list[dict[PropertyName, str]]] = {}
    for part in slices:
        for kind in dict.fromkeys(kinds_by_name(part.names)):
            by_kind.setdefault(kind, []).append(_values_of(part, kind))
    return {
        kind: {name: value for name, value in parts[0].items() if all(p.get(name) == value for p in parts)}
        for kind, parts in by_kind.items()
    }


def _values_of(part: SliceSpec, kind: str) -> dict[PropertyName, str]:
    values: dict[PropertyName, str] = {}
    if part.unit.endswith("/s") and stated_value("unit", part.unit.removesuffix("/s")):
        values |= {"unit": part.unit.removesuffix("/s"), "mode": "velocity"}
    elif stated_value("unit", part.unit):
        values["unit"] = part.unit
    name, value = _CONVENTIONS.get(part.convention, ("rotation", ""))
    if value and (name == "gripper") == (kind == "gripper") and (name == "rotation") == (kind == "rotation"):
        values[name] = value
    return values
