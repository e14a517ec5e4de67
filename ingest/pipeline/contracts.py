"""What is believed of a dataset: the contracts of its signals, what its spec states, and whether that has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ares_ingest.base import Source
from ares_ingest.pipeline.find import describe_source

if TYPE_CHECKING:
    from ares.contract import StoredContracts
    from ares.store import Stores


def infer_and_store_contracts(
    stores: Stores,
    source: Source,
    sample: Sequence[str],
    reasons: Mapping[str, int],
    *,
    reads_all: bool = False,
) -> None:
    """Infer the contracts of a sample, and store them with what the spec states.

    Contracts of other dimensions that are stored already stay. Without a spec, what an earlier one stated stays.

    Args:
        stores: Where the episodes are.
        source: Their dataset.
        sample: Ids of episodes that were written; empty where none was.
        reasons: What was warned of, with the number of episodes; what an earlier run told stays where none was written.
        reads_all: Whether every stored episode was read again, so that nothing that an earlier run told holds.
    """
    from ares.contract import DatasetKey, StoredContracts, infer_contracts, write_contracts

    stored = read_stored_contracts(stores, source)
    facts = describe_source(source, stored.source)
    has_new_facts = bool(stored.contracts) and facts != stored.source
    if not (sample or source.contract or source.stated or has_new_facts):
        return
    inferred = infer_contracts(stores, source.dataset, sample)
    layouts = {(contract.state_names, contract.action_names) for contract in inferred}
    kept = [c for c in stored.contracts if (c.state_names, c.action_names) not in layouts]
    stated = source.contract or stored.stated
    earlier = {} if reads_all else stored.warnings
    warnings = dict(Counter(earlier) + Counter(reasons)) if sample else stored.warnings
    spec_hash = source.stated or stored.spec_hash
    new = StoredContracts((*inferred, *kept), stated, warnings, spec_hash, facts)
    write_contracts(stores.annotations, DatasetKey(source.format, source.dataset, source.version), new)


def read_stored_contracts(stores: Stores, source: Source) -> StoredContracts:
    """What the workspace believes of the dataset of a source."""
    from ares.contract import DatasetKey, read_contracts

    return read_contracts(stores.annotations, DatasetKey(source.format, source.dataset, source.version))


def must_read_again(source: Source, stored: StoredContracts) -> bool:
    """Whether all stored episodes are read again: a spec or an option states what they were not read by."""
    return bool(source.stated) and source.stated != stored.spec_hash
