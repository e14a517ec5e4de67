"""What would go with some episodes: annotations, members of sets, and exports that have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

from ares.curation.sets import EXPORTS, CurationSet, Sets
from ares.episode import Json
from ares.store import StagedIds, batched

if TYPE_CHECKING:
    from ares.store import Stores

_BATCH = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalPreview:
    """What goes with some episodes.

    Attributes:
        episodes: Their number.
        datasets: Number of them by dataset.
        annotations: Number of them by annotator that has annotated them.
        sets: Number of them by the label of a set that has some.
        exports: Number of them by the folder of an export that has some, as it was written.
    """

    episodes: int
    datasets: Mapping[str, int]
    annotations: Mapping[str, int]
    sets: Mapping[str, int]
    exports: Mapping[str, int]

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return asdict(self)


def preview_removal(stores: Stores, ids: StagedIds) -> RemovalPreview:
    """What would go with some episodes. Raises StoreError."""
    annotations: Counter[str] = Counter()
    for chunk in ids.batches():
        annotations.update(stores.annotations.count_episodes(chunk))
    return RemovalPreview(
        episodes=ids.count,
        datasets=_count_by_dataset(stores, ids),
        annotations=dict(sorted(annotations.items())),
        sets=_count_by_set(stores, ids),
        exports=_count_by_export(stores, ids),
    )


def _count_by_dataset(stores: Stores, ids: StagedIds) -> dict[str, int]:
    rows, columns = stores.tables.episodes.snapshot(), ["episode_id", "dataset"]
    ids.database.insert("datasets", rows.schema(columns), rows.reader(columns))
    counts = ids.database.query(
        "SELECT dataset, count(*) AS episodes FROM datasets SEMI JOIN ids ON episode_id = id"
        " GROUP BY dataset ORDER BY dataset"
    )
    ids.database.drop_tables("datasets")
    return {row["dataset"]: row["episodes"] for row in counts.to_pylist()}


def _count_by_set(stores: Stores, ids: StagedIds) -> dict[str, int]:
    sets = Sets(stores.annotations)
    counts = {
        selection.label: count_members(sets, selection, ids)
        for name in sets
        for selection in sets.versions(name)
    }
    return {label: count for label, count in counts.items() if count}


def _count_by_export(stores: Stores, ids: StagedIds) -> dict[str, int]:
    """Number of ids in each export of which the workspace knows, also of sets that were deleted since."""
    sets, removed_ids, counts = Sets(stores.annotations), set[str](), dict[str, int]()
    for key, document in stores.annotations.find_documents(EXPORTS):
        removed_ids = removed_ids or set(ids)
        fields = cast("dict[str, Json]", document)
        failed = set(cast("list[str]", fields["failed"]))
        members = sets.episodes_of(key.rpartition("/")[0])
        if count := sum(1 for id in members if id in removed_ids and id not in failed):
            counts[str(fields["path"])] = count
    return dict(sorted(counts.items()))


def count_members(sets: Sets, selection: CurationSet, ids: StagedIds) -> int:
    """Number of members of a set among some ids."""
    import pyarrow as pa

    schema = pa.schema([("member", pa.string())])
    batches = (
        pa.record_batch([pa.array(chunk, pa.string())], schema=schema)
        for chunk in batched(sets.ids(selection), _BATCH)
    )
    ids.database.insert("members", schema, batches)
    count = ids.database.query("SELECT count(*) AS n FROM members SEMI JOIN ids ON member = id")
    ids.database.drop_tables("members")
    return int(count["n"][0].as_py())


def count_removed_members(stores: Stores, selections: Sequence[CurationSet]) -> dict[str, int]:
    """Number of members of sets that are removed now, by label. Raises StoreError."""
    removed = stores.tables.removed.ids()
    if not len(removed):
        return {selection.label: 0 for selection in selections}
    sets = Sets(stores.annotations)
    with StagedIds(id for chunk in removed.chunks for id in chunk.to_pylist()) as ids:
        return {selection.label: count_members(sets, selection, ids) for selection in selections}
