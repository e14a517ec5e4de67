"""Opens the datasets that a user names, to ingest, plan or show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ares.errors import AresError
from ares.io import use_folder_listings
from ares.jobs import IngestPlan, IngestReport, IngestRequest, open_engine
from ares_ingest.discovery import OpenedDataset, discover, refuse_options_for_several
from ares_ingest.guarded_loading import call_ingester_safely
from ares_ingest.pipeline import find_datasets, ingest_sources
from ares_ingest.show_spec import show_spec

if TYPE_CHECKING:
    from ares.store import Stores


_SEVERAL = (
    "# There are {count} datasets. Save the spec of each as a separate file, and name the files under `spec` in an\n"
    "# options file, which `ares ingest PATH --dry-run --write-options FILE` writes and --options reads.\n"
)


def show_specs(request: IngestRequest) -> str:
    """The specs of the datasets at and below the paths, as YAML to be saved, edited and passed with --spec.

    Of several datasets each spec begins with the path and format; one that cannot be read is told in its place.

    Raises:
        RequestError: A path holds no dataset of the format, or a spec is given for several datasets.
        SourceError: The only dataset has no readable record, or the spec does not fit it.
        PluginError: As SourceError, by a fault of an ingester.
    """
    # Opened without the spec of the user, which may not fit yet.
    datasets = discover(replace(request, spec="", options=""), reads_unknown=True).datasets
    refuse_options_for_several(request, datasets)
    if len(datasets) == 1:
        return _show_dataset_spec(datasets[0], request)
    return _SEVERAL.format(count=len(datasets)) + "---\n".join(_specs_of_datasets(datasets, request))


def _specs_of_datasets(datasets: Sequence[OpenedDataset], request: IngestRequest) -> list[str]:
    specs = []
    for opened in datasets:
        try:
            text = _show_dataset_spec(opened, request)
        except AresError as error:
            text = f"# no spec: {error}\n"
        specs.append(f"# {opened.path} ({opened.format})\n{text}")
    return specs


def _show_dataset_spec(opened: OpenedDataset, request: IngestRequest) -> str:
    if opened.error is not None:
        raise opened.error
    options = replace(opened.options, spec=request.spec)
    with use_folder_listings(opened.listings):
        show = partial(show_spec, opened.ingester, opened.opened_at, options)
        return call_ingester_safely(opened.format, show, opened.path)


def ingest(
    open_stores: Callable[[], Stores],
    existing_stores: Callable[[], Stores | None],
    request: IngestRequest,
    *,
    quiet: bool,
) -> IngestReport:
    """Ingest the datasets at and below some paths; see `Workspace.ingest` for the errors."""
    # Found before the workspace is created: a wrong path must not leave an empty workspace behind.
    sources = find_datasets(existing_stores(), request)
    with open_engine(request.compute.engine) as engine:
        return ingest_sources(open_stores(), sources, request, quiet=quiet, engine=engine).to_report()


def plan_ingest(existing_stores: Callable[[], Stores | None], request: IngestRequest) -> IngestPlan:
    """What `ingest` would read; see `Workspace.plan_ingest`."""
    return find_datasets(existing_stores(), request, sample=True).plan
