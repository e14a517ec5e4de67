"""The ingestion as an operation of a workspace: what `Workspace.ingest` and `ares ingest` call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ares.jobs import IngestPlan, IngestReport, open_engine
from ingest.base import IngestOptions
from ingest.discovery import read_options_file
from ingest.pipeline import IngestSources, MediaMode, find_datasets, ingest_datasets
from ingest.prepared import prepared_paths

if TYPE_CHECKING:
    from ares.store import Stores


def ingest(
    open_stores: Callable[[], Stores],
    existing_stores: Callable[[], Stores | None],
    sources: Sequence[str],
    *,
    format: str,
    dataset: str,
    rate_hz: float | None,
    cameras: str,
    spec: str,
    options: str,
    data_dir: str,
    follow_links: bool,
    media: MediaMode,
    limit: int | None,
    strict: bool,
    engine: str,
    quiet: bool,
) -> IngestReport:
    """Ingest the datasets at and below some paths; see `Workspace.ingest` for the arguments and errors."""
    user_options = IngestOptions(
        dataset=dataset, rate_hz=rate_hz, spec=spec, cameras=cameras, follow_links=follow_links
    )
    paths = prepared_paths(sources, data_dir)
    # Found before the workspace is created: a wrong path must not leave an empty workspace behind.
    discovery = _find(existing_stores, paths, user_options, format, options)
    with open_engine(engine) as executor:
        return ingest_datasets(
            open_stores(), discovery, limit=limit, strict=strict, media=media, quiet=quiet, engine=executor
        ).to_report()


def plan_ingest(
    existing_stores: Callable[[], Stores | None],
    sources: Sequence[str],
    *,
    format: str,
    dataset: str,
    rate_hz: float | None,
    cameras: str,
    spec: str,
    options: str,
    data_dir: str,
    follow_links: bool,
) -> IngestPlan:
    """What `ingest` would read with these arguments; see `Workspace.plan_ingest`."""
    user_options = IngestOptions(
        dataset=dataset, rate_hz=rate_hz, spec=spec, cameras=cameras, follow_links=follow_links
    )
    paths = prepared_paths(sources, data_dir)
    return _find(existing_stores, paths, user_options, format, options, sample=True).plan


def _find(
    existing_stores: Callable[[], Stores | None],
    paths: Sequence[str],
    user_options: IngestOptions,
    format: str,
    options: str,
    sample: bool = False,
) -> IngestSources:
    by_path = read_options_file(options) if options else None
    return find_datasets(
        existing_stores(),
        paths,
        user_options,
        format=format,
        by_path=by_path,
        sample=sample,
    )
