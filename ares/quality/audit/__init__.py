"""Planted faults and generated clean episodes, by which the checks are scored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.audit.data_audit import DataAudit, FaultRecall, audit_episodes
    from ares.quality.audit.fault_catalogue import FAULTS, CataloguedFault
    from ares.quality.audit.foreign_episodes import ForeignEpisode, foreign_dataset
    from ares.quality.audit.foreign_robots import ForeignRobot, foreign_robot
    from ares.quality.audit.planted_faults import ANGLES, PLANTERS, FaultSite, plant_fault
    from ares.quality.audit.random_robots import RandomRobot, random_dataset, random_robot
    from ares.quality.audit.scoring import (
        CURVE_STOPS,
        LEAST_MOTION,
        AuditScore,
        LagScore,
        audit_foreign,
        audit_generated,
        detection_curve,
        fault_site,
        share_text,
    )
    from ares.quality.audit.unnamed_signals import random_dimensions

__all__ = [
    "ANGLES",
    "CURVE_STOPS",
    "FAULTS",
    "LEAST_MOTION",
    "PLANTERS",
    "AuditScore",
    "CataloguedFault",
    "DataAudit",
    "FaultRecall",
    "FaultSite",
    "ForeignEpisode",
    "ForeignRobot",
    "LagScore",
    "RandomRobot",
    "audit_episodes",
    "audit_foreign",
    "audit_generated",
    "detection_curve",
    "fault_site",
    "foreign_dataset",
    "foreign_robot",
    "plant_fault",
    "random_dataset",
    "random_dimensions",
    "random_robot",
    "share_text",
]

__getattr__ = lazy_exports(__name__)
