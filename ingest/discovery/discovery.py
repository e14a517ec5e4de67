"""Finds every dataset at and below some paths, opens it with its options, and accounts for every file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.console import announce_if_slow
from ares.errors import AresError, PluginError, RequestError
from ares.io import existing_path, is_url
from ares.jobs import IngestPlan, PlannedDataset, UnreadFile
from ares.registry import ingesters as registered
from ares_ingest.base import FileUse, FolderIngester, Ingester, SourceFile, SourceOptions
from ares_ingest.discovery.datasets import OpenedDataset, StoredDataset, TreeDatasetOpener
from ares_ingest.discovery.tree import (
    FolderTree,
    classify_unclaimed_file,
    find_data_placeholder,
    walk_folder_tree,
)

if TYPE_CHECKING:
    from ares.jobs import IngestRequest
    from ares_ingest.discovery.options_file import UserDatasetOptions


_READ: tuple[FileUse, ...] = ("data", "metadata")
# What a reader says of a file gives way to what the file is: data that was not fetched is a pointer.
_MAY_BE_POINTER: tuple[FileUse, ...] = ("data", "metadata", "unreadable", "unused")


def make_ingest_plan(
    trees: Iterable[FolderTree], datasets: Sequence[OpenedDataset], skipped: Sequence[OpenedDataset] = ()
) -> IngestPlan:
    """The plan of an ingestion.

    Args:
        trees: The trees.
        datasets: The datasets that are read.
        skipped: Datasets that the user left out; their files count as no data.
    """
    counts: Counter[str] = Counter()
    left: list[UnreadFile] = []
    uses = _mentioned_files(datasets, skipped)
    opaque = [opened for opened in datasets if opened.sources and not opened.files]
    failed = {opened.path: str(opened.error) for opened in datasets if opened.error is not None}
    for tree in trees:
        for file in _files_of(tree, uses, opaque, failed):
            counts[file.use] += 1
            if file.use not in _READ:
                left.append(UnreadFile(path=file.path, use=file.use, detail=file.detail))
    return IngestPlan(
        datasets=tuple(planned for opened in datasets for planned in _planned_datasets(opened)),
        file_counts=dict(sorted(counts.items())),
        left_files=tuple(left),
    )


def _mentioned_files(
    datasets: Iterable[OpenedDataset], skipped: Iterable[OpenedDataset]
) -> dict[str, SourceFile]:
    """What the datasets say of their files, by path; a file that several mention is data where one says so."""
    uses: dict[str, SourceFile] = {}
    for opened in skipped:
        for file in opened.files:
            uses[file.path] = SourceFile(path=file.path, use="not_data", detail="left out as asked")
    for opened in datasets:
        for file in opened.files:
            if file.path not in uses or uses[file.path].use != "data":
                uses[file.path] = file
    return uses


def _files_of(
    tree: FolderTree,
    uses: Mapping[str, SourceFile],
    opaque: Sequence[OpenedDataset],
    failed: dict[str, str],
) -> Iterator[SourceFile]:
    yield from tree.left_out
    for folder, entries in tree.folders.items():
        if tree.is_store(folder):
            unread = SourceFile(path=folder, use="unused", detail="no format reads it")
            yield uses.get(folder, unread)
            continue
        unlisted = any(_folder_holds(opened.path, folder) for opened in opaque)
        error = next((text for path, text in failed.items() if _folder_holds(path, folder)), "")
        for name, size in entries.files.items():
            path = f"{entries.path}/{name}"
            mention = uses.get(path)
            is_missing = name in entries.missing
            if mention is None and unlisted:
                mention = SourceFile(path=path, use="data")
            may_be_pointer = mention is not None and mention.use in _MAY_BE_POINTER
            if may_be_pointer and (stand_in := find_data_placeholder(path, size, is_missing=is_missing)):
                yield SourceFile(path=path, use=stand_in.use, detail=stand_in.detail)
            elif mention is not None:
                yield mention
            else:
                use, detail = classify_unclaimed_file(path, name, size, is_missing=is_missing)
                yield SourceFile(path=path, use=use, detail=error if error and use == "unused" else detail)


def _folder_holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _planned_datasets(opened: OpenedDataset) -> Iterator[PlannedDataset]:
    if opened.error is not None:
        yield PlannedDataset(path=opened.path, format=opened.format, dataset="", error=str(opened.error))
    paths = [file.path for file in opened.files if file.use in _READ]
    num_bytes = sum(_listed_size(opened, path) for path in paths)
    for source in opened.sources:
        yield PlannedDataset(
            path=source.folder or opened.path,
            format=source.format,
            dataset=source.dataset,
            version=source.version,
            episodes=source.total,
            rate_hz=source.rate_hz,
            cameras=source.cameras,
            files=len(paths),
            bytes=num_bytes,
            not_understood=source.warnings,
        )


def _listed_size(opened: OpenedDataset, path: str) -> int:
    folder, _, name = path.rpartition("/")
    entries = opened.listings.get(folder)
    if entries is not None and name in entries.files:
        return entries.files[name]
    return _store_size(path) if path in opened.listings and not is_url(path) else 0


def _store_size(folder: str) -> int:
    return sum(
        (Path(parent) / name).lstat().st_size for parent, _, names in os.walk(folder) for name in names
    )


# Two endings that belong together, as in "x.tar.gz".
_PACKED = (".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")


class _Group(NamedTuple):
    use: str
    suffix: str
    detail: str


def unread_file_lines(left_files: Iterable[UnreadFile], limit: int) -> Iterator[str]:
    """One line for each kind of file, use and reason, the most frequent first, with the first file of each.

    Args:
        left_files: The files.
        limit: Lines at most, and one that counts the files that they leave out.
    """
    groups: dict[_Group, list[str]] = {}
    for file in left_files:
        groups.setdefault(_Group(file.use, _file_suffix(file.path), file.detail), []).append(file.path)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    for group, paths in ordered[:limit]:
        yield _group_line(group, paths)
    rest = sum(len(paths) for _, paths in ordered[limit:])
    if rest:
        yield f"... and {rest} more; --json lists them all"


def _group_line(group: _Group, paths: list[str]) -> str:
    if len(paths) == 1:
        return f"{group.use}: {paths[0]}: {group.detail}"
    kind = f"{group.suffix} files" if group.suffix else "files"
    return f"{group.use}: {len(paths)} {kind}, the first {paths[0]}: {group.detail}"


def _file_suffix(path: str) -> str:
    name = path.rpartition("/")[2].lower()
    packed = next((suffix for suffix in _PACKED if name.endswith(suffix)), "")
    stem, dot, suffix = name.rpartition(".")
    return packed or (f"{dot}{suffix}" if stem and dot else "")


# Kinds of files that the message about a folder without a dataset names.
_SHOWN_KINDS = 4


@dataclass(slots=True, kw_only=True)
class DiscoveredData:
    """What lies at and below some paths.

    Attributes:
        trees: The folder trees.
        datasets: The datasets to read, opened or with the reason why not.
        skipped: Datasets that are left out as asked.
        faults: Errors of ingesters that could not be asked.
    """

    trees: list[FolderTree] = field(default_factory=list)
    datasets: list[OpenedDataset] = field(default_factory=list)
    skipped: list[OpenedDataset] = field(default_factory=list)
    faults: dict[str, AresError] = field(default_factory=dict)


def discover(
    request: IngestRequest, stored: Sequence[StoredDataset] = (), *, reads_unknown: bool = False
) -> DiscoveredData:
    """Find and open the datasets at and below the paths of a request.

    Args:
        request: The paths, and what the user says of the datasets there.
        stored: Datasets that the workspace knows.
        reads_unknown: Whether files of no known family are read, see `SourceOptions`.

    Raises:
        RequestError: A path does not exist or holds no dataset of the format; a name, rate or spec is given and there
            are several datasets; or the options file is wrong, or names a path without a dataset.
        SourceError: There is one dataset, and it cannot be opened.
        PluginError: As SourceError, or the named format cannot be imported.
    """
    named = _read_options(request.options) if request.options else {}
    search = _Search(request, named, stored, reads_unknown)
    formats = _import_ingesters(request.format)
    discovery = DiscoveredData(faults=dict(formats.faults))
    for path in request.sources:
        if path.startswith("tfds:"):
            folder = f"~/tensorflow_datasets/{path.removeprefix('tfds:').replace(':', '/')}"
            raise RequestError(
                f"{path!r} is no path", f"give the folder of the prepared dataset, such as {folder}"
            )
        location = existing_path(path)
        if any(str(location) in tree.folders and not tree.file for tree in discovery.trees):
            continue  # below a path that was given too
        with announce_if_slow(f"looking at the folder {path}"):
            _discover_path(discovery, path, search, formats)
    if named:
        _check_options(named, discovery)
    if len(discovery.datasets) == 1 and discovery.datasets[0].error is not None:
        raise discovery.datasets[0].error
    refuse_options_for_several(request, discovery.datasets)
    _refuse_options_of_other_formats(discovery.datasets)
    discovery.datasets.sort(key=lambda opened: (opened.path, opened.format))
    return discovery


def _read_options(path: str) -> Mapping[str, UserDatasetOptions]:
    """The options file; only it needs pydantic, which takes a while to import."""
    from ares_ingest.discovery.options_file import read_options_file

    return read_options_file(path)


def _check_options(named: Mapping[str, UserDatasetOptions], discovery: DiscoveredData) -> None:
    from ares_ingest.discovery.options_file import check_options_file_paths

    check_options_file_paths(named, [opened.path for opened in (*discovery.datasets, *discovery.skipped)])


@dataclass(frozen=True, slots=True)
class _Search:
    """What is looked for at every path.

    Attributes:
        request: What the user asked for.
        named: Options of single datasets by their path.
        stored: Datasets that the workspace knows.
        reads_unknown: Whether files of no known family are read.
    """

    request: IngestRequest
    named: Mapping[str, UserDatasetOptions]
    stored: Sequence[StoredDataset]
    reads_unknown: bool

    def options_of(self, path: str) -> SourceOptions:
        """What the ingester of the dataset at a path may know."""
        options = self.named.get(path)
        return SourceOptions(
            dataset=options.dataset if options else self.request.dataset,
            rate_hz=options.rate if options else self.request.rate_hz,
            spec=options.spec if options else self.request.spec,
            cameras=options.cameras if options else self.request.cameras,
            reads_unknown=self.reads_unknown,
        )


@dataclass(slots=True)
class _Formats:
    ingesters: list[Ingester] = field(default_factory=list)
    faults: dict[str, AresError] = field(default_factory=dict)


def _import_ingesters(format: str) -> _Formats:
    """All ingesters that can be imported. Raises the error of the one that is named."""
    formats = _Formats()
    if format != "auto":
        import_ingester(format)
    for name in registered.names():
        try:
            formats.ingesters.append(import_ingester(name))
        except PluginError as error:
            formats.faults[name] = error
    return formats


def import_ingester(name: str) -> Ingester:
    """An ingester by name. Raises RequestError for an unknown name, PluginError for something else than an Ingester."""
    ingester: Any = registered.get(name)
    if not isinstance(ingester, Ingester):
        raise PluginError(f"{registered.label(name)} is no Ingester", f"got a {type(ingester).__name__}")
    if hasattr(ingester, "claims") and not isinstance(ingester, FolderIngester):
        raise PluginError(
            f"{registered.label(name)} claims folders and is no FolderIngester",
            f"got a {type(ingester).__name__}; make it a subclass of ares_ingest.base.FolderIngester",
        )
    return ingester


def _discover_path(discovery: DiscoveredData, path: str, search: _Search, formats: _Formats) -> None:
    format, named = search.request.format, search.named
    ingesters = formats.ingesters if format == "auto" else _named_first(formats.ingesters, format)
    tree = walk_folder_tree(existing_path(path), ingesters)
    discovery.trees.append(tree)
    reader = TreeDatasetOpener(
        tree=tree,
        ingesters=ingesters,
        options_of=search.options_of,
        above=_datasets_above(tree, search.stored),
        known=_known_folders(search.stored),
        requested={at: options.format for at, options in named.items() if options.format},
    )
    opened = list(reader.open_all())
    reader.warn_of_tables_above(opened)
    selected = [dataset for dataset in opened if format in ("auto", dataset.format)]
    skipped = [dataset for dataset in selected if dataset.path in named and named[dataset.path].skip]
    if format != "auto" and tree.faults.get(format):
        raise tree.faults[format]
    if not selected:
        names = [ingester.name for ingester in formats.ingesters] if format == "auto" else [format]
        faults = "".join(
            f"; not tried: {fault}" for fault in (*discovery.faults.values(), *tree.faults.values())
        )
        detail = f"formats tried: {', '.join(names)}{faults}{_content_of(tree)}"
        raise RequestError(f"{path!r} is not a recognised dataset", detail)
    discovery.faults.update(tree.faults)
    discovery.datasets += [dataset for dataset in selected if dataset not in skipped]
    discovery.skipped += [*skipped, *(dataset for dataset in opened if dataset not in selected)]


def _content_of(tree: FolderTree) -> str:
    """The files of a tree in which no dataset lies, by kind."""
    plan = make_ingest_plan([tree], [])
    lines = [line.removeprefix("unused: ") for line in unread_file_lines(plan.left_files, _SHOWN_KINDS)]
    return f"; it holds {'; '.join(lines) or 'no file'}"


def _named_first(ingesters: Sequence[Ingester], format: str) -> list[Ingester]:
    """The named ingester alone where it cannot be asked about folders; else all, which bound its datasets."""
    named = import_ingester(format)
    if not isinstance(named, FolderIngester):
        return [named]
    others = (other for other in ingesters if other.name != format)
    return [named, *(other for other in others if isinstance(other, FolderIngester))]


def _known_folders(stored: Sequence[StoredDataset]) -> dict[str, set[str]]:
    folders: dict[str, set[str]] = {}
    for dataset in stored:
        if dataset.folder:
            folders.setdefault(dataset.format, set()).add(dataset.folder)
    return folders


def _datasets_above(tree: FolderTree, stored: Sequence[StoredDataset]) -> dict[str, StoredDataset]:
    """By format, the stored dataset with the deepest folder that has the tree inside it."""
    root = str(tree.root)
    above: dict[str, StoredDataset] = {}
    for dataset in sorted(stored, key=lambda dataset: len(dataset.folder)):
        is_around = dataset.folder and root.startswith(dataset.folder.rstrip("/") + "/")
        if is_around or (tree.file and root == dataset.folder):
            above[dataset.format] = dataset
    return above


def refuse_options_for_several(request: IngestRequest, datasets: Sequence[OpenedDataset]) -> None:
    """Raise RequestError where a name, rate or spec is given and there are several datasets that it could be for."""
    options = {
        "--dataset": request.dataset,
        "--rate": request.rate_hz,
        "--spec": request.spec,
        "--cameras": request.cameras,
    }
    names = [f"{source.dataset} ({source.format})" for opened in datasets for source in opened.sources]
    if request.spec:  # it fails for the datasets that it is not for
        names += [f"{opened.path} ({opened.format})" for opened in datasets if opened.error is not None]
    flag = next((flag for flag, value in options.items() if value), "")
    if not flag or len(names) < 2:
        return
    listed = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    raise RequestError(
        f"{flag} is for one dataset, and there are {len(names)}",
        f"{listed}; name one path, or use --options FILE, which --dry-run --write-options FILE writes",
    )


def _refuse_options_of_other_formats(datasets: Sequence[OpenedDataset]) -> None:
    """Raise RequestError for a pattern of cameras where the dataset is no folder of videos."""
    for opened in datasets:
        if opened.options.cameras and opened.format != "video":
            raise RequestError(
                f"{opened.path!r} takes no --cameras",
                f"{opened.format} datasets name their cameras themselves",
            )
