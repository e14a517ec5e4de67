"""Removes episodes from a workspace: the log says so, the tables follow, and sources are never touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.curation.sets import CurationSet, Sets
from ares.curation.staged_ids import StagedIds
from ares.episode import Json
from ares.errors import RequestError
from ares.settings import user_name
from ares.store.actions import Action, ActionKind, new_members_key, record_action, write_members
from ares.store.filters import batched

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
    """

    episodes: int
    datasets: Mapping[str, int]
    annotations: Mapping[str, int]
    sets: Mapping[str, int]

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {
            "episodes": self.episodes,
            "datasets": dict(self.datasets),
            "annotations": dict(self.annotations),
            "sets": dict(self.sets),
        }


def preview_removal(stores: Stores, ids: StagedIds) -> RemovalPreview:
    """What would go with some episodes. Raises StoreError."""
    annotations: Counter[str] = Counter()
    for chunk in ids.batches():
        annotations.update(stores.annotations.count_episodes(chunk))
    return RemovalPreview(
        episodes=ids.count,
        datasets=_datasets(stores, ids),
        annotations=dict(sorted(annotations.items())),
        sets=_sets(stores, ids),
    )


def _datasets(stores: Stores, ids: StagedIds) -> dict[str, int]:
    rows, columns = stores.tables.episodes.snapshot(), ["episode_id", "dataset"]
    ids.database.insert("datasets", rows.schema(columns), rows.reader(columns))
    counts = ids.database.query(
        "SELECT dataset, count(*) AS episodes FROM datasets SEMI JOIN ids ON episode_id = id"
        " GROUP BY dataset ORDER BY dataset"
    )
    ids.database.drop_tables("datasets")
    return {row["dataset"]: row["episodes"] for row in counts.to_pylist()}


def _sets(stores: Stores, ids: StagedIds) -> dict[str, int]:
    sets = Sets(stores.annotations)
    counts = {
        selection.label: count_members(sets, selection, ids)
        for name in sets
        for selection in sets.versions(name)
    }
    return {label: count for label, count in counts.items() if count}


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


def remove_episodes(
    stores: Stores, ids: StagedIds, recipe: Mapping[str, Json], *, person: str = "", note: str = ""
) -> Action:
    """Remove episodes: they vanish from the tables, and the log keeps everything; `undo` brings them back.

    Args:
        stores: Stores of the workspace.
        ids: Ids of episodes.
        recipe: How they were selected, for the log.
        person: Who removes them; the user by default.
        note: Why, in the person's words.

    Returns:
        The action; it is shown at once, or when the job ends that writes to the workspace meanwhile.

    Raises:
        RequestError: There is no episode to remove.
        StoreError: The log cannot be written.
    """
    if not ids.count:
        raise RequestError("no episode is selected", "nothing was removed")
    details: dict[str, Json] = {"recipe": dict(recipe), **({"note": note} if note else {})}
    return record_members(stores, "remove", ids, details, person)


def record_members(
    stores: Stores,
    kind: ActionKind,
    ids: StagedIds,
    details: Mapping[str, Json],
    person: str = "",
) -> Action:
    """Add an action about some episodes to the log, and apply it to the tables. Raises StoreError."""
    key = new_members_key()
    count = write_members(stores.annotations, key, ids)
    action = record_action(
        stores.annotations,
        kind,
        person.strip() or user_name(),
        count=count,
        members=key,
        details=details,
    )
    stores.sync()
    return action


def count_removed_members(stores: Stores, selections: Sequence[CurationSet]) -> dict[str, int]:
    """Number of members of sets that are removed now, by label. Raises StoreError."""
    removed = stores.tables.removed.ids()
    if not len(removed):
        return {selection.label: 0 for selection in selections}
    sets = Sets(stores.annotations)
    with StagedIds(id for chunk in removed.chunks for id in chunk.to_pylist()) as ids:
        return {selection.label: count_members(sets, selection, ids) for selection in selections}
