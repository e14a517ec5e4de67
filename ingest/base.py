"""Item, Source and Options: what an ingester is given and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ares.episode import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user asked of an ingestion.

    Attributes:
        dataset: Name to use instead of the source's own, or "".
        rate_hz: Recording rate given by the user, or None.
        spec: File that says what the dataset does not say of itself, or "".
        cameras: How names of video files tell episode and camera, "{episode}_{camera}.mp4", or "".
    """

    dataset: str = ""
    rate_hz: float | None = None
    spec: str = ""
    cameras: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One record of a source: its identity is known before it is read, so that resuming reads nothing twice.

    Attributes:
        episode_id: See `ares.episode.episode_id`.
        where: For people: file and place in it.
        load: Reads the record; a picklable partial of a module-level function. Raises SourceError.
    """

    episode_id: str
    where: str
    load: Callable[[], Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A dataset that an ingester has opened.

    Attributes:
        format: The ingester's name.
        dataset: Its name, as stored with every episode.
        version: Its version, or "".
        total: How many items there will be.
        items: The items, lazily, in a fixed order; one that is missing or broken is an Item whose load raises.
        warnings: What is odd about the source as a whole.
        fragile: Whether damaged bytes can crash its reader's library, so that it is only read in other processes.
    """

    format: str
    dataset: str
    version: str
    total: int
    items: Iterator[Item]
    warnings: tuple[str, ...] = ()
    fragile: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingester:
    """A source format: what the entry points of the group "ares.ingesters" hold.

    Attributes:
        name: Format name, as in `ares ingest --format`.
        recognises: Whether a folder or file holds this format; cheap, reads no record.
        open: Opens every dataset found there. Raises SourceError for one that cannot be opened at all.
        show_spec: The specs that the datasets found there would be read with, as YAML; None for a format that
            needs none.
    """

    name: str
    recognises: Callable[[str], bool]
    open: Callable[[str, Options], list[Source]]
    show_spec: Callable[[str, Options], str] | None = None
