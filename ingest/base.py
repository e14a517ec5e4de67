"""What an ingester is, and how it is called so that its faults cost one record and name it."""

from __future__ import annotations

import functools
import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

from ares.episode import Episode, Record, Trajectory, make_episode_id
from ares.errors import AresError, PluginError, SourceError
from ares.formats import INFO_PATH
from ares.input import (
    call_with_file_time_limit,
    call_with_time_limit,
    input_budgets,
    limited_memory,
    read_yaml,
    refuse_outside_links,
)
from ares.io import (
    FolderEntries,
    absolute_path,
    describe_os_error,
    file_suffixes,
    list_folder,
    walk_folders,
)
from ares.registry import ingesters, plugin_fault, plugin_faults
from ingest.source_words import distinct_texts

if TYPE_CHECKING:
    from pathlib import Path

    from ares.checks import QualityFinding
    from ares.contract import Kinematics, PropertyName


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
        follow_links: Whether symbolic links may lead out of the dataset.
    """

    dataset: str = ""
    rate_hz: float | None = None
    spec: str = ""
    cameras: str = ""
    reads_unknown: bool = False
    follow_links: bool = False


def hash_stated(options: SourceOptions) -> str:
    """Hash of what the options state of how episodes are read: the spec, the rate, the cameras; "" for nothing."""
    if not (options.spec or options.rate_hz or options.cameras):
        return ""
    spec = read_yaml(options.spec) if options.spec else None
    stated = repr((spec, options.rate_hz, options.cameras))
    return hashlib.blake2b(stated.encode(), digest_size=8).hexdigest()


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
    """

    episode_id: str
    location: str
    load: Callable[[], Record]
    key: str = ""
    videos: Mapping[str, str] = field(default_factory=dict)


def failing_item(episode_id: str, location: str, error: SourceError | PluginError) -> Item:
    """An item for a record that is known to be broken or missing: loading it raises the error."""
    load = functools.partial(_raise_source_error, error.reason, error.detail)
    return Item(episode_id=episode_id, location=location, load=load)


def known_error(item: Item) -> SourceError | None:
    """The error of a `failing_item`; None for any other."""
    load = item.load
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
        kinematics: What its spec states of the robot's joints and links.
        follow_links: Whether symbolic links may lead out of `folder`; set by who opens it, from the options.
        stated: Hash of what a spec and the options state of how to read it, "" for nothing; set by who opens it.
        options: What it was opened with; set by who opens it.
        segments_stamp: Changes where what it says of spans may have, "" where it says nothing: stored episodes are then
            read again, since labels may come after the recordings.
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
    kinematics: Kinematics | None = None
    follow_links: bool = False
    stated: str = ""
    options: SourceOptions = field(default_factory=SourceOptions)
    segments_stamp: str = ""


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
    """An ingester that applies specs itself; for others `ingest.mapping` applies them to records."""

    def show_spec(self, path: str, options: SourceOptions) -> str:
        """The specs of the datasets at or under a path, as YAML."""


PROPOSED_OUTCOME = "proposed_success"
PROPOSED_WARNING = (
    "a name in the path suggests an outcome, which is kept as metadata.proposed_success; success stays unknown "
    "(to accept it, set outcome_in_path: true in the spec)"
)
_WORDS = {
    **dict.fromkeys(("success", "successes", "successful", "succeeded", "succ"), True),
    **dict.fromkeys(("failure", "failures", "fail", "fails", "failed", "unsuccessful"), False),
}
# Every word contains one of these; most paths contain none.
_SYLLABLE = re.compile("succ|fail", re.IGNORECASE)


def outcome_in_path(path: str) -> tuple[bool, str] | None:
    """The outcome that a path suggests, and the folder or file name that does; None for none, or for both outcomes.

    Words count as a whole: "success_003.mp4" and "failed/" do, "successor" does not; "not_success" suggests nothing.
    """
    if not _SYLLABLE.search(path):
        return None
    seen: dict[bool, str] = {}
    for part in path.replace("\\", "/").split("/"):
        words = [
            word for word in re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", part).lower()) if word
        ]
        if {"not", "no", "or", "and", "non"} & set(words):
            continue
        for word in words:
            if word in _WORDS:
                seen.setdefault(_WORDS[word], part)
    if len(seen) != 1:
        return None
    return next(iter(seen.items()))


def add_outcome_of_path(record: Record) -> Record:
    """The record; where its outcome is not known, with the one that its path in the dataset suggests, as metadata."""
    episode = record.episode
    suggested = outcome_in_path(names_that_state_outcome(episode)) if episode.success is None else None
    if suggested is None or PROPOSED_OUTCOME in episode.metadata:
        return record
    success, name = suggested
    metadata = {**episode.metadata, PROPOSED_OUTCOME: success, f"{PROPOSED_OUTCOME}_source": name}
    return replace(
        record,
        episode=replace(episode, metadata=metadata),
        warnings=(*record.warnings, PROPOSED_WARNING),
    )


def names_that_state_outcome(episode: Episode) -> str:
    """The names that may hold an episode's outcome: the path that its source states, and its key in the dataset."""
    return f"{episode.metadata.get('file_path') or ''}/{episode.key}"


T = TypeVar("T")

# What `make_episode_id` returns.
_EPISODE_ID = re.compile("[0-9a-f]{16}")
# Items that are listed under one deadline: so many, or as many as come in this time.
_MOST_LISTED, _SECONDS_TO_LIST = 64, 0.05


