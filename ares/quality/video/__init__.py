"""Checks of video: blur, exposure, frozen and lost frames, colours, swapped cameras, damage, and its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.video.codes import VIDEO_CODES
    from ares.quality.video.dataset import TypicalVideo, VideoCheck, check_videos, learn_videos
    from ares.quality.video.decode import camera_features
    from ares.quality.video.features import CameraFeatures, FeatureBuilder
    from ares.quality.video.motion_map import VideoLag
    from ares.quality.video.summary import VideoSummary, summarise_video

__all__ = [
    "VIDEO_CODES",
    "CameraFeatures",
    "FeatureBuilder",
    "TypicalVideo",
    "VideoCheck",
    "VideoLag",
    "VideoSummary",
    "camera_features",
    "check_videos",
    "learn_videos",
    "summarise_video",
]

__getattr__ = lazy_exports(__name__)
