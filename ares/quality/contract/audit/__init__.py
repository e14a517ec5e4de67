"""Generated datasets whose meaning is known, by which inferred contracts are scored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.contract.audit.random_signals import GeneratedDataset, random_meaning
    from ares.quality.contract.audit.scoring import ContractScore, audit_contracts, infer_generated

__all__ = ["ContractScore", "GeneratedDataset", "audit_contracts", "infer_generated", "random_meaning"]

__getattr__ = lazy_exports(__name__)
