"""Audits the checks on the user's own data: faults are planted into some episodes of each dataset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from ares.clock import settle_clock
from ares.errors import AresError
from ares.quality import DatasetCheck, EpisodeSignals, episode_signals
from ares.quality.audit import DataAudit, audit_episodes
from ingest.base import Source
from ingest.guard import GuardedItems, guarded_item

if TYPE_CHECKING:
    from ares.episode import Episode

# Episodes that are read of each dataset, and the fewest of one layout that can be compared with each other.
_MOST_EPISODES, _FEWEST_EPISODES = 12, 2


def audit_sources(sources: Sequence[Source], seed: int) -> dict[int, DataAudit]:
    """The audit of each dataset, by its number; a dataset without two episodes of equal dimensions has none."""
    audits = {}
    for number, source in enumerate(sources):
        layouts = defaultdict(list)
        for episode, signals in islice(_episodes(source), _MOST_EPISODES):
            layouts[signals.state_names, signals.action_names].append((episode, signals))
        largest = max(layouts.values(), key=len, default=[])
        if len(largest) >= _FEWEST_EPISODES:
            audits[number] = audit_episodes(largest, seed)
    return audits


def _episodes(source: Source) -> Iterator[tuple[Episode, EpisodeSignals]]:
    """Episodes with signals, in the order of the source; those that cannot be read are left out."""
    for item in GuardedItems(source):
        try:
            record = settle_clock(
                guarded_item(item, source.format, source.folder, source.follow_links).load()
            )
        except AresError:
            continue
        signals = episode_signals(record.episode, record.trajectory)
        if signals.state.shape[1] and len(signals.state) >= 10:
            yield record.episode, signals


def with_audits(checked: Sequence[DatasetCheck], sources: Sequence[Source], seed: int) -> list[DatasetCheck]:
    """The datasets with their audits; the findings of a check that misses its bar there become information."""
    audits = audit_sources(sources, seed)
    return [
        _with_audit(dataset, audits[number]) if number in audits else dataset
        for number, dataset in enumerate(checked)
    ]


def _with_audit(dataset: DatasetCheck, audit: DataAudit) -> DatasetCheck:
    counts = tuple(
        replace(count, severity="information") if count.code in audit.missed_codes else count
        for count in dataset.counts
    )
    return replace(dataset, counts=counts, audit=audit)
