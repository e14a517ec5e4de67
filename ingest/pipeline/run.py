"""Ingests datasets into a workspace, source by source, and stores what their signals mean."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from ares.checks import MISSING_CAMERA
from ares.console import count_of, print_message
from ares.episode import Json, Record
from ares.errors import RequestError, SourceError
from ares.jobs import (
    Engine,
    FailureLog,
    IngestPlan,
    IngestReport,
    IngestRequest,
    MediaMode,
    PipelineStage,
    PlannedDataset,
    PoolRequest,
    Progress,
    Report,
    available_cores,
    engine_or_local,
    location_subject,
    make_concurrency_getter,
    record_job,
    run_pipeline,
)
from ares.process_tuning import tuned_garbage_collector
from ares.store import RemovedIds, reset_applied_actions
from ingest.base import GuardedItems, Item, Source, guard_item_loading
from ingest.discovery import unread_file_lines
from ingest.pipeline.find import (
    IngestSources,
    describe_source,
    warn_of_missing_datasets,
    warn_of_missing_records,
)
from ingest.pipeline.plan import (
    EXPORTED_REASON,
    ItemAction,
    ItemOutcome,
    is_same_record,
    plan_item,
    read_exported_ids,
    read_identity,
    read_stored_identities,
    reject_duplicate_item,
    stored_ids,
)
from ingest.pipeline.read import (
    Readers,
    RecordIdentity,
    add_media_copying,
    make_record_limits,
    read_records,
    start_record_reader,
)
from ingest.pipeline.write import CheckAnnotationLog, RecordWriter, check_unchecked_episodes

if TYPE_CHECKING:
    from ares.store import Stores


def infer_and_store_contracts(
    stores: Stores,
    source: Source,
    sample: Sequence[str],
    reasons: Mapping[str, int],
    *,
    reads_all_anew: bool = False,
) -> None:
    """Infer the contracts of a sample, and store them with what the spec states.

    Contracts of other dimensions that are stored already stay. Without a spec, what an earlier one stated stays, of the
    robot too.

    Args:
        stores: Where the episodes are.
        source: Their dataset.
        sample: Ids of episodes that were written; empty where none was.
        reasons: What was warned of, with the number of episodes; what an earlier run told stays where none was written.
        reads_all_anew: Whether every stored episode was read again, so that nothing that an earlier run told holds.
    """
    from ares.contract import DatasetKey, StoredContracts, infer_contracts, read_contracts, write_contracts

    key = DatasetKey(source.format, source.dataset, source.version)
    stored = read_contracts(stores.annotations, key)
    facts = describe_source(source, stored.source)
    has_new_facts = bool(stored.contracts) and facts != stored.source
    if not (sample or source.contract or source.kinematics or source.stated or has_new_facts):
        return
    inferred = infer_contracts(stores, source.dataset, sample)
    layouts = {(contract.state_names, contract.action_names) for contract in inferred}
    kept = [c for c in stored.contracts if (c.state_names, c.action_names) not in layouts]
    stated = source.contract or stored.stated
    kinematics = source.kinematics or stored.kinematics
    earlier = {} if reads_all_anew else stored.warnings
    warnings = dict(Counter(earlier) + Counter(reasons)) if sample else stored.warnings
    spec_hash = source.stated or stored.spec_hash
    is_read = reads_all_anew or stored == StoredContracts()
    stamp = source.segments_stamp if is_read else stored.segments_stamp
    new = StoredContracts((*inferred, *kept), stated, kinematics, warnings, spec_hash, stamp, facts)
    write_contracts(stores.annotations, key, new)


def must_read_again(stores: Stores, source: Source, counts: Report) -> bool:
    """Whether stored episodes are to be read again.

    They are where a spec or an option states what they were not read by, or where what their source says of spans has
    changed since. Without the spec that they were read by, the latter is only warned of: all else of them would change.
    """
    from ares.contract import DatasetKey, read_contracts

    stored = read_contracts(stores.annotations, DatasetKey(source.format, source.dataset, source.version))
    if source.stated and source.stated != stored.spec_hash:
        return True
    if source.segments_stamp == stored.segments_stamp:
        return False
    if source.stated != stored.spec_hash:
        counts.add_warning(_SEGMENTS_UNREAD, source.dataset)
        return False
    return True


def _count_warnings(counts: Report, before: Mapping[str, int]) -> dict[str, int]:
    """What was warned of since, by reason, with the number of episodes."""
    return {
        part.reason: part.count - before.get(part.reason, 0)
        for part in counts.fields()["warnings"]
        if part.count > before.get(part.reason, 0) and part.reason != _CORRECTED
    }


_CORRECTED = "read again, since what is stated of the dataset has changed; ids, tags and rulings stay"
_SEGMENTS_UNREAD = (
    "its segments may have changed: they are read with the spec or options of its first ingestion"
)
T = TypeVar("T")


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


# A reader's batch takes about this long: all readers have work until the end, yet there are few messages.
_SECONDS_PER_BATCH = 0.2
_MAX_BATCH_SIZE = 512
_BATCHES_PER_SINK = 4


def ingest_source(
    stores: Stores,
    source: Source,
    readers: Readers,
    writer: RecordWriter,
    *,
    limit: int | None,
    media: MediaMode,
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
        planner = SourceItemPlanner(stores, source, readers, writer.counts, media, progress)
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


class SourceItemPlanner:
    """Plans the items of one source as they come; a source may hold more of them than it says.

    Args:
        stores: Where the stored episodes are.
        source: The source.
        readers: Read the first stored item, to learn whether the source has moved.
        counts: Where the items are counted.
        media: Whether cameras are copied.
        progress: Advanced by the items that are stored already.
    """

    def __init__(
        self,
        stores: Stores,
        source: Source,
        readers: Readers,
        counts: Report,
        media: MediaMode,
        progress: Progress,
    ) -> None:
        self._stores = stores
        self._readers = readers
        self._counts = counts
        self._media = media
        self._progress = progress
        self._folder = stores.folder
        self._source = source
        self._stored_ids = stored_ids(stores, source)
        self.corrects = bool(self._stored_ids) and must_read_again(stores, source, counts)
        self._format, self._dataset = source.format, source.dataset
        self._dataset_folder = source.folder
        self._removed_ids = RemovedIds(stores.annotations, stores.workspace_id)
        self._seen: set[str] = set()
        self._unmoved: bool | None = None
        self._exported_ids = read_exported_ids(source.folder)

    def plan(self, items: Iterator[Item]) -> Iterator[ItemOutcome]:
        """The items to be read and those that fail unread; those that are stored already are only counted."""
        seen, stored_ids = self._seen, self._stored_ids
        while batch := list(islice(items, _MAX_BATCH_SIZE)):
            self._counts.add_planned(len(batch))
            num_skipped = 0
            exported = self._find_exported(batch) if self._exported_ids else {}
            for item in batch:
                if reason := self._removed_ids.reason(item.episode_id) or exported.get(item.episode_id, ""):
                    self._counts.add_warning(reason, item.location)
                    seen.add(item.episode_id)
                    num_skipped += 1
                    continue
                action = plan_item(item, seen=seen, stored_ids=stored_ids, unmoved=self._unmoved)
                seen.update(
                    [item.episode_id] if item.episode_id else []
                )  # each that lacks one fails by itself
                outcome = None if action is ItemAction.SKIP else self._outcome(item, action)
                if outcome is None and self.corrects:
                    self._counts.add_warning(_CORRECTED, item.location)
                    outcome = self._outcome(item, ItemAction.CORRECT)
                if outcome is None:
                    num_skipped += 1
                else:
                    yield outcome
            self._counts.add_existing(num_skipped)
            self._progress.advance(num_skipped)

    def end(self, items: GuardedItems) -> Iterator[ItemOutcome]:
        """One failed item where the source could not list all of its items; none where it could."""
        if items.error is not None:
            self._counts.add_planned(1)
            unlisted = Item(episode_id="", location=f"the rest of {self._dataset}", load=_load_nothing)
            yield ItemOutcome(unlisted, ItemAction.READ, items.error)
        elif items.is_exhausted:
            missing = self._stored_ids - self._seen
            warn_of_missing_records(self._stores, self._source, missing, self._counts)

    def _find_exported(self, items: Sequence[Item]) -> dict[str, str]:
        """Why each item is not read whose content the workspace has as the episode that it was exported from."""
        guarded = [
            guard_item_loading(item, self._format, self._dataset_folder, self._source.follow_links)
            for item in items
        ]
        identities = self._readers.map([partial(read_identity, item.load) for item in guarded])
        origins = {
            item.episode_id: self._exported_ids[identity.content_hash]
            for item, identity in zip(items, identities, strict=True)
            if isinstance(identity, RecordIdentity) and identity.content_hash in self._exported_ids
        }
        stored = read_stored_identities(self._stores, sorted(set(origins.values())))
        reasons = {}
        for episode_id, origin in origins.items():
            same = origin in stored and self._exported_ids.get(stored[origin].content_hash) == origin
            reasons[episode_id] = self._removed_ids.reason(origin) or (EXPORTED_REASON if same else "")
        return reasons

    def _outcome(self, item: Item, action: ItemAction) -> ItemOutcome | None:
        """The outcome to send to the readers; None when the item turns out to be stored already."""
        item = guard_item_loading(item, self._format, self._dataset_folder, self._source.follow_links)
        if action in (ItemAction.READ, ItemAction.CORRECT):
            return ItemOutcome(add_media_copying(item, self._media, self._folder), action)
        if action is ItemAction.REJECT_DUPLICATE:
            return reject_duplicate_item(item)
        outcome = ItemOutcome(item, action)
        return self._compare_first(outcome) if self._unmoved is None else outcome

    def _compare_first(self, outcome: ItemOutcome) -> ItemOutcome | None:
        """Read the first stored item, to learn whether the source has moved; None when it has not."""
        episode_id = outcome.item.episode_id
        (identity,) = self._readers.map([outcome.load])
        stored = read_stored_identities(self._stores, [episode_id])[episode_id]
        self._unmoved = (
            isinstance(identity, RecordIdentity)
            and identity.source == stored.source
            and is_same_record(stored, identity)
        )
        outcome.set_read(identity, stored)
        return None if self._unmoved else outcome


def _load_nothing() -> Record:
    raise SourceError("the item was not listed")


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


_SHOWN_DATASETS = 40
_SHOWN_KINDS = 8


def print_plan(plan: IngestPlan) -> None:
    """Write the plan on standard error, unless only errors are to be written."""
    print_message(*format_ingest_plan(plan))


def format_ingest_plan(plan: IngestPlan) -> Iterator[str]:
    """One line for each dataset, then the files by use, and the first of those that are not read."""
    for dataset in plan.datasets[:_SHOWN_DATASETS]:
        yield _dataset_line(dataset)
        yield from (f"    {remark}" for remark in dataset.not_understood)
        if dataset.error:
            yield f"    cannot be opened: {dataset.error}"
        for failure in dataset.failures:
            yield f"    would fail: {count_of(failure.count, 'episode')}: {failure.reason}; first: {failure.example}"
        for loss in dataset.lost:
            yield f"    would lose pictures: {count_of(loss.count, 'episode')}: {loss.reason}; first: {loss.example}"
    if len(plan.datasets) > _SHOWN_DATASETS:
        yield f"... and {count_of(len(plan.datasets) - _SHOWN_DATASETS, 'more dataset')}"
    total = sum(dataset.episodes for dataset in plan.datasets)
    episodes = (
        count_of(total, "episode")
        if plan.num_episodes == total
        else f"{plan.num_episodes} of {count_of(total, 'episode')}"
    )
    counts = ", ".join(f"{count} {use.replace('_', ' ')}" for use, count in plan.file_counts.items() if count)
    yield f"{count_of(len(plan.datasets), 'dataset')}, {episodes}; files: {counts}"
    yield from format_unread_files(plan)


def format_unread_files(plan: IngestPlan) -> Iterator[str]:
    """The files that hold or stand for data and are not read, by kind and reason."""
    unread = (file for file in plan.left_files if file.use != "not_data")
    yield from (f"    {line}" for line in unread_file_lines(unread, _SHOWN_KINDS))


def _dataset_line(dataset: PlannedDataset) -> str:
    facts = [dataset.format, count_of(dataset.episodes, "episode")]
    if dataset.rate_text:
        facts.append(dataset.rate_text)
    if dataset.cameras:
        facts.append(f"cameras {', '.join(dataset.cameras)}")
    facts.append(f"{dataset.bytes / 1e6:.1f} MB")
    return f"{dataset.dataset or '(not opened)'}: {', '.join(facts)}, {dataset.path}"


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
        fields = self.counts.fields()
        return IngestReport(
            **fields,
            lost=sum(
                part.count for part in fields["warnings"] if part.reason.startswith(f"{MISSING_CAMERA.code} ")
            ),
            duplicates=self.duplicates,
            workspace_duplicates=self.workspace_duplicates,
            copied_bytes=self.copied_bytes,
            plan=self.plan,
        )

    def to_json(self) -> dict[str, Json]:
        """The document of `ares ingest --json`."""
        return self.to_report().to_json()


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
    limit = None if request.limit is None else request.limit - counts.planned
    ingest_source(stores, source, readers, writer, limit=limit, media=request.media, quiet=quiet)
    is_whole = limit is None and counts.failed - counts.accepted == failures
    if writer.corrects and not is_whole:
        source = replace(source, stated="")
    infer_and_store_contracts(
        stores,
        source,
        writer.sample_ids,
        _count_warnings(counts, before),
        reads_all_anew=writer.corrects and is_whole,
    )


def ingest_datasets(
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
        SourceError: An item failed and the request is strict.
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
        accepted = _count_unopened(stores, report.counts, discovery, request.strict)
        report.plan = replace(report.plan, accepted=tuple(accepted))
        with tuned_garbage_collector():
            for source in sources:
                writer = RecordWriter(stores, report.counts, check_log, ingested, request.strict)
                _ingest_and_infer(stores, source, readers, writer, request, quiet)
                report.copied_bytes += writer.copied_bytes
        check_log.close()
        _show_actions_anew(stores, report.counts.kept)
        _count_duplicates(stores, report, known_duplicates)
        stores.sync()
        if report.counts.kept:
            stores.tables.optimize()
        report.counts.seconds = time.monotonic() - started
        record_job(stores.annotations, "ingest", _job_document(report))
    return report


def _prepare_workspace(stores: Stores, discovery: IngestSources, quiet: bool) -> None:
    """Repair what a killed run left, and print the plan once the workspace is known to be writable."""
    stores.sync()
    if not quiet:
        print_plan(discovery.plan)
    stores.tables.episodes.drop_orphans()
    check_unchecked_episodes(stores)


def _count_duplicates(stores: Stores, report: IngestCounts, known: int) -> None:
    report.workspace_duplicates = stores.tables.episodes.mark_duplicates()
    report.duplicates = max(0, report.workspace_duplicates - known)


def _count_unopened(stores: Stores, counts: Report, discovery: IngestSources, strict: bool) -> Iterator[str]:
    """Count each dataset that could not be opened as one failed item, and warn of those that are gone.

    Yields the paths of those of which that is accepted. Raises the first error when strict.
    """
    warn_of_missing_datasets(stores, discovery.stored, discovery.sources, discovery.paths, counts)
    log = FailureLog(stores.annotations, "ingest")
    rests = [f"the rest of {source.dataset}" for source in discovery.sources]
    folders = [source.folder for source in discovery.sources]
    log.forget_locations([path for path in (*discovery.paths, *folders, *rests, *discovery.failed) if path])
    log.record_locations(discovery.failed)
    for fault in discovery.faults:
        counts.add_warning(f"not tried: {fault}", "")
    for path, error in discovery.failed.items():
        if strict:
            raise error
        counts.add_planned(1)
        is_accepted = log.is_accepted(location_subject(path), error)
        counts.add_failure(error, path, is_accepted)
        if is_accepted:
            yield path


def _job_document(report: IngestCounts) -> dict[str, Json]:
    """The report for the history of jobs: counts and formats, without the lists of datasets and files."""
    document: dict[str, Json] = {**report.to_json(), "formats": [*{d.format for d in report.plan.datasets}]}
    return {key: value for key, value in document.items() if key not in ("datasets", "left_files")}


def _show_actions_anew(stores: Stores, kept: int) -> None:
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
