"""The check as an operation: finds datasets, learns what is typical of each, and checks every episode against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING

from ares.errors import AresError, SourceError
from ares.jobs import LocalEngine, available_cores
from ares.quality import (
    CheckReport,
    CodeCounter,
    DatasetCheck,
    DatasetStatistics,
    TypicalEpisode,
)
from ares.quality.ci import BaselineWriter
from ares.quality.contract import (
    CONTRACT_EPISODES,
    EpisodeEvidence,
    MeaningContract,
    correct_contract,
    infer_contract,
)
from ares.store.filters import batched
from ingest.base import Source
from ingest.guard import GuardedItems, guarded_item
from ingest.operation import find_requested
from ingest.quality.progress import CheckProgress
from ingest.quality.sample import SAMPLED_EPISODES, sample_numbers
from ingest.quality.tasks import Layout, SignalResult, SignalTask, run_signal_tasks

if TYPE_CHECKING:
    from ares.jobs import IngestRequest, WorkerPool
    from ares.quality.ci import BaselineKey

_BATCH = 16
# Worker processes pay off only for a check that takes longer than they take to start.
_START_AFTER_SECONDS = 2.0

Results = Iterator[SignalResult | AresError]
Readers = Callable[[Iterator[SignalTask]], Results]


def check(
    request: IngestRequest,
    *,
    limit: int | None,
    baseline: str,
    write_baseline: str,
    evidence: str,
    num_listed: int,
    audit_seed: int | None,
    video: bool,
) -> CheckReport:
    """Check the datasets at and below some paths; see `ares.check` for the arguments and errors."""
    accepted = _accepted(baseline)
    writer = BaselineWriter(path=write_baseline) if write_baseline else None
    if evidence:
        from ingest.quality.evidence import require_empty_folder

        require_empty_folder(evidence)
    find = partial(find_requested, lambda: None, request)
    planned = find()
    # Items are listed once, so the pass over the videos has a list of its own.
    for_video = find().sources if video else ()
    remaining, checked = limit, []
    for source, with_video in zip_longest(planned.sources, for_video):
        counter = CodeCounter(num_listed=num_listed)
        progress = CheckProgress(dataset=source.dataset, accepted=accepted, writer=writer, counter=counter)
        checked.append(check_source(source, remaining, progress, with_video))
        remaining = (
            None if remaining is None else remaining - checked[-1].num_episodes - checked[-1].num_failed
        )
    if audit_seed is not None:
        from ingest.quality.audit import with_audits

        checked = with_audits(checked, find().sources, audit_seed)
    report = CheckReport(datasets=tuple(checked), failed={p: str(e) for p, e in planned.failed.items()})
    if writer is not None:
        writer.write()
    if evidence:
        from ingest.quality.evidence import write_evidence

        report = replace(report, evidence_problems=write_evidence(report, find().sources, evidence))
    return report


def _accepted(baseline: str) -> frozenset[BaselineKey]:
    """The known findings of a file; none without one. Only a file needs pydantic, which takes a while to import."""
    if not baseline:
        return frozenset()
    from ares.quality.ci import read_baseline

    return read_baseline(baseline)


def check_source(
    source: Source, limit: int | None, progress: CheckProgress, with_video: Source | None = None
) -> DatasetCheck:
    """Check the episodes of one dataset.

    Args:
        source: The dataset.
        limit: Number of episodes to check at most.
        progress: Where they are counted, and what is corrected in them.
        with_video: The dataset opened again, to check its videos too.
    """
    with closing(LocalEngine()) as engine, ThreadPoolExecutor(available_cores()) as threads:
        pool = engine.pool(
            run_signal_tasks,
            max_workers=available_cores(),
            on_worker_death=SourceError,
            start_after_seconds=0.0 if source.fragile else _START_AFTER_SECONDS,
        )
        checked = _check_items(source, limit, progress, lambda tasks: _read_all(pool, threads, tasks))
        if with_video is None:
            return checked
        from ingest.quality.video import check_source_videos

        totals = check_source_videos(with_video, limit, engine, threads, progress)
        counts, num_accepted = progress.counter.counts(), progress.num_accepted
        return replace(checked, counts=counts, num_accepted=num_accepted, video=totals)


def _read_all(
    pool: WorkerPool[SignalTask, SignalResult], threads: ThreadPoolExecutor, tasks: Iterator[SignalTask]
) -> Results:
    """The results in order; a few batches are read ahead."""
    for group in batched(batched(tasks, _BATCH), 2 * pool.max_workers):
        for results in threads.map(pool.map, group):
            yield from results


def _check_items(source: Source, limit: int | None, progress: CheckProgress, read: Readers) -> DatasetCheck:
    """What is typical is learnt from a sample that is spread over the dataset, before anything is judged."""
    items = GuardedItems(source)
    tasks = islice(
        (
            SignalTask(
                load=guarded_item(item, source.format, source.folder, source.follow_links).load,
                location=item.location,
                episode_id=item.episode_id,
                repairs=progress.repairs is not None,
            )
            for item in items
        ),
        limit,
    )
    first = list(islice(tasks, SAMPLED_EPISODES))
    numbers = sample_numbers(first)
    results = list(read(first[number] for number in numbers))
    statistics, evidence = _learn(iter(results))
    for number, result in zip(numbers, results, strict=True):
        first[number] = replace(first[number], earlier=result if isinstance(result, SignalResult) else None)
    typical = {layout: part for layout, of in statistics.items() if (part := of.typical()) is not None}
    for result in read(replace(task, typical=typical) for task in chain(first, tasks)):
        progress.add(result)
    if items.error is not None:
        progress.add(items.error)
    return _dataset_check(source, progress, statistics, typical, _contracts(source, evidence))


def _learn(
    results: Results,
) -> tuple[dict[Layout, DatasetStatistics], dict[Layout, list[EpisodeEvidence]]]:
    """Statistics and evidence by layout; a record that fails is counted when it is checked."""
    statistics: dict[Layout, DatasetStatistics] = {}
    evidence: dict[Layout, list[EpisodeEvidence]] = {}
    for result in results:
        if isinstance(result, SignalResult):
            state_names, action_names = result.layout
            part = statistics.setdefault(
                result.layout, DatasetStatistics(state_names=state_names, action_names=action_names)
            )
            part.add_summary(result.summary, result.rate_hz)
            sample = evidence.setdefault(result.layout, [])
            if result.evidence is not None and len(sample) < CONTRACT_EPISODES:
                sample.append(result.evidence)
    return statistics, evidence


def _contracts(
    source: Source, evidence: Mapping[Layout, Sequence[EpisodeEvidence]]
) -> tuple[MeaningContract, ...]:
    """What the signals of each layout mean, corrected by the spec."""
    inferred = (infer_contract(source.dataset, *layout, sample) for layout, sample in evidence.items())
    return tuple(correct_contract(contract, source.contract) for contract in inferred if contract is not None)


def _dataset_check(
    source: Source,
    progress: CheckProgress,
    statistics: Mapping[Layout, DatasetStatistics],
    typical: Mapping[Layout, TypicalEpisode],
    contracts: tuple[MeaningContract, ...],
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
        num_accepted=progress.num_accepted,
        contracts=contracts,
    )
