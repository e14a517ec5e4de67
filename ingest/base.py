"""What an ingester is: sources, items, entries and findings."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

from ares.episode import Episode, Record, Trajectory, make_episode_id
from ares.errors import PluginError, SourceError
from ares.formats import INFO_PATH
from ares.input import NamedSpan, read_yaml
from ares.io import (
    FolderEntries,
    absolute_path,
    file_suffixes,
    list_folder,
    walk_folders,
)
from ares_ingest.source_words import distinct_texts

if TYPE_CHECKING:
    from pathlib import Path

    from ares.checks import QualityFinding
    from ares.contract import PropertyName


# Reason of the error for a key of a spec that no array, camera or field of the dataset has.
MISSING = "key of the spec does not exist"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What an ingester may know of what the user says of a dataset.

    Attributes:
        dataset: Name to store instead of the source's, or "".
        rate_hz: Recording rate, or None for the source's rate.
        spec: YAML file with what the dataset does not state itself (`DatasetSpec`), or "".
        cameras: Pattern of the names of video files, such as "{episode}_{camera}.mp4", or "".
        reads_unknown: Whether files of no known family are read by the names and shapes of their arrays, as
            --show-spec does; a spec implies it.
    """

    dataset: str = ""
    rate_hz: float | None = None
    spec: str = ""
    cameras: str = ""
    reads_unknown: bool = False


