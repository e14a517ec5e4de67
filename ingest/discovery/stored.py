"""The datasets that a workspace knows, and the folders that they were read from: their names stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ares.store import Stores

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
            folder=_folder(source, key, dataset),
        )
        for format_name, dataset, version, source, key in _examples(stores)
    )


def _examples(stores: Stores) -> Iterator[tuple[str, str, str, str, str]]:
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


def _folder(source: str, key: str, dataset: str) -> str:
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
