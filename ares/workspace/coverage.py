"""How much of each dataset a workspace has: what its metadata declares, what was there, and what is stored whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from ares.contract import DatasetKey
from ares.jobs import COVERAGE, find_incomplete_episodes
from ares.store import batched, ids_filter

if TYPE_CHECKING:
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
        incomplete: Those of them that lack something that the source promises, and nobody has accepted that.
        failed: Records that failed in the last whole ingestion; None as before.
    """

    dataset: str
    declared: int | None
    listed: int | None
    kept: int
    incomplete: int
    failed: int | None

    @property
    def is_whole(self) -> bool:
        """Whether all that is declared and was there is stored whole, and its source is still there."""
        is_gone = self.listed == 0 and self.kept > 0
        least = max(self.declared or 0, self.listed or 0)
        return not (is_gone or self.incomplete or self.failed) and self.kept >= least

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {**asdict(self), "whole": self.is_whole}


def read_coverage(stores: Stores) -> list[DatasetCoverage]:
    """How much of each dataset is stored, in the order of names. Raises StoreError."""
    import pyarrow as pa

    episodes = stores.tables.episodes
    columns = ["format", "dataset", "version"]
    kept, incomplete = Counter[DatasetKey](), Counter[DatasetKey]()
    for batch in episodes.scan(columns):
        groups = pa.Table.from_batches([batch]).group_by(columns).aggregate([([], "count_all")])
        kept.update(
            {DatasetKey(*(row[name] for name in columns)): row["count_all"] for row in groups.to_pylist()}
        )
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
            incomplete=incomplete[key],
            failed=document.get("failed"),
        )
        for key, document in ((key, documents.get(key, {})) for key in sorted({*kept, *documents}))
    ]
