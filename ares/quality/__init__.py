"""Checks of signals: whether an episode is unlike its dataset, and whether the robot does what it is commanded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.catalogue import CODES, CheckCode, check_code
    from ares.quality.signals import EpisodeSignals, episode_signals, paired_dimensions

__all__ = ["CODES", "CheckCode", "EpisodeSignals", "check_code", "episode_signals", "paired_dimensions"]

__getattr__ = lazy_exports(__name__)
