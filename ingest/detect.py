"""Finds the ingester for a path, and warns of other formats there that it does not read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ares.errors import AresError, PluginError, RequestError
from ares.io import existing_path
from ares.messages import announce_if_slow
from ares.registry import ingesters
from ingest.base import Ingester, IngestOptions, Source
from ingest.guard import guarded_call
from ingest.mapping import open_with_spec, show_spec

# Formats whose datasets contain files that another ingester would recognise.
_FORMATS_INSIDE = {"agibot": {"hdf5", "video"}, "lerobot": {"video"}, "hdf5": {"video"}, "zarr": {"video"}}


def open_sources(paths: Sequence[str], options: IngestOptions, format: str = "auto") -> list[Source]:
    """Open the datasets at the paths. Another format in the same folder becomes a warning of the first source.

    Raises RequestError for a path that holds no dataset of the format.
    """
    sources = []
    for path in paths:
        with announce_if_slow(f"looking at the folder {path}"):
            sources += _open_path(path, options, format)
    return sources


def show_specs(paths: Sequence[str], options: IngestOptions, format: str = "auto") -> str:
    """The specs of the datasets at the paths, as YAML to be saved, edited and passed with --spec.

    Raises RequestError for a path that holds no dataset of the format, SourceError for one without a readable record.
    """
    specs = []
    for path in paths:
        ingester = _candidates(path, format).ingesters[0]
        specs.append(guarded_call(ingester.name, partial(show_spec, ingester, path, options), path))
    return "---\n".join(specs)


def _open_path(path: str, options: IngestOptions, format: str) -> list[Source]:
    candidates = _candidates(path, format)
    ingester, *others = candidates.ingesters
    if options.cameras and ingester.name != "video":
        raise RequestError(
            f"{path!r} takes no --cameras", f"{ingester.name} datasets name their cameras themselves"
        )
    inside = _FORMATS_INSIDE.get(ingester.name, set())
    unread = [other.name for other in others if other.name not in inside]
    warnings = tuple(
        f"the folder also holds {name} data, which is not read: ingest it with --format {name}"
        for name in unread
    )
    faults = tuple(f"not tried: {fault}" for fault in candidates.faults)
    sources = _check_sources(
        ingester.name, guarded_call(ingester.name, lambda: open_with_spec(ingester, path, options), path)
    )
    first = [replace(source, warnings=(*source.warnings, *warnings, *faults)) for source in sources[:1]]
    return first + sources[1:]


def _check_sources(name: str, sources: Any) -> list[Source]:
    """What an ingester opened. Raises PluginError for something else than a list of sources."""
    if not isinstance(sources, list) or not all(isinstance(source, Source) for source in sources):
        raise PluginError(
            f"{ingesters.label(name)} opened no list of sources", f"got a {type(sources).__name__}"
        )
    return sources


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
            ingester = _import_ingester(name)
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


def _import_ingester(name: str) -> Ingester:
    ingester: Any = ingesters.get(name)
    if not isinstance(ingester, Ingester):
        raise PluginError(f"{ingesters.label(name)} is no Ingester", f"got a {type(ingester).__name__}")
    return ingester
