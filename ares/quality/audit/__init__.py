"""Planted faults and generated clean episodes, by which the checks are scored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.audit.planted_faults import ANGLES, FaultSite, plant_fault
    from ares.quality.audit.random_robots import RandomRobot, random_dataset, random_robot

__all__ = ["ANGLES", "FaultSite", "RandomRobot", "plant_fault", "random_dataset", "random_robot"]

__getattr__ = lazy_exports(__name__)