def hash_stated(options: SourceOptions) -> str:
    """Hash of what the options state of how episodes are read: the spec, the rate, the cameras; "" for nothing."""
    if not (options.spec or options.rate_hz or options.cameras):
        return ""
    spec = read_yaml(options.spec) if options.spec else None
    stated = repr((spec, options.rate_hz, options.cameras))
    return hashlib.blake2b(stated.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class RecordSteps:
    """Reads a record, and changes it step by step: by a spec, by labels beside it, by what the job asks for.

    Attributes:
        read: Reads it.
        changes: What is done with it then, in this order; each can be pickled.
    """

    read: Callable[[], Record]
    changes: tuple[Callable[[Record], Record], ...] = ()

    def __call__(self) -> Record:
        record = self.read()
        for change in self.changes:
            record = change(record)
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One record of a source. Its id is known before it is read, so that a second run can skip stored records.

    Attributes:
        episode_id: Made by `ares.episode.episode_id`.
        location: File, and which record of it; for messages.
        load: Reads the record; a partial of a module-level function beside the call of `Item`, so that it can be
            pickled. Raises SourceError.
        key: Key of the episode in its dataset, by which files of labels name it; "" where only the record tells.
        videos: Path by name of its cameras, where the listing of files tells: one that came later is read then.
        label_stamp: Hash of what its reader knows of it from files beside the record, see `stamp_labels`: where it is
            another than that of the stored episode, the record is read again. "" where they say nothing of it, None
            where one of them cannot be read.
        file_stamps: Such hashes of what files of labels say of it, by the path of the file in the dataset.
        described_by: Local files that describe it, of which one is read only where its size or time has changed.
        seen_labels: Whether all files of labels were seen and read: "some" take nothing away, and with "none" nothing
            is compared.
    """

    episode_id: str
    location: str
    load: Callable[[], Record]
    key: str = ""
    videos: Mapping[str, str] = field(default_factory=dict)
    label_stamp: str | None = ""
    file_stamps: Mapping[str, str] = field(default_factory=dict)
    described_by: tuple[str, ...] = ()
    seen_labels: Literal["all", "some", "none"] = "all"

    def with_change(self, change: Callable[[Record], Record]) -> Item:
        """The item; its record is also changed by a function once it is read."""
        steps = self.load if isinstance(self.load, RecordSteps) else RecordSteps(self.load)
        return replace(self, load=replace(steps, changes=(*steps.changes, change)))


def stamp_labels(*values: object) -> str:
    """A hash of what files beside a record say of it, as values of JSON; "" where all of it is empty."""
    if all(part in (None, "", (), [], {}) for part in values):
        return ""
    text = json.dumps(values, sort_keys=True, default=_as_plain)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _as_plain(value: object) -> object:
    if not isinstance(value, NamedSpan):
        return str(value)
    span = (value.start, value.stop, value.unit, value.camera)
    return *span, value.text, value.style, value.author, value.role, dict(value.fields)


def failing_item(episode_id: str, location: str, error: SourceError | PluginError) -> Item:
    """An item for a record that is known to be broken or missing: loading it raises the error."""
    load = functools.partial(_raise_source_error, error.reason, error.detail)
    return Item(episode_id=episode_id, location=location, load=load, label_stamp=None)


def known_error(item: Item) -> SourceError | None:
    """The error of a `failing_item`; None for any other."""
    load = item.load.read if isinstance(item.load, RecordSteps) else item.load
    if isinstance(load, functools.partial) and load.func is _raise_source_error:
        return SourceError(*load.args)
    return None


def _raise_source_error(reason: str, detail: str) -> Record:
    raise SourceError(reason, detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeEntry:
    """One episode, before it is read; subclasses add where it lies.

    Attributes:
        format: Name of the format.
        dataset: Name of the dataset.
        version: Version of the dataset, or "".
        split: Part of the dataset, such as "train", or "".
        key: What names the episode in the dataset: a path, a number.
        rate_hz: Rate set by the user, or None.
    """

    format: str
    dataset: str
    version: str = ""
    split: str = ""
    key: str
    rate_hz: float | None = None

    @property
    def episode_id(self) -> str:
        """Identity of the episode."""
        return make_episode_id(
            format=self.format, dataset=self.dataset, version=self.version, split=self.split, key=self.key
        )


def make_episode(
    entry: EpisodeEntry, trajectory: Trajectory, texts: Iterable[str] = (), **fields: Any
) -> Episode:
    """The metadata of an episode that was read.

    Args:
        entry: What was known before.
        trajectory: Its signals, which name the dimensions; the steps are its timestamps.
        texts: Instructions, also missing and repeated ones.
        fields: The other fields of an Episode, and those that are not what the entry says.
    """
    instructions = distinct_texts(list(texts))
    known = {
        "episode_id": entry.episode_id,
        "format": entry.format,
        "dataset": entry.dataset,
        "version": entry.version,
        "split": entry.split,
        "key": entry.key,
        "instruction": instructions[0] if instructions else "",
        "instructions": instructions,
        "robot": "",
        "num_steps": len(trajectory.timestamps),
        "state_names": trajectory.state.names if trajectory.state else (),
        "action_names": trajectory.action.names if trajectory.action else (),
    }
    return Episode(**{**known, **fields})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFinding:
    """What a check of the metadata of a dataset found.

    Attributes:
        finding: The finding.
        location: The file, and which episode.
        episode_id: Id of the episode that it is about, "" for the whole dataset.
        key: Key of that episode.
    """

    finding: QualityFinding
    location: str
    episode_id: str = ""
    key: str = ""


def find_nothing() -> Iterable[SourceFinding]:
    """The findings of a source whose metadata nobody checks."""
    return ()


def list_no_files() -> Iterable[SourceFile]:
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
        files: Lists the files of the dataset and their use, lazily, without reading records; called when the dataset is
            opened, to find files of labels beside it, and while `walk_folders` and `list_folder` answer from the
            listing of the whole tree. Files below `folder` that it does not list are not accounted for.
        check_metadata: Compares its metadata with all its rows, for `ares check`; reads every data file.
        rate_hz: Recording rate of all its episodes, or None where only the records tell.
        cameras: Names of the cameras of all its episodes, or () where only the records tell.
        contract: What its spec states of the meaning of signals, by signal group and property.
        stated: Hash of what a spec and the options state of how to read it, "" for nothing; set by who opens it.
        options: What it was opened with; set by who opens it.
        describe_tables: Says of each table that describes its episodes what its rows hold, in a line; for a dry run.
    """

    format: str
    dataset: str
    version: str = ""
    total: int
    items: Iterator[Item]
    warnings: tuple[str, ...] = ()
    fragile: bool = False
    folder: str = ""
    files: Callable[[], Iterable[SourceFile]] = list_no_files
    check_metadata: Callable[[], Iterable[SourceFinding]] = find_nothing
    rate_hz: float | None = None
    cameras: tuple[str, ...] = ()
    contract: Mapping[str, Mapping[PropertyName, str]] = field(default_factory=dict)
    stated: str = ""
    options: SourceOptions = field(default_factory=SourceOptions)
    describe_tables: Callable[[], Iterable[str]] = tuple


# What a folder is to a format: "dataset": it is the folder of one dataset, whose files say so; "data": records of the
# format lie directly in it, which belong to a dataset of this or a higher folder; "store": it is itself one record
# file of the format, made of many files, and is not searched for other data.
FolderClaim = Literal["dataset", "data", "store"]


@runtime_checkable
class Ingester(Protocol):
    """A source format; the entry points of the group "ares.ingesters" name objects that fill this protocol.

    The built-in ones stand last in each `source.py` under `ingest/`, or in the file of the format.
    """

    @property
    def name(self) -> str:
        """Format name, as in `ares ingest --format`."""

    def recognises(self, path: str) -> bool:
        """Whether a folder or file holds this format; fast, reads no record.

        It is asked about a single file; without `claims` also once about the folder that the user gave.
        """

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open every dataset at or under a path. Raises SourceError for one that cannot be opened.

        While it runs, `walk_folders` and `list_folder` show it the files that no other dataset uses, from one walk of
        the tree.
        """


@runtime_checkable
class FolderIngester(Ingester, Protocol):
    """An ingester that is asked about each folder of a tree, and so does not walk it; made as a subclass.

    Attributes:
        uses: Formats whose files may lie among the records of this one and be used by it: "video" beside HDF5.
        opens_files: Whether a single file can be opened.
    """

    uses: frozenset[str] = frozenset()
    opens_files: bool = False

    def recognises(self, path: str) -> bool:
        """Whether a folder, or one below it, is claimed, or a folder with a single file would be.

        A LeRobot dataset is none of another format.
        """
        root = absolute_path(path)
        if root.is_file():
            files = {root.name: 1}
            folder = FolderEntries(path=root.parent, files=files, suffixes=file_suffixes(files))
            return self.opens_files and self.claims(folder) is not None
        return not (root / INFO_PATH).exists() and next(find_claimed_folders(self, root), None) is not None

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """What a folder is to the format, by the names in it alone; None for nothing. Asked once for each folder."""

    def joins(self, paths: Sequence[str]) -> bool:
        """Whether files at these paths, relative to a folder, make records across its subfolders.

        Cameras in separate folders do; then the folder is one dataset.
        """
        return False


def find_claimed_folders(ingester: FolderIngester, root: Path) -> Iterator[Path]:
    """The folders at and below a folder that a format claims, without looking below them; none in a file."""
    for folder, below, _ in walk_folders(root) if root.is_dir() else ():
        if ingester.claims(list_folder(folder)):
            below.clear()
            yield folder


@runtime_checkable
class SpecIngester(Ingester, Protocol):
    """An ingester that applies specs itself; for others `ares_ingest.mapping` applies them to records."""

    def show_spec(self, path: str, options: SourceOptions) -> str:
        """The specs of the datasets at or under a path, as YAML."""


T = TypeVar("T")
