"""Ingests and opens the datasets of a test by their paths, also with an ingester that the test defines."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, Unpack

from ares.jobs import ComputePlan, IngestRequest, MediaMode
from ares_ingest.base import Source, SourceOptions
from ares_ingest.discovery import discover
from ares_ingest.pipeline import find_datasets, ingest_sources

if TYPE_CHECKING:
    from pathlib import Path

    from ares.jobs import Engine
    from ares.store import Stores
    from ares.workspace import Workspace
    from ares_ingest.pipeline.run import IngestCounts


@dataclass(frozen=True)
class StubIngester:
    """An ingester of a test that is asked about the path that the user gave.

    Attributes:
        name: Name of its format.
        open: Opens the datasets at a path.
        recognises: Whether a path holds the format.
    """

    name: str
    open: Callable[[str, SourceOptions], list[Source]]
    recognises: Callable[[str], bool] = lambda path: True


def copy_open_workspace(workspace: Workspace, folder: Path) -> None:
    """Copy the folder of a workspace that is open here, in a separate process: this one would lose its locks."""
    subprocess.run(["cp", "-r", workspace.path, folder], check=True)


class IngestFields(TypedDict, total=False):
    """Fields of an `IngestRequest` that no ingester gets."""

    format: str
    limit: int | None
    media: MediaMode
    compute: ComputePlan
    verify: bool


def request_for(
    paths: Sequence[str], options: SourceOptions | None = None, **fields: Unpack[IngestFields]
) -> IngestRequest:
    """The request for the datasets at some paths."""
    options = options or SourceOptions()
    return IngestRequest(
        sources=tuple(paths),
        dataset=options.dataset,
        rate_hz=options.rate_hz,
        spec=options.spec,
        cameras=options.cameras,
        **fields,
    )


def ingest_paths(
    stores: Stores,
    paths: Sequence[str],
    options: SourceOptions | None = None,
    *,
    quiet: bool = False,
    engine: Engine | None = None,
    **fields: Unpack[IngestFields],
) -> IngestCounts:
    """Ingest every dataset at the paths."""
    request = request_for(paths, options, **fields)
    return ingest_sources(stores, find_datasets(stores, request), request, quiet=quiet, engine=engine)


def open_sources(
    paths: Sequence[str], options: SourceOptions | None = None, **fields: Unpack[IngestFields]
) -> list[Source]:
    """Open every dataset at the paths, without a workspace."""
    options = options or SourceOptions()
    discovery = discover(request_for(paths, options, **fields), reads_unknown=options.reads_unknown)
    return [source for opened in discovery.datasets for source in opened.sources]
