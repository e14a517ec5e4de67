"""How much of each dataset a workspace has: what its metadata declares, what was there, and what is stored whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from ares.contract import DatasetKey
from ares.jobs import COVERAGE, find_incomplete_episodes
from ares.store import batched, ids_filter

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.episode import Json
    from ares.store import Stores


_EPISODES_PER_READ = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetCoverage:
    """How much of a dataset is stored.

    Attributes:
        dataset: Its name.
        declared: Episodes that its metadata or its listing of files name; None where an earlier version ingested it.
        listed: Records that the last whole ingestion saw; None as before.
        kept: Episodes that are stored.
        removed: Episodes that people have removed, and those that the last whole ingestion refused as deleted for good.
        incomplete: Those of them that lack something that the source promises, and nobody has accepted that.
        failed: Records that failed in the last whole ingestion; None as before.
    """

    dataset: str
    declared: int | None
    listed: int | None
    kept: int
    removed: int
    incomplete: int
    failed: int | None

    @property
    def is_whole(self) -> bool:
        """Whether all that is declared and was there is stored whole, or removed, and its source is still there."""
        is_gone = self.listed == 0 and self.kept > 0
        least = max(self.declared or 0, self.listed or 0)
        return not (is_gone or self.incomplete or self.failed) and self.kept + self.removed >= least

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {**asdict(self), "whole": self.is_whole}


def read_coverage(stores: Stores) -> list[DatasetCoverage]:
    """How much of each dataset is stored, in the order of names. Raises StoreError."""
    episodes = stores.tables.episodes
    columns = ["format", "dataset", "version"]
    kept, incomplete = _count_datasets(episodes.scan(columns)), Counter[DatasetKey]()
    removed = _count_datasets(stores.tables.removed.scan(columns))
    for ids in batched(sorted(find_incomplete_episodes(stores)), _EPISODES_PER_READ):
        rows = episodes.read_columns(columns, ids_filter(ids)).to_pylist()
        incomplete.update(DatasetKey(*(row[name] for name in columns)) for row in rows)
    documents = {
        DatasetKey(document["format"], document["dataset"], document["version"]): document
        for _, document in cast("list[tuple[str, Any]]", stores.annotations.find_documents(COVERAGE))
    }
    return [
        DatasetCoverage(
            dataset=key.dataset,
            declared=document.get("declared"),
            listed=document.get("listed"),
            kept=kept[key],
            removed=removed[key] + document.get("purged", 0),
            incomplete=incomplete[key],
            failed=document.get("failed"),
        )
        for key, document in ((key, documents.get(key, {})) for key in sorted({*kept, *documents}))
    ]


def _count_datasets(batches: Iterable[pa.RecordBatch]) -> Counter[DatasetKey]:
    """Number of rows by dataset, of batches with the columns that name it."""
    import pyarrow as pa

    counts, names = Counter[DatasetKey](), list(DatasetKey._fields)
    for batch in batches:
        groups = pa.Table.from_batches([batch]).group_by(names).aggregate([([], "count_all")])
        for row in groups.to_pylist():
            counts[DatasetKey(**{name: row[name] for name in names})] += row["count_all"]
    return counts
