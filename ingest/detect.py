"""Detect: which ingester reads what lies at a path, and what else lies there that it does not read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ares import files
from ares.errors import RequestError
from ares.registry import ingesters
from ingest.base import Ingester, Options, Source

# Formats that hold plain videos or files of the other formats as a part of themselves.
_HOLDS = {"lerobot": {"video"}, "hdf5": {"video"}}


def open_sources(paths: Sequence[str], options: Options, format: str = "auto") -> list[Source]:
    """The datasets at the paths; a format that a folder holds beside the one read is a warning of its sources.

    Raises RequestError for a path that holds none of the format.
    """
    if options.spec:
        show_specs(paths, options, format)  # refuses a format that takes none
    return [source for path in paths for source in _open(path, options, format)]


def show_specs(paths: Sequence[str], options: Options, format: str = "auto") -> str:
    """The specs that the datasets at the paths would be read with, as YAML to be saved, edited and given back.

    Raises RequestError for a path that holds none of the format, or one whose format says all by itself.
    """
    shown = []
    for path in paths:
        ingester = _recognising(path, format)[0]
        if ingester.show_spec is None:
            raise RequestError(f"{path!r} takes no spec", f"{ingester.name} says all by itself")
        shown.append(ingester.show_spec(path, options))
    return "---\n".join(shown)


def _open(path: str, options: Options, format: str) -> list[Source]:
    first, *others = _recognising(path, format)
    if options.cameras and first.name != "video":
        raise RequestError(f"{path!r} takes no --cameras", f"{first.name} names its cameras itself")
    held = _HOLDS.get(first.name, set())
    left = [one.name for one in others if one.name not in held]
    warnings = tuple(f"{name} lies beside {first.name} and is not read: ingest it by itself" for name in left)
    sources = first.open(path, options)
    return [replace(one, warnings=(*one.warnings, *warnings)) for one in sources[:1]] + sources[1:]


def _recognising(path: str, format: str) -> list[Ingester]:
    path = str(files.reached(path))
    names = ingesters.names() if format == "auto" else [format]
    asked: list[Ingester] = [ingesters.get(name) for name in names]  # type: ignore[misc]
    found = [ingester for ingester in asked if ingester.recognises(path)]
    if not found:
        raise RequestError(f"{path!r} is no dataset that can be read", f"tried: {', '.join(names)}")
    return found
