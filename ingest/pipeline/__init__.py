"""From the items of a source to rows in the workspace: plan, read, check, write, report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.pipeline.check_log import check_unchecked_episodes
    from ingest.pipeline.find import IngestSources, find_datasets
    from ingest.pipeline.media_copy import MediaMode
    from ingest.pipeline.run import ingest_datasets, ingest_paths

__all__ = [
    "IngestSources",
    "MediaMode",
    "check_unchecked_episodes",
    "find_datasets",
    "ingest_datasets",
    "ingest_paths",
]

__getattr__ = lazy_exports(__name__)
