"""Ingests datasets into a workspace, source by source: in batches, with worker processes, counted."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from ares.console import print_message
from ares.episode import Json
from ares.errors import RequestError, SourceError
from ares.jobs import (
    COVERAGE,
    Engine,
    FailureLog,
    IngestPlan,
    IngestReport,
    IngestRequest,
    PipelineStage,
    PoolRequest,
    Progress,
    Report,
    available_cores,
    engine_or_local,
    location_subject,
    make_concurrency_getter,
    run_pipeline,
)
from ares.process_tuning import tuned_garbage_collector
from ares.store import PURGED_REASON, reset_applied_actions
from ares_ingest.base import Source
from ares_ingest.guarded_loading import GuardedItems
from ares_ingest.pipeline.contracts import infer_and_store_contracts
from ares_ingest.pipeline.find import DATASETS_GONE, IngestSources, warn_of_missing_datasets
from ares_ingest.pipeline.plan import ItemAction, ItemOutcome, read_stored_identities
from ares_ingest.pipeline.plan_text import format_ingest_plan
from ares_ingest.pipeline.read import Readers, make_record_limits, read_records, start_record_reader
from ares_ingest.pipeline.revisit import LABELS_GONE, READ_AGAIN
from ares_ingest.pipeline.source_items import CORRECTED, SourceItemPlanner
from ares_ingest.pipeline.write import CheckAnnotationLog, RecordWriter, check_unchecked_episodes

if TYPE_CHECKING:
    from ares.store import Stores


T = TypeVar("T")
# A reader's batch takes about this long: all readers have work until the end, yet there are few messages.
_SECONDS_PER_BATCH = 0.2
_MAX_BATCH_SIZE = 512
_BATCHES_PER_SINK = 4
# Worker processes are worth their start only for jobs longer than this; a fragile source always gets them.
_IN_PROCESS_SECONDS = 0.25
# So many items take longer in any case: the processes start at once.
_MIN_ITEMS_TO_START_EARLY = 1_024
_MAX_READERS = 16
# Encoding the images of a record takes so many times as long as reading it.
_COPY_FACTOR = 12


class GrowingBatcher:
    """Splits items into batches; begins with single items and at most doubles the size. Safe to use from threads.

    Args:
        target_seconds: How long a batch should take.
        max_size: Most items of a batch.
    """

    def __init__(self, target_seconds: float, max_size: int) -> None:
        self._target_seconds = target_seconds
        self._max_size = max_size
        self._size = 1
        self._lock = threading.Lock()

    def batches(self, items: Iterable[T]) -> Iterator[list[T]]:
        """The items in batches; each has the size that is right when it is requested."""
        iterator = iter(items)
        while batch := list(islice(iterator, self._size)):
            yield batch

    def record_duration(self, items: int, seconds: float) -> None:
        """Adjust the size to a batch of `items` items that took `seconds`."""
        if items:
            fitting_size = int(self._target_seconds * items / max(seconds, 1e-9))
            with self._lock:
                self._size = max(1, min(fitting_size, 2 * self._size, self._max_size))


def ingest_source(
    stores: Stores,
    source: Source,
    readers: Readers,
    writer: RecordWriter,
    request: IngestRequest,
    *,
    limit: int | None,
    quiet: bool,
) -> None:
    """Ingest up to `limit` items of a source, and close the writer. Raises what the writer raises."""
    for warning in source.warnings:
        writer.counts.add_warning(warning, source.dataset)
    total = source.total if limit is None else min(source.total, limit)
    progress = Progress(f"ingest {source.dataset}", total, None if quiet else sys.stderr)
    batch_sizer = GrowingBatcher(_SECONDS_PER_BATCH, _MAX_BATCH_SIZE)

    def write(batches: list[list[ItemOutcome]]) -> None:
        for outcomes in batches:
            progress.advance(len(outcomes))
            writer.add(outcomes)

    try:
        planner = SourceItemPlanner(stores, source, readers, writer.counts, progress, request)
        writer.corrects = planner.corrects
        items = GuardedItems(source)
        outcomes = chain(planner.plan(islice(items, limit)), planner.end(items))
        batches = batch_sizer.batches(outcomes)
        read = PipelineStage(
            "read",
            partial(_read_batches, stores, readers, batch_sizer),
            workers=readers.most_workers,
            active_limit=make_concurrency_getter(readers),
        )
        run_pipeline(batches, [read], write, sink_batch_size=_BATCHES_PER_SINK)
    finally:
        writer.close()
        progress.close()


def _read_batches(
    stores: Stores, readers: Readers, batch_sizer: GrowingBatcher, batches: list[list[ItemOutcome]]
) -> None:
    for outcomes in batches:
        unread = [outcome for outcome in outcomes if outcome.is_unread]
        started = time.monotonic()
        results = readers.map([outcome.load for outcome in unread]) if unread else ()
        batch_sizer.record_duration(len(unread), time.monotonic() - started)
        compared = [outcome.item.episode_id for outcome in unread if outcome.action is ItemAction.COMPARE]
        stored = read_stored_identities(stores, compared)
        for outcome, result in zip(unread, results, strict=True):
            outcome.set_read(result, stored.get(outcome.item.episode_id))


@dataclass(slots=True)
class IngestCounts:
    """Counts of one ingestion while it runs.

    Attributes:
        counts: Every planned item, counted once.
        duplicates: Episodes that have become duplicates by this run: another episode has their content too.
        workspace_duplicates: All such episodes of the workspace, those of earlier runs included.
        copied_bytes: Bytes of the videos that were copied into the workspace.
        incomplete: Episodes that lack something that their source promises, and nobody has accepted it.
        plan: The datasets, and the use of every file.
    """

    counts: Report = field(default_factory=Report)
    duplicates: int = 0
    workspace_duplicates: int = 0
    copied_bytes: int = 0
    incomplete: int = 0
    plan: IngestPlan = field(default_factory=IngestPlan)

    def to_report(self) -> IngestReport:
        """The counts at the end."""
        fields = self.counts.fields()
        return IngestReport(
            **fields,
            incomplete=self.incomplete,
            gone=sum(
                part.count for part in fields["warnings"] if part.reason in (DATASETS_GONE, LABELS_GONE)
            ),
            duplicates=self.duplicates,
            workspace_duplicates=self.workspace_duplicates,
            copied_bytes=self.copied_bytes,
            plan=self.plan,
        )

    def to_json(self) -> dict[str, Json]:
        """The document of `ares ingest --json`."""
        return self.to_report().to_json()


def _count_warnings(counts: Report, before: Mapping[str, int]) -> dict[str, int]:
    """What was warned of since, by reason, with the number of episodes."""
    return {
        part.reason: part.count - before.get(part.reason, 0)
        for part in counts.fields()["warnings"]
        if part.count > before.get(part.reason, 0) and part.reason not in (CORRECTED, *READ_AGAIN)
    }


def _ingest_and_infer(
    stores: Stores,
    source: Source,
    readers: Readers,
    writer: RecordWriter,
    request: IngestRequest,
    quiet: bool,
) -> None:
    """Ingest a source, and store what is believed of its dataset.

    Where stored episodes are corrected and some are left, by a limit or a failure that nobody has accepted, the next
    run reads the dataset again.
    """
    counts = writer.counts
    before, failures = _count_warnings(counts, {}), counts.failed - counts.accepted
    planned, failed = counts.planned, counts.failed
    limit = None if request.limit is None else request.limit - counts.planned
    ingest_source(stores, source, readers, writer, request, limit=limit, quiet=quiet)
    if limit is None:
        document: dict[str, Json] = {
            "format": source.format,
            "dataset": source.dataset,
            "version": source.version,
            "declared": source.total,
            "listed": counts.planned - planned,
            "failed": counts.failed - failed,
            "purged": _count_warnings(counts, before).get(PURGED_REASON, 0),
        }
        key = "/".join((source.format, source.dataset, source.version))
        stores.annotations.put_documents(COVERAGE, {key: document})
    is_whole = limit is None and counts.failed - counts.accepted == failures
    if writer.corrects and not is_whole:
        source = replace(source, stated="")
    infer_and_store_contracts(
        stores,
        source,
        writer.sample_ids,
        _count_warnings(counts, before),
        reads_all=writer.corrects and is_whole,
    )


def ingest_sources(
    stores: Stores,
    discovery: IngestSources,
    request: IngestRequest,
    *,
    quiet: bool = False,
    engine: Engine | None = None,
) -> IngestCounts:
    """Ingest the datasets that were found for a request.

    Args:
        stores: Where to.
        discovery: The datasets.
        request: The request; it has the limit, and whether media are copied and the first failure ends the run.
        quiet: Show no progress.
        engine: Where records are read; on this machine by default.

    Raises:
        RequestError: Media cannot be copied into this workspace.
        DiskFull: The disk has no room for more copies; what is written stays.
    """
    if request.media == "copy" and stores.is_remote:
        raise RequestError(
            "videos cannot be copied to an object store", "ingest by reference, or into a folder"
        )
    started, sources, report = time.monotonic(), discovery.sources, IngestCounts(plan=discovery.plan)
    with stores.write_lock("ares ingest"), engine_or_local(engine) as engine:
        readers = _open_readers(engine, sources, request)
        _prepare_workspace(stores, discovery, quiet)
        check_log, ingested = CheckAnnotationLog(stores), stores.tables.episodes.next_time()
        known_duplicates = stores.tables.episodes.count_duplicates()
        accepted = _count_unopened(stores, report.counts, discovery)
        report.plan = replace(report.plan, accepted=accepted)
        with tuned_garbage_collector():
            for source in sources:
                writer = RecordWriter(stores, report.counts, check_log, ingested)
                _ingest_and_infer(stores, source, readers, writer, request, quiet)
                report.copied_bytes += writer.copied_bytes
                report.incomplete += writer.incomplete
        check_log.close()
        _apply_actions_again(stores, report.counts.kept)
        _count_duplicates(stores, report, known_duplicates)
        stores.sync()
        if report.counts.kept:
            stores.tables.optimize()
        report.counts.seconds = time.monotonic() - started
    return report


def _prepare_workspace(stores: Stores, discovery: IngestSources, quiet: bool) -> None:
    """Repair what a killed run left, and print the plan once the workspace is known to be writable."""
    stores.sync()
    if not quiet:
        print_message(*format_ingest_plan(discovery.plan))
    stores.tables.episodes.drop_orphans()
    check_unchecked_episodes(stores)


def _count_duplicates(stores: Stores, report: IngestCounts, known: int) -> None:
    report.workspace_duplicates = stores.tables.episodes.mark_duplicates()
    report.duplicates = max(0, report.workspace_duplicates - known)


def _count_unopened(stores: Stores, counts: Report, discovery: IngestSources) -> tuple[str, ...]:
    """Count each dataset that could not be opened as one failed item, and warn of those that are gone.

    Returns the paths of those of which that is accepted.
    """
    warn_of_missing_datasets(stores, discovery.stored, discovery.sources, discovery.paths, counts)
    log = FailureLog(stores.annotations, "ingest")
    rests = [f"the rest of {source.dataset}" for source in discovery.sources]
    folders = [source.folder for source in discovery.sources]
    log.forget_locations([path for path in (*discovery.paths, *folders, *rests, *discovery.failed) if path])
    log.record_locations(discovery.failed)
    for fault in discovery.faults:
        counts.add_warning(f"not tried: {fault}", "")
    accepted: list[str] = []
    for path, error in discovery.failed.items():
        counts.add_planned(1)
        is_accepted = log.is_accepted(location_subject(path), error)
        counts.add_failure(error, path, is_accepted)
        accepted += [path] if is_accepted else []
    return tuple(accepted)


def _apply_actions_again(stores: Stores, kept: int) -> None:
    """Let the next synchronisation apply all actions: older ones may be about episodes that have just come again."""
    if kept:
        reset_applied_actions(stores.tables)


def _open_readers(engine: Engine, sources: Sequence[Source], request: IngestRequest) -> Readers:
    max_workers = request.compute.workers or min(available_cores(), _MAX_READERS)
    is_fragile = any(source.fragile for source in sources)
    readers: Readers = engine.pool(
        PoolRequest(
            read_records,
            max_workers=max_workers,
            on_worker_death=SourceError,
            build=start_record_reader,
            start_after_seconds=0.0 if is_fragile else _IN_PROCESS_SECONDS if max_workers > 1 else None,
            limits=make_record_limits(_COPY_FACTOR if request.media == "copy" else 1.0),
        )
    )
    total = sum(source.total for source in sources)
    if (total if request.limit is None else min(total, request.limit)) >= _MIN_ITEMS_TO_START_EARLY:
        readers.start()
    return readers
