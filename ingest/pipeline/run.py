"""Ingests datasets into a workspace: every planned episode is stored now, was stored already, or has failed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ares.episode import Json
from ares.errors import RequestError, SourceError
from ares.jobs import (
    Engine,
    IngestPlan,
    IngestReport,
    Report,
    available_cores,
    engine_or_local,
    record_job,
)
from ares.process_tuning import tuned_garbage_collector
from ares.store.sync import reset_applied_actions
from ingest.base import IngestOptions, Source
from ingest.pipeline.check_log import CheckLog, check_unchecked_episodes
from ingest.pipeline.contracts import store_contracts
from ingest.pipeline.find import IngestSources, find_datasets
from ingest.pipeline.media_copy import MediaMode
from ingest.pipeline.read import Readers, read_records, record_limits, start_reader
from ingest.pipeline.source import ingest_source
from ingest.pipeline.vanished import warn_of_missing_datasets
from ingest.pipeline.write import RecordWriter
from ingest.plan_text import print_plan

if TYPE_CHECKING:
    from ares.store import Stores

# Worker processes are worth their start only for jobs longer than this; a fragile source always gets them.
_IN_PROCESS_SECONDS = 0.25
# So many items take longer in any case: the processes start at once.
_MIN_ITEMS_TO_START_EARLY = 1_024
_MAX_READERS = 16
# Encoding the images of a record takes so many times as long as reading it.
_COPY_FACTOR = 12


@dataclass(slots=True)
class IngestCounts:
    """Counts of one ingestion while it runs.

    Attributes:
        counts: Every planned item, counted once.
        duplicates: Episodes that have become duplicates by this run: another episode has their content too.
        workspace_duplicates: All such episodes of the workspace, those of earlier runs included.
        copied_bytes: Bytes of the videos that were copied into the workspace.
        plan: The datasets, and the use of every file.
    """

    counts: Report = field(default_factory=Report)
    duplicates: int = 0
    workspace_duplicates: int = 0
    copied_bytes: int = 0
    plan: IngestPlan = field(default_factory=IngestPlan)

    def to_report(self) -> IngestReport:
        """The counts at the end."""
        return IngestReport(
            **self.counts.fields(),
            duplicates=self.duplicates,
            workspace_duplicates=self.workspace_duplicates,
            copied_bytes=self.copied_bytes,
            plan=self.plan,
        )

    def to_json(self) -> dict[str, Json]:
        """The document of `ares ingest --json`."""
        return self.to_report().to_json()


def ingest_paths(
    stores: Stores,
    paths: Sequence[str],
    options: IngestOptions | None = None,
    *,
    format: str = "auto",
    limit: int | None = None,
    strict: bool = False,
    media: MediaMode = "reference",
    workers: int | None = None,
    quiet: bool = False,
    engine: Engine | None = None,
) -> IngestCounts:
    """Ingest every dataset found at the paths.

    Args:
        stores: Where to.
        paths: Folders or files.
        options: Settings of the user for the datasets.
        format: Ingester name, or "auto".
        limit: Most items to plan, over all paths.
        strict: Stop at the first item that fails.
        media: "reference" leaves pixels where they are; "copy" writes videos of them into the workspace.
        workers: Processes that read on this machine; by default one per core.
        quiet: Show no progress.
        engine: Where records are read; on this machine by default.

    Raises:
        RequestError: A path holds no dataset of the format, or the format is unknown; nothing was read.
        SourceError: An item failed and `strict` is set.
        DiskFull: The disk has no room for more copies; what is written stays.
    """
    discovery = find_datasets(stores, paths, options or IngestOptions(), format=format)
    return ingest_datasets(
        stores,
        discovery,
        limit=limit,
        strict=strict,
        media=media,
        workers=workers,
        quiet=quiet,
        engine=engine,
    )


def ingest_datasets(
    stores: Stores,
    discovery: IngestSources,
    *,
    limit: int | None = None,
    strict: bool = False,
    media: MediaMode = "reference",
    workers: int | None = None,
    quiet: bool = False,
    engine: Engine | None = None,
) -> IngestCounts:
    """Ingest datasets that were found; see `ingest_paths` for the arguments and errors."""
    if media == "copy" and stores.is_remote:
        raise RequestError(
            "videos cannot be copied to an object store", "ingest by reference, or into a folder"
        )
    started, sources = time.monotonic(), discovery.sources
    report = IngestCounts(plan=discovery.plan)
    with stores.write_lock("ares ingest"), engine_or_local(engine) as engine:
        readers = _open_readers(engine, workers, sources, limit, media)
        _prepare(stores, discovery, quiet)
        check_log = CheckLog(stores)
        known_duplicates = stores.tables.episodes.count_duplicates()
        _count_unopened(stores, report.counts, discovery, strict)
        with tuned_garbage_collector():
            for source in sources:
                writer = RecordWriter(stores, report.counts, check_log, strict)
                remaining = None if limit is None else limit - report.counts.planned
                ingest_source(stores, source, readers, writer, limit=remaining, media=media, quiet=quiet)
                report.copied_bytes += writer.copied_bytes
                store_contracts(stores, source, writer.sample_ids)
        check_log.close()
        _show_actions_anew(stores, report.counts.kept)
        _count_duplicates(stores, report, known_duplicates)
        stores.sync()
        if report.counts.kept:
            stores.tables.optimize()
        report.counts.seconds = time.monotonic() - started
        record_job(stores.annotations, "ingest", _job_document(report))
    return report


def _prepare(stores: Stores, discovery: IngestSources, quiet: bool) -> None:
    """Repair what a killed run left, and print the plan once the workspace is known to be writable."""
    stores.sync()
    if not quiet:
        print_plan(discovery.plan)
    stores.tables.episodes.drop_orphans()
    check_unchecked_episodes(stores)


def _count_duplicates(stores: Stores, report: IngestCounts, known: int) -> None:
    report.workspace_duplicates = stores.tables.episodes.mark_duplicates()
    report.duplicates = max(0, report.workspace_duplicates - known)


def _count_unopened(stores: Stores, counts: Report, discovery: IngestSources, strict: bool) -> None:
    """Count each dataset that could not be opened as one failed item, and warn of those that are gone.

    Raises the first error when strict.
    """
    warn_of_missing_datasets(stores, discovery.stored, discovery.sources, discovery.paths, counts)
    for fault in discovery.faults:
        counts.add_warning(f"not tried: {fault}", "")
    for path, error in discovery.failed.items():
        if strict:
            raise error
        counts.add_planned(1)
        counts.add_failure(error, path)


def _job_document(report: IngestCounts) -> dict[str, Json]:
    """The report for the history of jobs: counts, without the lists of datasets and files."""
    document = report.to_json()
    return {key: value for key, value in document.items() if key not in ("datasets", "left_files")}


def _show_actions_anew(stores: Stores, kept: int) -> None:
    """Let the next synchronisation apply all actions: older ones may be about episodes that have just come again."""
    if kept:
        reset_applied_actions(stores.tables)


def _open_readers(
    engine: Engine, workers: int | None, sources: Sequence[Source], limit: int | None, media: MediaMode
) -> Readers:
    max_workers = workers or min(available_cores(), _MAX_READERS)
    is_fragile = any(source.fragile for source in sources)
    readers: Readers = engine.pool(
        read_records,
        max_workers=max_workers,
        on_worker_death=SourceError,
        build=start_reader,
        start_after_seconds=0.0 if is_fragile else _IN_PROCESS_SECONDS if max_workers > 1 else None,
        limits=record_limits(_COPY_FACTOR if media == "copy" else 1.0),
    )
    total = sum(source.total for source in sources)
    if (total if limit is None else min(total, limit)) >= _MIN_ITEMS_TO_START_EARLY:
        readers.start()
    return readers
