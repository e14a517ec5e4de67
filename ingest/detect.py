"""Opens the datasets at and below some paths, or shows their specs, without a workspace."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from ares.errors import AresError, PluginError, RequestError
from ares.io import existing_path
from ares.registry import ingesters
from ingest.base import Ingester, IngestOptions, Source
from ingest.discovery import discover, import_ingester
from ingest.guard import guarded_call
from ingest.mapping import show_spec


def open_sources(paths: Sequence[str], options: IngestOptions, format: str = "auto") -> list[Source]:
    """Open every dataset at and below the paths, without a workspace. Raises as `ingest.discovery.discover`."""
    discovery = discover(paths, options, format)
    return [source for opened in discovery.datasets for source in opened.sources]


def show_specs(paths: Sequence[str], options: IngestOptions, format: str = "auto") -> str:
    """The specs of the datasets at the paths, as YAML to be saved, edited and passed with --spec.

    Raises RequestError for a path that holds no dataset of the format, SourceError for one without a readable record.
    """
    specs = []
    for path in paths:
        ingester = _candidates(path, format).ingesters[0]
        specs.append(guarded_call(ingester.name, partial(show_spec, ingester, path, options), path))
    return "---\n".join(specs)


class _Candidates(NamedTuple):
    """The ingesters that recognise a path, and the errors of those that could not be asked."""

    ingesters: list[Ingester]
    faults: list[AresError]


def _candidates(path: str, format: str) -> _Candidates:
    """Ask the ingesters; a fault of one leaves the others. Raises its error where it is the only one or is named."""
    path = str(existing_path(path))
    names = ingesters.names() if format == "auto" else [format]
    candidates = _Candidates([], [])
    for name in names:
        try:
            ingester = import_ingester(name)
            if guarded_call(name, partial(ingester.recognises, path), path):
                candidates.ingesters.append(ingester)
        except PluginError as error:
            if format != "auto":
                raise
            candidates.faults.append(error)
    if not candidates.ingesters:
        faults = "".join(f"; not tried: {fault}" for fault in candidates.faults)
        raise RequestError(
            f"{path!r} is not a recognised dataset", f"formats tried: {', '.join(names)}{faults}"
        )
    return candidates
