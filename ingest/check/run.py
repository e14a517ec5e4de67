"""Checks datasets against what is typical of each."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING

from ares.contract import (
    CONTRACT_EPISODES,
    ContractEvidence,
    MeaningContract,
    correct_contract,
    infer_contract,
)
from ares.errors import AresError, SourceError
from ares.imitation import MEASURED, MEASURED_OF_CAMERAS
from ares.input import read_json
from ares.io import parse_path
from ares.jobs import LocalEngine, available_cores
from ares.reports import CheckReport, DatasetCheck, FindingCounter
from ares.signals import KEPT_EPISODES, DatasetStatistics, TypicalEpisode
from ares.store import batched
from ares_ingest.base import Source, SourceFinding
from ares_ingest.check.tasks import (
    CheckProgress,
    Layout,
    SignalCheckResult,
    SignalTask,
    open_check_pool,
    run_signal_tasks,
)
from ares_ingest.guarded_loading import GuardedItems, call_ingester_safely, guard_item_loading
from ares_ingest.pipeline import find_datasets

if TYPE_CHECKING:
    from ares.checks import QualityFinding
    from ares.jobs import CheckRequest, WorkerPool
    from ares_ingest.pipeline import IngestSources


# The sample is drawn from so many first episodes, whose tasks are kept in memory (about 1 kB each).
SAMPLED_EPISODES = 65_536


def sample_numbers(tasks: Sequence[SignalTask]) -> list[int]:
    """Rising numbers of at most 256 of the tasks: those whose ids have the lowest hashes, wherever they lie."""
    if len(tasks) <= KEPT_EPISODES:
        return list(range(len(tasks)))
    return sorted(
        heapq.nsmallest(KEPT_EPISODES, range(len(tasks)), key=lambda number: _sample_rank(tasks[number]))
    )


def _sample_rank(task: SignalTask) -> bytes:
    return hashlib.blake2b(task.episode_id.encode(), digest_size=8).digest()


_BATCH = 16

Results = Iterator[SignalCheckResult | AresError]
Readers = Callable[[Iterator[SignalTask]], Results]


def check(request: CheckRequest) -> CheckReport:
    """Check the datasets at and below some paths; see `ares.check` for the errors."""
    planned = find_datasets(None, request.datasets)
    # Items are listed once, so the pass over the videos has its list.
    for_video = find_datasets(None, request.datasets).sources if request.video else ()
    remaining, checked = request.datasets.limit, []
    for source, with_video in zip_longest(planned.sources, for_video):
        counter = FindingCounter(num_listed=request.num_listed)
        progress = CheckProgress(counter=counter)
        checked.append(check_source(source, remaining, progress, with_video))
        remaining = (
            None if remaining is None else remaining - checked[-1].num_episodes - checked[-1].num_failed
        )
    return make_check_report(planned, checked)


def make_check_report(planned: IngestSources, checked: Sequence[DatasetCheck]) -> CheckReport:
    """The report of datasets that were checked, with what of their trees was not read."""
    return CheckReport(
        datasets=tuple(checked),
        failed={path: str(error) for path, error in planned.failed.items()},
        unread=planned.plan.unread_files,
    )


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
        pool = open_check_pool(engine, run_signal_tasks, source.fragile)
        checked = _check_items(source, limit, progress, lambda tasks: _read_all(pool, threads, tasks))
        if with_video is None:
            return checked
        from ares_ingest.check.video import decode_and_check_videos

        totals = decode_and_check_videos(with_video, limit, engine, threads, progress)
        return replace(checked, counts=progress.counter.counts(), video=totals)


def _read_all(
    pool: WorkerPool[SignalTask, SignalCheckResult], threads: ThreadPoolExecutor, tasks: Iterator[SignalTask]
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
                load=guard_item_loading(item, source.format, source.folder).load,
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
    statistics, evidence = _learn_from_results(iter(results))
    for number, result in zip(numbers, results, strict=True):
        first[number] = replace(
            first[number], earlier=result if isinstance(result, SignalCheckResult) else None
        )
    typical = {layout: part for layout, of in statistics.items() if (part := of.typical()) is not None}
    for result in read(replace(task, typical=typical) for task in chain(first, tasks)):
        progress.add(result)
    if items.error is not None:
        progress.add(items.error)
    _check_source_metadata(source, progress)
    return _dataset_check(source, progress, statistics, typical, _infer_contracts(source, evidence))


def _check_source_metadata(source: Source, progress: CheckProgress) -> None:
    """Count what the metadata of the dataset say wrongly; a fault while they are read is a failure."""
    listing = partial(_list_findings, source)
    try:
        parts = call_ingester_safely(source.format, listing, source.folder)
    except AresError as error:
        progress.add(error)
        return
    by_subject: dict[tuple[str, str, str], list[QualityFinding]] = {}
    for part in parts:
        by_subject.setdefault((part.episode_id, part.location, part.key), []).append(part.finding)
    for (episode_id, location, key), findings in by_subject.items():
        result = SignalCheckResult(
            episode_id=episode_id, location=location, key=key, source=location, layout=((), ()), rate_hz=0.0
        )
        progress.add_findings(result, tuple(findings))


def _list_findings(source: Source) -> list[SourceFinding]:
    return list(source.check_metadata())


def _learn_from_results(
    results: Results,
) -> tuple[dict[Layout, DatasetStatistics], dict[Layout, list[ContractEvidence]]]:
    """Statistics and evidence by layout; a record that fails is counted when it is checked."""
    statistics: dict[Layout, DatasetStatistics] = {}
    evidence: dict[Layout, list[ContractEvidence]] = {}
    for result in results:
        if isinstance(result, SignalCheckResult):
            state_names, action_names = result.layout
            part = statistics.setdefault(
                result.layout, DatasetStatistics(state_names=state_names, action_names=action_names)
            )
            part.add_summary(result.summary, result.rate_hz)
            sample = evidence.setdefault(result.layout, [])
            if result.evidence is not None and len(sample) < CONTRACT_EPISODES:
                sample.append(result.evidence)
    return statistics, evidence


def _infer_contracts(
    source: Source, evidence: Mapping[Layout, Sequence[ContractEvidence]]
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
    lacks = _list_lacks(source, progress)
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
        contracts=contracts,
        lacks=lacks,
        warnings=dict(progress.warnings),
        num_incomplete=progress.num_incomplete,
        num_unnamed=max(map(_count_unnamed, typical.values()), default=0),
    )


def _list_lacks(source: Source, progress: CheckProgress) -> tuple[str, ...]:
    """What a dataset lacks; of an export also what its manifest says and its episodes cannot: black cameras are gone.

    A manifest that cannot be read is a failure.
    """
    exported: Sequence[str] = ()
    try:
        if source.folder and (parse_path(source.folder) / "manifest.times.json").is_file():
            exported = read_json(f"{source.folder}/manifest.json")["counts"].get("lacks", ())
    except (OSError, ValueError, AresError, KeyError, TypeError) as error:
        progress.add(SourceError("manifest of the export cannot be read", f"{source.folder}: {error!r}"))
    cameras = (f"{words} {name}" for words in MEASURED_OF_CAMERAS for _, name in progress.needs.cameras)
    measured = {*MEASURED, *cameras}
    unseen = [line for line in exported if line.partition(":")[0] not in measured]
    lacks = {line.partition(":")[0]: line for line in (*unseen, *progress.needs.lines())}
    return tuple(sorted(lacks.values()))


def _count_unnamed(typical: TypicalEpisode) -> int:
    return (*typical.state.kinds, *typical.action.kinds).count("unknown")
