"""Stores what the signals of a dataset mean after its ingestion, from a sample of the episodes that were written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ingest.base import Source

if TYPE_CHECKING:
    from ares.store import Stores


def store_contracts(stores: Stores, source: Source, sample: Sequence[str]) -> None:
    """Infer the contracts of a sample, and store them with what the spec states.

    Contracts of other dimensions that are stored already stay. Without a spec, what an earlier one stated stays, of the
    robot too.

    Args:
        stores: Where the episodes are.
        source: Their dataset.
        sample: Ids of episodes that were written; empty where none was.
    """
    if not (sample or source.contract or source.kinematics):
        return
    from ares.quality.contract import (
        DatasetKey,
        StoredContracts,
        infer_stored,
        read_contracts,
        write_contracts,
    )

    key = DatasetKey(source.format, source.dataset, source.version)
    stored = read_contracts(stores.annotations, key)
    inferred = infer_stored(stores, source.dataset, sample)
    layouts = {(contract.state_names, contract.action_names) for contract in inferred}
    kept = [c for c in stored.contracts if (c.state_names, c.action_names) not in layouts]
    stated = source.contract or stored.stated
    kinematics = source.kinematics or stored.kinematics
    write_contracts(stores.annotations, key, StoredContracts((*inferred, *kept), stated, kinematics))
