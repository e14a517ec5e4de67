"""From the items of a source to rows in the workspace: plan, read, check, write, report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.pipeline.check_log import check_unchecked_episodes
    from ingest.pipeline.media_copy import MediaMode
    from ingest.pipeline.run import ingest_paths, ingest_sources

__all__ = ["MediaMode", "check_unchecked_episodes", "ingest_paths", "ingest_sources"]

__getattr__ = lazy_exports(__name__)
