"""Finds every dataset at and below some paths, and opens it with the options that were given for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ares.errors import AresError, PluginError, RequestError
from ares.io import existing_path
from ares.messages import announce_if_slow
from ares.registry import ingesters as registered
from ingest.base import Ingester, IngestOptions
from ingest.discovery.accounting import make_plan, unread_file_lines
from ingest.discovery.datasets import OpenedDataset, StoredDataset, TreeReader
from ingest.discovery.options_file import check_paths, ingest_options
from ingest.discovery.tree import FolderTree, read_tree

if TYPE_CHECKING:
    from ingest.discovery.options_file import DatasetOptions


# Kinds of files that the message about a folder without a dataset names.
_SHOWN_KINDS = 4


@dataclass(slots=True, kw_only=True)
class Discovery:
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
    paths: Sequence[str],
    options: IngestOptions,
    format: str = "auto",
    by_path: Mapping[str, DatasetOptions] | None = None,
    stored: Sequence[StoredDataset] = (),
) -> Discovery:
    """Find and open the datasets at and below the paths.

    Args:
        paths: Folders, files or URLs.
        options: What the user says of the one dataset that there is.
        format: Name of a format, or "auto".
        by_path: Options of single datasets by their path.
        stored: Datasets that the workspace knows.

    Raises:
        RequestError: A path does not exist or holds no dataset of the format; `options` are given and there are
            several datasets; or no dataset lies at a path of `by_path`.
        SourceError: There is one dataset, and it cannot be opened.
        PluginError: As SourceError, or the named format cannot be imported.
    """
    formats = _import_ingesters(format)
    discovery = Discovery(faults=dict(formats.faults))
    for path in paths:
        location = existing_path(path)
        if any(str(location) in tree.folders and not tree.file for tree in discovery.trees):
            continue  # below a path that was given too
        with announce_if_slow(f"looking at the folder {path}"):
            _discover_path(discovery, path, options, format, formats, by_path or {}, stored)
    check_paths(by_path or {}, [opened.path for opened in (*discovery.datasets, *discovery.skipped)])
    if len(discovery.datasets) == 1 and discovery.datasets[0].error is not None:
        raise discovery.datasets[0].error
    refuse_options_for_several(options, discovery.datasets)
    _refuse_options_of_other_formats(discovery.datasets)
    discovery.datasets.sort(key=lambda opened: (opened.path, opened.format))
    return discovery


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
    return ingester


def _discover_path(
    discovery: Discovery,
    path: str,
    options: IngestOptions,
    format: str,
    formats: _Formats,
    by_path: Mapping[str, DatasetOptions],
    stored: Sequence[StoredDataset],
) -> None:
    ingesters = formats.ingesters if format == "auto" else _named_first(formats.ingesters, format)
    tree = read_tree(existing_path(path), ingesters, options.follow_links)
    discovery.trees.append(tree)
    reader = TreeReader(
        tree=tree,
        ingesters=ingesters,
        options_of=lambda name, at: _options_of(at, options, by_path),
        above=_datasets_above(tree, stored),
        known=_known_folders(stored),
        requested={at: named_options.format for at, named_options in by_path.items() if named_options.format},
    )
    opened = list(reader.open_all())
    selected = [dataset for dataset in opened if format in ("auto", dataset.format)]
    skipped = [dataset for dataset in selected if dataset.path in by_path and by_path[dataset.path].skip]
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
    plan = make_plan([tree], [])
    lines = [line.removeprefix("unused: ") for line in unread_file_lines(plan.left_files, _SHOWN_KINDS)]
    return f"; it holds {'; '.join(lines) or 'no file'}"


def _named_first(ingesters: Sequence[Ingester], format: str) -> list[Ingester]:
    """The named ingester alone where it cannot be asked about folders; else all, which bound its datasets."""
    named = import_ingester(format)
    if named.claims is None:
        return [named]
    return [named, *(other for other in ingesters if other.name != format and other.claims is not None)]


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


def _options_of(path: str, options: IngestOptions, by_path: Mapping[str, DatasetOptions]) -> IngestOptions:
    named_options = by_path.get(path)
    if named_options is None:
        return options
    return replace(ingest_options(named_options), follow_links=options.follow_links)


def refuse_options_for_several(options: IngestOptions, datasets: Sequence[OpenedDataset]) -> None:
    """Raise RequestError where a name, rate or spec is given and there are several datasets that it could be for."""
    named_options = {
        "--dataset": options.dataset,
        "--rate": options.rate_hz,
        "--spec": options.spec,
        "--cameras": options.cameras,
    }
    names = [f"{source.dataset} ({source.format})" for opened in datasets for source in opened.sources]
    if options.spec:  # it fails for the datasets that it is not for
        names += [f"{opened.path} ({opened.format})" for opened in datasets if opened.error is not None]
    flag = next((flag for flag, value in named_options.items() if value), "")
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
