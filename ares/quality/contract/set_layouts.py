"""The contracts of the episodes of a set: stored ones, and inferred ones for datasets and dimensions without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

from ares.quality.contract.inference import (
    CONTRACT_EPISODES,
    EpisodeEvidence,
    episode_evidence,
    infer_contract,
)
from ares.quality.contract.storage import (
    DatasetKey,
    StoredContracts,
    correct_contract,
    read_contracts,
)
from ares.quality.contract.terms import MeaningContract
from ares.quality.signals import episode_signals
from ares.store import TempDatabase
from ares.store.filters import batched, ids_filter

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store import Stores

_COLUMNS = ("episode_id", "format", "dataset", "version", "state_names", "action_names")
# Up to so many members their rows are read by id; more are selected in a scan of the table.
_READ_BY_ID = 5_000
_ID_ROWS = 100_000
# Episode ids are hashes: those of the lowest ids are a sample that nothing but chance selects.
_LAYOUTS = f"""
SELECT format, dataset, version, state_names, action_names, count(*) AS episodes,
       min(episode_id, {CONTRACT_EPISODES}) AS sample
FROM new_rows WHERE {{condition}} GROUP BY ALL
"""
_ORDERED = "SELECT * FROM layouts ORDER BY format, dataset, version, state_names, action_names"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutContract:
    """The contract of those members of a set that have one dataset and the same dimensions.

    Attributes:
        key: Their dataset.
        state_names: Names of the state's dimensions.
        action_names: Names of the action's dimensions.
        num_episodes: Number of the members.
        contract: What their signals mean; None where they have no signals that say anything.
    """

    key: DatasetKey
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    num_episodes: int
    contract: MeaningContract | None


def set_contracts(stores: Stores, ids: Iterable[str]) -> list[LayoutContract]:
    """The contracts of some episodes, one for each dataset and combination of dimensions.

    Args:
        stores: Stores of the workspace.
        ids: Different ids of the episodes, streamed; those that the workspace does not have are ignored.
    """
    stored: dict[DatasetKey, StoredContracts] = {}
    contracts: list[LayoutContract] = []
    for row in _layout_rows(stores, ids).to_pylist():
        key = DatasetKey(row["format"], row["dataset"], row["version"])
        if key not in stored:
            stored[key] = read_contracts(stores.annotations, key)
        layout = (tuple(row["state_names"] or ()), tuple(row["action_names"] or ()))
        contracts.append(
            LayoutContract(
                key=key,
                state_names=layout[0],
                action_names=layout[1],
                num_episodes=row["episodes"],
                contract=_contract(stores, stored[key], key, layout, row["sample"]),
            )
        )
    return contracts


def _contract(
    stores: Stores,
    stored: StoredContracts,
    key: DatasetKey,
    layout: tuple[tuple[str, ...], tuple[str, ...]],
    sample: Sequence[str],
) -> MeaningContract | None:
    if not any(layout):
        return None
    known = stored.of_layout(*layout)
    if known is not None:
        return known
    inferred = infer_stored(stores, key.dataset, sample)
    contract = next((c for c in inferred if (c.state_names, c.action_names) == layout), None)
    return None if contract is None else correct_contract(contract, stored.stated)


def infer_stored(stores: Stores, dataset: str, sample: Sequence[str]) -> list[MeaningContract]:
    """Infer the contracts of some stored episodes of a dataset, one for each combination of dimensions."""
    trajectories = dict(stores.tables.trajectories.read(sample))
    evidence: dict[tuple[tuple[str, ...], tuple[str, ...]], list[EpisodeEvidence]] = {}
    for episode in stores.tables.episodes.get([id for id in sample if id in trajectories]):
        signals = episode_signals(episode, trajectories[episode.episode_id])
        part = episode_evidence(signals)
        if part is not None:
            evidence.setdefault((signals.state_names, signals.action_names), []).append(part)
    inferred = (infer_contract(dataset, *layout, parts) for layout, parts in evidence.items())
    return [contract for contract in inferred if contract is not None]


def _layout_rows(stores: Stores, ids: Iterable[str]) -> pa.Table:
    """Dataset and dimensions of the episodes, with their number and a sample of their ids; no row is kept."""
    rows, all_ids = stores.tables.episodes.snapshot(), iter(ids)
    first = list(islice(all_ids, _READ_BY_ID + 1))
    batches, condition = stores.tables.episodes.scan(_COLUMNS, ids_filter(first)), "true"
    with TempDatabase() as database:
        if len(first) > _READ_BY_ID:
            database.insert("ids", _id_schema(), _id_batches(chain(first, all_ids)))
            batches, condition = rows.reader(_COLUMNS), "episode_id IN (SELECT id FROM ids)"
        query = _LAYOUTS.format(condition=condition)
        database.insert_query("layouts", query, rows.schema(_COLUMNS), batches)
        return database.query(_ORDERED)


def _id_batches(ids: Iterable[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    return (pa.record_batch({"id": list(part)}, _id_schema()) for part in batched(ids, _ID_ROWS))


def _id_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([("id", pa.string())])
