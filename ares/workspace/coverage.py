"""How much of each dataset a workspace has: what its metadata declares, what was there, and what is stored whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from ares.contract import DatasetKey
from ares.jobs import COMPLETE, COVERAGE

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetCoverage:
    """How much of a dataset is stored.

    Attributes:
        dataset: Its name.
        declared: Episodes that its metadata or its listing of files name; None where an earlier version ingested it.
        listed: Records that the last whole ingestion saw; None as before.
        kept: Episodes that are stored.
        incomplete: Those of them that lack something that the source promises.
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
        """Whether all that is declared and was there is stored whole."""
        return not (self.incomplete or self.failed) and self.kept >= max(self.declared or 0, self.listed or 0)

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {**asdict(self), "whole": self.is_whole}


def read_coverage(stores: Stores) -> list[DatasetCoverage]:
    """How much of each dataset is stored, in the order of names. Raises StoreError."""
    import pyarrow as pa

    episodes = stores.tables.episodes
    columns = ["format", "dataset", "version", *([COMPLETE] if COMPLETE in episodes.columns() else [])]
    kept, incomplete = Counter[DatasetKey](), Counter[DatasetKey]()
    for batch in episodes.scan(columns):
        groups = pa.Table.from_batches([batch]).group_by(columns).aggregate([([], "count_all")])
        for row in groups.to_pylist():
            key = DatasetKey(row["format"], row["dataset"], row["version"])
            kept[key] += row["count_all"]
            incomplete[key] += row["count_all"] * (row.get(COMPLETE) is False)
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
