"""Contracts of the datasets of a workspace, stored as documents beside the annotations, with what a spec states."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, cast

from ares.kinematics import Kinematics, kinematics_from_json
from ares.quality.contract.terms import MeaningContract, PropertyName, meaning_contract_from_json

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store.annotations import AnnotationStore

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
    """What is stored of one dataset: its contracts as inferred, and what a spec states of them and of the robot."""

    contracts: tuple[MeaningContract, ...] = ()
    stated: StatedValues = MappingProxyType({})
    kinematics: Kinematics | None = None

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
    )


def drop_contracts(annotations: AnnotationStore, kept: Collection[DatasetKey]) -> None:
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
        "contracts": [contract.to_json() for contract in stored.contracts],
        "stated": stated,
        **({} if kinematics is None else {"kinematics": kinematics.to_json()}),
    }
    annotations.put_documents(_COLLECTION, {key.document_key: document})
