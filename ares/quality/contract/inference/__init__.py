"""Infers what signals mean: evidence per episode, pooled over a dataset, and judged together with the names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.contract.inference.evidence import (
        CONTRACT_EPISODES,
        EpisodeEvidence,
        episode_evidence,
        signal_pairs,
    )
    from ares.quality.contract.inference.groups import DimensionGroup, dimension_groups
    from ares.quality.contract.inference.infer import infer_contract

__all__ = [
    "CONTRACT_EPISODES",
    "DimensionGroup",
    "EpisodeEvidence",
    "dimension_groups",
    "episode_evidence",
    "infer_contract",
    "signal_pairs",
]

__getattr__ = lazy_exports(__name__)
