"""Frames of cameras at given seconds, and videos that a browser plays, from any container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.media.cache import FileCache
    from ares.media.fingerprint import (
        SOURCE_REMEDIES,
        compute_stamp,
        fingerprint_blocks,
        stamp_mismatch,
        stamped_fields,
        verify_source,
    )
    from ares.media.frames import all_frames, encoded_frames, frames_at
    from ares.media.frozen_camera import frozen_camera_flags
    from ares.media.playback import browser_video, thumbnail
    from ares.media.workspace_copies import MEDIA_FOLDER, copy_cameras

__all__ = [
    "MEDIA_FOLDER",
    "SOURCE_REMEDIES",
    "FileCache",
    "all_frames",
    "browser_video",
    "compute_stamp",
    "copy_cameras",
    "encoded_frames",
    "fingerprint_blocks",
    "frames_at",
    "frozen_camera_flags",
    "stamp_mismatch",
    "stamped_fields",
    "thumbnail",
    "verify_source",
]

__getattr__ = lazy_exports(__name__)
