"""Checks of signals: whether an episode is unlike its dataset, and whether the robot does what it is commanded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.catalogue import CODES, CheckCode, Severity, check_code
    from ares.quality.command_checks import EpisodeLag
    from ares.quality.episode_check import EpisodeCheck, check_signals
    from ares.quality.finding import QualityFinding
    from ares.quality.health import (
        DatasetHealth,
        DimensionHealth,
        UnhealthyEpisode,
        dataset_health,
        episode_findings,
    )
    from ares.quality.record import check_metadata, check_record, finding_reason
    from ares.quality.report import CheckReport, CodeCount, CodeCounter, DatasetCheck, ListedFinding
    from ares.quality.signals import EpisodeSignals, episode_signals, paired_dimensions
    from ares.quality.statistics import (
        KEPT_EPISODES,
        DatasetStatistics,
        EpisodeSummary,
        TypicalEpisode,
        summarise_signals,
    )
    from ares.quality.video_totals import VideoTotals

__all__ = [
    "CODES",
    "KEPT_EPISODES",
    "CheckCode",
    "CheckReport",
    "CodeCount",
    "CodeCounter",
    "DatasetCheck",
    "DatasetHealth",
    "DatasetStatistics",
    "DimensionHealth",
    "EpisodeCheck",
    "EpisodeLag",
    "EpisodeSignals",
    "EpisodeSummary",
    "ListedFinding",
    "QualityFinding",
    "Severity",
    "TypicalEpisode",
    "UnhealthyEpisode",
    "VideoTotals",
    "check_code",
    "check_metadata",
    "check_record",
    "check_signals",
    "dataset_health",
    "episode_findings",
    "episode_signals",
    "finding_reason",
    "paired_dimensions",
    "summarise_signals",
]

__getattr__ = lazy_exports(__name__)
