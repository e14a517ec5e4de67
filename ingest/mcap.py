"""Ingest MCAP recordings of ROS 2 and Foxglove: a file, a folder of a rosbag2, or a declared span each."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from ares import files
from ares.episode import Record, episode_id
from ares.errors import SourceError
from ares.media.mcap_file import ROSBAG, files_of
from ingest.base import Ingester, Item, Options, Source
from ingest.mcap_record import FORMAT, load_recording
from ingest.mcap_spans import Span, spans_of

SUFFIX = ".mcap"
_Part = tuple[str, "Span | SourceError | None"]


def recognises(path: str) -> bool:
    """Whether a file is an MCAP, or a folder holds some (and is no LeRobot dataset)."""
    asked = files.absolute(path)
    if asked.is_file():
        return asked.suffix.lower() == SUFFIX
    if (asked / "meta" / "info.json").exists():
        return False
    return next(_folders(asked), None) is not None


def open_mcap(path: str, options: Options) -> list[Source]:
    """The folder (or the one file) as a dataset. Raises SourceError when there is no MCAP file."""
    asked = files.absolute(path)
    folder = asked.parent if asked.is_file() else asked
    dataset = options.dataset or files.title(folder)
    warnings: dict[str, None] = {}
    parts: list[_Part] = []
    for place, names in [(folder, [asked.name])] if asked.is_file() else _folders(folder):
        uris = _recordings(place, names, warnings, alone=asked.is_file())
        parts += [(uri, span) for uri in uris for span in _spans(uri)]
    if not parts:
        raise SourceError("folder holds no MCAP file", f"{path}: no {SUFFIX}")
    items = (_item(uri, span, folder, dataset, options) for uri, span in parts)
    return [
        Source(
            format=FORMAT,
            dataset=dataset,
            version="",
            total=len(parts),
            items=items,
            warnings=tuple(warnings),
        )
    ]


def _folders(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Folders at or below one that hold MCAP files, and the names of these."""
    for place, below, found in files.walk(folder):
        below.sort()
        names = sorted(name for name in found if Path(name).suffix.lower() == SUFFIX)
        if names:
            yield place, names


def _recordings(place: Path, names: list[str], warnings: dict[str, None], *, alone: bool) -> list[str]:
    """What makes an episode each: rosbag2's metadata.yaml where it lists several files, and every other file."""
    listing = place / ROSBAG
    listed: set[str] = set()
    if listing.is_file() and not alone:
        try:
            listed = {Path(path).name for path in files_of(str(listing))}
        except SourceError as error:
            warnings[f"{error.reason}, so each file is taken as one episode"] = None
    bag = [str(listing)] if len(listed) > 1 else []
    return bag + [str(place / name) for name in names if not (bag and name in listed)]


def _spans(uri: str) -> list[Span | SourceError | None]:
    """The episodes of a recording; None where all of it is one, or it cannot be read, which loading it says."""
    try:
        return [*spans_of(files_of(uri))] or [None]
    except SourceError:
        return [None]


def _item(uri: str, span: Span | SourceError | None, folder: Path, dataset: str, options: Options) -> Item:
    path = files.place(uri)
    place = path.parent if path.name == ROSBAG else path
    key = place.relative_to(folder).as_posix() if place != folder else files.title(folder)
    where = str(place)
    if isinstance(span, SourceError):
        key, where = f"{key}#{span.detail}", f"{where}, its metadata"
    elif span:
        key, where = f"{key}#{span.key}", f"{where}, episode {span.key}"
    identity = episode_id(format=FORMAT, dataset=dataset, version="", split="", key=key)
    if isinstance(span, SourceError):
        failing = functools.partial(_fail, span.reason, span.detail)
        return Item(episode_id=identity, where=where, load=failing)
    load = functools.partial(load_recording, uri, key, dataset, identity, options.rate_hz, span)
    return Item(episode_id=identity, where=where, load=load)


def _fail(reason: str, detail: str) -> Record:
    raise SourceError(reason, detail)


mcap = Ingester(name=FORMAT, recognises=recognises, open=open_mcap)
