"""Faults that are planted into the user's data, by which the checks are scored there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.audit.data_audit import DataAudit, FaultRecall, audit_episodes, share_text
    from ares.quality.audit.fault_catalogue import FAULTS
    from ares.quality.audit.planted_faults import ANGLES, PLANTERS, FaultSite

__all__ = [
    "ANGLES",
    "FAULTS",
    "PLANTERS",
    "DataAudit",
    "FaultRecall",
    "FaultSite",
    "audit_episodes",
    "share_text",
]

__getattr__ = lazy_exports(__name__)
