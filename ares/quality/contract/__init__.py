"""What the signals of a dataset mean: unit, mode, rotation and gripper, inferred, compared and converted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.contract.inference import (
        CONTRACT_EPISODES,
        EpisodeEvidence,
        episode_evidence,
        infer_contract,
    )
    from ares.quality.contract.rotations import convert_rotation
    from ares.quality.contract.terms import (
        Estimate,
        MeaningContract,
        SignalContract,
        meaning_contract_from_json,
    )

__all__ = [
    "CONTRACT_EPISODES",
    "EpisodeEvidence",
    "Estimate",
    "MeaningContract",
    "SignalContract",
    "convert_rotation",
    "episode_evidence",
    "infer_contract",
    "meaning_contract_from_json",
]

__getattr__ = lazy_exports(__name__)