def guard_item_loading(item: Item, ingester: str, folder: str = "", follow_links: bool = False) -> Item:
    """The item; loading it raises only errors of ARES, and opens no file that a link leads out of `folder`.

    Links may do so where `follow_links` is set.

    An item whose location is not UTF-8 fails when it is loaded: no table can store the path.
    """
    location = item.location.encode("utf-8", "backslashreplace").decode()
    if location != item.location:
        return failing_item(item.episode_id, location, SourceError("file name is not UTF-8", location))
    load = partial(load_item_safely, item.load, ingester, item.episode_id, folder, follow_links)
    return replace(item, location=location, load=load)


def load_item_safely(
    load: Callable[[], Record], ingester: str, episode_id: str, folder: str = "", follow_links: bool = False
) -> Record:
    """Read a record.

    Args:
        load: Reads it.
        ingester: Name of the ingester that it belongs to.
        episode_id: Id that its item announced.
        folder: Folder of the dataset, or "" where its ingester does not tell.
        follow_links: Whether links may lead out of it.

    Raises:
        SourceError: It cannot be read, or takes longer than allowed.
        PluginError: The ingester raised something else, or returned no record or that of another episode.
    """
    read = partial(call_with_time_limit, input_budgets().record_seconds, load)
    record = _call_guarded(ingester, read, folder, follow_links)
    if not isinstance(record, Record):
        raise PluginError(f"{ingesters.label(ingester)} returned no Record", f"got a {type(record).__name__}")
    if record.episode.episode_id != episode_id:
        raise PluginError(
            f"{ingesters.label(ingester)} returned a record of another episode",
            f"{record.episode.episode_id} in place of {episode_id}",
        )
    return add_outcome_of_path(record)


def call_or_error(call: Callable[[], T], label: str) -> T | AresError:
    """What a call returns, or its error; a disk or a server that fails costs only what was read from it.

    Args:
        call: The call.
        label: What it does, for the message of a fault.
    """
    try:
        return call()
    except AresError as error:
        return error
    except OSError as error:
        return SourceError("file cannot be read", f"{error.filename or ''}: {describe_os_error(error)}")
    except Exception as error:
        return plugin_fault(label, error)


def call_ingester_safely(
    ingester: str, call: Callable[[], T], folder: str = "", follow_links: bool = False
) -> T:
    """What an ingester returns. Raises its AresError as it is; SourceError or PluginError for anything else.

    The call may add no more memory to the process than the budget, and take as long as a record from one file to the
    next. Links must not lead out of `folder`, unless `follow_links` is set.
    """
    listing = partial(call_with_file_time_limit, input_budgets().record_seconds, call)
    return _call_guarded(ingester, listing, folder, follow_links)


def _call_guarded(
    ingester: str, call: Callable[[], T], folder: str, follow_links: bool, *, limits_memory: bool = True
) -> T:
    with (
        plugin_faults(ingesters.label(ingester)),
        limited_memory() if limits_memory else nullcontext(),
        refuse_outside_links(folder, follow_links),
    ):
        try:
            return call()
        except OSError as error:  # a disk or a server that fails is no fault of the ingester
            raise SourceError(
                "file cannot be read", f"{error.filename or ''}: {describe_os_error(error)}"
            ) from error


def append_items_safely(source: Source, items: Iterator[Any], listed: list[Any]) -> None:
    """Append the next items of a source, none at its end. Raises as `call_ingester_safely`, without its limit.

    What was listed before an error is in `listed`.
    """
    listing = partial(_list_available_items, items, listed)
    limited = partial(call_with_file_time_limit, input_budgets().record_seconds, listing)
    _call_guarded(source.format, limited, source.folder, source.follow_links, limits_memory=False)


def _list_available_items(items: Iterator[Any], listed: list[Any]) -> None:
    """Append at least one item, and as many as come at once: a deadline for each takes longer than to list it."""
    started = time.monotonic()
    for item in items:
        listed.append(item)
        if len(listed) == _MOST_LISTED or time.monotonic() - started > _SECONDS_TO_LIST:
            return


class GuardedItems:
    """The items of a source, up to the first exception that the ingester raises while it lists them.

    Args:
        source: The source.

    Attributes:
        error: What ended the list early, or None.
        is_exhausted: Whether all items were listed.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.error: AresError | None = None
        self.is_exhausted = False

    def __iter__(self) -> Iterator[Item]:
        items: Iterator[Any] = iter(self._source.items)
        count = 0
        while True:
            listed: list[Any] = []
            error = self._list(items, listed)
            for item in listed:
                fault = self._fault(item, count)
                if isinstance(fault, AresError):
                    self.error = fault
                    return
                count += 1
                yield fault or item
            if error or not listed:
                self.error, self.is_exhausted = error, not error
                return

    def _list(self, items: Iterator[Any], listed: list[Any]) -> AresError | None:
        try:
            append_items_safely(self._source, items, listed)
        except (PluginError, SourceError) as error:
            return error
        return None

    def _fault(self, item: Any, count: int) -> AresError | Item | None:
        """Why the list ends before an item, or what stands for an item without an id: one that fails. Else None."""
        if count == input_budgets().members:
            folder = self._source.folder
            return SourceError("dataset lists more episodes than allowed", f"{folder}: more than {count}")
        is_item = isinstance(item, Item)
        if is_item and isinstance(item.episode_id, str) and _EPISODE_ID.fullmatch(item.episode_id):
            return None
        label = ingesters.label(self._source.format)
        if not is_item:
            return PluginError(f"{label} listed something that is no Item", f"got a {type(item).__name__}")
        error = PluginError(
            f"{label} listed an Item without an id",
            f"{item.location}: got {item.episode_id!r}; use make_episode_id, or make it a FileIngester",
        )
        return failing_item("", f"{item.location}", error)
