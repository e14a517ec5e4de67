"""Generated scenes with a robot and cameras, and faults planted into their videos, by which the checks are scored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.video.audit.random_scenes import FilmedEpisode, filmed_dataset, random_scene
    from ares.quality.video.audit.scoring import (
        VideoScore,
        audit_films,
        audit_generated_videos,
        faulty_summary,
        filmed_summary,
    )
    from ares.quality.video.audit.video_faults import VIDEO_PLANTERS, VideoFault, plant_video_fault

__all__ = [
    "VIDEO_PLANTERS",
    "FilmedEpisode",
    "VideoFault",
    "VideoScore",
    "audit_films",
    "audit_generated_videos",
    "faulty_summary",
    "filmed_dataset",
    "filmed_summary",
    "plant_video_fault",
    "random_scene",
]

__getattr__ = lazy_exports(__name__)
