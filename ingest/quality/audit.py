"""Audits the checks on the user's own data: faults are planted into some episodes of each dataset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice

from ares.clock import settle_clock
from ares.episode import Episode, Record
from ares.errors import AresError, SourceError
from ares.io import describe_os_error
from ares.jobs import LocalEngine, available_cores
from ares.quality import DatasetCheck, EpisodeSignals, episode_signals
from ares.quality.audit import DataAudit, audit_episodes
from ares.registry import plugin_fault
from ingest.base import Source
from ingest.guard import GuardedItems, guarded_item

# Episodes that are audited of each dataset, of so many that are read, and the fewest of one layout.
_MOST_EPISODES, _MOST_READ, _FEWEST_EPISODES = 12, 48, 2
# Faults are planted some 1500 times: of a long or wide episode the first steps are taken.
_MOST_VALUES, _FEWEST_STEPS = 100_000, 200
_START_AFTER_SECONDS = 2.0

AuditedEpisode = tuple[Episode, EpisodeSignals]


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


def _episodes(source: Source) -> Iterator[AuditedEpisode]:
    """Episodes with signals, in the order of the source; those that cannot be read are left out.

    They are read as `ares check` reads them: by processes that are ended where they take too long or too much memory.
    """
    loads = (
        guarded_item(item, source.format, source.folder, source.follow_links).load
        for item in GuardedItems(source)
    )
    start_after = 0.0 if source.fragile else _START_AFTER_SECONDS
    with closing(LocalEngine()) as engine:
        pool = engine.pool(
            run_audit_reads,
            max_workers=available_cores(),
            on_worker_death=SourceError,
            start_after_seconds=start_after,
        )
        for load in islice(loads, _MOST_READ):
            for result in pool.map([load]):
                if result is not None and not isinstance(result, AresError):
                    yield result


def run_audit_reads(loads: Sequence[Callable[[], Record]]) -> list[AuditedEpisode | AresError | None]:
    """Read records; one without enough signals gives None, and one that fails its error."""
    return [_read(load) for load in loads]


def _read(load: Callable[[], Record]) -> AuditedEpisode | AresError | None:
    try:
        record = settle_clock(load())
        signals = _first_steps(episode_signals(record.episode, record.trajectory))
    except AresError as error:
        return error
    except OSError as error:
        return SourceError("file cannot be read", f"{error.filename or ''}: {describe_os_error(error)}")
    except Exception as error:
        return plugin_fault("the audit of a record", error)
    return (record.episode, signals) if signals.state.shape[1] and len(signals.state) >= 10 else None


def _first_steps(signals: EpisodeSignals) -> EpisodeSignals:
    width = signals.state.shape[1] + signals.action.shape[1]
    steps = max(_FEWEST_STEPS, _MOST_VALUES // max(width, 1))
    return replace(
        signals, seconds=signals.seconds[:steps], state=signals.state[:steps], action=signals.action[:steps]
    )


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
