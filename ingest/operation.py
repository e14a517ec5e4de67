"""The ingestion as an operation of a workspace: what `Workspace.ingest` and `ares ingest` call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ares.jobs import IngestReport, open_engine
from ingest.base import IngestOptions
from ingest.detect import open_sources
from ingest.pipeline import MediaMode, ingest_sources

if TYPE_CHECKING:
    from ares.store import Stores


def ingest(
    open_stores: Callable[[], Stores],
    sources: Sequence[str],
    *,
    format: str,
    dataset: str,
    rate_hz: float | None,
    cameras: str,
    spec: str,
    media: MediaMode,
    limit: int | None,
    strict: bool,
    engine: str,
    quiet: bool,
) -> IngestReport:
    """Ingest the datasets at some paths; see `Workspace.ingest` for the arguments and errors."""
    options = IngestOptions(dataset=dataset, rate_hz=rate_hz, spec=spec, cameras=cameras)
    # Opened before the workspace: a wrong path must not leave an empty workspace behind.
    opened = open_sources(sources, options, format)
    with open_engine(engine) as executor:
        return ingest_sources(
            open_stores(), opened, limit=limit, strict=strict, media=media, quiet=quiet, engine=executor
        ).to_report()
