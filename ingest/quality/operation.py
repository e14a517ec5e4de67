"""The check as an operation: finds datasets, learns what is typical of each, and checks every episode against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from ares.errors import AresError, SourceError
from ares.jobs import LocalEngine, available_cores
from ares.quality import (
    KEPT_EPISODES,
    CheckReport,
    CodeCounter,
    DatasetCheck,
    DatasetStatistics,
    TypicalEpisode,
)
from ares.store.filters import batched
from ingest.base import IngestOptions, Source
from ingest.guard import GuardedItems, guarded_item
from ingest.pipeline import find_datasets
from ingest.prepared import prepared_paths
from ingest.quality.tasks import Layout, SignalResult, SignalTask, run_signal_tasks

if TYPE_CHECKING:
    from ares.jobs import WorkerPool

_BATCH = 16
# Worker processes pay off only for a check that takes longer than they take to start.
_START_AFTER_SECONDS = 2.0

Results = Iterator[SignalResult | AresError]
Readers = Callable[[Iterator[SignalTask]], Results]


def check(
    sources: Sequence[str],
    *,
    format: str,
    rate_hz: float | None,
    spec: str,
    data_dir: str,
    follow_links: bool,
    limit: int | None,
) -> CheckReport:
    """Check the datasets at and below some paths; see `ares.check` for the arguments and errors."""
    options = IngestOptions(rate_hz=rate_hz, spec=spec, follow_links=follow_links)
    planned = find_datasets(None, prepared_paths(sources, data_dir), options, format=format)
    remaining, checked = limit, []
    for source in planned.sources:
        checked.append(_check_source(source, remaining))
        remaining = (
            None if remaining is None else remaining - checked[-1].num_episodes - checked[-1].num_failed
        )
    failed = {path: str(error) for path, error in planned.failed.items()}
    return CheckReport(datasets=tuple(checked), failed=failed)


def _check_source(source: Source, limit: int | None) -> DatasetCheck:
    with closing(LocalEngine()) as engine, ThreadPoolExecutor(available_cores()) as threads:
        pool = engine.pool(
            run_signal_tasks,
            max_workers=available_cores(),
            on_worker_death=SourceError,
            start_after_seconds=0.0 if source.fragile else _START_AFTER_SECONDS,
        )
        return _check_items(source, limit, lambda tasks: _read_all(pool, threads, tasks))


def _read_all(
    pool: WorkerPool[SignalTask, SignalResult], threads: ThreadPoolExecutor, tasks: Iterator[SignalTask]
) -> Results:
    """The results in order; a few batches are read ahead."""
    for group in batched(batched(tasks, _BATCH), 2 * pool.max_workers):
        for results in threads.map(pool.map, group):
            yield from results


@dataclass(slots=True, kw_only=True)
class _Progress:
    """What was counted of a dataset so far."""

    counter: CodeCounter = field(default_factory=CodeCounter)
    num_episodes: int = 0
    num_without_signals: int = 0
    num_lags: int = 0
    num_unknown_lags: int = 0
    num_failed: int = 0
    first_failure: str = ""

    def add(self, result: SignalResult | AresError) -> None:
        if isinstance(result, AresError):
            self.num_failed += 1
            self.first_failure = self.first_failure or str(result)
            return
        self.num_episodes += 1
        self.num_without_signals += not any(result.layout)
        if result.check is not None:
            self.counter.add(result.episode_id, result.location, result.check)
            self.num_lags += result.check.lag.steps is not None
            self.num_unknown_lags += result.check.lag.could_say and result.check.lag.steps is None


def _check_items(source: Source, limit: int | None, read: Readers) -> DatasetCheck:
    """The first episodes are read twice: what is typical is learnt from them before anything is judged."""
    items = GuardedItems(source)
    tasks = islice(
        (
            SignalTask(
                load=guarded_item(item, source.format, source.folder, source.follow_links).load,
                location=item.location,
            )
            for item in items
        ),
        limit,
    )
    first = list(islice(tasks, KEPT_EPISODES))
    statistics = _learn(read(iter(first)))
    typical = {layout: part for layout, of in statistics.items() if (part := of.typical()) is not None}
    progress = _Progress()
    for result in read(replace(task, typical=typical) for task in chain(first, tasks)):
        progress.add(result)
    if items.error is not None:
        progress.add(items.error)
    return _dataset_check(source, progress, statistics, typical)


def _learn(results: Results) -> dict[Layout, DatasetStatistics]:
    """Statistics by layout; a record that fails is counted when it is checked."""
    statistics: dict[Layout, DatasetStatistics] = {}
    for result in results:
        if isinstance(result, SignalResult):
            state_names, action_names = result.layout
            part = statistics.setdefault(
                result.layout, DatasetStatistics(state_names=state_names, action_names=action_names)
            )
            part.add_summary(result.summary, result.rate_hz)
    return statistics


def _dataset_check(
    source: Source,
    progress: _Progress,
    statistics: Mapping[Layout, DatasetStatistics],
    typical: Mapping[Layout, TypicalEpisode],
) -> DatasetCheck:
    """The lag is that of the layout with most lags."""
    best = max(typical, key=lambda layout: typical[layout].num_lags, default=None)
    lag_steps = typical[best].lag_steps if best is not None else None
    rate_hz = statistics[best].rate_hz if best is not None else None
    return DatasetCheck(
        dataset=source.dataset,
        format=source.format,
        path=source.folder,
        num_episodes=progress.num_episodes,
        num_without_signals=progress.num_without_signals,
        num_failed=progress.num_failed,
        first_failure=progress.first_failure,
        lag_seconds=round(lag_steps / rate_hz, 3) if lag_steps is not None and rate_hz else None,
        num_lags=progress.num_lags,
        num_unknown_lags=progress.num_unknown_lags,
        counts=progress.counter.counts(),
    )
