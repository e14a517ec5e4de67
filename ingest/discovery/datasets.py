"""Finds and opens every dataset of every format in a tree; each file of the tree goes to one of them at most."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ares.errors import AresError, PluginError, RequestError, SourceError
from ares.io import FolderEntries, known_folders
from ares.registry import ingesters
from ingest.base import Ingester, IngestOptions, Source, SourceFile
from ingest.discovery.boundaries import UsedFiles, lies_in, loose_roots, path_listings, view
from ingest.discovery.stored import StoredDataset
from ingest.discovery.tree import FolderTree
from ingest.guard import guarded_call
from ingest.mapping import open_with_spec


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
    """

    format: str
    path: str
    ingester: Ingester
    options: IngestOptions
    listings: Mapping[str, FolderEntries]
    opened_at: str = ""
    declared: bool = False
    sources: list[Source] = field(default_factory=list)
    files: list[SourceFile] = field(default_factory=list)
    error: AresError | None = None

    def reopen(self, options: IngestOptions) -> list[Source]:
        """Its sources with other options. Raises what the ingester raises."""
        self.options = options
        sources = _open(self.ingester, self.opened_at, options, self.listings)
        if self.opened_at != self.path:
            sources = [replace(source, folder=self.path) for source in sources]
        if options.follow_links:
            sources = [replace(source, follow_links=True) for source in sources]
        self.sources = sources
        return sources


@dataclass(slots=True, kw_only=True)
class TreeReader:
    """Opens the datasets of one tree.

    Attributes:
        tree: The tree.
        ingesters: The formats to ask.
        options_of: The options for the dataset of a format at a path.
        known: By format, folders that the workspace knows as datasets of it.
        requested: Formats that the user gave to some folders, by path.
        above: By format, the dataset of the workspace that the whole tree is a part of.
        used_files: Files that opened datasets have accounted for.
    """

    tree: FolderTree
    ingesters: Sequence[Ingester]
    options_of: Callable[[str, str], IngestOptions]
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
        used = frozenset[str]().union(*(ingester.uses for ingester in self.ingesters))
        for ingester in sorted(self.ingesters, key=lambda ingester: ingester.name in used):
            if self.tree.file or ingester.claims is None:
                yield from self._open_recognised(ingester)
            else:
                yield from self._open_loose(ingester)

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

    def _open_loose(self, ingester: Ingester) -> Iterator[OpenedDataset]:
        known = self.known.get(ingester.name, ())
        try:
            roots = loose_roots(self.tree, ingester, self.ingesters, self.used_files, known, self._opened)
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
            recognised = guarded_call(
                ingester.name, partial(ingester.recognises, path), path, self.tree.follow_links
            )
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
            if claim == "dataset" and not lies_in(folder, self.used_files.folders)
        }

    def _open(self, ingester: Ingester, path: str, others: Collection[str]) -> OpenedDataset:
        opened = OpenedDataset(
            format=ingester.name,
            path=path,
            opened_at=path,
            ingester=ingester,
            options=self.options_of(ingester.name, path),
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
            opened.listings = {**opened.listings, **path_listings(above.folder, path, self.tree)}
        try:
            opened.reopen(opened.options)
            opened.files = _list_files(opened)
        except (SourceError, PluginError, RequestError) as error:
            has_options = replace(opened.options, reads_unknown=False, follow_links=False) != IngestOptions()
            if isinstance(error, RequestError) and has_options:
                raise
            opened.error = error
            self.used_files.folders.add(path)
        for file in opened.files:
            self.used_files.add(file.path)
        self._opened[path] = None
        return opened


def _open(
    ingester: Ingester, path: str, options: IngestOptions, listings: Mapping[str, FolderEntries]
) -> list[Source]:
    with known_folders(listings):
        open_path = partial(open_with_spec, ingester, path, options)
        sources = guarded_call(ingester.name, open_path, path, options.follow_links)
    if not isinstance(sources, list) or not all(isinstance(source, Source) for source in sources):
        raise PluginError(
            f"{ingesters.label(ingester.name)} opened no list of sources", f"got a {type(sources).__name__}"
        )
    return sources


def _list_files(opened: OpenedDataset) -> list[SourceFile]:
    """The files that the sources list; a fault while they are listed becomes a warning of the source."""
    files: list[SourceFile] = []
    for number, source in enumerate(opened.sources):
        try:
            with known_folders(opened.listings):
                files += guarded_call(
                    opened.format, partial(_files_of, source), source.folder, source.follow_links
                )
        except AresError as error:
            warning = "the files of the dataset could not be listed"
            opened.sources[number] = replace(source, warnings=(*source.warnings, f"{warning}: {error}"))
    return files


def _files_of(source: Source) -> list[SourceFile]:
    return list(source.files())
