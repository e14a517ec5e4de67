"""What the signals of a dataset mean: unit, mode, rotation and gripper, inferred, compared and converted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.contract.clashes import Clash, find_clashes, unknown_meanings
    from ares.quality.contract.conversions import (
        absolute_to_delta,
        convert_gripper,
        convert_unit,
        delta_to_absolute,
        gripper_convention,
        reorder,
    )
    from ares.quality.contract.inference import (
        CONTRACT_EPISODES,
        EpisodeEvidence,
        episode_evidence,
        infer_contract,
    )
    from ares.quality.contract.named_conversions import NamedConversion, parse_conversions
    from ares.quality.contract.rotations import convert_rotation
    from ares.quality.contract.set_conversion import ClashError, SetConversion
    from ares.quality.contract.set_layouts import LayoutContract, infer_stored, set_contracts
    from ares.quality.contract.storage import (
        DatasetKey,
        StatedValues,
        StoredContracts,
        correct_contract,
        drop_contracts,
        read_contracts,
        write_contracts,
    )
    from ares.quality.contract.terms import (
        PROPERTIES,
        VALUES,
        Estimate,
        MeaningContract,
        PropertyName,
        SignalContract,
        SignalName,
        is_signal_group,
        meaning_contract_from_json,
        stated_value,
    )

__all__ = [
    "CONTRACT_EPISODES",
    "PROPERTIES",
    "VALUES",
    "Clash",
    "ClashError",
    "DatasetKey",
    "EpisodeEvidence",
    "Estimate",
    "LayoutContract",
    "MeaningContract",
    "NamedConversion",
    "PropertyName",
    "SetConversion",
    "SignalContract",
    "SignalName",
    "StatedValues",
    "StoredContracts",
    "absolute_to_delta",
    "convert_gripper",
    "convert_rotation",
    "convert_unit",
    "correct_contract",
    "delta_to_absolute",
    "drop_contracts",
    "episode_evidence",
    "find_clashes",
    "gripper_convention",
    "infer_contract",
    "infer_stored",
    "is_signal_group",
    "meaning_contract_from_json",
    "parse_conversions",
    "read_contracts",
    "reorder",
    "set_contracts",
    "stated_value",
    "unknown_meanings",
    "write_contracts",
]

__getattr__ = lazy_exports(__name__)
