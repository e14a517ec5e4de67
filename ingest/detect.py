"""Opens the datasets at and below some paths, or shows their specs, without a workspace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ares.errors import AresError
from ares.io import known_folders
from ingest.base import IngestOptions, Source
from ingest.discovery import Discovery, OpenedDataset, discover, refuse_options_for_several
from ingest.guard import guarded_call
from ingest.mapping import show_spec

_SEVERAL = (
    "# There are {count} datasets. Save the spec of each as a file of its own, and name the files under `spec` in an\n"
    "# options file, which `ares ingest PATH --dry-run --write-options FILE` writes and --options reads.\n"
)


def open_sources(paths: Sequence[str], options: IngestOptions, format: str = "auto") -> list[Source]:
    """Open every dataset at and below the paths, without a workspace. Raises as `ingest.discovery.discover`."""
    discovery = discover(paths, options, format)
    return [source for opened in discovery.datasets for source in opened.sources]


def show_specs(paths: Sequence[str], options: IngestOptions, format: str = "auto") -> str:
    """The specs of the datasets at and below the paths, as YAML to be saved, edited and passed with --spec.

    Of several datasets each spec begins with the path and format; one that cannot be read is told in its place.

    Raises:
        RequestError: A path holds no dataset of the format, or a spec is given for several datasets.
        SourceError: The only dataset has no readable record, or the spec does not fit it.
        PluginError: As SourceError, by a fault of an ingester.
    """
    # Opened without the spec of the user, which may not fit yet.
    discovery = discover(paths, replace(options, spec="", reads_unknown=True), format)
    refuse_options_for_several(options, discovery.datasets)
    if len(discovery.datasets) == 1:
        return _show(discovery.datasets[0], options)
    return _SEVERAL.format(count=len(discovery.datasets)) + "---\n".join(
        _specs_of_datasets(discovery, options)
    )


def _specs_of_datasets(discovery: Discovery, options: IngestOptions) -> list[str]:
    specs = []
    for opened in discovery.datasets:
        try:
            text = _show(opened, options)
        except AresError as error:
            text = f"# no spec: {error}\n"
        specs.append(f"# {opened.path} ({opened.format})\n{text}")
    return specs


def _show(opened: OpenedDataset, options: IngestOptions) -> str:
    if opened.error is not None:
        raise opened.error
    spec_options = replace(opened.options, spec=options.spec)
    with known_folders(opened.listings):
        show = partial(show_spec, opened.ingester, opened.opened_at, spec_options)
        return guarded_call(opened.format, show, opened.path, options.follow_links)
