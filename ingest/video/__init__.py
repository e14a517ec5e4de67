"""Ingester of folders of video files, with or without tables about them."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_ingest.video.source import video as video

__getattr__ = lazy_exports(__name__)
