"""Finds the ingester for a path, and warns of other formats there that it does not read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ares.errors import RequestError
from ares.io import existing_path
from ares.registry import ingesters
from ingest.base import Ingester, IngestOptions, Source

# Formats whose datasets contain files that another ingester would recognise.
_FORMATS_INSIDE = {"lerobot": {"video"}, "hdf5": {"video"}}


def open_sources(paths: Sequence[str], options: IngestOptions, format: str = "auto") -> list[Source]:
    """Open the datasets at the paths. Another format in the same folder becomes a warning of the first source.

    Raises RequestError for a path that holds no dataset of the format.
    """
    if options.spec:
        show_specs(paths, options, format)  # raises for a format that takes no spec
    return [source for path in paths for source in _open_path(path, options, format)]


def show_specs(paths: Sequence[str], options: IngestOptions, format: str = "auto") -> str:
    """The specs of the datasets at the paths, as YAML to be saved, edited and passed with --spec.

    Raises RequestError for a path that holds no dataset of the format, or whose format takes no spec.
    """
    specs = []
    for path in paths:
        ingester = _ingesters_for(path, format)[0]
        if ingester.show_spec is None:
            raise RequestError(f"{path!r} takes no spec", f"{ingester.name} datasets describe themselves")
        specs.append(ingester.show_spec(path, options))
    return "---\n".join(specs)


def _open_path(path: str, options: IngestOptions, format: str) -> list[Source]:
    ingester, *others = _ingesters_for(path, format)
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
    sources = ingester.open(path, options)
    first = [replace(source, warnings=(*source.warnings, *warnings)) for source in sources[:1]]
    return first + sources[1:]


def _ingesters_for(path: str, format: str) -> list[Ingester]:
    path = str(existing_path(path))
    names = ingesters.names() if format == "auto" else [format]
    candidates: list[Ingester] = [ingesters.get(name) for name in names]  # type: ignore[misc]
    matches = [ingester for ingester in candidates if ingester.recognises(path)]
    if not matches:
        raise RequestError(f"{path!r} is not a recognised dataset", f"formats tried: {', '.join(names)}")
    return matches
