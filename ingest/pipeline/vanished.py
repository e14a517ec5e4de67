"""Episodes of a workspace whose records the source no longer has: they are told of, and never deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ares.jobs import Report
from ares.store.filters import quote_literal
from ingest.base import Source

if TYPE_CHECKING:
    from ares.store import Stores
    from ingest.discovery import StoredDataset

_RECORDS_GONE = "episodes stay stored whose records are no longer in the source"
_DATASETS_GONE = "episodes stay stored whose dataset is no longer below the path"


def warn_of_missing_records(
    stores: Stores, source: Source, missing_ids: Collection[str], counts: Report
) -> None:
    """Warn of stored episodes that were read from the folder of a source and are no longer listed by it.

    Args:
        stores: The workspace.
        source: The source; all of it was listed.
        missing_ids: Stored episodes of its dataset that it did not list.
        counts: Where the warning is counted.
    """
    if not missing_ids or not source.folder:
        return
    where = f"format = {quote_literal(source.format)} AND dataset = {quote_literal(source.dataset)}"
    ids = set(missing_ids)
    for batch in stores.tables.episodes.scan(["episode_id", "source"], where):
        for episode_id, path in zip(
            batch["episode_id"].to_pylist(), batch["source"].to_pylist(), strict=True
        ):
            if episode_id in ids and _lies_at(path, source.folder):
                counts.add_warning(_RECORDS_GONE, f"{episode_id}, read from {path}")


def warn_of_missing_datasets(
    stores: Stores,
    stored: Sequence[StoredDataset],
    sources: Sequence[Source],
    paths: Sequence[str],
    counts: Report,
) -> None:
    """Warn of stored datasets that were read from below the paths and of which nothing was there this time."""
    present = {(source.format, source.dataset, source.version) for source in sources}
    for dataset in stored:
        identity = (dataset.format, dataset.dataset, dataset.version)
        if identity in present or not any(_lies_at(dataset.source, path) for path in paths):
            continue
        columns = zip(("format", "dataset", "version"), identity, strict=True)
        where = " AND ".join(f"{name} = {quote_literal(value)}" for name, value in columns)
        counts.add_warning(
            _DATASETS_GONE,
            f"{dataset.dataset}, read from {dataset.source}",
            stores.tables.episodes.count(where),
        )


def _lies_at(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
