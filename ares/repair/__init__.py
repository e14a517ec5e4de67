"""Repairs of signals: what the data alone decide is corrected, and what is not certain is left."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.repair.episode import repair_signals as repair_signals

__getattr__ = lazy_exports(__name__)
