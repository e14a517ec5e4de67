"""Finds and opens every dataset of a tree: where each begins, and which the workspace knows."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ares.errors import AresError, MissingExtra, PluginError, RequestError, SourceError
from ares.input import EpisodeNames, is_table
from ares.io import FolderEntries, is_url, use_folder_listings
from ares.registry import ingesters
from ares_ingest.base import (
    FolderIngester,
    Ingester,
    Source,
    SourceFile,
    SourceOptions,
    SpecIngester,
    hash_stated,
)
from ares_ingest.discovery.tree import FolderTree, SortedPaths, ask
from ares_ingest.files import MOST_LABEL_FILES
from ares_ingest.guarded_loading import GuardedItems, call_ingester_safely
from ares_ingest.label_files import read_possible_names
from ares_ingest.labels import hide_labels, open_with_labels

if TYPE_CHECKING:
    from ares.store import Stores


class UsedFiles:
    """Files of a tree that an opened dataset has accounted for, by folder.

    Attributes:
        names: Names of such files by the path of their folder.
        folders: Folders all of whose content belongs to a dataset that could not be opened.
    """

    def __init__(self) -> None:
        self.names: dict[str, set[str]] = {}
        self.folders: set[str] = set()

    def add(self, path: str) -> None:
        """Take a file."""
        folder, _, name = path.rpartition("/")
        self.names.setdefault(folder, set()).add(name)

    def rest_of(self, entries: FolderEntries) -> FolderEntries:
        """The folder without the files that are taken."""
        names = self.names.get(str(entries.path))
        if not names:
            return entries
        files = {name: size for name, size in entries.files.items() if name not in names}
        if len(files) == len(entries.files):
            return entries
        suffixes = (
            suffix
            for suffix in entries.suffixes
            if any(_is_visible_with_suffix(name, suffix) for name in files)
        )
        return replace(entries, files=files, suffixes=frozenset(suffixes))


def _is_visible_with_suffix(name: str, suffix: str) -> bool:
    return not name.startswith(".") and name.lower().endswith(suffix)


def view(
    tree: FolderTree, folder: str, used_files: UsedFiles, without: Collection[str] = ()
) -> dict[str, FolderEntries]:
    """The listings of a subtree without files that are taken and without some folders, for one reader."""
    hidden = {path for path in (*without, *used_files.folders) if path != folder}
    listings = {}
    waiting = [folder]
    while waiting:
        entries = tree.folders.get(waiting.pop())
        if entries is None:
            continue
        listings[str(entries.path)] = used_files.rest_of(entries)
        below = (str(entries.path / name) for name in entries.folders)
        waiting += [path for path in below if path not in hidden]
    return listings


def make_path_listings(folder: str, path: str, tree: FolderTree) -> dict[str, FolderEntries]:
    """Listings of the folders from one down to the tree, each with nothing but the next in it."""
    listings: dict[str, FolderEntries] = {}
    at = child = tree.root
    while str(child) != folder and child != child.parent:
        parent = child.parent
        listings[str(parent)] = FolderEntries(path=parent, folders=(child.name,))
        child = parent
    if path != str(at) and not tree.file:
        relative = path[len(str(at)) + 1 :].split("/")
        for name in relative:
            listings[str(at)] = FolderEntries(path=at, folders=(name,))
            at /= name
    return listings


def find_loose_record_folders(
    tree: FolderTree,
    ingester: FolderIngester,
    ingesters: Iterable[FolderIngester],
    used_files: UsedFiles,
    known: Collection[str],
    opened: Collection[str] = (),
) -> list[str]:
    """The folders of the datasets that loose records of a format make, sorted.

    A folder is one dataset when it holds records itself, when only this format lies below it, when the format says
    that what lies in its subfolders belongs together, or when the workspace knows it as one.

    Args:
        tree: The tree.
        ingester: The format.
        ingesters: All formats.
        used_files: Files that other datasets use.
        known: Folders that the workspace knows as datasets of the format.
        opened: Folders of the datasets of all formats that were opened before.
    """
    holders = _folders_with_records(tree, ingester, used_files)
    if not holders:
        return []
    holder_paths = SortedPaths(holders)
    others = SortedPaths((*_other_data(tree, ingester, ingesters, used_files, holders), *known))
    known_paths, opened_paths = SortedPaths(known), SortedPaths(opened)
    roots: list[str] = []
    waiting = [str(tree.root)]
    while waiting:
        folder = waiting.pop()
        if not holder_paths.any_below(folder):
            continue
        is_mixed = others.any_below(folder) or any(path != folder for path in opened_paths.below(folder))
        is_root = folder in holders or folder in known or not is_mixed
        if is_root or _joins_subfolders(tree, ingester, folder, used_files):
            roots += {folder: None, **dict.fromkeys(known_paths.below(folder))}
        else:
            waiting += reversed(tree.children(folder))
    return roots


def _folders_with_records(tree: FolderTree, ingester: FolderIngester, used_files: UsedFiles) -> set[str]:
    """Folders in which records of a format lie that no dataset has taken; for a store, the folder that holds it."""
    holders: set[str] = set()
    for path, claim in tree.claims.get(ingester.name, {}).items():
        entries = tree.folders[path]
        if claim == "dataset" or is_in_any_folder(path, used_files.folders):
            continue
        rest = used_files.rest_of(entries)
        if rest is not entries and ask(ingester, rest) is None:
            continue
        is_inner_store = claim == "store" and entries.path != tree.root
        holders.add(str(entries.path.parent) if is_inner_store else path)
    return holders


def _other_data(
    tree: FolderTree,
    ingester: FolderIngester,
    ingesters: Iterable[FolderIngester],
    used_files: UsedFiles,
    holders: Collection[str],
) -> set[str]:
    """Folders with data of other formats, but for those that this format may use among its records."""
    others: set[str] = set()
    for other in ingesters:
        claims = tree.claims.get(other.name, {})
        others.update(path for path, claim in claims.items() if claim == "dataset")
        if other.name == ingester.name:
            continue
        loose = _folders_with_records(tree, other, used_files)
        is_used = other.name in ingester.uses
        others.update(path for path in loose if not (is_used and is_in_any_folder(path, holders)))
    return others


def is_in_any_folder(path: str, folders: Collection[str]) -> bool:
    """Whether a folder is one of some folders or lies in one."""
    while folders and path not in folders:
        parent, _, _ = path.rpartition("/")
        if not parent or parent == path:
            return False
        path = parent
    return bool(folders)


def _joins_subfolders(tree: FolderTree, ingester: FolderIngester, folder: str, used_files: UsedFiles) -> bool:
    listings = view(tree, folder, used_files)
    names = [
        f"{path[len(folder) + 1 :]}/{name}" if path != folder else name
        for path, entries in listings.items()
        for name in entries.files
    ]
    return ingester.joins(names)


_COLUMNS = ("format", "dataset", "version", "source", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDataset:
    """A dataset of a workspace.

    Attributes:
        format: Name of its ingester.
        dataset: Its name.
        version: Its version.
        source: File of one of its episodes.
        folder: The folder that its keys are relative to, or "" where that is not known.
    """

    format: str
    dataset: str
    version: str
    source: str
    folder: str


def stored_datasets(stores: Stores) -> tuple[StoredDataset, ...]:
    """Every dataset of a workspace, by one episode of each."""
    return tuple(
        StoredDataset(
            format=format_name,
            dataset=dataset,
            version=version,
            source=source,
            folder=_dataset_folder(source, key, dataset),
        )
        for format_name, dataset, version, source, key in _example_episodes(stores)
    )


def _example_episodes(stores: Stores) -> Iterator[tuple[str, str, str, str, str]]:
    if not stores.tables.episodes.count():
        return
    seen: set[tuple[str, str, str]] = set()
    for batch in stores.tables.episodes.scan(list(_COLUMNS)):
        import pyarrow as pa

        table = pa.Table.from_batches([batch])
        examples = table.group_by(list(_COLUMNS[:3]), use_threads=False).aggregate(
            [("source", "first"), ("key", "first")]
        )
        for row in examples.to_pylist():
            identity = (row["format"], row["dataset"], row["version"])
            if identity not in seen:
                seen.add(identity)
                yield (*identity, row["source_first"], row["key_first"])


def _dataset_folder(source: str, key: str, dataset: str) -> str:
    """The folder in which a source file has the path that its key begins with, else the one of the dataset's name.

    The longest such path counts: a store "d" may hold a folder "d", and "d/d" is then a path, not a part of "d".
    """
    scheme, separator, path = source.rpartition("://")
    for folder in reversed(PurePosixPath(path).parents):
        relative = path[len(str(folder)) :].lstrip("/")
        if key == relative or key.startswith((relative + "/", relative + "#")):
            return f"{scheme}{separator}{folder}"
    named = next((folder for folder in PurePosixPath(path).parents if folder.name == dataset), "")
    return f"{scheme}{separator}{named}" if named else ""


@dataclass(slots=True, kw_only=True, eq=False)
class OpenedDataset:
    """A dataset of a tree: opened, or why it could not be.

    Attributes:
        format: Name of its ingester.
        path: Its folder or file.
        ingester: The ingester.
        options: What it was opened with.
        listings: What the reader was shown of the tree.
        declared: Whether the folder says itself that it is a dataset, so that its path is no part of its records' keys.
        opened_at: The folder that it is opened at: `path`, or that of the stored dataset that it is a part of.
        sources: What the ingester opened; several only of one that finds its datasets itself.
        files: The files that the sources list.
        error: Why it could not be opened, or None.
        warnings: Reasons to warn of it that its reader cannot know.
    """

    format: str
    path: str
    ingester: Ingester
    options: SourceOptions
    listings: Mapping[str, FolderEntries]
    opened_at: str = ""
    declared: bool = False
    sources: list[Source] = field(default_factory=list)
    files: list[SourceFile] = field(default_factory=list)
    error: AresError | None = None
    warnings: tuple[str, ...] = ()

    def add_warnings(self, warnings: Iterable[str]) -> None:
        """Add reasons to warn of it, now and where it is opened again."""
        added = tuple(warnings)
        self.warnings += added
        self.sources = [replace(source, warnings=(*source.warnings, *added)) for source in self.sources]

    def reopen(self, options: SourceOptions) -> list[Source]:
        """Its sources with other options. Raises what the ingester raises."""
        self.options = options
        sources = _open_with_ingester(self.ingester, self.opened_at, options, self.listings)
        if self.opened_at != self.path:
            sources = [hide_labels(replace(source, folder=self.path)) for source in sources]
        elif Path(self.path).is_file():
            sources = list(map(hide_labels, sources))
        stated = hash_stated(options)
        self.sources = sources = [
            replace(source, stated=stated, options=options, warnings=(*source.warnings, *self.warnings))
            for source in sources
        ]
        return sources


@dataclass(slots=True, kw_only=True)
class TreeDatasetOpener:
    """Opens the datasets of one tree.

    Attributes:
        tree: The tree.
        ingesters: The formats to ask.
        options_of: The options for the dataset at a path.
        known: By format, folders that the workspace knows as datasets of it.
        requested: Formats that the user gave to some folders, by path.
        above: By format, the dataset of the workspace that the whole tree is a part of.
        used_files: Files that opened datasets have accounted for.
    """

    tree: FolderTree
    ingesters: Sequence[Ingester]
    options_of: Callable[[str], SourceOptions]
    known: Mapping[str, Collection[str]] = field(default_factory=dict)
    requested: Mapping[str, str] = field(default_factory=dict)
    above: Mapping[str, StoredDataset] = field(default_factory=dict)
    used_files: UsedFiles = field(default_factory=UsedFiles)
    _opened: dict[str, None] = field(default_factory=dict)

    def open_all(self) -> Iterator[OpenedDataset]:
        """Open every dataset: those that the user named, those that say so themselves, then loose records."""
        yield from self._open_requested()
        for ingester in self.ingesters:
            yield from self._open_declared(ingester)
        used = frozenset[str]().union(*(ingester.uses for ingester in self._folder_ingesters()))
        for ingester in sorted(self.ingesters, key=lambda ingester: ingester.name in used):
            if isinstance(ingester, FolderIngester) and not self.tree.file:
                yield from self._open_loose(ingester)
            else:
                yield from self._open_recognised(ingester)

    def warn_of_tables_above(self, datasets: Sequence[OpenedDataset]) -> None:
        """Warn of the tables of no dataset that lie in the folder above some and name their episodes."""
        by_folder: dict[str, list[OpenedDataset]] = {}
        for opened in datasets:
            by_folder.setdefault(opened.path.rpartition("/")[0], []).append(opened)
        for folder, below in by_folder.items():
            entries = None if is_url(folder) else self.tree.folders.get(folder)
            others = self.used_files.rest_of(entries).files if entries else ()
            tables = [f"{folder}/{name}" for name in others if is_table(name)][:MOST_LABEL_FILES]
            texts = {path: names for path in tables if (names := read_possible_names(Path(path)))}
            for opened in (opened for opened in below if opened.sources and texts):
                with suppress(AresError):  # who lists its episodes tells the fault
                    again = replace(opened).reopen(opened.options)
                    episodes = EpisodeNames([item.key for source in again for item in GuardedItems(source)])
                    opened.add_warnings(
                        f"{posixpath.basename(path)} above its folder names its episodes and is not read: "
                        f"move it to {opened.path}"
                        for path in texts
                        if any(map(episodes.find_text, texts[path]))
                    )

    def _folder_ingesters(self) -> list[FolderIngester]:
        return [ingester for ingester in self.ingesters if isinstance(ingester, FolderIngester)]

    def _open_requested(self) -> Iterator[OpenedDataset]:
        by_name = {ingester.name: ingester for ingester in self.ingesters}
        for path, format_name in sorted(self.requested.items(), reverse=True):
            if path in self.tree.folders and format_name in by_name:
                yield self._open(by_name[format_name], path, self._declared_folders())
                self.used_files.folders.add(path)

    def _open_declared(self, ingester: Ingester) -> Iterator[OpenedDataset]:
        declared = self._declared_folders()
        for path in sorted(self.tree.claims.get(ingester.name, {}), reverse=True):
            if path in declared and self.tree.claims[ingester.name][path] == "dataset":
                opened = self._open(ingester, path, declared)
                opened.declared = True
                yield opened

    def _open_loose(self, ingester: FolderIngester) -> Iterator[OpenedDataset]:
        known = self.known.get(ingester.name, ())
        try:
            roots = find_loose_record_folders(
                self.tree, ingester, self._folder_ingesters(), self.used_files, known, self._opened
            )
        except AresError as error:
            self.tree.faults[ingester.name] = error
            return
        for root in roots:
            yield self._open(ingester, root, roots)

    def _open_recognised(self, ingester: Ingester) -> Iterator[OpenedDataset]:
        """Open the path itself where the ingester recognises it: a single file, or for an ingester without `claims`."""
        path = self.tree.file or str(self.tree.root)
        if self.tree.file and self.used_files.names:
            return
        try:
            recognised = call_ingester_safely(ingester.name, partial(ingester.recognises, path), path)
        except AresError as error:
            self.tree.faults[ingester.name] = error
            return
        if recognised:
            opened = self._open(ingester, path, ())
            if self.tree.file:
                self.used_files.add(path)
            yield opened

    def _declared_folders(self) -> set[str]:
        """Folders that some format claims as a dataset, but for those inside a folder that could not be opened."""
        return {
            folder
            for claims in self.tree.claims.values()
            for folder, claim in claims.items()
            if claim == "dataset" and not is_in_any_folder(folder, self.used_files.folders)
        }

    def _open(self, ingester: Ingester, path: str, others: Collection[str]) -> OpenedDataset:
        opened = OpenedDataset(
            format=ingester.name,
            path=path,
            opened_at=path,
            ingester=ingester,
            options=self.options_of(path),
            listings=view(
                self.tree, str(self.tree.root) if self.tree.file else path, self.used_files, others
            ),
        )
        above = self.above.get(ingester.name)
        if (
            above
            and self.tree.claims.get(ingester.name, {}).get(path) != "dataset"
            and not opened.options.dataset
        ):
            opened.opened_at = above.folder
            opened.options = replace(opened.options, dataset=above.dataset)
            opened.listings = {**opened.listings, **make_path_listings(above.folder, path, self.tree)}
        try:
            opened.reopen(opened.options)
            opened.files = _list_files(opened)
        except (SourceError, PluginError, RequestError) as error:
            has_options = replace(opened.options, reads_unknown=False) != SourceOptions()
            is_of_options = isinstance(error, RequestError) and not isinstance(error, MissingExtra)
            if is_of_options and has_options:
                raise
            opened.error = error
            self.used_files.folders.add(path)
        for file in opened.files:
            self.used_files.add(file.path)
        self._opened[path] = None
        return opened


def _open_with_ingester(
    ingester: Ingester, path: str, options: SourceOptions, listings: Mapping[str, FolderEntries]
) -> list[Source]:
    with use_folder_listings(listings):
        opens = partial(_open_path, ingester, path, options)
        sources = call_ingester_safely(ingester.name, opens, path)
    if not isinstance(sources, list) or not all(isinstance(source, Source) for source in sources):
        raise PluginError(
            f"{ingesters.label(ingester.name)} opened no list of sources", f"got a {type(sources).__name__}"
        )
    return sources


def _open_path(ingester: Ingester, path: str, options: SourceOptions) -> list[Source]:
    if not options.spec or isinstance(ingester, SpecIngester):
        sources = ingester.open(path, options)
        return open_with_labels(partial(ingester.open, path, options), sources, _read_spans(options.spec))
    from ares_ingest.mapping import open_with_spec

    return open_with_spec(ingester, path, options)


def _read_spans(spec: str) -> str:
    """The file of spans that a spec names, for an ingester that reads specs itself; "" for none."""
    if not spec:
        return ""
    from ares_ingest.spec import read_spec

    return read_spec(Path(spec)).spans


def _list_files(opened: OpenedDataset) -> list[SourceFile]:
    """The files that the sources list; a fault while they are listed becomes a warning of the source."""
    files: list[SourceFile] = []
    for number, source in enumerate(opened.sources):
        try:
            with use_folder_listings(opened.listings):
                files += call_ingester_safely(opened.format, partial(_files_of, source), source.folder)
        except AresError as error:
            warning = "the files of the dataset could not be listed"
            opened.sources[number] = replace(source, warnings=(*source.warnings, f"{warning}: {error}"))
    return files


def _files_of(source: Source) -> list[SourceFile]:
    return list(source.files())
