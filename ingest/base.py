"""The interface of an ingester: its options, and the sources and items that it returns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ares.episode import Record
from ares.errors import SourceError

if TYPE_CHECKING:
    from ares.io import FolderEntries
    from ares.kinematics import Kinematics
    from ares.quality.contract import PropertyName

# Reason of the error for a key of a spec that no array, camera or field of the dataset has.
MISSING = "key of the spec does not exist"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """Settings of the user for the datasets of an ingestion.

    Attributes:
        dataset: Name to store instead of the source's own, or "".
        rate_hz: Recording rate, or None for the source's own.
        spec: YAML file with what the dataset does not state itself (`DatasetSpec`), or "".
        cameras: Pattern of the names of video files, such as "{episode}_{camera}.mp4", or "".
        reads_unknown: Whether files of no known family are read by the names and shapes of their arrays, as
            --show-spec does; a spec implies it.
        follow_links: Whether symbolic links may lead out of the dataset.
    """

    dataset: str = ""
    rate_hz: float | None = None
    spec: str = ""
    cameras: str = ""
    reads_unknown: bool = False
    follow_links: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One record of a source. Its id is known before it is read, so that a second run can skip stored records.

    Attributes:
        episode_id: Made by `ares.episode.episode_id`.
        location: File, and which record of it; for messages.
        load: Reads the record; a partial of a module-level function, so that it can be pickled. Raises SourceError.
    """

    episode_id: str
    location: str
    load: Callable[[], Record]


def failing_item(episode_id: str, location: str, error: SourceError) -> Item:
    """An item for a record that is known to be broken or missing: loading it raises the error."""
    load = functools.partial(_raise_source_error, error.reason, error.detail)
    return Item(episode_id=episode_id, location=location, load=load)


def _raise_source_error(reason: str, detail: str) -> Record:
    raise SourceError(reason, detail)


FileUse = Literal["data", "metadata", "pointer", "unreadable", "unused", "not_data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """What a source does with one file below its folder.

    Attributes:
        path: Absolute path or URL.
        use: "data" holds episodes; "metadata" describes them; "pointer" stands for a file that was not fetched;
            "unreadable" is damaged; "unused" is data that no episode names; "not_data" holds no episodes by its kind,
            such as a README.
        detail: Why it is a pointer, unreadable, unused or no data, and what to do; "" otherwise.
    """

    path: str
    use: FileUse
    detail: str = ""


def no_files() -> Iterable[SourceFile]:
    """The files of a source that does not list them."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A dataset that an ingester has opened.

    Attributes:
        format: The ingester's name.
        dataset: Name of the dataset, as stored with every episode.
        version: Version of the dataset, or "".
        total: Expected number of items.
        items: The items, lazily, in a fixed order. A missing or broken record is an Item whose `load` raises.
        warnings: Reasons to warn that concern the source, not single items.
        fragile: Whether damaged bytes can crash the library that reads it; then only worker processes read it.
        folder: The folder (or single file) that the dataset occupies; "" where the ingester does not tell.
        files: Lists the files of the dataset and their use, lazily, without reading records; called once, while
            `walk_folders` and `list_folder` answer from the listing of the whole tree. Files below `folder` that it
            does not list are not accounted for.
        rate_hz: Recording rate of all its episodes, or None where only the records tell.
        cameras: Names of the cameras of all its episodes, or () where only the records tell.
        contract: What its spec states of the meaning of signals, by signal group and property.
        kinematics: What its spec states of the robot's joints and links.
        follow_links: Whether symbolic links may lead out of `folder`; set by who opens it, from the options.
    """

    format: str
    dataset: str
    version: str
    total: int
    items: Iterator[Item]
    warnings: tuple[str, ...] = ()
    fragile: bool = False
    folder: str = ""
    files: Callable[[], Iterable[SourceFile]] = no_files
    rate_hz: float | None = None
    cameras: tuple[str, ...] = ()
    contract: Mapping[str, Mapping[PropertyName, str]] = field(default_factory=dict)
    kinematics: Kinematics | None = None
    follow_links: bool = False


# What a folder is to a format: "dataset": it is the folder of one dataset, whose files say so; "data": records of the
# format lie directly in it, which belong to a dataset of this or a higher folder; "store": it is itself one record
# file of the format, made of many files, and is not searched for other data.
FolderClaim = Literal["dataset", "data", "store"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingester:
    """A source format; the entry points of the group "ares.ingesters" name objects of this class.

    Attributes:
        name: Format name, as in `ares ingest --format`.
        recognises: Whether a folder or file holds this format; fast, reads no record. Without `claims` it is asked
            once, about the path that the user gave.
        open: Opens every dataset at or under a path. Raises SourceError for one that cannot be opened. While it runs,
            `walk_folders` and `list_folder` show it the files that no other dataset uses, from one walk of the tree.
        show_spec: Returns the specs of the datasets at or under a path, as YAML, for a format that applies specs
            itself; None where `ingest.mapping` shows the spec of the first record, and applies specs to records.
        claims: What a folder is to the format, by the names in it alone; asked once for each folder of a tree, so
            that no ingester walks the tree itself. None means: nothing.
        uses: Formats whose files may lie among the records of this one and be used by it: "video" beside HDF5.
        joins: Whether files at these paths, relative to a folder, make records across its subfolders, as cameras in
            folders of their own do; then the folder is one dataset. None means: never.
    """

    name: str
    recognises: Callable[[str], bool]
    open: Callable[[str, IngestOptions], list[Source]]
    show_spec: Callable[[str, IngestOptions], str] | None = None
    claims: Callable[[FolderEntries], FolderClaim | None] | None = None
    uses: frozenset[str] = frozenset()
    joins: Callable[[Sequence[str]], bool] | None = None
