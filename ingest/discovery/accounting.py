"""What becomes of every file of a tree, and the unread ones as a few lines of text."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ares.io import is_url
from ares.jobs import IngestPlan, PlannedDataset, UnreadFile
from ingest.base import FileUse, SourceFile
from ingest.discovery.datasets import OpenedDataset
from ingest.discovery.tree import FolderTree, classify_unclaimed_file, find_data_placeholder

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
) -> dict[str, SourceFile | FileUse]:
    """What the datasets say of their files, by path; a file that several mention is data where one says so."""
    uses: dict[str, SourceFile | FileUse] = {}
    for opened in skipped:
        for file in opened.files:
            uses[file.path] = SourceFile(path=file.path, use="not_data", detail="left out as asked")
    for opened in datasets:
        for file in opened.files:
            if uses.get(file.path) != "data":
                uses[file.path] = file if file.detail else file.use
    return uses


def _files_of(
    tree: FolderTree,
    uses: dict[str, SourceFile | FileUse],
    opaque: Sequence[OpenedDataset],
    failed: dict[str, str],
) -> Iterator[SourceFile]:
    yield from tree.left_out
    for folder, entries in tree.folders.items():
        if tree.is_store(folder):
            mention = uses.get(folder)
            yield (
                _as_file(folder, mention)
                if mention
                else SourceFile(path=folder, use="unused", detail="no format reads it")
            )
            continue
        unlisted = any(_folder_holds(opened.path, folder) for opened in opaque)
        error = next((text for path, text in failed.items() if _folder_holds(path, folder)), "")
        for name, size in entries.files.items():
            path = f"{entries.path}/{name}"
            mention = uses.get(path)
            is_missing = name in entries.missing
            if mention is None and unlisted:
                mention = "data"
            use = mention.use if isinstance(mention, SourceFile) else mention
            if use in _MAY_BE_POINTER and (
                stand_in := find_data_placeholder(path, size, is_missing=is_missing)
            ):
                yield SourceFile(path=path, use=stand_in.use, detail=stand_in.detail)
            elif mention is not None:
                yield _as_file(path, mention)
            else:
                use, detail = classify_unclaimed_file(path, name, size, is_missing=is_missing)
                yield SourceFile(path=path, use=use, detail=error if error and use == "unused" else detail)


def _as_file(path: str, mention: SourceFile | FileUse) -> SourceFile:
    return mention if isinstance(mention, SourceFile) else SourceFile(path=path, use=mention)


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
