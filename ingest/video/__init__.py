"""Ingester of folders of video files, with or without tables about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.video.source import video

__all__ = ["video"]

__getattr__ = lazy_exports(__name__)
