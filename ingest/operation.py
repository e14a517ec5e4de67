"""The ingestion as an operation of a workspace: what `Workspace.ingest` and `ares ingest` call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ares.jobs import IngestPlan, IngestReport, IngestRequest, open_engine
from ingest.base import IngestOptions
from ingest.discovery import read_options_file
from ingest.pipeline import IngestSources, MediaMode, find_datasets, ingest_datasets
from ingest.prepared import prepared_paths

if TYPE_CHECKING:
    from ares.store import Stores


def ingest(
    open_stores: Callable[[], Stores],
    existing_stores: Callable[[], Stores | None],
    request: IngestRequest,
    *,
    media: MediaMode,
    limit: int | None,
    strict: bool,
    engine: str,
    quiet: bool,
) -> IngestReport:
    """Ingest the datasets at and below some paths; see `Workspace.ingest` for the arguments and errors."""
    # Found before the workspace is created: a wrong path must not leave an empty workspace behind.
    discovery = find_requested(existing_stores, request)
    with open_engine(engine) as executor:
        return ingest_datasets(
            open_stores(), discovery, limit=limit, strict=strict, media=media, quiet=quiet, engine=executor
        ).to_report()


def plan_ingest(existing_stores: Callable[[], Stores | None], request: IngestRequest) -> IngestPlan:
    """What `ingest` would read; see `Workspace.plan_ingest`."""
    return find_requested(existing_stores, request, sample=True).plan


def find_requested(
    existing_stores: Callable[[], Stores | None], request: IngestRequest, *, sample: bool = False
) -> IngestSources:
    """Find the datasets that are requested; see `ingest.pipeline.find_datasets` for `sample` and the errors."""
    paths = prepared_paths(request.sources, request.data_dir)
    return find_datasets(
        existing_stores(),
        paths,
        _user_options(request),
        format=request.format,
        by_path=read_options_file(request.options) if request.options else None,
        sample=sample,
    )


def _user_options(request: IngestRequest) -> IngestOptions:
    return IngestOptions(
        dataset=request.dataset,
        rate_hz=request.rate_hz,
        spec=request.spec,
        cameras=request.cameras,
        follow_links=request.follow_links,
    )
