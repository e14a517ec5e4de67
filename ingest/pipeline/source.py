"""Ingests one source: its items are planned, read and written at the same time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from ares.episode import Record
from ares.errors import SourceError
from ares.jobs import BatchSizer, PipelineStage, Progress, Report, changing_limit, run_pipeline
from ares.store.actions import RemovedIds
from ingest.base import Item, Source
from ingest.guard import GuardedItems, guarded_item
from ingest.pipeline.identity import is_same_record, stored_identities, stored_ids
from ingest.pipeline.media_copy import MediaMode, copying_media
from ingest.pipeline.outcome import ItemOutcome, rejected_duplicate
from ingest.pipeline.plan import ItemAction, plan_item
from ingest.pipeline.read import Readers, RecordIdentity
from ingest.pipeline.vanished import warn_of_missing_records
from ingest.pipeline.write import RecordWriter

if TYPE_CHECKING:
    from ares.store import Stores

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
    batch_sizer = BatchSizer(_SECONDS_PER_BATCH, _MAX_BATCH_SIZE)

    def write(batches: list[list[ItemOutcome]]) -> None:
        for outcomes in batches:
            progress.advance(len(outcomes))
            writer.add(outcomes)

    try:
        planner = SourcePlanner(stores, source, readers, writer.counts, media, progress)
        items = GuardedItems(source)
        outcomes = chain(planner.plan(islice(items, limit)), planner.end(items))
        batches = batch_sizer.batches(outcomes)
        read = PipelineStage(
            "read",
            partial(_read_batches, stores, readers, batch_sizer),
            workers=readers.most_workers,
            active_limit=changing_limit(readers),
        )
        run_pipeline(batches, [read], write, sink_batch_size=_BATCHES_PER_SINK)
    finally:
        writer.close()
        progress.close()


class SourcePlanner:
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
        self._format, self._dataset = source.format, source.dataset
        self._dataset_folder = source.folder
        self._removed_ids = RemovedIds(stores.annotations, stores.workspace_id)
        self._seen: set[str] = set()
        self._unmoved: bool | None = None

    def plan(self, items: Iterator[Item]) -> Iterator[ItemOutcome]:
        """The items to be read and those that fail unread; those that are stored already are only counted."""
        seen, stored_ids = self._seen, self._stored_ids
        while batch := list(islice(items, _MAX_BATCH_SIZE)):
            self._counts.add_planned(len(batch))
            num_skipped = 0
            for item in batch:
                if reason := self._removed_ids.reason(item.episode_id):
                    self._counts.add_warning(reason, item.location)
                    seen.add(item.episode_id)
                    num_skipped += 1
                    continue
                action = plan_item(item, seen=seen, stored_ids=stored_ids, unmoved=self._unmoved)
                seen.add(item.episode_id)
                outcome = None if action is ItemAction.SKIP else self._outcome(item, action)
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

    def _outcome(self, item: Item, action: ItemAction) -> ItemOutcome | None:
        """The outcome to send to the readers; None when the item turns out to be stored already."""
        item = guarded_item(item, self._format, self._dataset_folder, self._source.follow_links)
        if action is ItemAction.READ:
            return ItemOutcome(copying_media(item, self._media, self._folder), action)
        if action is ItemAction.REJECT_DUPLICATE:
            return rejected_duplicate(item)
        outcome = ItemOutcome(item, action)
        return self._compare_first(outcome) if self._unmoved is None else outcome

    def _compare_first(self, outcome: ItemOutcome) -> ItemOutcome | None:
        """Read the first stored item, to learn whether the source has moved; None when it has not."""
        episode_id = outcome.item.episode_id
        (identity,) = self._readers.map([outcome.load])
        stored = stored_identities(self._stores, [episode_id])[episode_id]
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
    stores: Stores, readers: Readers, batch_sizer: BatchSizer, batches: list[list[ItemOutcome]]
) -> None:
    for outcomes in batches:
        unread = [outcome for outcome in outcomes if outcome.is_unread]
        started = time.monotonic()
        results = readers.map([outcome.load for outcome in unread]) if unread else ()
        batch_sizer.record_duration(len(unread), time.monotonic() - started)
        compared = [outcome.item.episode_id for outcome in unread if outcome.action is ItemAction.COMPARE]
        stored = stored_identities(stores, compared)
        for outcome, result in zip(unread, results, strict=True):
            outcome.set_read(result, stored.get(outcome.item.episode_id))
