"""Corrections of signals that the data alone decide: short gaps, single spikes, whole turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.repair.change import (
        Correction,
        EpisodeRepair,
        SignalChange,
        changed_trajectory,
    )
    from ares.quality.repair.episode import repair_signals
    from ares.quality.repair.left import CORRECTED, why_left

__all__ = [
    "CORRECTED",
    "Correction",
    "EpisodeRepair",
    "SignalChange",
    "changed_trajectory",
    "repair_signals",
    "why_left",
]

__getattr__ = lazy_exports(__name__)
